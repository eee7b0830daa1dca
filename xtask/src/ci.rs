//! What CI runs, and what a contributor runs before sending a change.

use crate::deny;
use crate::dist::Programs;
use crate::test_dist;
use anyhow::Result;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// Tests of what `make test` takes samples of: every allocator, for one.
const ALL: &[&str] = &["--features", "reheap/test_all"];

/// All checks in the order of what they cost. The tidy checks are tests of xtask, so they come with the tests.
pub(crate) fn run(workspace: &Workspace, all: bool) -> Result<()> {
    let format = ["fmt", "--all", "--check"];
    let lints = ["clippy", "--workspace", "--all-targets", "--locked"];
    // A failure should not hide others.
    let tests = ["test", "--workspace", "--locked", "--no-fail-fast"];
    let extent = if all { ALL } else { &[] };
    let checks: [(&str, Vec<&str>); 3] = [
        ("the format (`cargo fmt` fixes it)", format.to_vec()),
        (
            "clippy",
            [&lints[..], ALL, &["--", "-D", "warnings"]].concat(),
        ),
        (
            "the tests, and the tidy checks with them",
            [&tests[..], extent].concat(),
        ),
    ];
    let progress = Progress::start();
    for (what, arguments) in checks {
        progress.step(what, workspace.cargo().args(arguments))?;
    }
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
