//! The archive, installed by `install.sh` from a server: where there is glibc, and where there are musl and busybox.

use super::TestDist;
use super::installed::{self, Libc};
use super::outcome;
use super::root::Root;
use super::server::{Archives, Server};
use crate::dist::Programs;
use anyhow::{Context as _, Result, ensure};
use std::process::Command;
use std::time::Instant;

const PREFIX: &str = "/usr/local";

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    check_sums(test)?;
    let server = Server::start(test, Archives::Whole)?;
    for suite in ["bookworm", "bullseye"] {
        test.saw(suite);
        let root = Root::debian(test, suite)?;
        let before = root.files()?;
        // Debian's smallest has nothing that downloads.
        install(test, &root, &server)?
            .failed()?
            .said("neither curl nor wget")?;
        installed::check_unchanged(test, &root, &before, "a failed download")?;
        root.add_busybox()?;
        std::os::unix::fs::symlink("/bin/busybox", root.path("usr/bin/wget"))?;
        check_in(test, &root, &server, Libc::Glibc, Allocators::All)?;
    }
    test.saw("musl and busybox");
    let musl = Root::musl(test)?;
    check_in(test, &musl, &server, Libc::Musl, Allocators::All)
}

/// What is in the archive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allocators {
    All,
    /// Those of the short form.
    Few,
}

/// Where there are only busybox and the libc: musl for static programs, for others the one that they need.
pub(super) fn check_bare(test: &TestDist<'_>, programs: Programs) -> Result<()> {
    check_sums(test)?;
    let server = Server::start(test, Archives::Whole)?;
    match programs {
        Programs::Static => {
            let root = Root::musl(test)?;
            check_in(test, &root, &server, Libc::Musl, Allocators::Few)
        }
        Programs::OfTests => {
            let root = Root::glibc(test)?;
            check_in(test, &root, &server, Libc::Glibc, Allocators::Few)
        }
    }
}

fn check_in(
    test: &TestDist<'_>,
    root: &Root,
    server: &Server,
    libc: Libc,
    allocators: Allocators,
) -> Result<()> {
    let before = root.files()?;
    let since = Instant::now();
    install(test, root, server)?
        .succeeded()?
        .said("installed reheap")?;
    if allocators == Allocators::All {
        installed::check_first_commands_in(test, root, libc, since)?;
    }
    // The second time replaces the first.
    install(test, root, server)?
        .succeeded()?
        .said("installed reheap")?;
    installed::check(test, root, libc)?;
    installed::check_enable(test, root, libc)?;
    installed::check_documentation(test, root, PREFIX)?;
    if matches!(libc, Libc::Glibc) {
        installed::enable(root)?;
        installed::enabled_by_earlier(root)?;
        install(test, root, server)?
            .succeeded()?
            .said(installed::TELLS)?;
        root.run(&["sh", "/tmp/install.sh", "--uninstall", "--prefix", PREFIX])?
            .failed()?
            .said("reheap disable")?;
        root.succeed(&["reheap", "disable"])?;
    }
    root.succeed(&["sh", "/tmp/install.sh", "--uninstall", "--prefix", PREFIX])?;
    installed::check_unchanged(test, root, &before, "install.sh --uninstall")
}

fn install(test: &TestDist<'_>, root: &Root, server: &Server) -> Result<outcome::Outcome> {
    root.add(&test.source("install.sh"), "tmp/install.sh")?;
    let from = ["--from", &server.address, "--prefix", PREFIX];
    // The strictest umask that people have.
    let script = "umask 077; exec sh /tmp/install.sh \"$@\"";
    root.run_with_network(&[&["sh", "-c", script, "sh"][..], &from].concat())
}

/// Whether SHA256SUMS names every file, with its digest, and `install.sh` is the one that is tested here.
fn check_sums(test: &TestDist<'_>) -> Result<()> {
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&test.directory);
    let checked = outcome::succeed(&mut sums)?.stdout;
    for entry in std::fs::read_dir(&test.directory)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        ensure!(
            name == "SHA256SUMS" || checked.contains(&format!("{name}: OK")),
            "SHA256SUMS does not name `{name}`"
        );
    }
    let [packed, tested] =
        [test.directory.join("install.sh"), test.source("install.sh")].map(std::fs::read);
    ensure!(
        packed.context("there is no install.sh")? == tested?,
        "install.sh has changed since\n\nhint: make dist"
    );
    test.saw("SHA256SUMS and install.sh");
    Ok(())
}
