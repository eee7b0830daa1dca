//! An allocator in a file that a user names: a build of their own, or a library of the system.
//!
//! All code takes a row of the catalogue as `&'static Allocator`, and asks it for a name, a version and how it behaves.
//! So such a file becomes a row, which is never freed: a command line names a few. Its version is the SHA-256 of the
//! file, because two builds under one path are two allocators. Rejected: a type for either kind of allocator. Sixty
//! functions would take it to do what they do with a row, and five of them care ([`Allocator::file`]).
//!
//! A shared library is preloaded as it is, from a copy in the cache: the file may change while a benchmark runs. The
//! objects of an archive go into a derived libc, as those of a package do, with the same glue for the rest of the
//! family ([`allocator_archive`]). Neither can do what the other is for.

use super::recipes::{HANDLERS, HANDLERS_REDIRECTS, NOTHING_MORE};
use super::{AddressSpace, Allocator, CATALOGUE, Code, Glue, Recipe};
use crate::cache::sha256;
use crate::complaints::Complaints;
use crate::link_kind::LinkKind;
use crate::target::{Libc, Target};
use reheap_elf::allocator_archive::{self, AllocatorArchive, AllocatorArchiveError};
use reheap_elf::archive::Member;
use reheap_elf::error::ElfError;
use reheap_elf::identify::{self, Identity, Kind, LibcName};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a library must have: every function that returns a block or takes one. Otherwise a block of the libc's allocator
/// gets to this one's `free`, and ends the program. `valloc` and `pvalloc` are not among them, because they are obsolete
/// and many allocators lack them, nor is `reallocarray`, which each libc has over `realloc`.
const LIBRARY_MUST_HAVE: [&str; 8] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "malloc_usable_size",
];

/// A file with an allocator.
#[derive(Debug)]
pub struct AllocatorFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its name. What `LD_PRELOAD` or a list of variants cannot hold is replaced.
    pub name: String,
    /// Its hash.
    pub sha256: String,
    /// What it can be used for.
    pub form: Form,
    /// The processor, as `uname -m` spells it.
    pub architecture: String,
}

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A shared library, for dynamic programs of this libc; of any, if it needs none.
    Library(Option<Libc>),
    /// An archive of objects, for static executables.
    Archive,
}

/// Why a file is no allocator.
#[derive(Debug, thiserror::Error)]
#[error("cannot use `{}` as an allocator: {reason}", .path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: Unusable,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// It is a directory, a pipe or a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// It is not ELF.
    #[error("{0}")]
    Foreign(ElfError),
    /// It is ELF of another kind.
    #[error("it is neither a shared library nor an archive, but {}", match .0 {
        Kind::Object => "a single object",
        _ => "a program",
    })]
    OtherKind(Kind),
    /// Part of the family would come from the libc.
    #[error("it does not export {}, so a program would get blocks of two allocators", names(.0))]
    Incomplete(Vec<&'static str>),
    /// An archive without one.
    #[error(transparent)]
    Archive(AllocatorArchiveError),
    /// Somebody wrote to it.
    #[error("it changed while reheap used it")]
    Changed,
}

/// Why a file does not fit a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// It is for another processor.
    #[error("it is for {found}, and the program is for {expected}")]
    Architecture {
        /// Its own.
        found: String,
        /// The target's.
        expected: String,
    },
    /// A library of one libc cannot run with the other.
    #[error("it is linked with {found}, and the program with {expected}")]
    Libc {
        /// Its own.
        found: Libc,
        /// The target's.
        expected: Libc,
    },
    /// It is an archive.
    #[error("it is an archive, for static executables; a dynamic program needs a shared library")]
    Archive,
    /// It is a shared library.
    #[error(
        "it is a shared library, for dynamic programs; a static executable needs an archive of objects for musl"
    )]
    Library,
}

