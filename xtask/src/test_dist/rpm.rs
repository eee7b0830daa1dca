//! The package for Fedora, RHEL and SUSE. None of them is here, so Debian's rpm installs it into a Debian.
//!
//! That is the same program with the same checks; what differs is the system below, and the package needs nothing of it.

use super::installed::{self, Libc};
use super::outcome::{self, Outcome};
use super::root::Root;
use super::{Kind, TestDist};
use anyhow::{Result, ensure};
use std::ffi::OsStr;
use std::process::Command;
use std::time::Instant;

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    let root = Root::debian(test, "bookworm")?;
    let before = root.files()?;
    if let Some(foreign) = test.foreign_file(Kind::Rpm)? {
        rpm(&root, &["--install".as_ref(), foreign.as_os_str()])?
            .failed()?
            .said("different architecture")?;
        let what = "the refused package for another processor";
        installed::check_unchanged(test, &root, &before, what)?;
    }
    let file = test.file(Kind::Rpm)?;
    let query = ["--query", "--queryformat", "%{BUILDHOST}", "--package"].map(OsStr::new);
    let host = rpm(&root, &[&query[..], &[file.as_os_str()]].concat())?.succeeded()?;
    let is_neutral = host.stdout == "reheap";
    ensure!(is_neutral, "the package names a machine: {}", host.stdout);
    // Without `--nodeps`: it must need nothing, because the database of this root is empty.
    let since = Instant::now();
    rpm(&root, &["--install".as_ref(), file.as_os_str()])?.succeeded()?;
    installed::check_first_commands_in(test, &root, Libc::Glibc, since)?;
    let verified = rpm(&root, &["--verify", "reheap"].map(OsStr::new))?.succeeded()?;
    verified.did_not_say("share")?;
    installed::check(test, &root, Libc::Glibc)?;
    installed::check_enable(test, &root, Libc::Glibc)?;
    installed::check_documentation(test, &root, "usr")?;
    installed::enable(&root)?;
    let again = ["--upgrade".as_ref(), "--force".as_ref(), file.as_os_str()];
    installed::enabled_by_earlier(&root)?;
    rpm(&root, &again)?.succeeded()?.said(installed::TELLS)?;
    installed::check_enabled(&root)?;
    rpm(&root, &["--erase", "reheap"].map(OsStr::new))?
        .succeeded()?
        .said("disabled mimalloc")?;
    installed::check_unchanged(test, &root, &before, "rpm --erase")
}

fn rpm(root: &Root, arguments: &[&OsStr]) -> Result<Outcome> {
    let mut command = Command::new("rpm");
    command
        .arg("--root")
        .arg(root.path(""))
        // Debian's rpm wants to be asked twice, and has its database elsewhere.
        .args(["--force-debian", "--dbpath", "/var/lib/rpm"])
        .args(arguments);
    outcome::of(&mut command)
}
