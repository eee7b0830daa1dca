//! What `reheap list` shows of an allocator in a file: what it is for, and what came of its checks.

use reheap_allocators::catalogue::Allocator;
use reheap_allocators::catalogue::file::{AllocatorFile, Form};
use reheap_allocators::target::{Libc, Target};
use reheap_command::choice::Choice;
use reheap_command::ui;
use reheap_workshop::conformance;
use reheap_workshop::workshop::{Network, Workshop};
use serde_json::json;
use std::process::ExitCode;

/// Prints it.
pub(super) fn run(name: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let allocator = Choice::of(name, &[])?.allocator;
    let file = allocator.file().expect("the name is that of a file");
    let checks = checks(file)?;
    ui::data(&if as_json {
        let row = json!({
            "name": allocator.name,
            "version": allocator.version,
            "file": file.path,
            "for": kind(file),
            "checks": checks,
        });
        format!("{:#}\n", serde_json::Value::from(vec![row]))
    } else {
        as_text(allocator, file, checks.as_deref())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn as_text(allocator: &Allocator, file: &AllocatorFile, checks: Option<&str>) -> String {
    format!(
        "{}: {}\n  file       {}\n  sha256     {}\n  for        {}\n  checks     {}\n",
        allocator.name,
        allocator.summary,
        file.path.display(),
        file.sha256,
        kind(file),
        checks.unwrap_or("not yet: reheap checks it when it is first used"),
    )
}

fn kind(file: &AllocatorFile) -> String {
    let processor = &file.architecture;
    match file.form {
        Form::Library(Some(libc)) => format!("dynamic programs with {libc} on {processor}"),
        Form::Library(None) => format!("dynamic programs on {processor}"),
        Form::Archive => format!("static executables with musl on {processor}"),
    }
}

/// What came of the checks on this machine, if there were any.
fn checks(file: &AllocatorFile) -> anyhow::Result<Option<String>> {
    let workshop = Workshop::new(Network::AsConfigured);
    for libc in [Libc::Glibc, Libc::Musl] {
        if let Some(target) = Target::of_this_machine(libc)
            && let Some(findings) = conformance::known(file, &target, &workshop)?
        {
            return Ok(Some(findings.in_words()));
        }
    }
    Ok(None)
}
