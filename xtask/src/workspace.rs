//! Where things are, as Cargo tells.

use crate::progress::Progress;
use anyhow::{Context, Result};
use cargo_metadata::{MetadataCommand, Package};
use reheap_allocators::target::Target;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// This workspace.
pub struct Workspace {
    /// The directory of the workspace's manifest.
    pub root: PathBuf,
    /// Where Cargo builds.
    pub target: PathBuf,
    /// Its packages.
    pub packages: Vec<Package>,
    /// The build of reheap that is used.
    pub build: Build,
}

/// A build of reheap.
#[derive(Clone, Copy)]
pub enum Build {
    /// As users have it: for everything that measures reheap itself.
    Release,
    /// Ready in a third of the time, because xtask needs most of its parts too.
    Debug,
}

impl Build {
    fn directory(self) -> &'static str {
        match self {
            Build::Release => "release",
            Build::Debug => "debug",
        }
    }

    fn profile(self) -> &'static str {
        match self {
            Build::Release => "release",
            Build::Debug => "dev",
        }
    }
}

impl Workspace {
    /// The workspace that xtask was started in.
    pub fn find() -> Result<Workspace> {
        let metadata = MetadataCommand::new()
            .no_deps()
            .exec()
            .context("cannot read the workspace")?;
        Ok(Workspace {
            root: metadata.workspace_root.into(),
            target: metadata.target_directory.into(),
            packages: metadata.packages,
            build: Build::Release,
        })
    }

    /// Cargo, to be run at the root.
    pub fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root);
        command
    }

    /// Builds reheap.
    pub fn build_reheap(&self, progress: &Progress) -> Result<()> {
        let mut build = self.cargo();
        build.args(["build", "-p", "reheap", "--profile"]);
        build.arg(self.build.profile());
        progress.step("building reheap", &mut build)
    }

    /// A program of reheap.
    fn program(&self, name: &str) -> Command {
        Command::new(self.target.join(self.build.directory()).join(name))
    }

    /// The program `cargo-reheap`, called as Cargo would for `cargo reheap`.
    pub fn cargo_reheap(&self) -> Command {
        let mut command = self.program("cargo-reheap");
        command.current_dir(&self.root).arg("reheap");
        command
    }

    /// The program `reheap`.
    pub fn reheap(&self) -> Command {
        self.program("reheap")
    }
}

/// The Cargo that runs xtask.
fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// The target of static executables for this machine.
pub fn musl_target() -> Result<Target> {
    format!("{}-unknown-linux-musl", env::consts::ARCH)
        .parse()
        .context("cannot build static executables here")
}
