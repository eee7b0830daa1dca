//! Renews `lock.toml`, which pins the packages that allocators are built from, after a change of `manifest.toml`.
//!
//! The two files are not called Cargo.toml and Cargo.lock because Cargo leaves directories with a manifest of their own
//! out of a published package.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use xtask::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let sources = workspace.root.join("crates/reheap-allocators/sources");
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let project = directory.path();
    copy(&sources.join("manifest.toml"), &project.join("Cargo.toml"))?;
    copy(&sources.join("lock.toml"), &project.join("Cargo.lock"))?;
    fs::write(project.join("lib.rs"), "").context("cannot write lib.rs")?;
    let status = workspace
        .cargo()
        .arg("update")
        .current_dir(project)
        .status()
        .context("cannot start cargo")?;
    ensure!(
        status.success(),
        "cannot renew the lock file: cargo update failed"
    );
    copy(&project.join("Cargo.lock"), &sources.join("lock.toml"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))?;
    Ok(())
}
