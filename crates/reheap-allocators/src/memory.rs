//! The memory functions of `reheap-mem`, assembled for a target.
//!
//! The C compiler that compiles the glue assembles them too, so a derived libc needs no program that an allocator does
//! not need anyway. The cache holds them once for each target, not once for each allocator.

use crate::built::{Place, read_objects};
use crate::cache::{Cache, CacheError, hash};
use crate::target::Target;
use crate::upstream::{BuildError, Toolchain, Wrappers, run};
use crate::verified::Found;
use reheap_elf::Architecture;
use reheap_elf::archive::Member;
use reheap_elf::derive;
use reheap_mem::{PREFIX, Source};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Which memory functions a derived libc gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryFunctions {
    /// reheap's, on architectures that have some.
    #[default]
    Fast,
    /// The libc's own.
    Stock,
}

impl MemoryFunctions {
    /// What the marker of a libc for that architecture says.
    pub fn in_marker(self, architecture: Architecture) -> Option<&'static str> {
        match self {
            Self::Fast if !sources(architecture).is_empty() => Some("fast"),
            Self::Fast | Self::Stock => None,
        }
    }
}

/// Assembled memory functions.
#[derive(Debug, Clone)]
pub struct BuiltMemoryFunctions {
    place: Place,
    architecture: Architecture,
}

impl BuiltMemoryFunctions {
    /// Those that somebody else assembled.
    pub(crate) fn prebuilt(found: Found, architecture: Architecture) -> Self {
        Self {
            place: Place::Prebuilt(found),
            architecture,
        }
    }

    /// A name that changes with the text and with the compiler.
    pub fn key(&self) -> String {
        self.place.key()
    }

    /// The files, without the names that lead to them.
    pub(crate) fn members(&self) -> Result<Vec<Member>, CacheError> {
        match &self.place {
            Place::Cache(directory) => read_objects(directory),
            Place::Prebuilt(found) => found.members(),
        }
    }

    /// Their objects, to derive a libc with.
    ///
    /// # Errors
    /// When the objects cannot be read from the cache.
    pub fn objects(&self) -> Result<derive::MemoryFunctions, CacheError> {
        let mut names = BTreeMap::new();
        for function in sources(self.architecture).iter().flat_map(|s| s.functions) {
            let own = format!("{PREFIX}{}", function.name);
            let internal = function.internal_name.map(str::to_owned);
            names.extend(internal.map(|internal| (internal, own.clone())));
            names.insert(function.name.to_owned(), own);
        }
        Ok(derive::MemoryFunctions {
            objects: self.members()?,
            names,
        })
    }
}

fn sources(architecture: Architecture) -> &'static [Source] {
    match architecture {
        Architecture::X86_64 => &reheap_mem::SOURCES_X86_64,
        Architecture::Aarch64 => &reheap_mem::SOURCES_AARCH64,
        _ => &[],
    }
}

fn texts<'a>(architecture: Architecture) -> impl Iterator<Item = &'a [u8]> {
    let sources = sources(architecture).iter();
    sources.map(|source| source.text.as_bytes())
}

/// A hash of everything that goes into them, except the compiler. `None` where the libc keeps its own.
pub(crate) fn key(choice: MemoryFunctions, architecture: Architecture) -> Option<String> {
    choice.in_marker(architecture)?;
    Some(hash(texts(architecture)))
}

/// The functions, assembled for the target now or taken from the cache. `None` where the libc keeps its own.
///
/// # Errors
/// When the compiler cannot assemble them, or the cache cannot be written.
pub fn build(
    choice: MemoryFunctions,
    target: &Target,
    toolchain: &Toolchain,
    cache: &Cache,
) -> Result<Option<BuiltMemoryFunctions>, BuildError> {
    let architecture = target.arch();
    let sources = sources(architecture);
    if choice == MemoryFunctions::Stock || sources.is_empty() {
        return Ok(None);
    }
    let key = hash(texts(architecture).chain([toolchain.cc.identity.as_bytes()]));
    let name = format!("{}-{}", target.triple(), &key[..16]);
    let directory = cache.entry("memory-functions", &name, |unfinished| {
        let scratch = tempfile::tempdir_in(unfinished)
            .map_err(CacheError::new("make a directory in", unfinished))?;
        let wrappers = Wrappers::write(scratch.path(), &toolchain.cc, None)?;
        for source in sources {
            assemble(source, toolchain, &wrappers, unfinished)?;
        }
        Ok::<(), BuildError>(())
    })?;
    Ok(Some(BuiltMemoryFunctions {
        place: Place::Cache(directory),
        architecture,
    }))
}

/// Assembles one file, without debug information. Zig adds that unasked, and it would carry the path of the cache into
/// the linked file.
fn assemble(
    source: &Source,
    toolchain: &Toolchain,
    wrappers: &Wrappers,
    directory: &Path,
) -> Result<(), BuildError> {
    let path = directory.join(format!("{}.s", source.name));
    fs::write(&path, source.text).map_err(CacheError::new("write", &path))?;
    let mut cc = toolchain.command(&wrappers.cc);
    cc.current_dir(directory)
        .args(["-g0", "-c", &format!("{}.s", source.name)])
        .args(["-o", &format!("{}.o", source.name)]);
    run(&mut cc, || {
        format!("assemble the memory functions `{}.s`", source.name)
    })?;
    Ok(fs::remove_file(&path).map_err(CacheError::new("remove", &path))?)
}
