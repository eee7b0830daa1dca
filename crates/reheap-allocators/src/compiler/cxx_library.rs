//! The C++ library of a compiler, for programs that another linker links.
//!
//! Rust links the C++ code of a crate by `-lstdc++` or `-lc++`, with a linker that knows nothing of the C++ compiler. The
//! `cc` of a glibc system would find the library of that system, which needs glibc. So reheap gives the linker a
//! directory. The unwinder is not in it: Rust's is in every program, and that of Zig's library would be a second one.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::cache::{Cache, CacheError, hash};
use reheap_elf::archive::{self, ArchiveError};

use super::{Compiler, Linking, Search, complaint};

/// The libraries that programs name for C++. The last two are parts of the others.
const NAMES: [&str; 4] = ["stdc++", "c++", "c++abi", "supc++"];

/// Whether a linker's argument names a C++ library.
pub fn names_cxx_library(argument: &OsStr) -> bool {
    let bytes = argument.as_bytes();
    let mut words = bytes.split(|byte| *byte == b',');
    let is_library = |word: &[u8]| {
        let name = word.strip_prefix(b"-l");
        name.is_some_and(|name| NAMES.iter().any(|known| known.as_bytes() == name))
    };
    words.any(is_library)
}

/// Why the C++ library of a compiler cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CxxLibraryError {
    /// The compiler did not say where it is.
    #[error("cannot find the C++ library of `{}`: {message}", .program.display())]
    NotTold {
        /// The compiler.
        program: PathBuf,
        /// What it said instead.
        message: String,
    },
    /// A part of it could not be read.
    #[error("cannot read the C++ library `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A part of it is no archive.
    #[error("cannot read the C++ library `{}`", .path.display())]
    Archive {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ArchiveError,
    },
    /// The parts make no archive.
    #[error("cannot write an archive of the C++ library: {0}")]
    Write(String),
    /// The cache cannot keep it.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl Compiler {
    /// The name of its C++ library, if that is not the one that programs are linked with unless told otherwise.
    pub fn other_cxx_library(&self) -> Option<&'static str> {
        (self.linking == Linking::Zig).then_some("c++")
    }

    /// A directory in which a linker finds the C++ library of this compiler.
    ///
    /// Zig compiles its library when it is first needed, which takes a minute. The directory has it under the names of
    /// all C++ libraries, because many build scripts name GCC's on Linux whatever the compiler is.
    ///
    /// # Errors
    /// When the compiler does not say where its library is, or when Zig's cannot be read or kept.
    pub fn cxx_library(&self, search: &Search, cache: &Cache) -> Result<PathBuf, CxxLibraryError> {
        if self.linking != Linking::Zig {
            return self.directory_of_cxx_library(search);
        }
        let key = &hash([self.identity.as_bytes()])[..16];
        let entry = format!("{}-{key}", self.target);
        cache.entry("c++", &entry, |unfinished| {
            let mut members = Vec::new();
            for path in self.cxx_archives_of_zig(search)? {
                let bytes = fs::read(&path).map_err(|source| CxxLibraryError::Read {
                    path: path.clone(),
                    source,
                })?;
                let read = archive::read(&bytes);
                members.extend(read.map_err(|source| CxxLibraryError::Archive { path, source })?);
            }
            let whole = archive::write(&members).map_err(CxxLibraryError::Write)?;
            let [first, others @ ..] = NAMES.map(|name| format!("lib{name}.a"));
            let path = unfinished.join(&first);
            fs::write(&path, whole).map_err(CacheError::new("write", &path))?;
            for other in others {
                let path = unfinished.join(other);
                symlink(&first, &path).map_err(CacheError::new("make the link", &path))?;
            }
            Ok(())
        })
    }

    fn not_told(&self, message: impl Into<String>) -> CxxLibraryError {
        CxxLibraryError::NotTold {
            program: self.program.clone(),
            message: message.into(),
        }
    }

    /// GCC and Clang say where a library is. If they do not know it, they repeat its name.
    fn directory_of_cxx_library(&self, search: &Search) -> Result<PathBuf, CxxLibraryError> {
        for name in NAMES {
            let mut command = self.command_in(search);
            let output = command
                .arg(format!("-print-file-name=lib{name}.a"))
                .output()
                .map_err(|error| self.not_told(error.to_string()))?;
            let path = Path::new(OsStr::from_bytes(output.stdout.trim_ascii_end()));
            if let Some(directory) = path.parent().filter(|_| path.is_absolute()) {
                return Ok(directory.to_owned());
            }
        }
        Err(self.not_told("it has none for static programs"))
    }

    /// The archives of libc++ and libc++abi that Zig links a small program with.
    fn cxx_archives_of_zig(&self, search: &Search) -> Result<Vec<PathBuf>, CxxLibraryError> {
        let not_told = |error: io::Error| self.not_told(error.to_string());
        let directory = tempfile::tempdir().map_err(not_told)?;
        let source = directory.path().join("trial.cpp");
        fs::write(&source, "int main() { return 0; }\n").map_err(not_told)?;
        let mut command = self.command_in(search);
        // As Rust links: objects for any address.
        command.args(["-static", "-fPIE", "-pie", "-v"]);
        command.arg(&source).arg("-o");
        command.arg(directory.path().join("trial"));
        let output = command
            .current_dir(directory.path())
            .output()
            .map_err(not_told)?;
        if !output.status.success() {
            return Err(self.not_told(complaint(&output)));
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let words: Vec<&Path> = text.split_whitespace().map(Path::new).collect();
        let archives = ["libc++.a", "libc++abi.a"].map(|name| {
            let found = words
                .iter()
                .find(|word| word.ends_with(name))
                .map(|path| path.to_path_buf());
            found.ok_or_else(|| self.not_told(format!("it links without `{name}`")))
        });
        archives.into_iter().collect()
    }
}
