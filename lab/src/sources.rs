//! Packages of Debian, fetched by its ordinary client, and copies of sources that are built here.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xtask::workspace::Workspace;

/// The directory of a Debian source package with Debian's patches, and its version. apt gets lists of its own, so the
/// system's sources stay as they are.
pub(crate) fn debian(
    workspace: &Workspace,
    directory: &Path,
    name: &str,
) -> Result<(PathBuf, String)> {
    let state = workspace.target.join("trials/apt");
    for needed in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(state.join(needed)).context("cannot make a directory")?;
    }
    let release = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let release = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no release of Debian")?;
    let source = format!(
        "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian {release} main\n"
    );
    fs::write(state.join("sources.list"), source).context("cannot write apt's sources")?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        for (key, value) in [
            ("Dir::State", state.clone()),
            ("Dir::State::lists", state.join("lists")),
            ("Dir::Cache", state.join("cache")),
            ("Dir::Etc::sourcelist", state.join("sources.list")),
            ("Dir::Etc::sourceparts", PathBuf::from("/dev/null")),
        ] {
            apt.arg("-o").arg(format!("{key}={}", value.display()));
        }
        let output = apt
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .output();
        let output = output.context("cannot start apt-get")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "apt-get {arguments:?} failed: {}",
            said.trim()
        );
        anyhow::Ok(())
    };
    if unpacked(directory)?.is_none() {
        apt(&["update", "-qq"])?;
        apt(&["source", "-qq", name])?;
    }
    let Some(sources) = unpacked(directory)? else {
        bail!("apt-get source {name} unpacked nothing");
    };
    let version = Command::new("dpkg-parsechangelog")
        .args(["--show-field", "Version"])
        .current_dir(&sources)
        .output()
        .context("cannot start dpkg-parsechangelog")?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    Ok((sources, version))
}

/// The sources that are in a directory already: what has a `debian` directory and is not our copy.
fn unpacked(directory: &Path) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory).context("cannot read a directory")? {
        let path = entry.context("cannot read a directory")?.path();
        if path.join("debian/changelog").exists() && !path.ends_with("sources") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// A copy that may be written to, in place of what was there.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot delete `{}`", to.display()))?;
    }
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status();
    let status = status.context("cannot start cp")?;
    ensure!(status.success(), "cannot copy `{}`", from.display());
    Ok(())
}

/// Makes a package a workspace of its own: its directory is below ours.
pub(crate) fn detach(manifest: &Path) -> Result<()> {
    let mut text = fs::read_to_string(manifest)
        .with_context(|| format!("cannot read `{}`", manifest.display()))?;
    if !text.lines().any(|line| line.trim() == "[workspace]") {
        text.push_str("\n[workspace]\n");
    }
    fs::write(manifest, text).with_context(|| format!("cannot write `{}`", manifest.display()))
}

/// Unpacks a Debian package for this machine into a directory. The package is not installed.
pub(crate) fn debian_package(directory: &Path, package: &str) -> Result<()> {
    run(
        Command::new("apt-get").args(["download", "-q", package]),
        directory,
    )?;
    let archive = with_ending(directory, "deb")?;
    run(
        Command::new("dpkg-deb").arg("-x").arg(archive).arg("."),
        directory,
    )
}

/// The file in a directory whose name ends so.
pub(crate) fn with_ending(directory: &Path, ending: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(directory).context("cannot read a directory")?;
    for entry in entries {
        let path = entry.context("cannot read a directory")?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            return fs::canonicalize(path).context("cannot find what was fetched");
        }
    }
    bail!("nothing that ends with .{ending} was fetched")
}

/// Runs a command that only talks when it fails.
pub(crate) fn run(command: &mut Command, directory: &Path) -> Result<()> {
    let shown = format!("{command:?}");
    let output = command
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {shown}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown} failed: {}", errors.trim());
    Ok(())
}
