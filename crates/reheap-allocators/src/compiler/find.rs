//! Looks for a compiler. [`trial`] tries each candidate.
//!
//! The order is: the compiler that the user names, the system's own, cross compilers, `musl-gcc`, Zig. Native and
//! GNU-like compilers come before Zig, because they need no rewritten flags and because the system's own packages are
//! made with them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

mod sources;
mod trial;

use super::remembered::Finding;
use super::{
    Archiver, Compiler, Kind, Language, Linking, NoCompiler, Purpose, Reason, Rejected, Search,
    remembered,
};
use crate::target::{Libc, Target};
use crate::trust::{Distrusted, Trust};
use serde::{Deserialize, Serialize};
use sources::EXTRAS;
use trial::{Candidate, Trial, does_not_start, without_directories};

/// The variables by which the environment names a compiler for a target, whatever the language.
pub fn variables(target: &Target) -> Vec<String> {
    let tools = ["CC", "CXX"].into_iter();
    tools
        .flat_map(|tool| environment_names(tool, target))
        .collect()
}

/// Finds a compiler that makes objects, or static programs, for a target.
///
/// With a variable `CC_<target>` or `CXX_<target>` the user decides: if that compiler does not work, `find` tries no
/// other.
///
/// # Errors
/// [`NoCompiler`] lists the candidates and why each was rejected.
pub fn find(
    target: &Target,
    language: Language,
    purpose: Purpose,
    search: &Search,
) -> Result<Compiler, NoCompiler> {
    let trial = Trial {
        target: *target,
        language,
        purpose,
        search,
    };
    let passes: [Pass; 5] = [
        from_environment,
        native,
        cross,
        musl_gcc,
        host_gcc_with_musl_headers,
    ];
    let subject = (target, language, purpose, &search.tools, &search.compiler);
    let found = remembered::or_search(subject, search, || match search.compiler.as_deref() {
        None => trial.first_of(passes.into_iter().chain(OF_ZIG)),
        Some(name) if name == "zig" => trial.first_of(OF_ZIG),
        Some(_) => trial.first_of([asked_for as Pass]),
    })?;
    Ok(found.compiler)
}

/// Finds Zig, for libraries that go to other machines.
///
/// A system's compiler makes libraries for its own libc and later ones. Zig has every version of glibc, and of musl the
/// same one on every machine, so its libraries run on old systems and are the same wherever they are made.
///
/// # Errors
/// [`NoCompiler`] lists where Zig was looked for.
pub fn find_zig(
    target: &Target,
    language: Language,
    search: &Search,
) -> Result<Compiler, NoCompiler> {
    let trial = Trial {
        target: *target,
        language,
        purpose: Purpose::Objects,
        search,
    };
    Ok(trial.first_of(OF_ZIG)?.compiler)
}

/// Finds a program that makes archives of ELF objects for a target.
///
/// Any `ar` will do: the symbol index of GNU and LLVM archivers covers every ELF machine.
pub fn find_archiver(target: &Target, search: &Search) -> Option<Archiver> {
    let archiver = |program: PathBuf, arguments: Vec<OsString>| Archiver {
        program,
        arguments,
        target: *target,
    };
    for name in environment_names("AR", target) {
        if let Some((program, arguments)) = search
            .variable(&name)
            .and_then(|value| split_command(value, search))
        {
            return Some(archiver(program, arguments));
        }
    }
    let names = [
        format!("{}-ar", target.gnu_triple()),
        "ar".to_owned(),
        "llvm-ar".to_owned(),
    ];
    if let Some(program) = names.iter().find_map(|name| search.program(name)) {
        return Some(archiver(program, Vec::new()));
    }
    let zig = search
        .program("zig")
        .or_else(|| zig_in_python_package(search).ok())
        .or_else(|| zig_in_tools(search)?.ok())?;
    Some(archiver(zig, vec!["ar".into()]))
}

/// A compiler with what decides whether it is worth keeping.
#[derive(Serialize, Deserialize)]
struct Found {
    compiler: Compiler,
    /// What a script says with `--version`: it may start another compiler than before. `None` for any other program.
    version_of_script: Option<String>,
    /// Whether a compiler that did not work was in front of it. One that starts to work needs no new program for that.
    is_second_best: bool,
}

impl Finding for Found {
    fn is_settled(&self) -> bool {
        !self.is_second_best
    }

