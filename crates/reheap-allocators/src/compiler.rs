//! C and C++ compilers that make objects and programs for a musl target, and objects and libraries for a glibc target.
//!
//! The name of a compiler does not tell its target. `x86_64-linux-musl-gcc` is a cross compiler on one system and a
//! shell script around the glibc compiler on another. `cc` is a musl compiler on Alpine. A cross compiler may lack its
//! headers. So [`find`] accepts a candidate only after it has compiled a small file for the right processor with the
//! headers of the right libc.
//!
//! Build scripts (the `cc` crate, the `configure` of jemalloc) want the name of one program without arguments, and pass
//! flags that Zig refuses. [`Compiler::write_wrapper`] makes a script for them.
//!
//! To add a kind of compiler: extend [`Kind`] and name its candidates in `find.rs`. If it refuses flags that build
//! scripts pass, rewrite those in `wrapper.rs`.

mod cxx_library;
mod find;
mod link;
pub(crate) mod remembered;
mod wrapper;

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub use cxx_library::{CxxLibraryError, names_cxx_library};
pub use find::{find, find_archiver, find_zig, variables};
pub use link::{LinkError, Pie};

use crate::cache::{Cache, hash};
use crate::target::Target;
use crate::trust::{Distrusted, Trust};

/// The language of a compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
}

impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Language::C => "C",
            Language::Cxx => "C++",
        })
    }
}

/// The purpose of a compiler. A C++ compiler without a C++ library for musl makes objects, but no programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Compiling objects that link without the C++ library, such as those of an allocator.
    Objects,
    /// Compiling objects that may need the C++ library. Another program links them.
    ObjectsWithLibrary,
    /// Compiling and linking static programs.
    Programs,
}

/// How a compiler makes objects for the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// Named by `CC_<target>` or `CXX_<target>`.
    FromEnvironment,
    /// The system's own compiler on a musl system.
    NativeMusl,
    /// The system's own compiler on a glibc system, for a glibc target.
    NativeGlibc,
    /// A GCC built for the target, such as those of musl.cc and crosstool-NG.
    CrossGcc,
    /// The script `musl-gcc`: the host's GCC with a specs file that replaces glibc by musl. C only.
    MuslGcc,
    /// The host's `g++` with the specs file of `musl-gcc`: C++ with musl's C headers, and no C++ library. It compiles
    /// allocators that need none (snmalloc has its own few templates), but it cannot link programs.
    HostGccWithMuslHeaders,
    /// `zig cc` and `zig c++`: Clang with musl and libc++ included. Also as the Python package `ziglang`.
    Zig,
}

impl Kind {
    /// A stable name, for hashes, tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::FromEnvironment => "from-environment",
            Kind::NativeMusl => "native-musl",
            Kind::NativeGlibc => "native-glibc",
            Kind::CrossGcc => "cross-gcc",
            Kind::MuslGcc => "musl-gcc",
            Kind::HostGccWithMuslHeaders => "host-gcc-with-musl-headers",
            Kind::Zig => "zig",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How a driver finds its libc and its start files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Linking {
    /// The driver searches `-L` first, and understands `-static-pie`.
    Driver,
    /// A GCC for another libc with a specs file such as that of `musl-gcc`.
    Specs {
        /// The specs file, which names musl's start files by their paths.
        specs: PathBuf,
    },
    /// Zig.
    Zig,
}

/// A compiler that has made an object for its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiler {
    /// How it makes objects for the target.
    pub kind: Kind,
    /// The language of the trial.
    pub language: Language,
    /// The target of the trial.
    pub target: Target,
    /// Absolute path of the program.
    pub program: PathBuf,
    /// The first arguments of every call.
    pub arguments: Vec<OsString>,
    /// What determines its output, without paths: kind, version, fixed arguments. Cache hashes contain it.
    pub identity: String,
    linking: Linking,
}

impl Compiler {
    /// The compiler with its fixed arguments, in the environment of the search that found it.
    ///
    /// The script of [`Compiler::write_wrapper`] does the same, and rewrites flags that Zig refuses.
    pub fn command_in(&self, search: &Search) -> Command {
        let mut command = Command::new(&self.program);
        search.prepare(&mut command, self.kind);
        command.args(&self.arguments);
        command
    }

