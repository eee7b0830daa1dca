//! `cargo reheap install`: lets Cargo build and copy, and reads the copies back.

use super::messages::{self, Artifact};
use super::records::{self, When};
use super::session::{Additions, Plans, Session};
use anyhow::Context as _;
use reheap_command::exit;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

impl Session {
    /// Cargo builds and installs; then what is installed is checked.
    pub(super) fn install(&self, plans: &Plans, additions: &Additions) -> anyhow::Result<ExitCode> {
        let mut cargo = self.cargo("install", additions);
        let temporary = self.temporary_target_directory()?;
        if let Some(directory) = &temporary {
            cargo.arg("--target-dir").arg(directory.path());
        }
        let (status, artifacts) = messages::read(cargo, &self.message_format(), &[])?;
        if !status.success() {
            // Cargo has named it as the place where to look for the cause.
            temporary.map(tempfile::TempDir::keep);
            return Ok(exit::passed_on(status));
        }
        let executables = artifacts
            .iter()
            .filter_map(|artifact| Some((artifact.executable.as_deref()?, artifact)));
        let built: Vec<(&Path, &Artifact)> = executables.collect();
        if built.is_empty() && !self.flags.has(&["--list"]) {
            self.note("Cargo installed nothing: installed programs keep their allocator; use --force to replace them");
        }
        if self.link_outdated(&built, plans)? {
            let mut again = self.cargo("install", additions);
            let is_forced = self.flags.has(&["-f", "--force"]);
            again.args((!is_forced).then_some("--force"));
            let status = again.status().context("cannot start Cargo")?;
            if !status.success() {
                return Ok(exit::passed_on(status));
            }
        }
        for (path, artifact) in &built {
            let name = path.file_name().context("the executable has no name")?;
            let installed = self.install_root()?.join("bin").join(name);
            let plan = self.plan_of(plans, artifact)?;
            let linked = records::look_up(&installed, &plan, &self.records(path)?)?;
            self.check(&installed, linked, &self.choice_of(artifact.directory())?)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Links again what Cargo found built, by another plan, and says whether there was any. That is so only for
    /// projects in a directory, which is where Cargo leaves what it installs.
    fn link_outdated(&self, built: &[(&Path, &Artifact)], plans: &Plans) -> anyhow::Result<bool> {
        let mut is_any = false;
        for (path, artifact) in built.iter().filter(|(path, _)| path.exists()) {
            let plan = self.plan_of(plans, artifact)?;
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
        if self.flags.has(&["--path", "--target-dir", "--list"])
            || self.config.names_target_directory()
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
        let flag = self.flags.values("--root").pop().map(PathBuf::from);
        let root = match flag {
            Some(root) => Some(root),
            None => self.config.install_root()?,
        };
        std::path::absolute(root.unwrap_or_default()).context("cannot find the current directory")
    }
}
