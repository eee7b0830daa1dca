//! Why a dynamic linker does not load a preload: what is wrong with the file, or what the linker itself says.
//!
//! When glibc's dynamic linker cannot load a preload, it prints one line and goes on without it. musl's goes on
//! silently. The program then runs with the libc's own allocator. So reheap asks the dynamic linker once more, as
//! ldd(1) does: it loads the program and the library and prints what it loaded, and no code of the program runs. It
//! runs with the limits of this process, as the program did.

use crate::target::Libc;
use reheap_elf::Architecture;
use reheap_elf::identify::{self, LibcName};
use rustix::process::{Resource, getrlimit};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Why a library is not loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadFailure {
    /// Its file cannot be read.
    #[error("its file `{}` cannot be read: {reason}", .path.display())]
    Unreadable {
        /// The library.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// Its file is something else.
    #[error("its file `{}` is not a library for this processor: {what}", .path.display())]
    Foreign {
        /// The library.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// It may not be mapped as code.
    #[error("its file `{}` is on a file system that is mounted with `noexec`", .0.display())]
    NoExec(PathBuf),
    /// A limit is too low.
    #[error(
        "there is too little address space to load it (`ulimit -v`): `{}` says: {said}", .loader.display()
    )]
    AddressSpace {
        /// The dynamic linker.
        loader: PathBuf,
        /// Its words.
        said: String,
    },
    /// The libc is older than the one that it was built for.
    #[error(
        "it was built for a newer libc: it needs {version}, which the program's libc does not have: `{}` says: {said}", .loader.display()
    )]
    Version {
        /// The version of a symbol, such as `GLIBC_2.34`.
        version: String,
        /// The dynamic linker.
        loader: PathBuf,
        /// Its words.
        said: String,
    },
    /// A symbol that nothing defines.
    #[error(
        "it needs the symbol `{symbol}`, which the program's libc does not have: `{}` says: {said}", .loader.display()
    )]
    Symbol {
        /// The symbol.
        symbol: String,
        /// The dynamic linker.
        loader: PathBuf,
        /// Its words.
        said: String,
    },
    /// Too much thread-local storage.
    #[error("there is no room for its thread-local variables: `{}` says: {said}", .loader.display())]
    StaticTls {
        /// The dynamic linker.
        loader: PathBuf,
        /// Its words.
        said: String,
    },
    /// Anything else.
    #[error("`{}` does not load it: {said}", .loader.display())]
    Other {
        /// The dynamic linker.
        loader: PathBuf,
        /// Its words.
        said: String,
    },
}

/// A program, and the dynamic linker that starts it.
#[derive(Debug, Clone, Copy)]
pub struct Loading<'a> {
    /// The libc of both.
    pub libc: Libc,
    /// The dynamic linker that the program names.
    pub loader: &'a Path,
    /// The program.
    pub program: &'a Path,
}

/// What keeps a program's dynamic linker from loading this library, if anything does.
pub fn failure(loading: Loading<'_>, library: &Path) -> Option<LoadFailure> {
    let loader = loading.loader;
    if let Some(failure) = wrong_with_file(library) {
        return Some(failure);
    }
    let with_program = list(loading, loading.program, Some(library)).ok()?;
    if let Some(said) = complaint(&with_program, library) {
        return Some(reading(loader, said));
    }
    if loaded(&with_program, library) {
        return None;
    }
    // When musl's skips the library, it says why only when asked to load the library alone.
    let alone = list(loading, library, None).ok()?;
    let said = [with_program, alone].iter().find_map(words);
    Some(reading(
        loader,
        said.unwrap_or_else(|| "nothing".to_owned()),
    ))
}

/// Where the dynamic linker of a program finds a library that is to be preloaded under this name: it searches the cache,
/// the directories that are its own, and `LD_LIBRARY_PATH` (ld.so(8)).
pub fn find(name: &str, program: &Path) -> Option<PathBuf> {
    let identity = identify::identify(&fs::read(program).ok()?).ok()?;
    let loading = Loading {
        libc: match identity.libc.name {
            LibcName::Musl => Libc::Musl,
            _ => Libc::Glibc,
        },
        loader: Path::new(identity.interpreter.as_ref()?),
        program,
    };
    let output = list(loading, program, Some(Path::new(name))).ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.lines().find_map(|line| {
        let (asked, found) = line.trim().split_once(" => ")?;
        Some(found.split(" (").next()?).filter(|_| asked == name)
    })?;
    Some(PathBuf::from(found))
}

/// What the file itself shows. The dynamic linker treats a library for another processor like a missing one.
fn wrong_with_file(library: &Path) -> Option<LoadFailure> {
    let path = library.to_owned();
    let mut header = [0_u8; 20];
    if let Err(error) = File::open(library).and_then(|mut file| file.read_exact(&mut header)) {
        return Some(match error.kind() {
            io::ErrorKind::UnexpectedEof => LoadFailure::Foreign {
                path,
                what: "it is too short".to_owned(),
            },
            _ => LoadFailure::Unreadable {
                path,
                reason: error.to_string(),
            },
        });
    }
    if let Some(what) = foreign(&header) {
        return Some(LoadFailure::Foreign { path, what });
    }
    let flags = rustix::fs::statvfs(library).ok()?.f_flag;
    flags
        .contains(rustix::fs::StatVfsMountFlags::NOEXEC)
        .then_some(LoadFailure::NoExec(path))
}

