//! Prebuilt files: what reheap would build here, built elsewhere and installed beside it.
//!
//! A machine without a compiler gets its allocators from them. `make dist` makes them ([`produce`]), and a manifest says
//! of each where it comes from and what its bytes are:
//!
//! ```text
//! manifest.json
//! preloads/<target>/lib<allocator>-<version>.so
//! grafts/<target>/lib<allocator>-<version>.so      for finished executables
//! own/<target>/lib<name>.so                        libraries of reheap's own
//! static/<target>/<allocator>.a                    upstream's objects and the glue, for a derived libc
//! static/<target>/memory-functions.a
//! programs/<target>/<name>
//! ```
//!
//! A file is used only if it was made of the same sources with the same flags as one that would be built here: its key
//! says so. And a file that is not as the manifest says is an error. To build it instead would hide that somebody changed
//! it, and would fail on the machines that these files are for.
//!
//! What was read and compared is then loaded by its path. So nobody else may be able to replace it in between
//! ([`crate::trust`]), and it must be in the directory itself: behind a link it would be where nobody looked.

mod produce;

use crate::built::BuiltAllocator;
use crate::cache::{CacheError, sha256, write_by_rename};
use crate::catalogue::Allocator;
use crate::graft;
use crate::link_kind::LinkKind;
use crate::memory::{self, BuiltMemoryFunctions, MemoryFunctions};
use crate::own_library::OwnLibrary;
use crate::preload;
use crate::program::Program;
use crate::target::Target;
use crate::trust::{Distrusted, Trust};
use crate::upstream;
pub use crate::verified::Found;
use reheap_elf::Architecture;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

pub use produce::{Own, ProduceError, Produced, Selection, produce};

/// The name of the manifest.
pub const MANIFEST: &str = "manifest.json";
/// The version of its format.
const VERSION: u64 = 1;
const REHEAP: &str = env!("CARGO_PKG_VERSION");
const MEMORY_FUNCTIONS: &str = "memory-functions.a";

/// What a directory of prebuilt files says about them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub version: u64,
    /// The version of reheap that uses them.
    pub reheap: String,
    /// The files, by path.
    pub files: Vec<File>,
    /// What could not be built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// What is missing among the prebuilt files, because it could not be built. A machine with a compiler may build it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeftOut {
    /// Where it would be in the directory.
    pub path: String,
    /// The end of what the build said.
    pub reason: String,
}

/// A prebuilt file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct File {
    /// Where it is in the directory.
    pub path: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
    /// What it is.
    pub kind: Kind,
    /// The triple of the target that it is for.
    pub target: String,
    /// The allocator in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocator: Option<String>,
    /// The allocator's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The options that reheap presets for the allocator.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// What it was made of.
    pub origin: String,
    /// What it was made with.
    pub compiler: String,
    /// A hash of everything that went into it, except the compiler.
    pub key: String,
}

/// What a prebuilt file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A shared library with an allocator.
    Preload,
    /// A library with an allocator that goes into finished executables.
    Graft,
    /// A library of reheap's own.
    Own,
    /// The objects of an allocator, for a derived libc.
    Static,
    /// The memory functions, for a derived libc.
    MemoryFunctions,
    /// A program of reheap's own.
    Program,
}

impl Kind {
    fn directory(self) -> &'static str {
        match self {
            Self::Preload => "preloads",
            Self::Graft => "grafts",
            Self::Own => "own",
            Self::Static | Self::MemoryFunctions => "static",
            Self::Program => "programs",
        }
    }

    /// The path of a file of this kind, from the directory of the prebuilt files.
    fn path(self, target: &Target, file_name: &str) -> String {
        format!("{}/{target}/{file_name}", self.directory())
    }
}

