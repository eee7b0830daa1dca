//! What CI runs, and what a contributor runs before sending a change.

use crate::deny;
use crate::progress::Progress;
use crate::test_dist;
use crate::workspace::Workspace;
use anyhow::Result;

/// All checks in the order of what they cost. The tidy checks are tests of xtask, so they come with the tests.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let checks: [(&str, &[&str]); 3] = [
        (
            "the format (`cargo fmt` fixes it)",
            &["fmt", "--all", "--check"],
        ),
        (
            "clippy",
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ],
        ),
        (
            "all tests, and the tidy checks with them",
            // A failure should not hide others.
            &["test", "--workspace", "--locked", "--no-fail-fast"],
        ),
    ];
    let progress = Progress::start();
    for (what, arguments) in checks {
        progress.step(what, workspace.cargo().args(arguments))?;
    }
    test_dist::run_short(workspace, &progress)?;
    deny::run(workspace, &progress)?;
    progress.say("all checks passed");
    Ok(())
}
