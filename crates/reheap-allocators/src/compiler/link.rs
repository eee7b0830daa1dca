//! How to make a compiler link a static program with a given libc.a instead of its own.
//!
//! There are three ways, because compiler drivers find `-lc` in three ways:
//!
//! - A driver made for musl searches the directories of `-L` first, so it only needs `-L<directory>`.
//! - The specs file of `musl-gcc` knows dynamic and static programs only. With `-static-pie` it silently makes a
//!   program that asks for `/lib/ld-musl-x86_64.so.1`. It names that to the linker for a static program too, and mold
//!   puts it in. A second specs file, given after it, overrides its linker flags, and its start files for a static-pie.
//! - Zig ignores `-L` for `-lc`. It silently links the libc that it compiled itself, last. Its linker is lld, which
//!   uses the first archive that defines a symbol, so reheap passes `<directory>/libc.a` as an input file. Zig's own
//!   libc.a stays on the link line. It contributes nothing as long as the given one is complete. A libc.a derived from
//!   Rust's musl 1.2.5 is complete: Zig 0.14 has the same version.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cache::hash;

use super::remembered::{self, Finding};
use super::{Compiler, Kind, Linking, Search, complaint, wrapper};

/// Whether a static program can be loaded at any address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pie {
    /// Static-PIE: the program relocates itself, so address space randomisation covers it.
    Yes,
    /// The program is linked for one address.
    No,
}

impl Pie {
    /// What the user's compiler arguments ask for. The last one decides, and without one the answer is PIE.
    ///
    /// `-static` alone does not turn PIE off. For GCC and Clang it does, but build systems pass it to get a program
    /// without shared libraries, and reheap makes such a program anyway.
    ///
    /// Start files of the user's own relocate a program only if `rcrt1.o` is among them, or if they are made for
    /// `-static-pie`. With others a static-pie would crash at once.
    pub fn of_arguments<Argument: AsRef<std::ffi::OsStr>>(
        arguments: impl IntoIterator<Item = Argument>,
    ) -> Pie {
        let mut pie = Pie::Yes;
        let (mut brings_start_files, mut relocates) = (false, false);
        for argument in arguments {
            let argument = argument.as_ref();
            relocates |= argument == "-static-pie" || Path::new(argument).ends_with("rcrt1.o");
            match argument.to_str() {
                Some("-nostdlib" | "--no-standard-libraries" | "-nostartfiles") => {
                    brings_start_files = true
                }
                Some("-no-pie" | "-nopie" | "-fno-pie" | "-fno-PIE" | "-fno-pic" | "-fno-PIC") => {
                    pie = Pie::No
                }
                Some("-pie" | "-static-pie" | "-fpie" | "-fPIE") => pie = Pie::Yes,
                _ => {}
            }
        }
        if brings_start_files && !relocates {
            Pie::No
        } else {
            pie
        }
    }
}

/// Why a compiler cannot link with a given libc.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The compiler has no C++ library for musl.
    #[error("cannot link programs with `{}`: it has no C++ library for musl, so it only makes objects", .program.display())]
    ObjectsOnly {
        /// The compiler.
        program: PathBuf,
    },
    /// The specs file does not say where musl's start files are.
    #[error("cannot find musl's start files: the specs file `{}` names no `crti.o`", .specs.display())]
    NoStartFiles {
        /// The specs file.
        specs: PathBuf,
    },
    /// This musl lacks the start file of static position-independent programs.
    #[error("cannot link a static position-independent program: the start file `{}` does not exist", .path.display())]
    NoStaticPie {
        /// Where it should be.
        path: PathBuf,
    },
    /// The specs file could not be read.
    #[error("cannot read the specs file `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A specs file of reheap's own could not be written.
    #[error("cannot write the specs file `{}`", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The compiler has no libc.a to derive from.
    #[error("cannot find the libc.a of `{}`: it has none of its own", .program.display())]
    NoLibcOfItsOwn {
        /// The compiler.
        program: PathBuf,
    },
    /// The compiler could not link a small program, or the linker did not say which libc.a it read.
    #[error("cannot find the libc.a of `{}`: {message}", .program.display())]
    LibcNotTold {
        /// The compiler.
        program: PathBuf,
        /// What it said instead.
        message: String,
    },
}

