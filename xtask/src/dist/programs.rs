//! `reheap` and `cargo-reheap` as static executables, which reheap itself builds, with the allocators that it ships.

use super::{Dist, output_of};
use anyhow::{Context as _, Result, ensure};
use reheap_allocators::target::{Architecture, Target};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The names of the programs.
pub(super) const PROGRAMS: [&str; 2] = ["reheap", "cargo-reheap"];

/// Builds the reheap that builds the others.
pub(super) fn prepare(dist: &Dist<'_>) -> Result<()> {
    let mut cargo = dist.workspace.cargo();
    cargo.args(["build", "--locked", "--package", "reheap", "--bins"]);
    dist.progress.step("reheap for this machine", &mut cargo)
}

/// The directory with the programs for a processor.
pub(super) fn build(
    dist: &Dist<'_>,
    architecture: Architecture,
    prebuilt: &Path,
) -> Result<PathBuf> {
    let target = Target::musl(architecture);
    let build = dist.scratch.join("build");
    let mut command = dist.command(dist.workspace.target.join("debug/cargo-reheap"));
    command
        .current_dir(&dist.workspace.root)
        .args([
            "reheap",
            "build",
            "--release",
            "--locked",
            "--package",
            "reheap",
            "--bins",
        ])
        .args(["--target", target.triple()])
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("RUSTFLAGS", rust_flags(dist)?)
        .env("REHEAP_CACHE_DIR", dist.scratch.join("cache"))
        .env("REHEAP_PREBUILT", prebuilt.join(architecture.name()));
    dist.progress
        .step(&format!("reheap for {target}"), &mut command)?;
    let directory = build.join(target.triple()).join("release");
    for name in PROGRAMS {
        check(dist, &directory.join(name))?;
    }
    Ok(directory)
}

/// Names for directories whose paths would otherwise be in the programs.
fn rust_flags(dist: &Dist<'_>) -> Result<String> {
    let home = match env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => env::home_dir()
            .context("cannot find a home directory")?
            .join(".cargo"),
    };
    let registry = home.join("registry/src");
    let root = &dist.workspace.root;
    Ok(format!(
        "--remap-path-prefix={}=registry --remap-path-prefix={}=reheap",
        registry.display(),
        root.display()
    ))
}

/// Whether a program is what reheap says of it, and has no path of this machine.
fn check(dist: &Dist<'_>, program: &Path) -> Result<()> {
    let shown = program.display();
    let bytes = fs::read(program).with_context(|| format!("cannot read `{shown}`"))?;
    let contains = |text: &str| {
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    let root = dist.workspace.root.display().to_string();
    ensure!(!contains(&root), "`{shown}` contains the path `{root}`");
    let mut reheap = dist.command(dist.workspace.target.join("debug/reheap"));
    let verdict = output_of(reheap.arg("inspect").arg(program))?;
    ensure!(
        verdict.contains("mimalloc"),
        "`{shown}` is not built by reheap: {verdict}"
    );
    Ok(())
}