/// What a file is by its first bytes, unless it is for this processor (System V ABI, "ELF Header").
fn foreign(header: &[u8; 20]) -> Option<String> {
    if !header.starts_with(b"\x7fELF") {
        return Some("it is no ELF file".to_owned());
    }
    if header[4] != 2 {
        return Some("it is for 32-bit programs (ELFCLASS32)".to_owned());
    }
    let machine = u16::from_le_bytes([header[18], header[19]]);
    let known = [
        (62, Architecture::X86_64.name()),
        (183, Architecture::Aarch64.name()),
    ];
    let name = known.iter().find(|(number, _)| *number == machine);
    match name {
        Some((_, name)) if *name == std::env::consts::ARCH => None,
        Some((_, name)) => Some(format!("it is for {name}")),
        None => Some(format!("it is for another one (e_machine {machine})")),
    }
}

/// Asks the dynamic linker to load a file without running any of it.
///
/// With these variables glibc's also looks up the symbols (ld.so(8)); with `--list` it would not. musl's looks them up
/// with `--list`, and has no such variables.
fn list(loading: Loading<'_>, file: &Path, preload: Option<&Path>) -> io::Result<Output> {
    let mut command = Command::new(loading.loader);
    match loading.libc {
        Libc::Glibc => command.envs([
            ("LD_TRACE_LOADED_OBJECTS", "1"),
            ("LD_WARN", "yes"),
            ("LD_BIND_NOW", "yes"),
        ]),
        Libc::Musl => command.arg("--list"),
    };
    command
        .arg(file)
        .env_remove("LD_PRELOAD")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
    command.output()
}

fn loaded(output: &Output, library: &Path) -> bool {
    let path = library.as_os_str().as_encoded_bytes();
    let lists = |line: &[u8]| line.trim_ascii_start().starts_with(path);
    output.status.success() && output.stdout.split(|&byte| byte == b'\n').any(lists)
}

/// What a dynamic linker says of this library.
fn complaint(output: &Output, library: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let path = library.to_string_lossy();
    let line = text.lines().find(|line| line.contains(path.as_ref()))?;
    Some(line.trim().to_owned())
}

/// The first line that a dynamic linker prints.
fn words(output: &Output) -> Option<String> {
    if let Some(signal) = output.status.signal() {
        return Some(format!("nothing: it ended by signal {signal}"));
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
}

/// What a message means. The messages are those of glibc's elf/ and of musl's ldso/dynlink.c. Any other is passed on as
/// it is.
fn reading(loader: &Path, said: String) -> LoadFailure {
    let loader = loader.to_owned();
    let has = |text: &str| said.contains(text);
    if has("static TLS") {
        return LoadFailure::StaticTls { loader, said };
    }
    if let Some(version) = between(&said, "version `", "' not found") {
        return LoadFailure::Version {
            version,
            loader,
            said,
        };
    }
    let symbol = between(&said, "undefined symbol: ", "").or_else(|| {
        let (front, _) = said.split_once(": symbol not found")?;
        Some(front.rsplit(' ').next()?.to_owned())
    });
    if let Some(symbol) = symbol {
        return LoadFailure::Symbol {
            symbol,
            loader,
            said,
        };
    }
    if is_for_memory(&said) {
        LoadFailure::AddressSpace { loader, said }
    } else {
        LoadFailure::Other { loader, said }
    }
}

fn is_for_memory(said: &str) -> bool {
    // musl's message for a library that mmap refuses. `wrong_with_file` has checked the file itself.
    if said.contains("Not a valid dynamic program") {
        return getrlimit(Resource::As).current.is_some();
    }
    [
        "failed to map segment",
        "cannot map zero-fill pages",
        "cannot allocate",
        "Cannot allocate memory",
        "Out of memory",
        "cannot create shared object descriptor",
    ]
    .iter()
    .any(|words| said.contains(words))
}

fn between(text: &str, front: &str, end: &str) -> Option<String> {
    let (_, rest) = text.split_once(front)?;
    let found = match end {
        "" => rest.split([' ', ',', '\t']).next()?,
        end => rest.split_once(end)?.0,
    };
    Some(found.to_owned())
}

/// Whether two paths lead to the same file, through any links.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_both_dynamic_linkers_are_understood() {
        let read = |said: &str| reading(Path::new("/lib/ld.so"), said.to_owned());
        let tls = "x.so: cannot allocate memory in static TLS block";
        assert!(matches!(read(tls), LoadFailure::StaticTls { .. }));
        let version = "/lib/libc.so.6: version `GLIBC_2.34' not found (required by x.so)";
        assert!(
            matches!(read(version), LoadFailure::Version { version, .. } if version == "GLIBC_2.34")
        );
        for missing in [
            "undefined symbol: foo\t(x.so)",
            "x.so: undefined symbol: foo, version GLIBC_2.9",
            "Error relocating x.so: foo: symbol not found",
        ] {
            let failure = read(missing);
            assert!(
                matches!(&failure, LoadFailure::Symbol { symbol, .. } if symbol == "foo"),
                "{failure:?}"
            );
        }
        let tight = "ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded (failed to map segment from shared object): ignored.";
        assert!(matches!(read(tight), LoadFailure::AddressSpace { .. }));
        let other = "x.so: invalid ELF header";
        assert!(read(other).to_string().contains(other));
    }
}