impl Compiler {
    /// Arguments that make this compiler link a static program with the libc.a in `derived_libc`.
    ///
    /// They belong in front of the user's own arguments, and only in calls that link: with `-c`, `-S` or `-E` some
    /// compilers warn about unused arguments. `support` is a directory for a file that the compiler may need. It must
    /// exist until the program is linked, and two builds may share it.
    ///
    /// # Errors
    /// When the compiler makes objects only, when musl has no start file for such a program, or when `support` cannot
    /// be written.
    pub fn link_arguments(
        &self,
        derived_libc: &Path,
        pie: Pie,
        support: &Path,
    ) -> Result<Vec<OsString>, LinkError> {
        if self.kind == Kind::HostGccWithMuslHeaders {
            return Err(LinkError::ObjectsOnly {
                program: self.program.clone(),
            });
        }
        let directory_first = || {
            let mut argument = OsString::from("-L");
            argument.push(derived_libc);
            argument
        };
        Ok(match (&self.linking, pie) {
            (Linking::Driver, Pie::Yes) => {
                vec!["-fPIE".into(), "-static-pie".into(), directory_first()]
            }
            (Linking::Driver, Pie::No) => {
                vec![
                    "-static".into(),
                    "-no-pie".into(),
                    "-Wl,--eh-frame-hdr".into(),
                    directory_first(),
                ]
            }
            (Linking::Specs { .. }, Pie::No) => {
                vec![
                    "-static".into(),
                    "-no-pie".into(),
                    "-specs".into(),
                    self.write_specs(support, "static", STATIC_SPECS)?.into(),
                    directory_first(),
                ]
            }
            (Linking::Specs { specs }, Pie::Yes) => {
                let text = static_pie_specs(specs)?;
                vec![
                    "-fPIE".into(),
                    "-specs".into(),
                    self.write_specs(support, "static-pie", &text)?.into(),
                    directory_first(),
                ]
            }
            // Zig ignores `-static-pie` as an unused argument.
            (Linking::Zig, Pie::Yes) => {
                vec![
                    derived_libc.join("libc.a").into_os_string(),
                    "-static".into(),
                    "-fPIE".into(),
                    "-pie".into(),
                ]
            }
            (Linking::Zig, Pie::No) => {
                vec![
                    derived_libc.join("libc.a").into_os_string(),
                    "-static".into(),
                    "-no-pie".into(),
                ]
            }
        })
    }

    /// Writes a specs file with this text. Each musl has files of its own.
    fn write_specs(&self, support: &Path, kind: &str, text: &str) -> Result<PathBuf, LinkError> {
        let key = &hash([text.as_bytes()])[..16];
        let target = self.target.gnu_triple();
        let path = support.join(format!("{target}-{kind}-{key}.specs"));
        match wrapper::write(&path, text.as_bytes()) {
            Ok(()) => Ok(path),
            Err(source) => Err(LinkError::Write { path, source }),
        }
    }

    /// Whether it makes an object of the first file only, if it is given several: Zig 0.14 does, and says nothing.
    pub fn compiles_only_the_first(&self) -> bool {
        self.linking == Linking::Zig
    }

    /// The first of these arguments, if there is one, with which Zig 0.14 cannot link a program: its driver knows neither
    /// `--wrap` nor `-Map`, and it has no runtime for coverage.
    pub fn unknown_to_its_linker<'a>(&self, arguments: &'a [OsString]) -> Option<&'a str> {
        if self.linking != Linking::Zig {
            return None;
        }
        let words = arguments.iter().filter_map(|argument| argument.to_str());
        words.flat_map(|word| word.split(',')).find(|word| {
            let name = word.trim_start_matches('-').split('=').next();
            let is_known = matches!(name, Some("wrap" | "Map" | "coverage" | "fprofile-arcs"));
            word.starts_with('-') && is_known
        })
    }

    /// The libc.a with which this compiler links static programs: the one to derive from.
    ///
    /// # Errors
    /// [`LinkError::NoLibcOfItsOwn`] for Zig, which compiles its libc when it first needs it; reheap then uses the one
    /// in Rust's toolchain. [`LinkError::LibcNotTold`] when the compiler cannot link a small program.
    pub fn original_libc(&self, search: &Search) -> Result<PathBuf, LinkError> {
        if self.linking == Linking::Zig {
            return Err(LinkError::NoLibcOfItsOwn {
                program: self.program.clone(),
            });
        }
        if self.kind == Kind::HostGccWithMuslHeaders {
            return Err(LinkError::ObjectsOnly {
                program: self.program.clone(),
            });
        }
        let subject = ("libc", &self.program, &self.arguments);
        remembered::or_search(subject, search, || self.trace_libc(search))
    }

    /// The libc.a that the linker reads.
    fn trace_libc(&self, search: &Search) -> Result<PathBuf, LinkError> {
        // -print-file-name=libc.a looks simpler, but it does not read specs files: `musl-gcc` would name glibc's.
        let not_told = |message: String| LinkError::LibcNotTold {
            program: self.program.clone(),
            message,
        };
        let directory = tempfile::tempdir().map_err(|error| not_told(error.to_string()))?;
        let source = directory.path().join("trial.c");
        fs::write(&source, "int main(void) { return 0; }\n")
            .map_err(|error| not_told(error.to_string()))?;
        let mut command = self.command_in(search);
        command
            .args(["-static", "-Wl,--trace", "-x", "c"])
            .arg(&source)
            .arg("-o")
            .arg(directory.path().join("trial"));
        let output = command
            .current_dir(directory.path())
            .output()
            .map_err(|error| not_told(error.to_string()))?;
        if !output.status.success() {
            return Err(not_told(complaint(&output)));
        }
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let libc = traced_libc(&text)
            .and_then(|path| fs::canonicalize(path).ok())
            .ok_or_else(|| not_told("the linker read none".to_owned()))?;
        search.look_at(&self.program);
        search.look_at(&libc);
        if let Linking::Specs { specs } = &self.linking {
            search.look_at(specs);
        }
        Ok(libc)
    }
}