fn names(functions: &[&str]) -> String {
    let names: Vec<String> = functions.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// A row for a file, under the name that the user typed.
///
/// # Errors
/// When the file cannot be read, or has no allocator that reheap can use.
pub fn row(typed: &str, path: &Path) -> Result<&'static Allocator, FileError> {
    let unusable = |reason| FileError {
        path: path.to_owned(),
        reason,
    };
    let absolute = std::path::absolute(path).map_err(|e| unusable(Unusable::Unreadable(e)))?;
    let metadata = fs::metadata(&absolute).map_err(|e| unusable(Unusable::Unreadable(e)))?;
    if !metadata.is_file() {
        return Err(unusable(Unusable::NotAFile)); // a pipe or a device may have no end
    }
    let bytes = fs::read(&absolute).map_err(|e| unusable(Unusable::Unreadable(e)))?;
    let identity = identify::identify(&bytes[..]).map_err(|e| unusable(Unusable::Foreign(e)))?;
    let (form, binding) = match identity.kind {
        Kind::SharedLibrary => (library(&identity).map_err(unusable)?, Binding::default()),
        Kind::Archive => (Form::Archive, archive(&bytes).map_err(unusable)?),
        kind => return Err(unusable(Unusable::OtherKind(kind))),
    };
    let file = AllocatorFile {
        name: plain(path),
        path: absolute,
        sha256: sha256(&bytes),
        form,
        architecture: identity.architecture.clone(),
    };
    Ok(Box::leak(Box::new(Allocator {
        name: typed.to_owned().leak(),
        version: format!("sha256:{}", file.sha256).leak(),
        summary: "an allocator in a file",
        details: "",
        licence: "not known",
        hardening: "not known; `reheap attack` tries it",
        is_hardened: false,
        complaints: complaints(&identity),
        limits: &[],
        missing_on: &[],
        address_space: AddressSpace::NONE,
        tuning: &[],
        build: Some(binding.recipe(file)),
    })))
}

/// What a derived libc needs to know of an archive. A library needs nothing: it is loaded as it is.
#[derive(Default)]
struct Binding {
    entry_points: &'static [(&'static str, &'static str)],
    glue: &'static [Glue],
    redirects: &'static [(&'static str, &'static str)],
}

impl Binding {
    fn recipe(self, file: AllocatorFile) -> Recipe {
        Recipe {
            package: Code::File(Box::leak(Box::new(file))),
            needs_cxx: false,
            needs_make: false,
            compiler_flags: &[],
            entry_points: self.entry_points,
            glue: self.glue,
            malloc_conf: &[],
            redirects: self.redirects,
            interface: &[],
            executable: NOTHING_MORE,
            preload: NOTHING_MORE,
            graft: Err("a file of your own cannot go into a finished executable yet"),
            builds_slowly: false,
        }
    }
}

fn library(identity: &Identity) -> Result<Form, Unusable> {
    let is_missing = |name: &&str| !identity.exports.iter().any(|export| export == name);
    let missing: Vec<_> = LIBRARY_MUST_HAVE.into_iter().filter(is_missing).collect();
    if !missing.is_empty() {
        return Err(Unusable::Incomplete(missing));
    }
    Ok(Form::Library(match identity.libc.name {
        LibcName::Glibc => Some(Libc::Glibc),
        LibcName::Musl => Some(Libc::Musl),
        LibcName::Bionic | LibcName::None | LibcName::Unknown => None,
    }))
}

/// musl's pthread_atfork calls malloc. An allocator that registers its handlers while it gets ready would wait for
/// itself, so the glue keeps them, and counts the locks that they are about.
fn archive(bytes: &[u8]) -> Result<Binding, Unusable> {
    let AllocatorArchive {
        entry_points,
        needs,
        ..
    } = allocator_archive::read(bytes).map_err(Unusable::Archive)?;
    let entry_points: Vec<(&'static str, &'static str)> = entry_points
        .into_iter()
        .map(|(function, symbol)| (function, &*symbol.leak()))
        .collect();
    let has_handlers = needs.contains("pthread_atfork");
    Ok(Binding {
        entry_points: entry_points.leak(),
        glue: if has_handlers { &[HANDLERS] } else { &[] },
        redirects: if has_handlers {
            HANDLERS_REDIRECTS
        } else {
            &[]
        },
    })
}

