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
pub(crate) struct Workspace {
    /// The directory of the workspace's manifest.
    pub(crate) root: PathBuf,
    /// Where Cargo builds.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
    /// The build of reheap that is used.
    pub(crate) build: Build,
}

/// A build of reheap.
#[derive(Clone, Copy)]
pub(crate) enum Build {
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

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) description: Option<String>,
    pub(crate) manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
    packages: Vec<Package>,
}

impl Workspace {
    /// The workspace that xtask was started in.
    pub(crate) fn find() -> Result<Workspace> {
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
    pub(crate) fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root);
        command
    }

    /// Builds reheap as users have it.
    pub(crate) fn build_reheap(&self, progress: &Progress) -> Result<()> {
        let mut build = self.cargo();
        build.args(["build", "--release", "-p", "reheap"]);
        progress.step("building reheap", &mut build)
    }

    /// The text of results, without the places of directories: these mean nothing on another machine.
    pub(crate) fn without_places(&self, text: &str) -> String {
        let text = text.replace(&format!("{}/", self.root.display()), "");
        match env::var("HOME") {
            Ok(home) => text.replace(&format!("{home}/"), "~/"),
            Err(_) => text,
        }
    }

    /// Writes the raw data of a measurement and what is made from them.
    pub(crate) fn write_measurement(
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
    pub(crate) fn cargo_reheap(&self) -> Command {
        let mut command = self.program("cargo-reheap");
        command.current_dir(&self.root).arg("reheap");
        command
    }

    /// The program `reheap`.
    pub(crate) fn reheap(&self) -> Command {
        self.program("reheap")
    }
}

/// The Cargo that runs xtask.
fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// The target of static executables for this machine.
pub(crate) fn musl_target() -> Result<Target> {
    format!("{}-unknown-linux-musl", env::consts::ARCH)
        .parse()
        .context("cannot build static executables here")
}
