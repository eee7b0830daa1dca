//! `reheap` and `cargo-reheap` as static executables, which reheap itself builds, with the allocators that it ships.

use super::{Dist, Extent, Programs};
use crate::tests;
use anyhow::{Context as _, Result, ensure};
use reheap_allocators::target::{Architecture, Target};
use serde_json::Value;
use std::env;
use std::path::{Path, PathBuf};
use xtask::command::stdout_of;
use xtask::files;

/// The names of the programs.
pub(super) const PROGRAMS: [&str; 2] = ["reheap", "cargo-reheap"];

/// Builds the reheap that builds the others.
pub(super) fn prepare(dist: &Dist<'_>) -> Result<()> {
    let mut cargo = dist.workspace.cargo();
    if dist.extent == Extent::Short(Programs::OfTests) {
        // Some packages have more features in tests. Any other command would compile them again, and most crates.
        cargo.args(tests::BUILD);
    } else {
        cargo.args(["build", "--locked", "--workspace"]);
        cargo.args(PROGRAMS.iter().flat_map(|name| ["--bin", name]));
    }
    dist.progress.step("reheap for this machine", &mut cargo)
}

/// The directory with the programs for a processor.
pub(super) fn build(
    dist: &Dist<'_>,
    architecture: Architecture,
    prebuilt: &Path,
) -> Result<PathBuf> {
    let target = Target::musl(architecture);
    let build = dist.kept.join("build");
    let mut command = dist.command(dist.workspace.target.join("debug/cargo-reheap"));
    command
        .current_dir(&dist.workspace.root)
        .args("reheap build --profile dist --locked --package reheap --bins --target".split(' '))
        .arg(target.triple())
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_INCREMENTAL", "0")
        .env("RUSTFLAGS", rust_flags(dist)?)
        .env("REHEAP_CACHE_DIR", dist.kept.join("cache"))
        .env_remove("REHEAP_PREBUILT");
    // reheap refuses files that are for another machine. The cache has what they were made of.
    if architecture.name() == env::consts::ARCH {
        command.env("REHEAP_PREBUILT", prebuilt.join(architecture.name()));
    }
    dist.progress
        .step(&format!("reheap for {target}"), &mut command)?;
    let directory = build.join(target.triple()).join("dist");
    for name in PROGRAMS {
        check(dist, &directory.join(name))?;
    }
    Ok(directory)
}

/// The directory with the programs that the tests have run, without what only a debugger reads.
pub(super) fn of_tests(dist: &Dist<'_>) -> Result<PathBuf> {
    let directory = dist.scratch.join("programs");
    files::make_empty(&directory)?;
    for name in PROGRAMS {
        let mut strip = dist.command("strip");
        strip.arg("-o").arg(directory.join(name));
        stdout_of(strip.arg(dist.workspace.target.join("debug").join(name)))?;
    }
    Ok(directory)
}

/// Names for directories whose paths would otherwise be in the programs.
fn rust_flags(dist: &Dist<'_>) -> Result<String> {
    let home = cargo_home()?;
    let registry = home.join("registry/src");
    let root = &dist.workspace.root;
    Ok(format!(
        "--remap-path-prefix={}=registry --remap-path-prefix={}=reheap",
        registry.display(),
        root.display()
    ))
}

/// Where Cargo keeps the sources of packages.
pub(super) fn cargo_home() -> Result<PathBuf> {
    match env::var_os("CARGO_HOME") {
        Some(home) => Ok(PathBuf::from(home)),
        None => Ok(env::home_dir()
            .context("cannot find a home directory")?
            .join(".cargo")),
    }
}

/// Whether a program is what reheap says of it. It searches for the patterns of all allocators, so it must not contain
/// them itself, whatever the optimiser made of them.
fn check(dist: &Dist<'_>, program: &Path) -> Result<()> {
    let mut reheap = dist.command(dist.workspace.target.join("debug/reheap"));
    let verdict = stdout_of(reheap.args(["inspect", "--json"]).arg(program))?;
    let verdict: Value = serde_json::from_str(&verdict)?;
    let found = verdict[0]["allocators"].as_array().into_iter().flatten();
    let names: Vec<&str> = found.filter_map(|found| found["name"].as_str()).collect();
    ensure!(
        names == ["mimalloc"],
        "`{}` should contain mimalloc and nothing else: {:#}",
        program.display(),
        verdict[0]["allocators"]
    );
    Ok(())
}
