//! The package for Debian and Ubuntu, installed by dpkg in Debian 12 and in the oldest Debian that mirrors still have.

use super::installed::{self, Libc};
use super::root::Root;
use super::{Kind, TestDist};
use anyhow::Result;
use std::time::Instant;

/// With glibc 2.36 and 2.31.
const SUITES: [&str; 2] = ["bookworm", "bullseye"];

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    for suite in SUITES {
        test.saw(suite);
        check_in(test, &Root::debian(test, suite)?)?;
    }
    Ok(())
}

fn check_in(test: &TestDist<'_>, root: &Root) -> Result<()> {
    let before = root.files()?;
    if let Some(foreign) = test.foreign_file(Kind::Deb)? {
        root.add(&foreign, "tmp/foreign.deb")?;
        root.run(&["dpkg", "-i", "/tmp/foreign.deb"])?
            .failed()?
            .said("does not match system")?;
        let what = "the refused package for another processor";
        installed::check_unchanged(test, root, &before, what)?;
    }
    root.add(&test.file(Kind::Deb)?, "tmp/reheap.deb")?;
    let since = Instant::now();
    root.succeed(&["dpkg", "-i", "/tmp/reheap.deb"])?;
    installed::check_first_commands_in(test, root, Libc::Glibc, since)?;
    root.succeed(&["dpkg", "--verify", "reheap"])?
        .did_not_say("reheap")?;
    installed::check(test, root, Libc::Glibc)?;
    installed::check_enable(test, root, Libc::Glibc)?;
    installed::check_documentation(test, root, "usr")?;
    // Bash finds the completions by the name of the program.
    let completions = "source /usr/share/bash-completion/completions/reheap && complete -p reheap";
    root.succeed(&["bash", "-c", completions])?
        .said("_reheap")?;
    installed::enable(root)?;
    installed::enabled_by_earlier(root)?;
    root.succeed(&["dpkg", "-i", "/tmp/reheap.deb"])?
        .said(installed::TELLS)?;
    installed::check_enabled(root)?;
    test.saw("an upgrade keeps what is enabled, and says that an earlier version did it");
    root.succeed(&["dpkg", "-r", "reheap"])?
        .said("disabled mimalloc")?;
    root.run(&["dpkg", "-s", "reheap"])?.failed()?;
    installed::check_unchanged(test, root, &before, "dpkg -r")
}
