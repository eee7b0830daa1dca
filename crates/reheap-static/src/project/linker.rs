//! Is the recording linker: it links with a derived libc and records the link.
//!
//! reheap gives Cargo a small script as the target's linker. The script starts this module through `reheap`,
//! which puts the directory of the derived libc at the front of the link line. Then it runs the linker that would have
//! run without it. This adds nothing to the user's Rust flags, so it replaces none of them and recompiles nothing. The
//! rejected alternative is `-L native=<directory>` in RUSTFLAGS. Cargo would take another allocator for another build
//! and compile everything again.

use super::doctests;
use super::plan::{Plan, links_shared};
use super::records;
use super::response_file;
use super::stack;
use super::workspace::ByPackage;
use anyhow::Context as _;
use reheap_allocators::cache::{Cache, check_entry, sha256, write_by_rename};
use reheap_allocators::shell;
use reheap_command::env_vars;
use reheap_command::exit;
use reheap_workshop::workshop::unusable_cache;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The first argument that tells `reheap` to be the linker.
pub const SUBCOMMAND: &str = "__link";

/// What is in front of the program's path in the script.
const SCRIPT_FRONT: &[u8] = b"#!/bin/sh\nexec ";

/// What is behind it.
fn script_end() -> String {
    format!(" {SUBCOMMAND} \"$@\"\n")
}

/// Writes the script that Cargo calls into the cache, and returns its path.
///
/// Its name tells rustc which dialect of arguments the linker speaks (rustc's `-C linker-flavor`): so it is the
/// linker's. Each installed reheap has a script of its own, because another version may read other plans.
pub(crate) fn write_script(cache: &Cache, linker: &Path) -> anyhow::Result<PathBuf> {
    let name = linker.file_name().context("the linker has no file name")?;
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let program = shell::quoted(program.as_os_str());
    let script = [SCRIPT_FRONT, &program, script_end().as_bytes()].concat();
    let directory = format!("linkers/{}", &sha256(&script)[..16]);
    let directory = cache.directory(&directory).map_err(unusable_cache)?;
    check_entry(&directory).map_err(unusable_cache)?; // the script may be there already
    let path = directory.join(name);
    if fs::read(&path).is_ok_and(|present| present == script) {
        return Ok(path);
    }
    write_by_rename(&path, &script, 0o755)?;
    Ok(path)
}

/// Whether a linker is such a script. It would start itself again and again.
pub(super) fn is_script(linker: &Path) -> bool {
    const LENGTH_MAX: u64 = 8192;
    let mut text = Vec::new();
    let file = fs::File::open(linker);
    let read = file.and_then(|file| file.take(LENGTH_MAX).read_to_end(&mut text));
    let end = script_end();
    read.is_ok() && text.starts_with(SCRIPT_FRONT) && text.ends_with(end.as_bytes())
}

/// Links as rustc asks and as the plan in the environment says.
pub fn run(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    let Some(plan) = env_vars::variable(env_vars::LINK_PLAN) else {
        // Cargo kept the script as its linker, but was not started by reheap.
        let cc = env_vars::usual_program("cc");
        let error = env_vars::command(&cc).args(arguments).exec();
        return Err(error).with_context(|| format!("cannot start `{}`", cc.display()));
    };
    let plans: ByPackage<Plan> = serde_json::from_slice(plan.as_bytes())
        .with_context(|| format!("cannot read {}", env_vars::LINK_PLAN))?;
    let plan = plans.of_any(env_vars::linked_package().as_deref());
    let (words, passing) = response_file::read(arguments)?;
    let planned = plan.words(&words)?;
    let output = output_of(&words).filter(|_| !links_shared(&words));
    let link = || {
        let status = response_file::run(&plan.linker, &planned, passing, Command::status)?;
        if let Some(output) = &output
            && status.success()
        {
            stack::set_if_ignored(output, &planned)?;
        }
        anyhow::Ok(status)
    };
    let Some(output) = &output else {
        return Ok(exit::passed_on(link()?));
    };
    let Some(directory) = records::directory_for(output, &plan.triple) else {
        let status = link()?;
        if status.success() {
            doctests::check(output)?;
        }
        return Ok(exit::passed_on(status));
    };
    let _lock = records::lock_for_a_link(&directory)?;
    let status = link()?;
    if status.success() {
        records::record(&directory, plan, &words, passing, output)?;
    }
    Ok(exit::passed_on(status))
}

fn output_of(arguments: &[OsString]) -> Option<PathBuf> {
    let position = arguments.iter().position(|argument| argument == "-o")?;
    arguments.get(position + 1).map(PathBuf::from)
}
