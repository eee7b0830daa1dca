//! Makes the prebuilt files of one target.

use super::{File, Kind, LeftOut, MEMORY_FUNCTIONS, PrebuiltError, REHEAP, of_objects};
use crate::cache::{Cache, CacheError, sha256, write_by_rename};
use crate::catalogue::{Allocator, CATALOGUE, Recipe};
use crate::graft;
use crate::link_kind::LinkKind;
use crate::memory::{self, MemoryFunctions};
use crate::own_library::{NOTHING, OwnLibrary};
use crate::preload::{self, PreloadError};
use crate::program::Program;
use crate::target::{Libc, Target};
use crate::upstream::{self, BuildError, Toolchain};
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

/// Which allocators of the catalogue are built.
#[derive(Debug, Clone, Copy)]
pub enum Selection {
    /// Each that has a recipe.
    All,
    /// Those of these names. The manifest says that the others are left out.
    Only(&'static [&'static str]),
}

impl Selection {
    fn has(self, allocator: &Allocator) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(&allocator.name),
        }
    }
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

/// What the manifest lists ([`super::write`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Produced {
    /// The files.
    pub files: Vec<File>,
    /// What could not be built.
    pub left_out: Vec<LeftOut>,
}

impl Produced {
    /// Adds those of another target.
    pub fn extend(&mut self, other: Self) {
        self.files.extend(other.files);
        self.left_out.extend(other.left_out);
    }
}

/// Builds everything that reheap would build for a target, and puts it into a directory. What a compiler cannot build,
/// or `check` refuses, is left out: the other files are of use without it.
///
/// # Errors
/// When the cache or the directory cannot be read or written.
pub fn produce(
    target: &Target,
    toolchain: &Toolchain,
    cache: &Cache,
    directory: &Path,
    selection: Selection,
    own: &Own<'_>,
) -> Result<Produced, ProduceError> {
    let mut making = Making {
        target,
        toolchain,
        directory,
        produced: Produced::default(),
    };
    for allocator in CATALOGUE {
        match &allocator.build {
            Some(recipe) if selection.has(allocator) => {
                making.allocator(allocator, recipe, cache)?
            }
            Some(_) => making.leave_out(allocator),
            None => {}
        }
    }
    if target.libc() == Libc::Musl {
        let place = Kind::MemoryFunctions.path(target, MEMORY_FUNCTIONS);
        let result = making.memory_functions(cache);
        making.unless_left_out(place, result)?;
    }
    let of_this_crate = [
        probe::LIBRARY,
        watch::LIBRARY,
        only::LIBRARY,
        canary::LIBRARY,
        NOTHING,
    ];
    for library in of_this_crate.iter().chain(own.libraries) {
        let place = Kind::Own.path(target, &library.file_name());
        let result = making.own_library(library, cache);
        making.unless_left_out(place, result)?;
    }
    for program in own.programs {
        let place = Kind::Program.path(target, program.name);
        let result = making.program(program, cache);
        making.unless_left_out(place, result)?;
    }
    Ok(making.produced)
}

impl ProduceError {
    /// Whether this one file cannot be built, and others may.
    fn is_of_one_file(&self) -> bool {
        let of_build = |error: &BuildError| {
            !matches!(
                error,
                BuildError::Cache(_) | BuildError::Start { .. } | BuildError::Stock
            )
        };
        match self {
            Self::Build(error) | Self::Preload(PreloadError::Build(error)) => of_build(error),
            Self::Preload(PreloadError::Bind { .. } | PreloadError::Audit { .. }) => true,
            Self::Archive { .. } => true,
            Self::Preload(_) | Self::Cache(_) | Self::Prebuilt(_) => false,
        }
    }

    /// What a user can understand, in one line and without paths of this machine: what failed, and the first error of a
    /// compiler.
    fn reason(&self) -> String {
        let text = self.to_string();
        let what = text.lines().next().unwrap_or_default();
        let of_compiler = text
            .lines()
            .find_map(|line| line.find("error: ").map(|at| &line[at..]));
        let source = std::error::Error::source(self).map(ToString::to_string);
        match of_compiler.map(str::to_owned).or(source) {
            Some(detail) => format!("{}: {detail}", what.trim_end_matches(':')),
            None => what.trim_end_matches(':').to_owned(),
        }
    }
}

struct Making<'a> {
    target: &'a Target,
    toolchain: &'a Toolchain,
    directory: &'a Path,
    produced: Produced,
}

