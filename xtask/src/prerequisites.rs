//! What building the variants needs on a machine that has only Rust: the musl target, and compilers for it.
//!
//! `reheap doctor --fix` is what a user would type, so the demonstration types it too.

use crate::progress::Progress;
use crate::workspace::Workspace;
use anyhow::Result;

/// Says what is missing and installs it. Without a C++ compiler the allocators in C++ are left out, which is no reason
/// to stop.
pub(crate) fn install_missing(workspace: &Workspace, progress: &Progress) -> Result<()> {
    progress.step(
        "what this machine lacks: the musl target, a C compiler for it",
        workspace
            .reheap()
            .args(["doctor", "--fix", "rust-target", "c-objects"]),
    )?;
    let cxx = progress.step(
        "what this machine lacks: a C++ compiler for musl",
        workspace.reheap().args(["doctor", "--fix", "c++-objects"]),
    );
    if let Err(error) = cxx {
        progress.say(format!("going on without: {error:#}"));
    }
    Ok(())
}
