//! Images and containers, by buildah and podman, in a storage of their own that goes with the test.

use super::TestDist;
use super::outcome::{self, Outcome};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// crun refuses machines with both versions of cgroups; without limits of its own, runc asks for more than is allowed.
const RUN: &str = "--runtime runc run --rm --network=none --pull=never --ulimit=nofile=1024:1024 \
    --ulimit=nproc=1000:1000";

/// Where images are kept.
pub(super) struct Storage {
    directory: PathBuf,
    /// podman allows a path of 50 bytes.
    run: TempDir,
}

impl Storage {
    pub(super) fn new(test: &TestDist<'_>) -> Result<Storage> {
        let directory = test.new_directory("containers-")?;
        let run = TempDir::new().context("cannot make a temporary directory")?;
        Ok(Storage { directory, run })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .arg("--root")
            .arg(&self.directory)
            .arg("--runroot")
            .arg(self.run.path())
            // Works on every file system, and in a container.
            .args(["--storage-driver", "vfs"]);
        command
    }

    /// Makes an image from the archive of a root.
    pub(super) fn import(&self, archive: &Path, image: &str) -> Result<()> {
        let mut podman = self.command("podman");
        podman.args(["import", "--quiet"]).arg(archive).arg(image);
        outcome::succeed(&mut podman)?;
        Ok(())
    }

    /// Builds an image from a Dockerfile whose base is an argument.
    pub(super) fn build(
        &self,
        dockerfile: &Path,
        context: &Path,
        base: &str,
        image: &str,
    ) -> Result<()> {
        let mut buildah = self.command("buildah");
        buildah
            .args(["bud", "--isolation", "chroot", "--pull-never", "--file"])
            .arg(dockerfile)
            .args(["--build-arg", &format!("BASE={base}"), "--tag", image])
            .arg(context);
        outcome::succeed(&mut buildah)?;
        Ok(())
    }

    pub(super) fn run(&self, image: &str, words: &[&str]) -> Result<Outcome> {
        let mut podman = self.command("podman");
        podman.args(RUN.split(' ')).arg(image).args(words);
        outcome::of(&mut podman)
    }
}