    /// What belongs in front of a caller's arguments, so that the compiler adds nothing to them.
    ///
    /// Without optimisation, Zig protects stacks. It lets no later flag win over `-fno-stack-protector`.
    pub fn front_of(&self, given: &[OsString]) -> Option<&'static str> {
        let asks = |word: &OsString| word.as_encoded_bytes().starts_with(b"-fstack-protector");
        (self.linking == Linking::Zig && !given.iter().any(asks)).then_some(NO_STACK_PROTECTOR)
    }

    /// Writes a script below `directory` that starts this compiler with its fixed arguments, and returns its path.
    ///
    /// The script is renamed into place, so two builds may write it at once. Another compiler, or another version of
    /// this one, has another path: Cargo compiles C code again only if the value of `CC_<target>` changes.
    ///
    /// # Errors
    /// When the script cannot be written in `directory`, which must exist.
    pub fn write_wrapper(&self, directory: &Path) -> std::io::Result<PathBuf> {
        // With a target in front of it, build scripts would take the name apart, and look for other tools of that name.
        let name = match self.language {
            Language::C => "cc",
            Language::Cxx => "c++",
        };
        let script = wrapper::compiler_script(self);
        let key = hash([self.identity.as_bytes(), &script]);
        let directory = directory.join(&key[..16]);
        let mut closed = DirBuilder::new();
        closed.recursive(true).mode(0o755).create(&directory)?;
        let path = directory.join(name);
        wrapper::write(&path, &script)?;
        Ok(path)
    }
}

/// The flag that turns off what Zig turns on.
const NO_STACK_PROTECTOR: &str = "-fno-stack-protector";

/// Variables with which GCC and Clang add directories of the host. They would put glibc's headers and libraries in
/// front of musl's. A compiler that the user names keeps them: reheap calls it as the user would.
const HOST_SEARCH_PATHS: [&str; 5] = [
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "OBJC_INCLUDE_PATH",
    "LIBRARY_PATH",
];

/// A program that makes archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archiver {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// The first arguments of every call.
    pub arguments: Vec<OsString>,
    target: Target,
}

impl Archiver {
    /// Writes a script into `directory` that starts this archiver with its fixed arguments, and returns its path.
    ///
    /// # Errors
    /// When the script cannot be written in `directory`, which must exist.
    pub fn write_wrapper(&self, directory: &Path) -> std::io::Result<PathBuf> {
        let path = directory.join(format!("{}-ar", self.target.gnu_triple()));
        wrapper::write(&path, &wrapper::archiver_script(self))?;
        Ok(path)
    }
}

/// A variable that every compiler sees that reheap starts.
///
/// A program that would look for a compiler itself must end there, with [`REFUSES_ITSELF`] in what it says: the search
/// would find that program again and again.
pub const STARTED_BY_REHEAP: &str = "REHEAP_STARTED_THIS_COMPILER";
/// What reheap says when it is such a program.
pub const REFUSES_ITSELF: &str = "reheap is not a compiler for itself";

/// The environment as a value, because only the binary reads it (ARCHITECTURE.md, invariant 1).
#[derive(Debug, Clone, Default)]
pub struct Search {
    environment: BTreeMap<OsString, OsString>,
    tools: Option<PathBuf>,
    compiler: Option<OsString>,
    memory: Option<Cache>,
    /// Names of programs that were looked up, and files that were read, for a record of what is found.
    looked_at: RefCell<BTreeSet<PathBuf>>,
}

impl Search {
    /// Looks for compilers as a program with this environment would, but never where anybody could have put one. What
    /// is found starts others in the same way.
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Search {
        let mut environment: BTreeMap<_, _> = environment.into_iter().collect();
        if let Some(path) = environment.remove(OsStr::new("PATH")) {
            let path = Trust::of_this_process().search_path(&path);
            // An empty PATH would mean the working directory.
            let closed = (!path.is_empty()).then(|| ("PATH".into(), path));
            environment.extend(closed);
        }
        Search {
            environment,
            ..Search::default()
        }
    }

    /// The environment of what is found.
    pub fn environment(&self) -> BTreeMap<OsString, OsString> {
        self.environment.clone()
    }

    /// Also looks for Zig's Python package in a directory, last of all.
    #[must_use]
    pub fn with_tools(mut self, directory: PathBuf) -> Search {
        self.tools = Some(directory);
        self
    }

    /// Takes only this compiler: `zig`, wherever it is, or a command in the form of `CC_<target>`.
    #[must_use]
    pub fn with_compiler(mut self, command: &OsStr) -> Search {
        self.compiler = Some(command.to_owned());
        self
    }

    /// Keeps what is found in a cache, and takes it from there as long as the files and variables are the same that
    /// decided.
    #[must_use]
    pub fn with_memory(mut self, cache: Cache) -> Search {
        self.memory = Some(cache);
        self
    }

    /// The value of a variable. An empty one counts as unset, as in the `cc` crate.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// The first executable file of that name on PATH, or the file itself when `name` contains a slash.
    pub fn program(&self, name: impl AsRef<Path>) -> Option<PathBuf> {
        let name = name.as_ref();
        self.look_at(name);
        self.places_of(name).find(|path| is_executable(path))
    }