/// The messages of the allocator that this one is a build of, if its code tells.
fn complaints(identity: &Identity) -> Complaints {
    let found = identity.allocators.iter().find_map(|found| {
        let mut rows = CATALOGUE.iter();
        rows.find(|row| row.name == found.name)
    });
    found.map_or(Complaints::NONE, |row| Complaints {
        messages: row.complaints.messages,
        variable: row.complaints.variable,
    })
}

/// The name of a file, with `_` for what has a meaning in `LD_PRELOAD`, in a list of variants or in a path.
fn plain(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    name.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

impl AllocatorFile {
    /// Why it cannot be used for a target, if it cannot.
    pub fn misfit(&self, target: &Target, kind: LinkKind) -> Option<Misfit> {
        let expected = target.arch().name();
        if self.architecture != expected {
            return Some(Misfit::Architecture {
                found: self.architecture.clone(),
                expected: expected.to_owned(),
            });
        }
        match (self.form, kind) {
            (Form::Archive, LinkKind::Preload) => Some(Misfit::Archive),
            (Form::Library(_), LinkKind::Executable) => Some(Misfit::Library),
            (Form::Library(Some(found)), LinkKind::Preload) if found != target.libc() => {
                let expected = target.libc();
                Some(Misfit::Libc { found, expected })
            }
            (Form::Library(_) | Form::Archive, _) => None,
        }
    }

    /// What is in it. It must be what it was when its row was made.
    ///
    /// # Errors
    /// When it cannot be read any more, or has changed.
    pub fn bytes(&self) -> Result<Vec<u8>, FileError> {
        let bytes = fs::read(&self.path).map_err(Unusable::Unreadable);
        let bytes = bytes.map_err(|reason| self.unusable(reason))?;
        if sha256(&bytes) != self.sha256 {
            return Err(self.unusable(Unusable::Changed));
        }
        Ok(bytes)
    }

    /// The objects of an archive that a program needs.
    ///
    /// # Errors
    /// Those of [`AllocatorFile::bytes`].
    pub(crate) fn objects(&self) -> Result<Vec<Member>, FileError> {
        let archive = allocator_archive::read(&self.bytes()?);
        let archive = archive.map_err(|error| self.unusable(Unusable::Archive(error)))?;
        Ok(archive.members)
    }

    fn unusable(&self, reason: Unusable) -> FileError {
        FileError {
            path: self.path.clone(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Architecture;

    fn file(form: Form) -> AllocatorFile {
        AllocatorFile {
            path: "/mine/file".into(),
            name: "file".to_owned(),
            sha256: String::new(),
            form,
            architecture: "x86_64".to_owned(),
        }
    }

    #[test]
    fn a_file_serves_only_what_it_was_made_for() {
        let target = |libc| Target::new(Architecture::X86_64, libc);
        let (glibc, musl) = (target(Libc::Glibc), target(Libc::Musl));
        let (preload, executable) = (LinkKind::Preload, LinkKind::Executable);

        let library = file(Form::Library(Some(Libc::Glibc)));
        assert_eq!(library.misfit(&glibc, preload), None);
        let (found, expected) = (Libc::Glibc, Libc::Musl);
        let other_libc = Some(Misfit::Libc { found, expected });
        assert_eq!(library.misfit(&musl, preload), other_libc);
        assert_eq!(library.misfit(&musl, executable), Some(Misfit::Library));

        let without_libc = file(Form::Library(None));
        assert_eq!(without_libc.misfit(&musl, preload), None);
        let archive = file(Form::Archive);
        assert_eq!(archive.misfit(&musl, executable), None);
        assert_eq!(archive.misfit(&glibc, preload), Some(Misfit::Archive));
        let other = archive.misfit(&Target::musl(Architecture::Aarch64), executable);
        let words = "it is for x86_64, and the program is for aarch64";
        assert_eq!(other.unwrap().to_string(), words);
    }

    #[test]
    fn a_name_has_nothing_that_separates_words_or_paths() {
        assert_eq!(plain(Path::new("./a b/lib,c:d $e.so.1")), "lib_c_d__e.so.1");
        assert_eq!(
            plain(Path::new("/x/libstdc++-like.so")),
            "libstdc++-like.so"
        );
    }
}
