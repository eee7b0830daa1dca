//! Renews `lock.toml`, which pins the packages that allocators are built from, after a change of `manifest.toml`.
//!
//! The two files are not called Cargo.toml and Cargo.lock because Cargo leaves directories with a manifest of their own
//! out of a published package.

use anyhow::{Context, Result};
use xtask::command::stdout_of;
use xtask::files;
use xtask::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let sources = workspace.root.join("crates/reheap-allocators/sources");
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let project = directory.path();
    files::copy(&sources.join("manifest.toml"), &project.join("Cargo.toml"))?;
    files::copy(&sources.join("lock.toml"), &project.join("Cargo.lock"))?;
    files::write(project.join("lib.rs"), "")?;
    stdout_of(workspace.cargo().arg("update").current_dir(project))
        .context("cannot renew the lock file")?;
    files::copy(&project.join("Cargo.lock"), &sources.join("lock.toml"))
}
