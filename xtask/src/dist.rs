//! What users download: `make dist` fills `dist/` with archives, packages and a wheel for each processor.
//!
//! All of them hold one tree of files, which goes to `/usr`, `~/.local` or a Python environment as it is. The programs
//! find their prebuilt files by the way from one to the other, so no file has a path in it. Everything is made by the
//! tools that others maintain for it: GNU tar, nfpm, and Python's `wheel`.
//!
//! The same commit gives the same bytes, wherever the clone is: no file has a path of this machine or the time of day.

mod notices;
mod packages;
mod prebuilt;
mod programs;
mod sbom;
mod tree;

pub(crate) use tree::require_prebuilt;

use anyhow::{Context as _, Result, ensure};
use reheap_allocators::prebuilt::Selection;
use reheap_allocators::target::Architecture;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// The file with the hashes of all others.
const SUMS: &str = "SHA256SUMS";

/// What `make dist` knows before it builds anything.
struct Dist<'a> {
    workspace: &'a Workspace,
    progress: Progress,
    /// The version of reheap.
    version: String,
    /// The time of the last commit, in seconds since 1970: all files have it.
    epoch: String,
    extent: Extent,
    /// Where everything is made that is not kept.
    scratch: PathBuf,
    /// Where allocators and programs are kept for the next time.
    kept: PathBuf,
    /// Where the finished files go.
    output: PathBuf,
}

/// How much is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// What users download.
    Whole,
    /// What `make test` makes and installs: one archive with two allocators. The programs are those of users, because
    /// what an optimiser makes of reheap differs with each profile.
    Short,
}

impl Extent {
    fn selection(self) -> Selection {
        match self {
            Self::Whole => Selection::All,
            Self::Short => Selection::Only(&["mimalloc", "jemalloc"]),
        }
    }
}

/// Builds everything for these processors.
pub(crate) fn run(workspace: &Workspace, architectures: &[Architecture]) -> Result<()> {
    let dist = Dist {
        workspace,
        progress: Progress::start(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        epoch: time_of_commit(workspace)?,
        extent: Extent::Whole,
        scratch: workspace.target.join("dist"),
        kept: workspace.target.join("dist"),
        output: workspace.root.join("dist"),
    };
    make(&dist, architectures)
}

/// Builds the short form for this machine, and gives the directory with it.
pub(crate) fn run_short(workspace: &Workspace, architecture: Architecture) -> Result<PathBuf> {
    let scratch = workspace.target.join("dist-short");
    let output = scratch.join("output");
    let dist = Dist {
        workspace,
        progress: Progress::start(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        epoch: time_of_commit(workspace)?,
        extent: Extent::Short,
        scratch,
        kept: workspace.target.join("dist"),
        output: output.clone(),
    };
    make(&dist, &[architecture])?;
    Ok(output)
}

fn make(dist: &Dist<'_>, architectures: &[Architecture]) -> Result<()> {
    let prebuilt = prebuilt::make(dist, architectures)?;
    programs::prepare(dist)?;
    let sources = sources_of_allocators(dist)?;
    let notices = notices::collect(dist, &sources)?;
    let bill = match dist.extent {
        Extent::Whole => Some(sbom::make(dist, &sources)?),
        Extent::Short => None,
    };
    empty(&dist.output)?;
    if let Some(bill) = &bill {
        sbom::write_to(bill, &dist.output, &dist.version)?;
    }
    copy(&dist.workspace.root.join("install.sh"), &dist.output)?;
    let documents = tree::Documents { notices, bill };
    for &architecture in architectures {
        let programs = programs::build(dist, architecture, &prebuilt)?;
        let tree = tree::make(dist, architecture, &programs, &prebuilt, &documents)?;
        packages::tarball(dist, architecture, &tree)?;
        if dist.extent == Extent::Whole {
            packages::system_packages(dist, architecture, &tree)?;
            packages::wheel(dist, architecture, &tree)?;
        }
        write_sums(&dist.output)?;
    }
    dist.progress
        .say(format!("all is in `{}`", dist.output.display()));
    Ok(())
}

impl Dist<'_> {
    fn time(&self) -> Result<SystemTime> {
        let seconds = self.epoch.parse().context("git printed no time")?;
        Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    /// A program that takes the time of the commit for the present.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", &self.epoch);
        command
    }
}

/// The project that Cargo fetches the allocators' sources with.
fn sources_of_allocators(dist: &Dist<'_>) -> Result<PathBuf> {
    let sources = dist.workspace.root.join("crates/reheap-allocators/sources");
    let project = dist.scratch.join("sources");
    empty(&project)?;
    for (from, to) in [("manifest.toml", "Cargo.toml"), ("lock.toml", "Cargo.lock")] {
        let from = sources.join(from);
        let bytes = fs::read(&from).with_context(|| format!("cannot read `{}`", from.display()))?;
        write(&project.join(to), bytes)?;
    }
    write(&project.join("lib.rs"), "")?;
    Ok(project)
}

/// Copies a file into a directory.
fn copy(file: &Path, directory: &Path) -> Result<()> {
    let place = directory.join(file.file_name().unwrap_or_default());
    fs::copy(file, &place)
        .map(|_| ())
        .with_context(|| format!("cannot copy `{}`", file.display()))
}

fn time_of_commit(workspace: &Workspace) -> Result<String> {
    let mut git = Command::new("git");
    git.current_dir(&workspace.root)
        .args(["log", "-1", "--format=%ct"]);
    Ok(output_of(&mut git)?.trim().to_owned())
}

/// What a program prints.
fn output_of(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{program}`"))?;
    ensure!(output.status.success(), "`{program}` failed");
    String::from_utf8(output.stdout).with_context(|| format!("`{program}` printed no UTF-8"))
}

/// Makes a directory, or makes it empty.
fn empty(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .with_context(|| format!("cannot remove `{}`", directory.display()))?;
    }
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory `{}`", directory.display()))
}

fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(path, contents))
        .with_context(|| format!("cannot write `{}`", path.display()))
}

/// Hashes, as `sha256sum --check` reads them.
fn write_sums(directory: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == SUMS {
            continue;
        }
        let bytes = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let digest = Sha256::digest(&bytes);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        lines.push((name.into_owned(), digest));
    }
    lines.sort();
    let text: String = lines
        .iter()
        .map(|(name, digest)| format!("{digest}  {name}\n"))
        .collect();
    write(&directory.join(SUMS), text)
}
