//! Packages of the Rust registry at fixed versions, fetched and verified by Cargo.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;

/// The archive of a package, and the directory that it was unpacked into, both in a home of Cargo for this alone.
pub(crate) fn fetched(home: &Path, name: &str, version: &str) -> Result<(PathBuf, PathBuf)> {
    let named = format!("{name}-{version}");
    if below(home, "cache", &format!("{named}.crate")).is_none() {
        let package = format!("{name}@{version}");
        let mut cargo = Command::new("cargo");
        cargo
            .args(["info", "--quiet", "--registry", "crates-io", &package])
            .env("CARGO_HOME", home)
            .current_dir(home);
        stdout_of(&mut cargo)?;
    }
    let archive = below(home, "cache", &format!("{named}.crate"))
        .with_context(|| format!("{named} was not fetched"))?;
    let sources =
        below(home, "src", &named).with_context(|| format!("{named} was not unpacked"))?;
    Ok((archive, sources))
}

/// What is in a directory of the registry in Cargo's home; the name between has a hash.
fn below(home: &Path, kind: &str, name: &str) -> Option<PathBuf> {
    let registries = fs::read_dir(home.join("registry").join(kind)).ok()?;
    let mut paths = registries.flatten().map(|entry| entry.path().join(name));
    paths.find(|path| path.exists())
}
