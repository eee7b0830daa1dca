//! Derived libcs in the cache.

use crate::built::BuiltAllocator;
use crate::cache::{Cache, CacheError, hash, sha256};
use crate::catalogue::Allocator;
use crate::compiler::Search;
use crate::compiler::remembered::{self, Finding};
use crate::memory::{BuiltMemoryFunctions, MemoryFunctions};
use crate::tuning::{Tuning, presets};
use reheap_elf::Architecture;
use reheap_elf::derive::{self, DeriveError, DerivedLibc, OriginalLibc};
use reheap_elf::marker::{self, Marker};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A musl `libc.a` to derive from.
#[derive(Debug)]
pub struct Original {
    path: PathBuf,
    facts: Facts,
}

/// What the name of a derived libc in the cache depends on. It is remembered of each original, because every link asks
/// for it, and to hash the file and to recognise it is almost half of what a link adds to the compiler's time.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Facts {
    architecture: Architecture,
    version: String,
    sha256: String,
}

impl Finding for Facts {}

/// What reheap puts into a libc.
#[derive(Debug, Clone, Copy)]
pub struct Replacement<'a> {
    /// The allocator's row of the catalogue.
    pub allocator: &'a Allocator,
    /// The allocator, built for the libc's target.
    pub built: &'a BuiltAllocator,
    /// The allocator's options, to bake in.
    pub tuning: &'a Tuning,
    /// The memory functions. Without them the libc keeps its own.
    pub memory_functions: Option<&'a BuiltMemoryFunctions>,
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
        source: io::Error,
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
    /// Recognises a libc.a, or recalls what it is if the file is as it was.
    ///
    /// # Errors
    /// [`LibcError::Read`] when the file cannot be read, [`LibcError::Derive`] when it is not an unmodified musl libc.
    pub fn find(path: &Path, search: &Search) -> Result<Self, LibcError> {
        let real = fs::canonicalize(path).map_err(cannot_read(path))?;
        let facts = remembered::or_search(("original libc", &real), search, || {
            search.look_at(&real);
            read(path).map(|(_, facts)| facts)
        })?;
        Ok(Self {
            path: path.to_owned(),
            facts,
        })
    }

    /// What it was compiled for.
    pub fn architecture(&self) -> Architecture {
        self.facts.architecture
    }

    fn marker(&self, replacement: &Replacement<'_>) -> Marker {
        let Replacement {
            allocator, tuning, ..
        } = replacement;
        let memory_functions = match replacement.memory_functions {
            Some(_) => MemoryFunctions::Fast,
            None => MemoryFunctions::Stock,
        };
        let recipe = allocator
            .build
            .as_ref()
            .expect("a built allocator has a recipe");
        Marker {
            allocator: allocator.plain_name().to_owned(),
            allocator_version: allocator.version.to_owned(),
            package: recipe.origin(),
            tuning: tuning.as_given(),
            memory_functions: memory_functions
                .in_marker(self.architecture())
                .map(str::to_owned),
            libc: format!("musl {}", self.facts.version),
            original_sha256: self.facts.sha256.clone(),
            reheap: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// The derived libc, as bytes.
    ///
    /// # Errors
    /// [`LibcError::Read`] when the original cannot be read any more, [`LibcError::Derive`] when libc and allocator do
    /// not fit together, [`LibcError::Cache`] when the built objects cannot be read from the cache.
    pub fn derive(&self, replacement: &Replacement<'_>) -> Result<DerivedLibc, LibcError> {
        let (libc, facts) = read(&self.path)?;
        if facts != self.facts {
            let changed = io::Error::other("it changed while reheap read it");
            return Err(cannot_read(&self.path)(changed));
        }
        let memory_functions = replacement
            .memory_functions
            .map(BuiltMemoryFunctions::objects)
            .transpose()?;
        derive::derive_libc(
            &libc,
            &replacement.built.objects()?,
            memory_functions.as_ref(),
            &self.marker(replacement),
            &replacement.tuning.baked(replacement.allocator),
        )
        .map_err(|source| LibcError::Derive {
            path: self.path.clone(),
            source,
        })
    }

    /// The directory of the derived libc in the cache, which holds it as `libc.a`.
    ///
    /// # Errors
    /// Those of [`Original::derive`], and [`LibcError::Cache`] when the cache cannot be written.
    pub fn derived_directory(
        &self,
        replacement: &Replacement<'_>,
        cache: &Cache,
    ) -> Result<PathBuf, LibcError> {
        let text = serde_json::to_vec(&self.marker(replacement))
            .expect("a struct of strings is always JSON");
        let memory_functions = replacement.memory_functions.map(BuiltMemoryFunctions::key);
        let key = hash([
            replacement.built.key().as_bytes(),
            memory_functions.unwrap_or_default().as_bytes(),
            presets(replacement.allocator).as_bytes(),
            &text,
            &marker::LAYOUT.map(u32::to_le_bytes).concat(),
        ]);
        let name = format!(
            "{}-{}-{}",
            replacement.allocator.plain_name(),
            self.architecture(),
            &key[..16]
        );
        cache.entry("libc", &name, |unfinished| {
            let derived = self.derive(replacement)?;
            let path = unfinished.join("libc.a");
            fs::write(&path, derived.bytes).map_err(CacheError::new("write", &path))?;
            Ok(())
        })
    }
}

/// Reads a libc.a and recognises it.
fn read(path: &Path) -> Result<(OriginalLibc, Facts), LibcError> {
    let bytes = fs::read(path).map_err(cannot_read(path))?;
    let libc = derive::read_original(&bytes).map_err(|source| LibcError::Derive {
        path: path.to_owned(),
        source,
    })?;
    let facts = Facts {
        architecture: libc.architecture,
        version: libc.version.clone(),
        sha256: sha256(&bytes),
    };
    Ok((libc, facts))
}

fn cannot_read(path: &Path) -> impl FnOnce(io::Error) -> LibcError {
    |source| LibcError::Read {
        path: path.to_owned(),
        source,
    }
}