/// The path of a libc.a.
impl Finding for PathBuf {}

/// The libc.a in the output of `ld --trace`. A line is a path, or `(archive)member` or `archive(member)` for a member.
fn traced_libc(text: &str) -> Option<&Path> {
    text.lines().find_map(|line| {
        let line = line.trim().trim_start_matches('(');
        let end = line.find("libc.a")? + "libc.a".len();
        let path = Path::new(&line[..end]);
        (path.is_absolute() && path.file_name()? == "libc.a").then_some(path)
    })
}

/// What overrides the specs of `musl-gcc` for static programs at a fixed address: its linker flags name a dynamic linker.
const STATIC_SPECS: &str = "*link:\n-static -nostdlib --eh-frame-hdr %{rdynamic:-export-dynamic}\n";

/// What overrides the specs of `musl-gcc` for static position-independent programs.
///
/// `rcrt1.o` relocates the program before it calls libc. With `-z text` the linker refuses what `rcrt1.o` cannot
/// relocate. Unwinders need the table of exception frames: `crtbeginS.o` does not register the frames by itself.
fn static_pie_specs(specs: &Path) -> Result<String, LinkError> {
    let text = fs::read_to_string(specs).map_err(|source| LinkError::Read {
        path: specs.to_owned(),
        source,
    })?;
    let crti = text
        .split_whitespace()
        .map(Path::new)
        .find(|word| word.is_absolute() && word.ends_with("crti.o"));
    let Some(directory) = crti.and_then(Path::parent) else {
        return Err(LinkError::NoStartFiles {
            specs: specs.to_owned(),
        });
    };
    let start = directory.join("rcrt1.o");
    if !start.is_file() {
        return Err(LinkError::NoStaticPie { path: start });
    }
    let directory = directory.display();
    Ok(format!(
        "*startfile:\n{directory}/rcrt1.o {directory}/crti.o crtbeginS.o%s\n\n\
         *endfile:\ncrtendS.o%s {directory}/crtn.o\n\n\
         *link:\n-static -pie --no-dynamic-linker -z text -nostdlib --eh-frame-hdr %{{rdynamic:-export-dynamic}}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_argument_that_speaks_of_pie_wins() {
        assert_eq!(Pie::of_arguments(["-O2", "a.c"]), Pie::Yes);
        assert_eq!(Pie::of_arguments(["-static", "a.c"]), Pie::Yes);
        assert_eq!(Pie::of_arguments(["-static-pie", "-no-pie"]), Pie::No);
        assert_eq!(Pie::of_arguments(["-fno-pie", "-pie"]), Pie::Yes);
    }

    #[test]
    fn start_files_that_do_not_relocate_a_program_make_none_that_needs_it() {
        let with = |file: &str| Pie::of_arguments(["-nostdlib", "-fPIE", file, "a.c"]);
        assert_eq!(with("/lib/crt1.o"), Pie::No);
        assert_eq!(with("/lib/rcrt1.o"), Pie::Yes);
        assert_eq!(with("-static-pie"), Pie::Yes);
    }

    #[test]
    fn the_traced_libc_is_read_from_the_lines_of_every_linker() {
        let path = Some(Path::new("/usr/lib/musl/lib/libc.a"));
        for line in [
            "/usr/lib/musl/lib/libc.a",
            "(/usr/lib/musl/lib/libc.a)printf.o",
            "/usr/lib/musl/lib/libc.a(printf.o)",
        ] {
            assert_eq!(
                traced_libc(&format!("/usr/lib/crt1.o\n/x/notlibc.a\n{line}\n")),
                path,
                "{line}"
            );
        }
        assert_eq!(traced_libc("/usr/lib/crt1.o\n"), None);
    }
}
