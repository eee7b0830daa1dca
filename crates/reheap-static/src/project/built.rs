//! The programs among what Cargo built.

use super::messages::{Artifact, MadeFor};
use std::path::PathBuf;

/// A program that Cargo built.
pub struct Built {
    pub(super) name: String,
    /// Where the program is.
    pub path: PathBuf,
    /// The ID of the program's package.
    pub(super) package: String,
    /// The directory of the program's package.
    pub(super) directory: PathBuf,
}

impl Built {
    /// The programs for a target.
    pub(super) fn all(artifacts: Vec<Artifact>, triple: &str) -> Vec<Self> {
        let built = artifacts.into_iter();
        built
            .filter_map(|artifact| Self::of(artifact, triple))
            .collect()
    }

    fn of(artifact: Artifact, triple: &str) -> Option<Self> {
        let path = artifact.executable.clone()?;
        (artifact.made_for(&path, triple) == MadeFor::Target).then(|| Self {
            directory: artifact.directory().to_owned(),
            name: artifact.target.name,
            path,
            package: artifact.package_id,
        })
    }
}
