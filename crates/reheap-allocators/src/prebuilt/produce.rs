//! Makes the prebuilt files of one target.

use super::{File, Kind, MEMORY_FUNCTIONS, PrebuiltError, REHEAP, of_objects};
use crate::cache::{Cache, CacheError, sha256, write_by_rename};
use crate::catalogue::{Allocator, CATALOGUE, Recipe};
use crate::memory::{self, MemoryFunctions};
use crate::own_library::{NOTHING, OwnLibrary};
use crate::preload::{self, PreloadError};
use crate::program::Program;
use crate::target::{Libc, Target};
use crate::upstream::{self, BuildError, LinkKind, Toolchain};
use crate::{canary, only, probe, watch};
use reheap_elf::archive::{self, Member};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What reheap compiles on a machine with a compiler, and what other crates have the source of.
#[derive(Debug, Clone, Copy, Default)]
pub struct Own<'a> {
    /// Libraries, beside those of this crate.
    pub libraries: &'a [OwnLibrary],
    /// Programs.
    pub programs: &'a [Program],
}

/// Why there are no prebuilt files.
#[derive(Debug, thiserror::Error)]
pub enum ProduceError {
    /// An allocator could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A library could not be built.
    #[error(transparent)]
    Preload(#[from] PreloadError),
    /// Files cannot be read or written.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Objects do not fit into an archive.
    #[error("cannot write the archive `{name}`: {reason}")]
    Archive {
        /// Its file name.
        name: String,
        /// What the writer said.
        reason: String,
    },
    /// The manifest cannot be written.
    #[error(transparent)]
    Prebuilt(#[from] PrebuiltError),
}

/// Builds everything that reheap would build for a target, and puts it into a directory. The files that it returns are
/// those of the manifest ([`super::write`]).
///
/// # Errors
/// When something cannot be built, or the directory cannot be written.
pub fn produce(
    target: &Target,
    toolchain: &Toolchain,
    cache: &Cache,
    directory: &Path,
    own: &Own<'_>,
) -> Result<Vec<File>, ProduceError> {
    let mut making = Making {
        target,
        toolchain,
        directory,
        files: Vec::new(),
    };
    for allocator in CATALOGUE {
        if let Some(recipe) = &allocator.build {
            making.allocator(allocator, recipe, cache)?;
        }
    }
    if target.libc() == Libc::Musl {
        making.memory_functions(cache)?;
    }
    let of_this_crate = [
        probe::LIBRARY,
        watch::LIBRARY,
        only::LIBRARY,
        canary::LIBRARY,
        NOTHING,
    ];
    for library in of_this_crate.iter().chain(own.libraries) {
        making.own_library(library, cache)?;
    }
    for program in own.programs {
        making.program(program, cache)?;
    }
    Ok(making.files)
}

struct Making<'a> {
    target: &'a Target,
    toolchain: &'a Toolchain,
    directory: &'a Path,
    files: Vec<File>,
}

impl Making<'_> {
    /// The allocator's preload; for musl, also its objects for a derived libc.
    fn allocator(
        &mut self,
        allocator: &'static Allocator,
        recipe: &Recipe,
        cache: &Cache,
    ) -> Result<(), ProduceError> {
        let (target, toolchain) = (self.target, self.toolchain);
        let library = preload::build(allocator, target, toolchain, cache)?;
        let library = fs::read(&library).map_err(CacheError::new("read", &library))?;
        let with_allocator = |file: &mut File| {
            file.allocator = Some(allocator.name.to_owned());
            file.version = Some(allocator.version.to_owned());
            file.options = presets(allocator);
            file.origin = upstream::origin_with_checksum(recipe);
            if recipe.needs_cxx
                && let Ok(cxx) = &toolchain.cxx
            {
                file.compiler = format!("{}, {}", file.compiler, cxx.identity);
            }
        };
        let key = preload::key(allocator, target);
        let name = preload::file_name(allocator);
        with_allocator(self.add(Kind::Preload, &name, key, &library)?);
        if target.libc() == Libc::Musl
            && let Some((name, key)) = of_objects(allocator)
        {
            let built = upstream::build(allocator, target, LinkKind::Executable, toolchain, cache)?;
            let bytes = pack(&name, &built.packed()?)?;
            with_allocator(self.add(Kind::Static, &name, key, &bytes)?);
        }
        Ok(())
    }

    fn memory_functions(&mut self, cache: &Cache) -> Result<(), ProduceError> {
        let choice = MemoryFunctions::Fast;
        let built = memory::build(choice, self.target, self.toolchain, cache)?;
        let key = memory::key(choice, self.target.arch());
        if let (Some(built), Some(key)) = (built, key) {
            let bytes = pack(MEMORY_FUNCTIONS, &built.members()?)?;
            self.add(Kind::MemoryFunctions, MEMORY_FUNCTIONS, key, &bytes)?;
        }
        Ok(())
    }

    fn own_library(&mut self, library: &OwnLibrary, cache: &Cache) -> Result<(), ProduceError> {
        let path = library.build(self.target, self.toolchain, cache)?;
        let bytes = fs::read(&path).map_err(CacheError::new("read", &path))?;
        self.add(Kind::Own, &library.file_name(), library.key(), &bytes)?;
        Ok(())
    }

    fn program(&mut self, program: &Program, cache: &Cache) -> Result<(), ProduceError> {
        let path = program.build(self.target, self.toolchain, cache)?;
        let bytes = fs::read(&path).map_err(CacheError::new("read", &path))?;
        let key = program.key(self.target);
        self.add(Kind::Program, program.name, key, &bytes)?;
        Ok(())
    }

    /// Puts a file into the directory and into the manifest.
    fn add(
        &mut self,
        kind: Kind,
        file_name: &str,
        key: String,
        bytes: &[u8],
    ) -> Result<&mut File, ProduceError> {
        let path = kind.path(self.target, file_name);
        let place = self.directory.join(&path);
        let parent = place.parent().unwrap_or(self.directory);
        fs::create_dir_all(parent).map_err(CacheError::new("make the directory", parent))?;
        let mode = match kind {
            Kind::Preload | Kind::Own | Kind::Program => 0o755,
            Kind::Static | Kind::MemoryFunctions => 0o644,
        };
        write_by_rename(&place, bytes, mode)?;
        self.files.push(File {
            path,
            sha256: sha256(bytes),
            size: bytes.len() as u64,
            kind,
            target: self.target.triple().to_owned(),
            allocator: None,
            version: None,
            options: BTreeMap::new(),
            origin: format!("reheap {REHEAP}"),
            compiler: self.toolchain.cc.identity.clone(),
            key,
        });
        Ok(self.files.last_mut().expect("one was just added"))
    }
}

fn presets(allocator: &Allocator) -> BTreeMap<String, String> {
    let rows = allocator.tuning.iter();
    let presets = rows.filter_map(|row| Some((row.key.to_owned(), row.preset?.to_owned())));
    presets.collect()
}

fn pack(name: &str, members: &[Member]) -> Result<Vec<u8>, ProduceError> {
    archive::write(members).map_err(|reason| ProduceError::Archive {
        name: name.to_owned(),
        reason,
    })
}
