//! Where things are, as Cargo tells.

use crate::progress::Progress;
use anyhow::{Context, Result, ensure};
use reheap_allocators::target::Target;
use serde::Deserialize;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
}

/// A package, as its manifest describes it.
#[derive(Deserialize)]
pub struct Package {
    /// What it is for.
    pub description: Option<String>,
    /// The file that says so.
    pub manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

impl Workspace {
    /// The workspace that xtask was started in.
    pub fn find() -> Result<Workspace> {
        let output = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo")?;
        ensure!(
            output.status.success(),
            "cannot read the workspace: cargo metadata failed"
        );
        let metadata: Metadata = serde_json::from_slice(&output.stdout)
            .context("cannot understand the output of cargo metadata")?;
        Ok(Workspace {
            root: metadata.workspace_root,
            target: metadata.target_directory,
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

    /// Builds reheap as users have it.
    pub fn build_reheap(&self, progress: &Progress) -> Result<()> {
        let mut build = self.cargo();
        build.args(["build", "--release", "-p", "reheap"]);
        progress.step("building reheap", &mut build)
    }

    /// The text of results, without the places of directories: these mean nothing on another machine.
    pub fn without_places(&self, text: &str) -> String {
        let text = text.replace(&format!("{}/", self.root.display()), "");
        match env::var("HOME") {
            Ok(home) => text.replace(&format!("{home}/"), "~/"),
            Err(_) => text,
        }
    }

    /// Writes the raw data of a measurement and what is made from them.
    pub fn write_measurement(
        &self,
        progress: &Progress,
        directory: &Path,
        files: &[(&str, String)],
    ) -> Result<()> {
        for (name, text) in files {
            let path = self.root.join(directory).join(name);
            fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
            progress.say(format!("written to `{}`", path.display()));
        }
        Ok(())
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