/// Why prebuilt files are not used.
#[derive(Debug, thiserror::Error)]
pub enum PrebuiltError {
    /// The manifest is unusable, and so are all files.
    #[error("cannot use the prebuilt files of `{}`: {reason}", .path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        reason: ManifestFault,
    },
    /// A file is not what the manifest says.
    #[error("cannot use the prebuilt file `{}`: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: FileFault,
    },
    /// Files cannot be read back or written.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// What is wrong with a manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestFault {
    /// It is not there.
    #[error("there is no such file")]
    Missing,
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// It is not JSON, cut off, or lacks something.
    #[error("it is damaged ({0})")]
    Damaged(serde_json::Error),
    /// Another reheap wrote it.
    #[error("it has version {found}, and this reheap reads version {VERSION}")]
    OtherVersion {
        /// Its version.
        found: u64,
    },
    /// Somebody else could replace it.
    #[error("{0}")]
    Distrusted(Distrusted),
    /// It lists a file that is not in its directory.
    #[error("it names `{0}`, which is not a path in its directory")]
    Outside(String),
    /// The files belong to another reheap.
    #[error("they belong to reheap {found}, and this is reheap {REHEAP}")]
    OtherReheap {
        /// The version that they belong to.
        found: String,
    },
    /// All of them are for other processors.
    #[error("they are for {}, and this machine is {machine}", .found.join(" and "))]
    OtherMachine {
        /// The processors that there are files for.
        found: Vec<String>,
        /// The machine's.
        machine: Architecture,
    },
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum FileFault {
    /// It is not there.
    #[error("it is missing, and `{MANIFEST}` lists it")]
    Missing,
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// Somebody else could replace it.
    #[error("{0}")]
    Distrusted(Distrusted),
    /// It is in another directory.
    #[error("a link leads to `{}`, outside of the directory of the prebuilt files", .0.display())]
    Outside(PathBuf),
    /// It has another size.
    #[error("it has {found} bytes, and `{MANIFEST}` says {expected}")]
    Size {
        /// The size of the file.
        found: u64,
        /// The size by the manifest.
        expected: u64,
    },
    /// It has other contents.
    #[error("somebody changed it: its SHA-256 is {found}, and `{MANIFEST}` says {expected}")]
    Changed {
        /// The hash of the file.
        found: String,
        /// The hash by the manifest.
        expected: String,
    },
    /// It is for another processor.
    #[error("it is not for {0}")]
    OtherProcessor(Architecture),
}

impl PrebuiltError {
    /// Who could replace what, if that is why the files are refused.
    pub fn distrust(&self) -> Option<&Distrusted> {
        match self {
            Self::Manifest {
                reason: ManifestFault::Distrusted(distrusted),
                ..
            }
            | Self::File {
                reason: FileFault::Distrusted(distrusted),
                ..
            } => Some(distrusted),
            Self::Cache(error) => error.distrust(),
            Self::Manifest { .. } | Self::File { .. } => None,
        }
    }
}

/// A directory of prebuilt files.
#[derive(Debug, Clone)]
pub struct Prebuilt {
    directory: PathBuf,
    trust: Trust,
    files: BTreeMap<String, File>,
    left_out: BTreeMap<String, String>,
}

impl Prebuilt {
    /// Reads the manifest of a directory.
    ///
    /// # Errors
    /// When there is none, or when it belongs to another version of reheap.
    pub fn open(directory: &Path) -> Result<Self, PrebuiltError> {
        Self::read(directory, Trust::of_this_process().clone())
    }