impl Making<'_> {
    /// Notes a file that cannot be built, and goes on.
    fn unless_left_out(
        &mut self,
        path: String,
        result: Result<(), ProduceError>,
    ) -> Result<(), ProduceError> {
        match result {
            Err(error) if error.is_of_one_file() => {
                let reason = error.reason();
                self.produced.left_out.push(LeftOut { path, reason });
                Ok(())
            }
            result => result,
        }
    }

    /// Notes the files of an allocator that nobody asked for.
    fn leave_out(&mut self, allocator: &'static Allocator) {
        let mut paths = vec![Kind::Preload.path(self.target, &preload::file_name(allocator))];
        if self.target.libc() == Libc::Musl
            && let Some((name, _)) = of_objects(allocator, self.target)
        {
            paths.push(Kind::Static.path(self.target, &name));
        }
        if graft::exists(allocator, self.target) {
            paths.push(Kind::Graft.path(self.target, &preload::file_name(allocator)));
        }
        let reason = "this package has only some of the allocators".to_owned();
        let left_out = paths.into_iter().map(|path| LeftOut {
            path,
            reason: reason.clone(),
        });
        self.produced.left_out.extend(left_out);
    }

    /// The allocator's preload; for musl, also its objects for a derived libc, and its library for finished executables.
    fn allocator(
        &mut self,
        allocator: &'static Allocator,
        recipe: &Recipe,
        cache: &Cache,
    ) -> Result<(), ProduceError> {
        let place = Kind::Preload.path(self.target, &preload::file_name(allocator));
        let result = self.preload(allocator, recipe, cache);
        self.unless_left_out(place, result)?;
        if self.target.libc() == Libc::Musl
            && let Some((name, key)) = of_objects(allocator, self.target)
        {
            let place = Kind::Static.path(self.target, &name);
            let result = self.objects(allocator, recipe, &name, key, cache);
            self.unless_left_out(place, result)?;
        }
        if graft::exists(allocator, self.target) {
            let place = Kind::Graft.path(self.target, &preload::file_name(allocator));
            let result = self.graft(allocator, recipe, cache);
            self.unless_left_out(place, result)?;
        }
        Ok(())
    }

    fn preload(
        &mut self,
        allocator: &'static Allocator,
        recipe: &Recipe,
        cache: &Cache,
    ) -> Result<(), ProduceError> {
        let library = preload::build(allocator, self.target, self.toolchain, cache)?;
        let key = preload::key(allocator, self.target);
        self.library(Kind::Preload, allocator, recipe, key, &library)
    }

    fn graft(
        &mut self,
        allocator: &'static Allocator,
        recipe: &Recipe,
        cache: &Cache,
    ) -> Result<(), ProduceError> {
        let library = graft::build(allocator, self.target, self.toolchain, cache)?;
        let key = graft::key(allocator, self.target);
        self.library(Kind::Graft, allocator, recipe, key, &library)
    }

    fn library(
        &mut self,
        kind: Kind,
        allocator: &Allocator,
        recipe: &Recipe,
        key: String,
        library: &Path,
    ) -> Result<(), ProduceError> {
        let bytes = fs::read(library).map_err(CacheError::new("read", library))?;
        self.add(kind, &preload::file_name(allocator), key, &bytes)?;
        self.last_has(allocator, recipe);
        Ok(())
    }

    fn objects(
        &mut self,
        allocator: &'static Allocator,
        recipe: &Recipe,
        name: &str,
        key: String,
        cache: &Cache,
    ) -> Result<(), ProduceError> {
        let kind = LinkKind::Executable;
        let built = upstream::build(allocator, self.target, kind, self.toolchain, cache)?;
        let bytes = pack(name, &built.packed()?)?;
        self.add(Kind::Static, name, key, &bytes)?;
        self.last_has(allocator, recipe);
        Ok(())
    }

    /// Says of the last file what allocator it has.
    fn last_has(&mut self, allocator: &Allocator, recipe: &Recipe) {
        let Some(file) = self.produced.files.last_mut() else {
            return;
        };
        file.allocator = Some(allocator.name.to_owned());
        file.version = Some(allocator.version.to_owned());
        file.options = presets(allocator);
        file.origin = upstream::origin_with_checksum(recipe);
        if recipe.needs_cxx
            && let Ok(cxx) = &self.toolchain.cxx
        {
            file.compiler = format!("{}, {}", file.compiler, cxx.identity);
        }
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
        self.add(Kind::Own, &library.file_name(), library.key(), &bytes)
    }

    fn program(&mut self, program: &Program, cache: &Cache) -> Result<(), ProduceError> {
        let path = program.build(self.target, self.toolchain, cache)?;
        let bytes = fs::read(&path).map_err(CacheError::new("read", &path))?;
        let key = program.key(self.target);
        self.add(Kind::Program, program.name, key, &bytes)
    }

    /// Puts a file into the directory and into the manifest.
    fn add(
        &mut self,
        kind: Kind,
        file_name: &str,
        key: String,
        bytes: &[u8],
    ) -> Result<(), ProduceError> {
        let path = kind.path(self.target, file_name);
        let place = self.directory.join(&path);
        let parent = place.parent().unwrap_or(self.directory);
        fs::create_dir_all(parent).map_err(CacheError::new("make the directory", parent))?;
        let mode = match kind {
            Kind::Preload | Kind::Graft | Kind::Own | Kind::Program => 0o755,
            Kind::Static | Kind::MemoryFunctions => 0o644,
        };
        write_by_rename(&place, bytes, mode)?;
        self.produced.files.push(File {
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
        Ok(())
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
