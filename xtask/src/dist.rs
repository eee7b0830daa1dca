//! What users download: `make dist` fills `dist/` with archives, packages for Linux, Python and Node for each
//! processor.
//!
//! All of them hold one tree of files, which goes to `/usr`, `~/.local` or a Python environment as it is. The programs
//! find their prebuilt files by the way from one to the other, so no file has a path in it. Everything is made by the
//! tools that others maintain for it: GNU tar, nfpm, and Python's `wheel`.
//!
//! The same commit gives the same bytes, wherever the clone is: no file has a path of this machine or the time of day.

mod notices;
mod npm;
mod packages;
mod prebuilt;
mod programs;
mod sbom;
mod tree;

pub(crate) use tree::require_prebuilt;

use anyhow::{Context as _, Result};
use reheap_allocators::prebuilt::Selection;
use reheap_allocators::target::Architecture;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use xtask::command::stdout_of;
use xtask::files;
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
    /// One archive with two allocators.
    Short(Programs),
}

/// The programs of a short form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Programs {
    /// As users get them: what an optimiser makes of reheap differs with each profile.
    Static,
    /// Those that the tests have run. They are there already; the others take minutes to build.
    OfTests,
}

impl Extent {
    fn selection(self) -> Selection {
        match self {
            Self::Whole => Selection::All,
            // rpmalloc is built fastest.
            Self::Short(_) => Selection::Only(&["mimalloc", "rpmalloc"]),
        }
    }
}

/// Builds everything for these processors.
pub(crate) fn run(workspace: &Workspace, architectures: &[Architecture]) -> Result<()> {
    let scratch = workspace.target.join("dist");
    let output = workspace.root.join("dist");
    let dist = Dist::new(workspace, Extent::Whole, scratch, output)?;
    make(&dist, architectures)
}

/// Makes the short form for this machine, and gives the directory with it.
pub(crate) fn run_short(
    workspace: &Workspace,
    architecture: Architecture,
    programs: Programs,
) -> Result<PathBuf> {
    let scratch = workspace.target.join("dist-short");
    let output = scratch.join("output");
    let dist = Dist::new(workspace, Extent::Short(programs), scratch, output)?;
    make(&dist, &[architecture])?;
    Ok(dist.output)
}

fn make(dist: &Dist<'_>, architectures: &[Architecture]) -> Result<()> {
    let prebuilt = prebuilt::make(dist, architectures)?;
    programs::prepare(dist)?;
    let sources = sources_of_allocators(dist)?;
    let notices = notices::collect(dist, &sources)?;
    let bill = match dist.extent {
        Extent::Whole => Some(sbom::make(dist, &sources)?),
        Extent::Short(_) => None,
    };
    files::make_empty(&dist.output)?;
    if let Some(bill) = &bill {
        sbom::write_to(bill, &dist.output, &dist.version)?;
    }
    let install = dist.workspace.root.join("install.sh");
    files::copy(&install, &dist.output.join("install.sh"))?;
    let documents = tree::Documents { notices, bill };
    for &architecture in architectures {
        let programs = match dist.extent {
            Extent::Short(Programs::OfTests) => programs::of_tests(dist)?,
            _ => programs::build(dist, architecture, &prebuilt)?,
        };
        let tree = tree::make(dist, architecture, &programs, &prebuilt, &documents)?;
        packages::tarball(dist, architecture, &tree)?;
        if dist.extent == Extent::Whole {
            packages::system_packages(dist, architecture, &tree)?;
            packages::wheel(dist, architecture, &tree)?;
            npm::program(dist, architecture, &tree)?;
        }
    }
    if dist.extent == Extent::Whole {
        npm::starter(dist)?;
    }
    write_sums(&dist.output)?;
    dist.progress
        .say(format!("all is in `{}`", dist.output.display()));
    Ok(())
}

impl<'a> Dist<'a> {
    fn new(
        workspace: &'a Workspace,
        extent: Extent,
        scratch: PathBuf,
        output: PathBuf,
    ) -> Result<Dist<'a>> {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%ct"])
            .current_dir(&workspace.root);
        Ok(Dist {
            workspace,
            progress: Progress::start(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            epoch: stdout_of(&mut git)?.trim().to_owned(),
            extent,
            scratch,
            kept: workspace.target.join("dist"),
            output,
        })
    }

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
    files::make_empty(&project)?;
    files::copy(&sources.join("manifest.toml"), &project.join("Cargo.toml"))?;
    files::copy(&sources.join("lock.toml"), &project.join("Cargo.lock"))?;
    files::write(project.join("lib.rs"), "")?;
    Ok(project)
}

/// Hashes, as `sha256sum --check` reads them.
fn write_sums(directory: &Path) -> Result<()> {
    let mut text = String::new();
    for path in files::entries(directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name != SUMS {
            let digest = files::sha256(&files::read_bytes(&path)?);
            text += &format!("{digest}  {name}\n");
        }
    }
    files::write(directory.join(SUMS), text)
}
