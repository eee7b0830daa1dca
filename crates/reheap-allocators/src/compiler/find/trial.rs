//! Tries a candidate: whether it makes objects, or programs, for the target.

use super::sources::{
    ONLY_GLIBC, ONLY_MUSL, OTHER_LIBCS, TRIAL_C, TRIAL_CXX_LIBRARY, TRIAL_CXX_OBJECT,
    TRIAL_CXX_PROGRAM,
};
use crate::compiler::{
    Compiler, Kind, Language, Linking, Purpose, REFUSES_ITSELF, Reason, Search, complaint,
};
use crate::target::{Libc, Target};
use reheap_elf::Class;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What is looked for, and where.
pub(super) struct Trial<'a> {
    pub(super) target: Target,
    pub(super) language: Language,
    pub(super) purpose: Purpose,
    pub(super) search: &'a Search,
}

/// A candidate before its trial.
pub(super) struct Candidate {
    pub(super) kind: Kind,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// The fixed arguments without the paths in them.
    pub(super) identity_arguments: String,
    pub(super) linking: Linking,
}

impl Candidate {
    pub(super) fn plain(kind: Kind, program: PathBuf) -> Candidate {
        Candidate {
            kind,
            program,
            arguments: Vec::new(),
            identity_arguments: String::new(),
            linking: Linking::Driver,
        }
    }

    pub(super) fn with_specs(
        kind: Kind,
        gcc: PathBuf,
        specs: PathBuf,
        others: Vec<OsString>,
    ) -> Candidate {
        let identity_arguments = format!("-specs musl-gcc.specs {}", without_directories(&others));
        let mut arguments = vec!["-specs".into(), specs.clone().into_os_string()];
        arguments.extend(others);
        Candidate {
            kind,
            program: gcc,
            arguments,
            identity_arguments: identity_arguments.trim_end().to_owned(),
            linking: Linking::Specs { specs },
        }
    }
}