    /// Reads the manifest of the directory that was installed with this program.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_installed(directory: &Path) -> Result<Self, PrebuiltError> {
        Self::read(directory, Trust::of_installed_files())
    }

    fn read(directory: &Path, trust: Trust) -> Result<Self, PrebuiltError> {
        let path = directory.join(MANIFEST);
        let manifest = fs::read(&path)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ManifestFault::Missing,
                _ => ManifestFault::Unreadable(error),
            })
            .and_then(|bytes| {
                let checked: Result<Vec<()>, _> = [directory, &path]
                    .map(|file| trust.check_one(file))
                    .into_iter()
                    .collect();
                checked.map_err(ManifestFault::Distrusted)?;
                Manifest::parse(&bytes)
            })
            .map_err(|reason| PrebuiltError::Manifest { path, reason })?;
        let files = manifest.files.into_iter();
        let left_out = manifest.left_out.into_iter();
        Ok(Self {
            directory: directory.to_owned(),
            trust,
            files: files.map(|file| (file.path.clone(), file)).collect(),
            left_out: left_out.map(|file| (file.path, file.reason)).collect(),
        })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its files.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.values()
    }

    /// Compares every file with the manifest, as it would be before its use.
    ///
    /// # Errors
    /// When a file is not as the manifest says.
    pub fn check_all(&self) -> Result<(), PrebuiltError> {
        for file in self.files() {
            let path = self.directory.join(&file.path);
            let checked = self.check_place(&path);
            if let Err(reason) = checked.and_then(|()| read_listed(&path, file).map(drop)) {
                return Err(PrebuiltError::File { path, reason });
            }
        }
        Ok(())
    }

    /// The file of that name, if it was made of what the key says. It is read and compared with the manifest each time.
    ///
    /// # Errors
    /// When the file is not as the manifest says.
    pub fn find(
        &self,
        kind: Kind,
        target: &Target,
        file_name: &str,
        key: &str,
    ) -> Result<Option<Found>, PrebuiltError> {
        self.check(target)?;
        let Some(file) = self.listed(kind, target, file_name, key) else {
            return Ok(None);
        };
        let path = self.directory.join(&file.path);
        let checked = self.check_place(&path);
        match checked.and_then(|()| read(&path, file, target.arch())) {
            Ok(bytes) => Ok(Some(Found {
                path,
                sha256: file.sha256.clone(),
                bytes,
            })),
            Err(reason) => Err(PrebuiltError::File { path, reason }),
        }
    }

    /// Refuses a file that is not in the directory, or that somebody else could replace.
    fn check_place(&self, path: &Path) -> Result<(), FileFault> {
        let below = path
            .ancestors()
            .take_while(|directory| *directory != self.directory);
        for file in below {
            let checked = self.trust.check_one(file);
            checked.map_err(FileFault::Distrusted)?;
        }
        // What is missing is said when it is read.
        if let (Ok(real), Ok(directory)) = (path.canonicalize(), self.directory.canonicalize())
            && !real.starts_with(directory)
        {
            return Err(FileFault::Outside(real));
        }
        Ok(())
    }

    /// Refuses files of which none is for the processor of this machine, if that is what is looked for: whoever named
    /// them expects that they are used. Files for other processors serve whoever looks for those.
    ///
    /// # Errors
    /// When all files are for other processors.
    pub fn check(&self, target: &Target) -> Result<(), PrebuiltError> {
        let machine = target.arch();
        let of_triple = |file: &File| file.target.split('-').next().unwrap_or_default().to_owned();
        let found: BTreeSet<String> = self.files.values().map(of_triple).collect();
        let is_here = machine.name() == std::env::consts::ARCH;
        if !is_here || found.is_empty() || found.contains(machine.name()) {
            return Ok(());
        }
        let found = found.into_iter().collect();
        Err(PrebuiltError::Manifest {
            path: self.directory.join(MANIFEST),
            reason: ManifestFault::OtherMachine { found, machine },
        })
    }

    fn listed(&self, kind: Kind, target: &Target, file_name: &str, key: &str) -> Option<&File> {
        let file = self.files.get(&kind.path(target, file_name))?;
        (file.kind == kind && file.key == key).then_some(file)
    }

    /// The preload of an allocator.
    ///
    /// # Errors
    /// Those of [`Prebuilt::find`].
    pub fn preload(
        &self,
        allocator: &Allocator,
        target: &Target,
    ) -> Result<Option<Found>, PrebuiltError> {
        let key = preload::key(allocator, target);
        self.find(Kind::Preload, target, &preload::file_name(allocator), &key)
    }

    /// Whether the manifest lists that preload. Nothing is read.
    pub fn lists_preload(&self, allocator: &Allocator, target: &Target) -> bool {
        let key = preload::key(allocator, target);
        let name = preload::file_name(allocator);
        self.listed(Kind::Preload, target, &name, &key).is_some()
    }

    /// The library with an allocator that goes into finished executables.
    ///
    /// # Errors
    /// Those of [`Prebuilt::find`].
    pub fn graft(
        &self,
        allocator: &Allocator,
        target: &Target,
    ) -> Result<Option<Found>, PrebuiltError> {
        let key = graft::key(allocator, target);
        self.find(Kind::Graft, target, &preload::file_name(allocator), &key)
    }

    /// Why that preload is not among the files, if it could not be built.
    pub fn preload_left_out(&self, allocator: &Allocator, target: &Target) -> Option<&str> {
        let path = Kind::Preload.path(target, &preload::file_name(allocator));
        self.left_out.get(&path).map(String::as_str)
    }

    /// Why the objects for static programs are not among the files, if they could not be built.
    pub fn allocator_left_out(&self, allocator: &Allocator, target: &Target) -> Option<&str> {
        let (name, _) = of_objects(allocator, target)?;
        let path = Kind::Static.path(target, &name);
        self.left_out.get(&path).map(String::as_str)
    }

    /// A library of reheap's own.
    ///
    /// # Errors
    /// Those of [`Prebuilt::find`].
    pub fn own_library(
        &self,
        library: &OwnLibrary,
        target: &Target,
    ) -> Result<Option<Found>, PrebuiltError> {
        self.find(Kind::Own, target, &library.file_name(), &library.key())
    }

    /// A program of reheap's own.
    ///
    /// # Errors
    /// Those of [`Prebuilt::find`].
    pub fn program(
        &self,
        program: &Program,
        target: &Target,
    ) -> Result<Option<Found>, PrebuiltError> {
        let key = program.key(target);
        self.find(Kind::Program, target, program.name, &key)
    }

    /// The objects of an allocator, for a derived libc.
    ///
    /// # Errors
    /// Those of [`Prebuilt::find`].
    pub fn allocator(
        &self,
        allocator: &'static Allocator,
        target: &Target,
    ) -> Result<Option<BuiltAllocator>, PrebuiltError> {
        let Some((name, key)) = of_objects(allocator, target) else {
            return Ok(None);
        };
        let found = self.find(Kind::Static, target, &name, &key)?;
        Ok(
            found
                .and_then(|found| BuiltAllocator::prebuilt(allocator, LinkKind::Executable, found)),
        )
    }

    /// Whether the manifest lists these objects. Nothing is read.
    pub fn lists_allocator(&self, allocator: &Allocator, target: &Target) -> bool {
        of_objects(allocator, target)
            .is_some_and(|(name, key)| self.listed(Kind::Static, target, &name, &key).is_some())
    }

    /// The memory functions, for a derived libc. The inner `None` is that of [`memory::build`]: the libc keeps its own.
    ///
    /// # Errors
    /// Those of [`Prebuilt::find`].
    pub fn memory_functions(
        &self,
        choice: MemoryFunctions,
        target: &Target,
    ) -> Result<Option<Option<BuiltMemoryFunctions>>, PrebuiltError> {
        let Some(key) = memory::key(choice, target.arch()) else {
            return Ok(Some(None));
        };
        let found = self.find(Kind::MemoryFunctions, target, MEMORY_FUNCTIONS, &key)?;
        Ok(found.map(|found| Some(BuiltMemoryFunctions::prebuilt(found, target.arch()))))
    }
}

