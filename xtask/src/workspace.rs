//! Where things are, as Cargo tells.

use anyhow::{Context, Result, ensure};
use reheap_allocators::target::Target;
use serde::Deserialize;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// This workspace.
pub(crate) struct Workspace {
    /// The folder of the workspace's manifest.
    pub(crate) root: PathBuf,
    /// Where Cargo builds.
    pub(crate) target: PathBuf,
    pub(crate) packages: Vec<Package>,
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
        })
    }

    /// Cargo, to be run at the root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root);
        command
    }

    /// The program `cargo-reheap` of the release build, called as Cargo would for `cargo reheap`.
    pub(crate) fn cargo_reheap(&self) -> Command {
        let mut command = Command::new(self.target.join("release/cargo-reheap"));
        command.current_dir(&self.root).arg("reheap");
        command
    }

    /// The program `reheap` of the release build.
    pub(crate) fn reheap(&self) -> Command {
        Command::new(self.target.join("release/reheap"))
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
