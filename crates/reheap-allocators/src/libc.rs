//! Derived libcs in the cache.

use crate::cache::{Cache, CacheError, hash, sha256};
use crate::catalogue::Allocator;
use crate::tuning::Tuning;
use crate::upstream::BuiltAllocator;
use reheap_elf::derive::{self, DeriveError, DerivedLibc, OriginalLibc};
use reheap_elf::marker::Marker;
use std::fs;
use std::path::{Path, PathBuf};

/// A musl `libc.a` to derive from.
#[derive(Debug)]
pub struct Original {
    path: PathBuf,
    libc: OriginalLibc,
    sha256: String,
}

/// Why there is no derived libc.
#[derive(Debug, thiserror::Error)]
pub enum LibcError {
    /// The original cannot be read.
    #[error("cannot read the libc `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The original or the allocator does not fit.
    #[error("cannot derive a libc from `{}`", .path.display())]
    Derive {
        /// The original.
        path: PathBuf,
        /// What does not fit.
        source: DeriveError,
    },
    /// The cache is not usable.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl Original {
    /// Reads a libc.a and recognises it.
    pub fn read(path: &Path) -> Result<Self, LibcError> {
        let bytes = fs::read(path).map_err(|source| LibcError::Read {
            path: path.to_owned(),
            source,
        })?;
        let libc = derive::read_original(&bytes).map_err(|source| LibcError::Derive {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            libc,
            sha256: sha256(&bytes),
        })
    }

    /// What it was compiled for.
    pub fn architecture(&self) -> reheap_elf::Architecture {
        self.libc.architecture
    }

    fn marker(&self, allocator: &Allocator, tuning: &Tuning) -> Marker {
        let recipe = allocator
            .build
            .as_ref()
            .expect("a built allocator has a recipe");
        Marker {
            allocator: allocator.name.to_owned(),
            allocator_version: allocator.version.to_owned(),
            package: recipe.origin(),
            tuning: tuning.as_given(),
            libc: format!("musl {}", self.libc.version),
            original_sha256: self.sha256.clone(),
            reheap: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The derived libc, as bytes.
    pub fn derive(
        &self,
        allocator: &Allocator,
        built: &BuiltAllocator,
        tuning: &Tuning,
    ) -> Result<DerivedLibc, LibcError> {
        let marker = self.marker(allocator, tuning);
        derive::derive_libc(
            &self.libc,
            &built.objects()?,
            &marker,
            &tuning.baked(allocator),
        )
        .map_err(|source| LibcError::Derive {
            path: self.path.clone(),
            source,
        })
    }

    /// The folder of the derived libc in the cache, which holds it as `libc.a`.
    pub fn derived_folder(
        &self,
        allocator: &Allocator,
        built: &BuiltAllocator,
        tuning: &Tuning,
        cache: &Cache,
    ) -> Result<PathBuf, LibcError> {
        let marker = serde_json::to_vec(&self.marker(allocator, tuning))
            .expect("a struct of strings is always JSON");
        let key = hash([built.key().as_bytes(), &marker]);
        let name = format!("{}-{}-{}", allocator.name, self.architecture(), &key[..16]);
        cache.entry("libc", &name, |unfinished| {
            let derived = self.derive(allocator, built, tuning)?;
            let path = unfinished.join("libc.a");
            fs::write(&path, derived.bytes).map_err(CacheError::new("write", &path))?;
            Ok(())
        })
    }
}
