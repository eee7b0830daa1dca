//! `cargo reheap install`: lets Cargo build and copy, and reads the copies back.

use super::cargo_run::CargoRun;
use super::messages::{self, Artifact};
use super::records::{self, When};
use anyhow::Context as _;
use reheap_command::exit;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

impl CargoRun<'_> {
    /// Cargo builds and installs; then what is installed is checked.
    pub(super) fn install(&self) -> anyhow::Result<ExitCode> {
        let mut cargo = self.cargo("install");
        let temporary = self.temporary_target_directory()?;
        if let Some(directory) = &temporary {
            cargo.arg("--target-dir").arg(directory.path());
        }
        let (status, artifacts) = messages::read(cargo, &self.request.message_format(), &[])?;
        if !status.success() {
            // Cargo has named it as the place where to look for the cause.
            temporary.map(tempfile::TempDir::keep);
            return Ok(exit::passed_on(status));
        }
        let built: Vec<(&Path, &Artifact)> = artifacts
            .iter()
            .filter_map(|artifact| Some((artifact.executable.as_deref()?, artifact)))
            .collect();
        if built.is_empty() && !self.request.flags.has(&["--list"]) {
            self.notes().say("Cargo installed nothing: installed programs keep their allocator; use --force to replace them");
        }
        if self.link_outdated(&built)? {
            let mut again = self.cargo("install");
            let is_forced = self.request.flags.has(&["-f", "--force"]);
            again.args((!is_forced).then_some("--force"));
            let status = again.status().context("cannot start Cargo")?;
            if !status.success() {
                return Ok(exit::passed_on(status));
            }
        }
        for (path, artifact) in &built {
            let name = path.file_name().context("the executable has no name")?;
            let installed = self.install_root()?.join("bin").join(name);
            let plan = self.plan_of(artifact)?;
            let linked = records::look_up(&installed, &plan, &self.records(path)?)?;
            self.check(
                &installed,
                linked,
                &self.project.choices.of(artifact.directory())?,
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Links again what Cargo found built, by another plan, and says whether there was any. That is so only for
    /// projects in a directory, which is where Cargo leaves what it installs.
    fn link_outdated(&self, built: &[(&Path, &Artifact)]) -> anyhow::Result<bool> {
        let mut is_any = false;
        for (path, artifact) in built.iter().filter(|(path, _)| path.exists()) {
            let plan = self.plan_of(artifact)?;
            let records = self.records(path)?;
            let linked = records::look_up(path, &plan, &records)?;
            if linked.is_some_and(|linked| linked.when == When::Outdated) {
                records::ensure(path, &plan, &records)?;
                is_any = true;
            }
        }
        Ok(is_any)
    }

    /// A directory to build in, if Cargo would use a temporary one. That is gone when Cargo ends, and with it the
    /// records of the links.
    fn temporary_target_directory(&self) -> anyhow::Result<Option<tempfile::TempDir>> {
        if self
            .request
            .flags
            .has(&["--path", "--target-dir", "--list"])
            || self.project.config.names_target_directory()
        {
            return Ok(None);
        }
        let directory = tempfile::Builder::new()
            .prefix("cargo-reheap-install-")
            .tempdir();
        Ok(Some(
            directory.context("cannot make a temporary directory")?,
        ))
    }

    /// Where Cargo installs (`cargo help install`).
    fn install_root(&self) -> anyhow::Result<PathBuf> {
        let root = match self.request.flags.values("--root").pop() {
            Some(root) => Some(PathBuf::from(root)),
            None => self.project.config.install_root()?,
        };
        std::path::absolute(root.unwrap_or_default()).context("cannot find the current directory")
    }
}
