//! `install.sh` when something goes wrong: it says what, and what was there before is there after. And `make dist` packs no
//! programs that would not find their allocators.

use super::outcome::{self, Outcome};
use super::server::{Archives, Server};
use super::{TestDist, this_architecture};
use crate::dist;
use anyhow::{Context as _, Result, ensure};
use reheap_allocators::target::Architecture;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use xtask::files;

/// In MiB: too small for the archive, for what is in it, and for both.
const DISKS: [u32; 3] = [4, 14, 30];

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    not_packed(test)?;
    let whole = Server::start(test, Archives::Whole)?;
    let prefix = test.new_directory("earlier-")?;
    outcome::succeed(&mut install(test, &whole, &prefix))?;
    let before = tree(&prefix)?;
    let unchanged = |what: &str| {
        ensure!(tree(&prefix)? == before, "{what} changed what was there");
        outcome::succeed(Command::new(prefix.join("bin/reheap")).arg("list"))?;
        test.saw(&format!("{what}: nothing changed"));
        Ok(())
    };

    damaged(test, Archives::CutOff, &prefix)?.said("cannot download")?;
    unchanged("a download that breaks off")?;
    damaged(test, Archives::Tampered, &prefix)?.said("SHA256SUMS says")?;
    unchanged("a tampered archive")?;
    let mut unknown = install(test, &whole, &prefix);
    outcome::of(unknown.env("PATH", path_with_other_uname(test)?))?
        .ended_with(1)?
        .said("this is riscv64")?;
    unchanged("an unknown processor")?;
    as_nobody(test, &whole, &prefix)?;
    unchanged("a directory of somebody else")?;
    in_closed_home(test, &whole)?;
    for size in DISKS {
        on_small_disk(test, &whole, size)?;
    }
    Ok(())
}

/// An allocator that another reheap was built for, and none at all.
fn not_packed(test: &TestDist<'_>) -> Result<()> {
    let tree = test.unpacked()?;
    let architecture = this_architecture()?;
    dist::require_prebuilt(architecture, &tree)?;
    let path = tree.join("share/reheap/manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path)?)?;
    let files = manifest["files"].as_array_mut();
    let preload = files
        .into_iter()
        .flatten()
        .find(|file| file["allocator"] == "jemalloc");
    preload.context("there is no jemalloc")?["key"] = "another".into();
    files::write(&path, manifest.to_string())?;
    is_refused(architecture, &tree, "does not find \"jemalloc\"")?;
    fs::remove_file(&path)?;
    is_refused(architecture, &tree, "does not find")?;
    test.saw("programs that do not find their allocators are not packed");
    Ok(())
}

fn is_refused(architecture: Architecture, tree: &Path, reason: &str) -> Result<()> {
    let refusal = dist::require_prebuilt(architecture, tree)
        .err()
        .context("`make dist` would pack it")?
        .to_string();
    ensure!(refusal.contains(reason), "another refusal: {refusal}");
    Ok(())
}

fn install(test: &TestDist<'_>, server: &Server, prefix: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .arg(test.source("install.sh"))
        .args(["--from", &server.address, "--prefix"])
        .arg(prefix);
    command
}

fn damaged(test: &TestDist<'_>, archives: Archives, prefix: &Path) -> Result<Outcome> {
    let server = Server::start(test, archives)?;
    outcome::of(&mut install(test, &server, prefix))?.ended_with(1)
}

/// All files, and what is in them.
fn tree(directory: &Path) -> Result<String> {
    let mut find = Command::new("find");
    find.args([".", "-type", "f", "-exec", "sha256sum", "{}", "+"])
        .current_dir(directory);
    let listed = outcome::succeed(&mut find)?.stdout;
    let mut lines: Vec<&str> = listed.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}

fn path_with_other_uname(test: &TestDist<'_>) -> Result<String> {
    let directory = test.new_directory("uname-")?;
    let program = directory.join("uname");
    files::write(
        &program,
        "#!/bin/sh\n[ \"$1\" = -s ] && echo Linux || echo riscv64\n",
    )?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let path = std::env::var("PATH").unwrap_or_default();
    Ok(format!("{}:{path}", directory.display()))
}

fn as_nobody(test: &TestDist<'_>, server: &Server, prefix: &Path) -> Result<()> {
    // The way there is open, only writing is not.
    fs::set_permissions(prefix, fs::Permissions::from_mode(0o755))?;
    let script = fs::read_to_string(test.source("install.sh"))?;
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["sh", "-c"])
        .args([&script, "install.sh", "--from", &server.address, "--prefix"])
        .arg(prefix)
        .current_dir("/");
    outcome::of(&mut command)?.ended_with(1)?.said("cannot")?;
    Ok(())
}

/// Where nothing can be written in the home directory, which is the default.
fn in_closed_home(test: &TestDist<'_>, server: &Server) -> Result<()> {
    let home = test.new_directory("home-")?;
    let script = "mount -t tmpfs -o ro none \"$HOME\" && exec sh \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(test.source("install.sh"))
        .args(["--from", &server.address])
        .env("HOME", &home);
    outcome::of(&mut command)?
        .ended_with(1)?
        .said("cannot make the directory")?
        .said("hint: name another place with --prefix")?;
    test.saw("a home that is read-only: another place is asked for");
    Ok(())
}

/// On a file system in memory, which is gone with the command's mounts.
fn on_small_disk(test: &TestDist<'_>, server: &Server, mebibytes: u32) -> Result<()> {
    let place = test.new_directory("disk-")?;
    let script = format!(
        "mount -t tmpfs -o size={mebibytes}m none \"$1\" && shift && ! sh \"$@\" && find \"$5\" -type f"
    );
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(&place)
        .arg(test.source("install.sh"))
        .args(["--from", &server.address, "--prefix"])
        .arg(&place);
    let left = outcome::succeed(&mut command)?.said("install.sh: ")?;
    ensure!(
        left.stdout.is_empty(),
        "a disk of {mebibytes} MiB has: {}",
        left.stdout
    );
    test.saw(&format!("a disk of {mebibytes} MiB: nothing stayed"));
    Ok(())
}
