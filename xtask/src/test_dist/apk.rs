//! The package for Alpine, in a root with musl and busybox.
//!
//! Debian has no `apk`, and a package is simple: two archives, each compressed by itself, one after the other. The first
//! describes the package, the second is unpacked into the root. So this reads them as the format says
//! (wiki.alpinelinux.org/wiki/Apk_spec), and checks what `apk` would check: the digest of the second in the first.

use super::installed::{self, Libc};
use super::outcome;
use super::root::Root;
use super::{Kind, TestDist, this_architecture};
use anyhow::{Context as _, Result, ensure};
use reheap_allocators::target::Architecture;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use xtask::files;

/// Writes each member of a gzip file into a file of its own, still compressed. A member ends where the decoder says.
const SPLIT: &str = "
import sys, zlib
data = open(sys.argv[1], 'rb').read()
number = 0
while data:
    decoder = zlib.decompressobj(31)
    decoder.decompress(data)
    used = len(data) - len(decoder.unused_data)
    open(f'{sys.argv[2]}/{number}', 'wb').write(data[:used])
    data = decoder.unused_data
    number += 1
print(number)
";

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    let parts = split(test, &test.file(Kind::Apk)?)?;
    check_description(&parts, this_architecture()?)?;
    test.saw("the description, and the digest of the contents");

    let root = Root::musl(test)?;
    let before = root.files()?;
    let since = Instant::now();
    unpack(&parts.join("1"), &root.path(""))?;
    let installed = root.files()?;
    installed::check_first_commands_in(test, &root, Libc::Musl, since)?;
    installed::check(test, &root, Libc::Musl)?;
    installed::check_enable(test, &root, Libc::Musl)?;
    installed::check_documentation(test, &root, "usr")?;
    installed::enable(&root)?;
    // What `apk` starts after an upgrade.
    installed::enabled_by_earlier(&root)?;
    root.add(&parts.join("description/.post-upgrade"), "tmp/came")?;
    root.succeed(&["sh", "/tmp/came", env!("CARGO_PKG_VERSION")])?
        .said(installed::TELLS)?;
    // What it starts before the package goes, with the version that goes.
    root.add(&parts.join("description/.pre-deinstall"), "tmp/goes")?;
    root.succeed(&["sh", "/tmp/goes", env!("CARGO_PKG_VERSION")])?
        .said("disabled mimalloc")?;
    let used = root.files()?;
    ensure!(
        used == installed,
        "reheap left files: {:?}",
        used.difference(&installed)
    );
    ensure!(installed.len() > before.len(), "the package has no files");
    Ok(())
}

/// The two archives of a package, in a directory.
pub(super) fn split(test: &TestDist<'_>, file: &Path) -> Result<PathBuf> {
    let parts = test.new_directory("apk-")?;
    let mut split = Command::new("python3");
    split.args(["-c", SPLIT]).arg(file).arg(&parts);
    let number = outcome::succeed(&mut split)?.stdout;
    // With a signature there would be three.
    ensure!(number.trim() == "2", "the package has {number} parts");
    Ok(parts)
}

/// `.PKGINFO`: lines of `key = value`.
pub(super) fn check_description(parts: &Path, architecture: Architecture) -> Result<()> {
    let directory = parts.join("description");
    fs::create_dir(&directory)?;
    // The first archive has no end, so that the second continues it; tar tells by its status only if it is cut.
    unpack(&parts.join("0"), &directory)?;
    let text = fs::read_to_string(directory.join(".PKGINFO")).context("there is no .PKGINFO")?;
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.with_context(|| format!(".PKGINFO has no `{key}`: {text}"))
    };
    ensure!(value("pkgname")? == "reheap", "another name: {text}");
    ensure!(
        value("arch")? == architecture.name(),
        "another processor: {text}"
    );
    let digest = files::sha256(&files::read_bytes(parts.join("1"))?);
    ensure!(
        value("datahash")? == digest,
        "the contents have the digest {digest}: {text}"
    );
    Ok(())
}

fn unpack(archive: &Path, directory: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(directory);
    outcome::succeed(&mut tar)?;
    Ok(())
}