/// The file name and the key of an allocator's objects.
fn of_objects(allocator: &Allocator, target: &Target) -> Option<(String, String)> {
    let recipe = allocator.build.as_ref()?;
    let key = upstream::ingredients_for(recipe, LinkKind::Executable, target);
    Some((format!("{}.a", allocator.plain_name()), key))
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// When it is damaged, of another version, or names files outside of its directory.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestFault> {
        // The version comes first: the rest of another version may look different.
        #[derive(Deserialize)]
        struct Format {
            version: u64,
        }
        let Format { version } = serde_json::from_slice(bytes).map_err(ManifestFault::Damaged)?;
        if version != VERSION {
            return Err(ManifestFault::OtherVersion { found: version });
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(ManifestFault::Damaged)?;
        if manifest.reheap != REHEAP {
            let found = manifest.reheap;
            return Err(ManifestFault::OtherReheap { found });
        }
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let is_outside = |file: &&File| {
            file.path.is_empty() || !Path::new(&file.path).components().all(is_plain)
        };
        match manifest.files.iter().find(is_outside) {
            Some(file) => Err(ManifestFault::Outside(file.path.clone())),
            None => Ok(manifest),
        }
    }
}

/// The bytes of a file that is as the manifest says.
fn read(path: &Path, file: &File, architecture: Architecture) -> Result<Vec<u8>, FileFault> {
    let bytes = read_listed(path, file)?;
    if !fits(&bytes, file.kind, architecture) {
        return Err(FileFault::OtherProcessor(architecture));
    }
    Ok(bytes)
}

/// The bytes of a file that has the size and the hash of the manifest.
fn read_listed(path: &Path, file: &File) -> Result<Vec<u8>, FileFault> {
    let bytes = fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FileFault::Missing,
        _ => FileFault::Unreadable(error),
    })?;
    let size = bytes.len() as u64;
    if size != file.size {
        return Err(FileFault::Size {
            found: size,
            expected: file.size,
        });
    }
    let found = sha256(&bytes);
    if found != file.sha256 {
        let expected = file.sha256.clone();
        return Err(FileFault::Changed { found, expected });
    }
    Ok(bytes)
}

/// Whether a library or a program is for the processor. An archive is looked at when a libc is derived with it.
fn fits(bytes: &[u8], kind: Kind, architecture: Architecture) -> bool {
    match kind {
        Kind::Preload | Kind::Graft | Kind::Own | Kind::Program => {
            // `e_machine` of the ELF header
            let machine = bytes.get(18..20).map(|pair| [pair[0], pair[1]]);
            machine.map(u16::from_le_bytes) == Some(architecture.elf_machine())
        }
        Kind::Static | Kind::MemoryFunctions => true,
    }
}

/// Writes the manifest of a directory.
///
/// # Errors
/// When the file cannot be written.
pub fn write(directory: &Path, produced: Produced) -> Result<(), PrebuiltError> {
    let Produced {
        mut files,
        mut left_out,
    } = produced;
    files.sort();
    left_out.sort();
    let manifest = Manifest {
        version: VERSION,
        reheap: REHEAP.to_owned(),
        files,
        left_out,
    };
    let mut text = serde_json::to_vec_pretty(&manifest).expect("strings and numbers are JSON");
    text.push(b'\n');
    Ok(write_by_rename(&directory.join(MANIFEST), &text, 0o644)?)
}

#[cfg(test)]
mod tests;