impl Trial<'_> {
    fn command(&self, program: &Path, kind: Kind) -> Command {
        let mut command = Command::new(program);
        self.search.prepare(&mut command, kind);
        command
    }

    pub(super) fn machine(&self, program: &Path) -> Result<String, Reason> {
        let output = self
            .command(program, Kind::NativeMusl)
            .arg("-dumpmachine")
            .output()
            .map_err(does_not_start)?;
        if !output.status.success() {
            return Err(does_not_compile(&output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Whether a compiler with this `-dumpmachine` is for the target's libc. Fedora's does not mention glibc at all.
    pub(super) fn is_for_libc(&self, machine: &str) -> bool {
        match self.target.libc() {
            Libc::Musl => machine.contains("musl"),
            Libc::Glibc => {
                machine.contains("linux")
                    && !machine.contains("musl")
                    && !machine.contains("android")
            }
        }
    }

    /// The GCC that a script like `musl-gcc` starts, and the specs file that it passes. `-v` prints both.
    pub(super) fn gcc_and_specs(
        &self,
        program: &Path,
        arguments: &[OsString],
    ) -> Option<(PathBuf, PathBuf)> {
        let mut command = self.command(program, Kind::MuslGcc);
        let output = command.args(arguments).arg("-v").output().ok()?;
        let text = String::from_utf8_lossy(&output.stderr);
        let after = |prefix| {
            text.lines()
                .rev()
                .find_map(move |line| line.strip_prefix(prefix))
        };
        let specs = PathBuf::from(after("Reading specs from ")?);
        self.search.look_at(&specs);
        // A native GCC may read a specs file of its own.
        let of_musl = fs::read_to_string(&specs).is_ok_and(|text| text.contains("ld-musl"));
        let gcc = self.search.program(after("COLLECT_GCC=")?)?;
        (specs.is_absolute() && of_musl).then_some((gcc, specs))
    }

    /// What a script like `musl-gcc` starts. The script puts its `-specs` last, so reheap could not pass another one
    /// after it.
    pub(super) fn behind_script(&self, kind: Kind, script: PathBuf) -> Candidate {
        match self.gcc_and_specs(&script, &[]) {
            Some((gcc, specs)) => Candidate::with_specs(kind, gcc, specs, Vec::new()),
            None => Candidate::plain(kind, script),
        }
    }

    /// The candidate that the user names.
    pub(super) fn named(&self, program: PathBuf, arguments: Vec<OsString>) -> Candidate {
        let kind = Kind::FromEnvironment;
        // A script of the user's own may do more than start GCC, so reheap only looks into musl's.
        let is_musl_gcc = std::iter::once(program.as_os_str())
            .chain(arguments.iter().map(OsString::as_os_str))
            .any(|word| word.as_encoded_bytes().ends_with(b"musl-gcc"));
        if is_musl_gcc && let Some((gcc, specs)) = self.gcc_and_specs(&program, &arguments) {
            // In `ccache musl-gcc -O2` two words are programs.
            let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"-");
            let first_option = arguments
                .iter()
                .position(|word| is_option(&word))
                .unwrap_or(arguments.len());
            return Candidate::with_specs(kind, gcc, specs, arguments[first_option..].to_vec());
        }
        let mut command = self.command(&program, kind);
        let version = command.args(&arguments).arg("--version").output();
        // Clang prints where it is installed. For Zig that is Zig's directory, even if the version is a distribution's
        // Clang.
        let is_zig = version
            .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("zig"))
            || program.file_name() == Some(OsStr::new("zig"));
        Candidate {
            kind,
            program,
            // An argument may contain a path that differs between machines, and still determine the output.
            identity_arguments: without_directories(&arguments),
            arguments,
            linking: if is_zig {
                Linking::Zig
            } else {
                Linking::Driver
            },
        }
    }

    /// Compiles a file, and links it where programs are wanted. Only a candidate that succeeds is a compiler.
    pub(super) fn run(&self, candidate: Candidate) -> Result<Compiler, Reason> {
        self.compile_and_link(&candidate)?;
        let identity = self.identity(&candidate)?;
        let Candidate {
            kind,
            program,
            arguments,
            linking,
            ..
        } = candidate;
        Ok(Compiler {
            kind,
            language: self.language,
            target: self.target,
            program,
            arguments,
            identity,
            linking,
        })
    }

    fn compile_and_link(&self, candidate: &Candidate) -> Result<(), Reason> {
        let directory = tempfile::tempdir().map_err(does_not_start)?;
        let (name, text) = self.source();
        let source = directory.path().join(name);
        fs::write(&source, text).map_err(does_not_start)?;
        let compile = |arguments: &[&OsStr], output: &Path| {
            let mut command = self.command(&candidate.program, candidate.kind);
            command
                .args(&candidate.arguments)
                .args(arguments)
                .arg("-o")
                .arg(output)
                .current_dir(directory.path());
            command.output().map_err(does_not_start)
        };

        let object = directory.path().join("trial.o");
        let output = compile(&["-c".as_ref(), source.as_os_str()], &object)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(
                match OTHER_LIBCS.iter().find(|(mark, _)| text.contains(mark)) {
                    Some((_, libc)) => Reason::OtherLibc { libc },
                    None => does_not_compile(&output),
                },
            );
        }
        if !is_elf_for(&self.target, &object) {
            return Err(Reason::OtherProcessor);
        }
        if self.purpose != Purpose::Programs {
            return Ok(());
        }
        let program = directory.path().join("trial");
        let mut arguments: Vec<&OsStr> = vec!["-static".as_ref(), source.as_os_str()];
        // Zig compiles its libraries when they are first needed, for each kind of program, and that takes a minute.
        // So the trial asks for the kind that reheap links.
        if candidate.linking == Linking::Zig {
            arguments.extend(["-fPIE".as_ref(), "-pie".as_ref()] as [&OsStr; 2]);
        }
        let output = compile(&arguments, &program)?;
        if !output.status.success() {
            return Err(Reason::DoesNotLink {
                message: complaint(&output),
            });
        }
        if !is_elf_for(&self.target, &program) {
            return Err(Reason::OtherProcessor);
        }
        Ok(())
    }

    /// The name and the text of the file.
    fn source(&self) -> (&'static str, String) {
        let (name, text) = match (self.language, self.purpose) {
            (Language::C, _) => ("trial.c", TRIAL_C),
            (Language::Cxx, Purpose::Objects) => ("trial.cpp", TRIAL_CXX_OBJECT),
            (Language::Cxx, Purpose::ObjectsWithLibrary) => ("trial.cpp", TRIAL_CXX_LIBRARY),
            (Language::Cxx, Purpose::Programs) => ("trial.cpp", TRIAL_CXX_PROGRAM),
        };
        let headers = match self.target.libc() {
            Libc::Musl => ONLY_MUSL,
            Libc::Glibc => ONLY_GLIBC,
        };
        (name, format!("#include <stdlib.h>\n{headers}{text}"))
    }

    fn identity(&self, candidate: &Candidate) -> Result<String, Reason> {
        let mut command = self.command(&candidate.program, candidate.kind);
        let output = command
            .args(&candidate.arguments)
            .arg("--version")
            .output()
            .map_err(does_not_start)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.lines().next().unwrap_or_default().trim();
        // GCC begins the line with the name that it was called by.
        let version = match version.split_once(' ') {
            Some((name, rest)) if name.contains('/') => {
                format!("{} {rest}", name.rsplit('/').next().unwrap_or_default())
            }
            _ => version.to_owned(),
        };
        Ok(format!(
            "{} {} {version} {}",
            candidate.kind, self.target, candidate.identity_arguments
        )
        .trim()
        .to_owned())
    }
}

fn does_not_compile(output: &Output) -> Reason {
    if String::from_utf8_lossy(&output.stderr).contains(REFUSES_ITSELF) {
        Reason::ReheapItself
    } else {
        Reason::DoesNotCompile {
            message: complaint(output),
        }
    }
}

pub(super) fn does_not_start(error: std::io::Error) -> Reason {
    Reason::DoesNotStart {
        message: error.to_string(),
    }
}

/// Whether the file is a little-endian ELF file for the target's processor (`e_ident`, `e_machine`).
fn is_elf_for(target: &Target, path: &Path) -> bool {
    let beginning = match target.arch().class() {
        Class::Bits32 => b"\x7fELF\x01\x01",
        Class::Bits64 => b"\x7fELF\x02\x01",
    };
    fs::read(path).is_ok_and(|bytes| {
        bytes.starts_with(beginning)
            && bytes.get(18..20) == Some(&target.arch().elf_machine().to_le_bytes()[..])
    })
}

/// Arguments as text, with only the last part of each absolute path.
pub(super) fn without_directories(arguments: &[OsString]) -> String {
    let words = arguments.iter().map(|argument| {
        let text = argument.to_string_lossy();
        match text.strip_prefix('/') {
            Some(path) => path.rsplit('/').next().unwrap_or_default().to_owned(),
            None => text.into_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
