//! Uses what `make dist` made as people will: each package is installed into a root of its own, used there and removed.
//!
//! Only a short form is a part of `make test`: the rest needs finished packages, whole systems to install them into, and
//! minutes. The systems are made once and kept in Cargo's target directory. A root is entered with namespaces of its own, so a package that
//! did too much would do it there, and nothing stays mounted.

mod action;
mod apk;
mod container;
mod deb;
mod failures;
mod foreign;
mod installed;
mod npm;
mod outcome;
mod recipes;
mod root;
mod rpm;
mod server;
mod tarball;
mod wheel;
mod yaml;

use crate::dist::{self, Programs};
use anyhow::{Context as _, Result, ensure};
use reheap_allocators::target::Architecture;
use std::env;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What `make test-dist` knows.
struct TestDist<'a> {
    workspace: &'a Workspace,
    progress: Progress,
    /// Where the finished files are.
    directory: PathBuf,
    /// What is kept for the next time.
    cache: PathBuf,
    scratch: TempDir,
}

/// A kind of file that is downloaded.
#[derive(Clone, Copy)]
enum Kind {
    Deb,
    Rpm,
    Apk,
    Wheel,
    /// The programs for a processor.
    Npm,
    /// What finds the programs for this processor.
    NpmStarter,
    Tarball,
}

type Part = (&'static str, fn(&TestDist<'_>) -> Result<()>);

/// In the order in which one would look for the reason of a failure.
const PARTS: [Part; 10] = [
    ("tarball", tarball::check),
    ("deb", deb::check),
    ("rpm", rpm::check),
    ("apk", apk::check),
    ("wheel", wheel::check),
    ("npm", npm::check),
    ("foreign", foreign::check),
    ("failures", failures::check),
    ("action", action::check),
    ("recipes", recipes::check),
];

/// The names of the parts.
pub(crate) fn names() -> [&'static str; PARTS.len()] {
    PARTS.map(|(name, _)| name)
}

/// Checks the files in `directory`, or in `dist/`; only these parts, or all.
pub(crate) fn run(
    workspace: &Workspace,
    directory: Option<PathBuf>,
    only: &[String],
) -> Result<()> {
    ensure!(
        is_root()?,
        "cannot install packages into roots: only root can do that"
    );
    let directory = directory.unwrap_or_else(|| workspace.root.join("dist"));
    let test = TestDist::new(workspace, directory)?;
    for (name, check) in PARTS {
        if only.is_empty() || only.iter().any(|wanted| wanted == name) {
            test.progress.say(name);
            check(&test).with_context(|| format!("`{name}` failed"))?;
        }
    }
    test.progress.say("everything works");
    Ok(())
}

/// Makes the short form, installs it in a root without a compiler, uses it there and removes it.
pub(crate) fn run_short(
    workspace: &Workspace,
    programs: Programs,
    progress: &Progress,
) -> Result<()> {
    progress.say("a package, and its installation where no compiler is");
    let directory = dist::run_short(workspace, this_architecture()?, programs)?;
    if !is_root()? {
        progress.say("the installation was NOT tested: only root can make a root directory");
        return Ok(());
    }
    tarball::check_bare(&TestDist::new(workspace, directory)?, programs)
}

impl<'a> TestDist<'a> {
    fn new(workspace: &'a Workspace, directory: PathBuf) -> Result<TestDist<'a>> {
        let cache = workspace.target.join("test-dist");
        files::make_directory(&cache)?;
        Ok(TestDist {
            workspace,
            progress: Progress::start(),
            directory,
            // Beside the cache, because /tmp may be small and in memory.
            scratch: TempDir::new_in(&cache).context("cannot make a temporary directory")?,
            cache,
        })
    }
}

impl TestDist<'_> {
    /// The file for this machine's processor, which must be there.
    fn file(&self, kind: Kind) -> Result<PathBuf> {
        let architecture = this_architecture()?;
        self.find(kind, architecture)?.with_context(|| {
            let directory = self.directory.display();
            let suffix = kind.suffix(architecture);
            format!("there is no `*{suffix}` in `{directory}`\n\nhint: make dist")
        })
    }

    /// The file for another processor. `make dist` can be told to leave it out, and then the report says so.
    fn foreign_file(&self, kind: Kind) -> Result<Option<PathBuf>> {
        let foreign = foreign_architecture()?;
        let file = self.find(kind, foreign)?;
        if file.is_none() {
            let suffix = kind.suffix(foreign);
            self.progress
                .say(format!("  not checked: there is no `*{suffix}`"));
        }
        Ok(file)
    }

    fn find(&self, kind: Kind, architecture: Architecture) -> Result<Option<PathBuf>> {
        let suffix = kind.suffix(architecture);
        let entries = fs::read_dir(&self.directory).with_context(|| {
            format!(
                "cannot read `{}`\n\nhint: make dist",
                self.directory.display()
            )
        })?;
        for entry in entries {
            let path = entry?.path();
            if path.to_string_lossy().ends_with(&suffix) {
                return Ok(Some(fs::canonicalize(path)?));
            }
        }
        Ok(None)
    }

    /// An empty directory.
    fn new_directory(&self, name: &str) -> Result<PathBuf> {
        let made = tempfile::Builder::new()
            .prefix(name)
            .tempdir_in(self.scratch.path())
            .context("cannot make a temporary directory")?;
        Ok(made.keep())
    }

    /// A file of the repository.
    fn source(&self, path: &str) -> PathBuf {
        self.workspace.root.join(path)
    }

    /// One line about what was seen.
    fn saw(&self, what: &str) {
        self.progress.say(format!("  {what}"));
    }

    /// The packed tree, as a person unpacks it who does not use `install.sh`.
    fn unpacked(&self) -> Result<PathBuf> {
        let directory = self.new_directory("unpacked-")?;
        let mut tar = std::process::Command::new("tar");
        tar.args(["--extract", "--strip-components=1", "--file"])
            .arg(self.file(Kind::Tarball)?)
            .arg("--directory")
            .arg(&directory);
        outcome::succeed(&mut tar)?;
        Ok(directory)
    }
}

impl Kind {
    /// How the name of such a file ends: each kind of package has names of its own for processors.
    fn suffix(self, architecture: Architecture) -> String {
        let debian = match architecture {
            Architecture::X86_64 => "amd64",
            Architecture::Aarch64 => "arm64",
            other => other.name(),
        };
        let node = match architecture {
            Architecture::X86_64 => "x64",
            _ => debian,
        };
        match self {
            Kind::Deb => format!("_{debian}.deb"),
            Kind::Rpm => format!(".{architecture}.rpm"),
            Kind::Apk => format!("_{architecture}.apk"),
            Kind::Wheel => format!("_{architecture}.whl"),
            Kind::Npm => format!("-linux-{node}-{VERSION}.tgz"),
            Kind::NpmStarter => format!("/reheap-{VERSION}.tgz"),
            Kind::Tarball => format!("-{architecture}-linux.tar.gz"),
        }
    }
}

fn this_architecture() -> Result<Architecture> {
    Architecture::WITH_PRELOADS
        .into_iter()
        .find(|known| known.name() == env::consts::ARCH)
        .context("there are no packages for this machine")
}

fn foreign_architecture() -> Result<Architecture> {
    let this = this_architecture()?;
    Architecture::WITH_PRELOADS
        .into_iter()
        .find(|&known| known != this)
        .context("there are packages for one processor only")
}

fn is_root() -> Result<bool> {
    let mut id = std::process::Command::new("id");
    Ok(outcome::succeed(id.arg("-u"))?.stdout.trim() == "0")
}