    /// Where a program of that name may be, in order. With a slash in it, it is the path of a file.
    fn places_of(&self, name: &Path) -> impl Iterator<Item = PathBuf> {
        let is_path = name.components().count() > 1 || name.is_absolute();
        let file = is_path.then(|| std::path::absolute(name).ok()).flatten();
        let directories = self
            .variable("PATH")
            .filter(|_| !is_path)
            .into_iter()
            .flat_map(std::env::split_paths);
        file.into_iter()
            .chain(directories.map(move |directory| directory.join(name)))
    }

    /// What is found depends on this file, or on the programs of this name.
    pub(crate) fn look_at(&self, file: &Path) {
        self.looked_at.borrow_mut().insert(file.to_owned());
    }

    /// Makes `command` run in this environment, with messages in English and no standard input.
    pub(crate) fn prepare_plain(&self, command: &mut Command) {
        command
            .env_clear()
            .envs(&self.environment)
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
    }

    /// Makes a compiler run in this environment, with messages in English. Only one that the user named keeps the
    /// variables that add directories of the host.
    fn prepare(&self, command: &mut Command, kind: Kind) {
        self.prepare_plain(command);
        command.env(STARTED_BY_REHEAP, "1");
        if kind != Kind::FromEnvironment {
            for name in HOST_SEARCH_PATHS {
                command.env_remove(name);
            }
        }
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The first line about an error, or the first line at all.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text
        .lines()
        .find(|line| line.contains("error"))
        .or_else(|| text.lines().next());
    line.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned())
}

/// No compiler for a musl target was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct NoCompiler {
    /// The language that it was for.
    pub language: Language,
    /// The target that it was for.
    pub target: Target,
    /// What it was for.
    pub purpose: Purpose,
    /// The candidates, in order.
    pub tried: Vec<Rejected>,
}

impl fmt::Display for NoCompiler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "cannot find a {} compiler for `{}`",
            self.language, self.target
        )?;
        if self.purpose == Purpose::Programs {
            formatter.write_str(" that links static programs")?;
        }
        // The list of missing names is long and says little, so it comes last, in one part.
        let (absent, present): (Vec<_>, Vec<_>) = self
            .tried
            .iter()
            .partition(|rejected| rejected.reason == Reason::NotFound);
        let mut parts: Vec<String> = present.iter().map(ToString::to_string).collect();
        if !absent.is_empty() {
            let names: Vec<String> = absent
                .iter()
                .map(|rejected| format!("`{}`", rejected.candidate))
                .collect();
            parts.push(match names.as_slice() {
                [name] => format!("{name} was not found"),
                names => format!("none of {} was found", names.join(", ")),
            });
        }
        write!(formatter, ": {}", parts.join("; "))?;
        Ok(())
    }
}

/// A candidate, and why `find` rejects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The candidate as the user would type it.
    pub candidate: String,
    /// Why it is rejected.
    pub reason: Reason,
}

impl Rejected {
    /// Whether it may work without a change of its own file, for instance when its headers are installed.
    fn may_work_later(&self) -> bool {
        !matches!(
            self.reason,
            Reason::NotFound | Reason::OtherMachine { .. } | Reason::ReheapItself
        )
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` {}", self.candidate, self.reason)
    }
}

/// Why a candidate is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// There is no such program on PATH, or the variable is not set.
    NotFound,
    /// It says that it compiles for another system.
    OtherMachine {
        /// What `-dumpmachine` printed.
        machine: String,
    },
    /// Its headers are those of another libc.
    OtherLibc {
        /// The libc that the headers belong to.
        libc: &'static str,
    },
    /// Its object is for another processor, or is not ELF.
    OtherProcessor,
    /// It is reheap itself, or starts it.
    ReheapItself,
    /// It could not compile three lines of C or C++.
    DoesNotCompile {
        /// The first line of its complaint.
        message: String,
    },
    /// It compiles, but cannot link a static program.
    DoesNotLink {
        /// The first line of its complaint.
        message: String,
    },
    /// It cannot be started.
    DoesNotStart {
        /// What the system said.
        message: String,
    },
    /// Somebody else could replace it.
    Distrusted(Distrusted),
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotFound => formatter.write_str("was not found"),
            Reason::OtherMachine { machine } => write!(formatter, "compiles for `{machine}`"),
            Reason::OtherLibc { libc } => write!(formatter, "uses the headers of {libc}"),
            Reason::OtherProcessor => formatter.write_str("makes objects for another processor"),
            Reason::ReheapItself => formatter.write_str("starts reheap, which needs a compiler"),
            Reason::DoesNotCompile { message } => {
                write!(formatter, "cannot compile a small file ({message})")
            }
            Reason::DoesNotLink { message } => {
                write!(formatter, "cannot link a static program ({message})")
            }
            Reason::DoesNotStart { message } => write!(formatter, "cannot be started ({message})"),
            Reason::Distrusted(distrusted) => write!(formatter, "is not used ({distrusted})"),
        }
    }
}

#[cfg(test)]
mod tests;
