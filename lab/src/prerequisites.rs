//! What building the variants needs on a machine that has only Rust: the musl target, and compilers for it.
//!
//! `reheap doctor --fix` is what a user would type, so the demonstration types it too.

use anyhow::Result;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// Installs what is missing for allocators in C.
pub(crate) fn install_missing(workspace: &Workspace, progress: &Progress) -> Result<()> {
    progress.quietly(
        "the musl target, and a C compiler for it",
        workspace
            .reheap()
            .args(["doctor", "--fix", "rust-target", "c-objects"]),
    )
}

/// Installs what is missing for allocators in C++. They are left out if that fails, which is no reason to stop.
pub(crate) fn install_cxx(workspace: &Workspace, progress: &Progress) {
    let cxx = progress.quietly(
        "a C++ compiler for musl",
        workspace.reheap().args(["doctor", "--fix", "c++-objects"]),
    );
    if let Err(error) = cxx {
        progress.say(format!("going on without: {error:#}"));
    }
}