    fn still_holds(&self, search: &Search) -> bool {
        self.version_of_script == version_of_script(&self.compiler, search)
    }
}

impl Compiler {
    /// What programs may need and cannot get with it.
    pub fn lacks(&self, search: &Search) -> Vec<&'static str> {
        let links = |text: &str| -> std::io::Result<bool> {
            let directory = tempfile::tempdir()?;
            let source = directory.path().join("trial.c");
            fs::write(&source, text)?;
            let mut command = self.command_in(search);
            command.arg("-static").args(["-x", "c"]).arg(source);
            command.arg("-o").arg(directory.path().join("trial"));
            Ok(command.output()?.status.success())
        };
        let lacking = EXTRAS
            .iter()
            .filter(|(_, text)| links(text).is_ok_and(|links| !links));
        lacking.map(|(name, _)| *name).collect()
    }
}

fn version_of_script(compiler: &Compiler, search: &Search) -> Option<String> {
    let mut beginning = [0; 2];
    let mut file = fs::File::open(&compiler.program).ok()?;
    file.read_exact(&mut beginning).ok()?;
    if beginning != *b"#!" {
        return None;
    }
    let output = compiler.command_in(search).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

type Pass = fn(&Trial<'_>) -> Outcome;

const OF_ZIG: [Pass; 3] = [zig, zig_of_python, zig_of_tools];

enum Outcome {
    Found(Compiler),
    Rejected(Vec<Rejected>),
    RejectedForGood(Rejected),
}

fn rejected(candidate: impl Into<String>, reason: Reason) -> Rejected {
    Rejected {
        candidate: candidate.into(),
        reason,
    }
}

fn environment_names(tool: &str, target: &Target) -> [String; 2] {
    [
        format!("{tool}_{}", target.triple()),
        format!("{tool}_{}", target.env_suffix()),
    ]
}

/// Splits the value of a variable as the `cc` crate does: if it is the path of a file, it stays whole; otherwise it is
/// words.
fn split_command(value: &OsStr, search: &Search) -> Option<(PathBuf, Vec<OsString>)> {
    use std::os::unix::ffi::OsStrExt;
    if let Some(program) = search.program(value) {
        return Some((program, Vec::new()));
    }
    let mut words = value
        .as_bytes()
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| OsStr::from_bytes(word).to_owned());
    let program = search.program(words.next()?)?;
    Some((program, words.collect()))
}

fn from_environment(trial: &Trial<'_>) -> Outcome {
    let tool = match trial.language {
        Language::C => "CC",
        Language::Cxx => "CXX",
    };
    let names = environment_names(tool, &trial.target);
    for name in &names {
        let Some(value) = trial.search.variable(name) else {
            continue;
        };
        return trial.only(&format!("{name}={}", value.to_string_lossy()), value);
    }
    Outcome::Rejected(vec![rejected(names[1].clone(), Reason::NotFound)])
}

/// The compiler of [`Search::with_compiler`].
fn asked_for(trial: &Trial<'_>) -> Outcome {
    let command = trial.search.compiler.as_deref().unwrap_or_default();
    trial.only(&command.to_string_lossy(), command)
}

fn native(trial: &Trial<'_>) -> Outcome {
    let names = match trial.language {
        Language::C => ["cc", "gcc", "clang"],
        Language::Cxx => ["c++", "g++", "clang++"],
    };
    let mut tried = Vec::new();
    for name in names {
        let Some(program) = trial.search.program(name) else {
            tried.push(rejected(name, Reason::NotFound));
            continue;
        };
        // -dumpmachine is ten times faster than compiling, and most hosts are glibc systems.
        let kind = match trial.target.libc() {
            Libc::Musl => Kind::NativeMusl,
            Libc::Glibc => Kind::NativeGlibc,
        };
        let outcome = match trial.machine(&program) {
            Ok(machine) if trial.is_for_libc(&machine) => {
                trial.run(Candidate::plain(kind, program))
            }
            Ok(machine) => Err(Reason::OtherMachine { machine }),
            Err(reason) => Err(reason),
        };
        match outcome {
            Ok(compiler) => return Outcome::Found(compiler),
            Err(reason) => tried.push(rejected(name, reason)),
        }
    }
    Outcome::Rejected(tried)
}

fn cross(trial: &Trial<'_>) -> Outcome {
    let suffix = match trial.language {
        Language::C => "gcc",
        Language::Cxx => "g++",
    };
    let mut tried = Vec::new();
    for vendor in ["", "unknown-", "alpine-"] {
        let name = format!("{}-{suffix}", trial.target.gnu_triple_of_vendor(vendor));
        let Some(program) = trial.search.program(&name) else {
            tried.push(rejected(name, Reason::NotFound));
            continue;
        };
        // Debian gives this name to the script `musl-gcc`.
        let kind = match trial.machine(&program) {
            Ok(machine) if trial.is_for_libc(&machine) => Kind::CrossGcc,
            Ok(_) => Kind::MuslGcc,
            Err(reason) => {
                tried.push(rejected(name, reason));
                continue;
            }
        };
        let candidate = match kind {
            Kind::MuslGcc => trial.behind_script(kind, program),
            _ => Candidate::plain(kind, program),
        };
        match trial.run(candidate) {
            Ok(compiler) => return Outcome::Found(compiler),
            Err(reason) => tried.push(rejected(name, reason)),
        }
    }
    Outcome::Rejected(tried)
}

fn musl_gcc(trial: &Trial<'_>) -> Outcome {
    if trial.language == Language::Cxx || trial.target.libc() != Libc::Musl {
        return Outcome::Rejected(Vec::new());
    }
    let Some(program) = trial.search.program("musl-gcc") else {
        return Outcome::Rejected(vec![rejected("musl-gcc", Reason::NotFound)]);
    };
    match trial.run(trial.behind_script(Kind::MuslGcc, program)) {
        Ok(compiler) => Outcome::Found(compiler),
        Err(reason) => Outcome::Rejected(vec![rejected("musl-gcc", reason)]),
    }
}

fn host_gcc_with_musl_headers(trial: &Trial<'_>) -> Outcome {
    if trial.language == Language::C
        || trial.purpose != Purpose::Objects
        || trial.target.libc() != Libc::Musl
    {
        return Outcome::Rejected(Vec::new());
    }
    let shown = "g++ with the specs of musl-gcc";
    let reject = |reason| Outcome::Rejected(vec![rejected(shown, reason)]);
    let names = [
        format!("{}-gcc", trial.target.gnu_triple()),
        "musl-gcc".to_owned(),
    ];
    let found = names.iter().find_map(|name| {
        let script = trial.search.program(name)?;
        trial.gcc_and_specs(&script, &[])
    });
    let Some((_, specs)) = found else {
        return reject(Reason::NotFound);
    };
    let Some(program) = trial.search.program("g++") else {
        return reject(Reason::NotFound);
    };
    let machine = match trial.machine(&program) {
        Ok(machine) => machine,
        Err(reason) => return reject(reason),
    };
    // Debian's musl-dev has no kernel headers (<linux/*.h>, <asm/*.h>). Those of the host will do, after all others.
    let arguments = vec![
        "-specs".into(),
        specs.clone().into_os_string(),
        "-idirafter".into(),
        "/usr/include".into(),
        "-idirafter".into(),
        format!("/usr/include/{machine}").into(),
    ];
    let kind = Kind::HostGccWithMuslHeaders;
    match trial.run(Candidate {
        kind,
        program,
        arguments,
        identity_arguments: "-specs musl-gcc.specs".into(),
        linking: Linking::Specs { specs },
    }) {
        Ok(compiler) => Outcome::Found(compiler),
        Err(reason) => reject(reason),
    }
}

fn zig(trial: &Trial<'_>) -> Outcome {
    match trial.search.program("zig") {
        Some(program) => trial.run_zig(program, "zig"),
        None => Outcome::Rejected(vec![rejected("zig", Reason::NotFound)]),
    }
}

fn zig_of_python(trial: &Trial<'_>) -> Outcome {
    let shown = "python3 -m ziglang";
    match zig_in_python_package(trial.search) {
        Ok(program) => trial.run_zig(program, shown),
        Err(reason) => Outcome::Rejected(vec![rejected(shown, reason)]),
    }
}

fn zig_of_tools(trial: &Trial<'_>) -> Outcome {
    match zig_in_tools(trial.search) {
        Some(Ok(program)) => {
            let shown = program.display().to_string();
            trial.run_zig(program, &shown)
        }
        Some(Err(distrusted)) => {
            let reason = Reason::Distrusted(distrusted);
            Outcome::Rejected(vec![rejected("reheap's own Zig", reason)])
        }
        None => Outcome::Rejected(Vec::new()),
    }
}

/// Zig as `reheap doctor --fix` installed it, with the libraries that it compiles.
fn zig_in_tools(search: &Search) -> Option<Result<PathBuf, Distrusted>> {
    let tools = search.tools.as_ref()?;
    let program = search.program(tools.join("ziglang/zig"))?;
    search.look_at(tools);
    let checked = Trust::of_this_process().check_tree(tools);
    Some(checked.map(|()| program))
}

/// The program that `python3 -m ziglang` would start. reheap starts it directly, because Python starts more slowly than
/// Zig.
pub(super) fn zig_in_python_package(search: &Search) -> Result<PathBuf, Reason> {
    let python = search.program("python3").ok_or(Reason::NotFound)?;
    let mut command = Command::new(python);
    search.prepare(&mut command, Kind::Zig);
    // Python searches the working directory first, which could contain a `ziglang.py`.
    command.current_dir("/").args([
        "-c",
        "import os, ziglang; print(os.path.dirname(ziglang.__file__))",
    ]);
    let output = command.output().map_err(does_not_start)?;
    if !output.status.success() {
        return Err(Reason::NotFound);
    }
    use std::os::unix::ffi::OsStrExt;
    let directory = OsStr::from_bytes(output.stdout.trim_ascii_end());
    search
        .program(Path::new(directory).join("zig"))
        .ok_or(Reason::NotFound)
}

/// How every call of Zig's compilers begins.
fn zig_arguments(target: &Target, language: Language) -> Vec<OsString> {
    let subcommand = match language {
        Language::C => "cc",
        Language::Cxx => "c++",
    };
    let mut arguments: Vec<OsString> = vec![
        subcommand.into(),
        "-target".into(),
        target.zig_triple().into(),
        // Zig adds debug information with absolute paths, a sanitizer and macros, and it makes __DATE__ an error. Other
        // compilers do none of that unasked. A later flag of the caller still wins.
        "-g0".into(),
        "-fno-sanitize=undefined".into(),
        "-U_DEBUG".into(),
        "-UNDEBUG".into(),
        "-U_FORTIFY_SOURCE".into(),
        // libc++ aborts in checks of its own, unless -O1 or more is among the flags. Its headers need a default.
        "-U_LIBCPP_HARDENING_MODE".into(),
        "-D_LIBCPP_HARDENING_MODE_DEFAULT=_LIBCPP_HARDENING_MODE_NONE".into(),
        "-Wno-error=date-time".into(),
        // GCC and Clang do this from -O1 on.
        "-fomit-frame-pointer".into(),
    ];
    arguments.extend(target.zig_cpu().map(|cpu| format!("-mcpu={cpu}").into()));
    arguments
}

impl Trial<'_> {
    fn first_of(&self, passes: impl IntoIterator<Item = Pass>) -> Result<Found, NoCompiler> {
        let none = |tried| NoCompiler {
            language: self.language,
            target: self.target,
            purpose: self.purpose,
            tried,
        };
        let mut tried = Vec::new();
        for pass in passes {
            match pass(self) {
                Outcome::Found(compiler) => {
                    return Ok(Found {
                        version_of_script: version_of_script(&compiler, self.search),
                        is_second_best: tried.iter().any(Rejected::may_work_later),
                        compiler,
                    });
                }
                Outcome::Rejected(rejected) => tried.extend(rejected),
                Outcome::RejectedForGood(rejected) => return Err(none(vec![rejected])),
            }
        }
        Err(none(tried))
    }

    fn run_zig(&self, program: PathBuf, shown: &str) -> Outcome {
        let arguments = zig_arguments(&self.target, self.language);
        let identity_arguments = without_directories(&arguments);
        match self.run(Candidate {
            kind: Kind::Zig,
            program,
            arguments,
            identity_arguments,
            linking: Linking::Zig,
        }) {
            Ok(compiler) => Outcome::Found(compiler),
            Err(reason) => Outcome::Rejected(vec![rejected(shown, reason)]),
        }
    }

    /// The compiler that the user decides for.
    fn only(&self, shown: &str, command: &OsStr) -> Outcome {
        let Some((program, arguments)) = split_command(command, self.search) else {
            return Outcome::RejectedForGood(rejected(shown, Reason::NotFound));
        };
        match self.run(self.named(program, arguments)) {
            Ok(compiler) => Outcome::Found(compiler),
            Err(reason) => Outcome::RejectedForGood(rejected(shown, reason)),
        }
    }
}
