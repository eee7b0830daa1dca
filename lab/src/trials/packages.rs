//! Debian's packages: which are missing, and which version is there.

use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Fails with the command that installs what is missing, or runs it.
pub(super) fn provide(packages: &[&str], install: bool) -> Result<()> {
    let missing: BTreeSet<&str> = packages
        .iter()
        .copied()
        .filter(|package| version(package).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing: Vec<&str> = missing.into_iter().collect();
    if !install {
        bail!(
            "missing packages of Debian: {0}\n\nhint: apt-get install --no-install-recommends {0}\nhint: or the same \
             by this command: --install",
            missing.join(" ")
        );
    }
    let status = Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("cannot start apt-get")?;
    ensure!(status.success(), "apt-get failed ({status})");
    Ok(())
}

/// The versions of packages that are installed.
pub(super) fn versions(packages: &[&str]) -> BTreeMap<String, String> {
    let versions = packages
        .iter()
        .filter_map(|package| Some(((*package).to_owned(), version(package)?)));
    versions.collect()
}

fn version(package: &str) -> Option<String> {
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${db:Status-Status} ${Version}"])
        .arg(package)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    // A library that is there for two processors gives two of these without a space between.
    let (status, version) = text.split_once(' ')?;
    (output.status.success() && status == "installed").then(|| version.to_owned())
}
