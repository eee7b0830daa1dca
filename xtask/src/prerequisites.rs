//! What the demonstration needs on a machine that has only Rust: the musl target, and compilers for it.

use crate::progress::Progress;
use crate::workspace::{Workspace, musl_target};
use anyhow::{Context, Result};
use reheap_allocators::compiler::{Language, Purpose, Search, find};
use reheap_allocators::target::Target;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

/// Where musl's compilers come from where there is no Debian or no right to install: Clang, musl and libc++ in one.
const ZIG_PACKAGE: &str = "ziglang==0.14.1";

/// Says what is missing and installs it.
pub(crate) fn install_missing(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let target = musl_target()?;
    if !has_libraries(workspace, &target)? {
        let what = format!("missing: the Rust target {target}, installed with rustup");
        progress.step(
            &what,
            Command::new("rustup").args(["target", "add", target.triple()]),
        )?;
    }
    let search = Search::new(std::env::vars_os());
    let missing = [(Language::C, "C"), (Language::Cxx, "C++")]
        .into_iter()
        .filter(|(language, _)| find(&target, *language, Purpose::Objects, &search).is_err())
        .map(|(_, name)| name);
    let missing = missing.collect::<Vec<_>>().join(" and ");
    if missing.is_empty() {
        return Ok(());
    }
    if is_root() && search.program("apt-get").is_some() {
        let what = format!(
            "missing: a {missing} compiler for musl, installed with apt-get (musl-tools, g++)"
        );
        progress.step(&what, Command::new("apt-get").args(["update", "--quiet"]))?;
        let packages = [
            "install",
            "--quiet",
            "--yes",
            "--no-install-recommends",
            "musl-tools",
            "g++",
        ];
        progress.step(
            "installing musl-tools and g++",
            Command::new("apt-get").args(packages),
        )
    } else {
        let what =
            format!("missing: a {missing} compiler for musl, installed with pip ({ZIG_PACKAGE})");
        progress.step(
            &what,
            Command::new("python3").args(["-m", "pip", "install", "--user", ZIG_PACKAGE]),
        )
    }
}

/// Whether the standard library for the target is installed, however it came there: not everybody has rustup.
fn has_libraries(workspace: &Workspace, target: &Target) -> Result<bool> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target.triple()])
        .current_dir(&workspace.root)
        .output()
        .context("cannot start rustc")?;
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    Ok(fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some()))
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}
