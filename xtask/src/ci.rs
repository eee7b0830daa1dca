//! What CI runs, and what a contributor runs before sending a change.

use crate::deny;
use crate::dist::Programs;
use crate::test_dist;
use crate::tests;
use anyhow::Result;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// All checks in the order of what they cost. The tidy checks are tests of xtask, so they come with the tests.
pub(crate) fn run(workspace: &Workspace, all: bool) -> Result<()> {
    let progress = Progress::start();
    let mut format = workspace.cargo();
    format.args(["fmt", "--all", "--check"]);
    progress.step("the format (`cargo fmt` fixes it)", &mut format)?;
    let mut clippy = workspace.cargo();
    clippy
        .args(["clippy", "--workspace", "--all-targets", "--locked"])
        .args(tests::ALL)
        .args(["--", "-D", "warnings"]);
    progress.step("clippy", &mut clippy)?;
    tests::run(workspace, &progress, all)?;
    let programs = if all {
        Programs::Static
    } else {
        Programs::OfTests
    };
    test_dist::run_short(workspace, programs, &progress)?;
    deny::run(workspace, &progress)?;
    progress.say("all checks passed");
    Ok(())
}
