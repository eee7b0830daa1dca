//! `reheap cc` and `reheap c++`: a compiler driver that makes static executables with another allocator.
//!
//! It takes the place of a compiler (`CC="reheap cc"`), so on success it prints only what a compiler would print. Only
//! what comes before the first compiler argument belongs to reheap: it must not read `-ansi` or `-target` as `-a nsi`
//! and `-t arget`.

use anyhow::Context as _;
use clap::CommandFactory as _;
use reheap_allocators::compiler::{Compiler, Language, Pie, Purpose, REFUSES_ITSELF, Search};
use reheap_allocators::target::Target;
use reheap_command::choice::{self, Choice, StaticArguments};
use reheap_command::env_vars;
use reheap_command::exit;
use reheap_command::ui::Failure;
use reheap_static::cc::call::{self, Call};
use reheap_static::project::proof::{self, Hints};
use reheap_static::project::stack;
use reheap_workshop::original;
use reheap_workshop::workshop::{Network, Workshop, refuse_missing};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

pub(crate) const EXAMPLES: &str = "Examples:
  reheap cc -O2 hello.c -o hello
  reheap cc -a jemalloc -t narenas=2 -- -O2 hello.c -o hello
  reheap cc --target aarch64-unknown-linux-musl -O2 hello.c -o hello
  CC=\"reheap cc\" ./configure && make
  REHEAP_ALLOCATOR=snmalloc CC=\"reheap cc\" cmake -B build";
pub(crate) const EXAMPLES_CXX: &str = "Examples:
  reheap c++ -O2 hello.cpp -o hello
  reheap c++ --target aarch64-unknown-linux-musl -O2 hello.cpp -o hello
  CC=\"reheap cc\" CXX=\"reheap c++\" cmake -B build";

/// What `reheap cc` itself understands.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CcArguments {
    #[command(flatten)]
    linked_with: StaticArguments,
    /// The musl target to make programs for; the compiler's own `--target` goes after `--`
    /// [default: that of this machine]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// The libc.a to derive from [default: the compiler's own]
    #[arg(long, value_name = "FILE")]
    libc: Option<PathBuf>,
    /// The compiler: `zig`, or a command such as `musl-gcc` or `/opt/cross/bin/gcc -m64`
    /// [default: see `reheap doctor`]
    #[arg(long, value_name = "COMPILER")]
    compiler: Option<OsString>,
    /// The compiler's arguments, all that follow
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMPILER ARGUMENTS"
    )]
    given: Vec<OsString>,
}

#[derive(Debug, clap::Parser)]
#[command(name = "reheap cc", bin_name = "reheap cc", after_help = EXAMPLES)]
struct OwnArguments {
    #[command(flatten)]
    arguments: CcArguments,
}

/// All flags of reheap's own, with their dashes. Each has a value.
fn own_flags() -> Vec<String> {
    let command = OwnArguments::command();
    let flags = command.get_arguments().filter(|flag| !flag.is_positional());
    let spellings = flags.flat_map(|flag| {
        let short = flag.get_short().map(|letter| format!("-{letter}"));
        short
            .into_iter()
            .chain(flag.get_long().map(|name| format!("--{name}")))
    });
    spellings.collect()
}

/// Puts `--` before the first argument that is not reheap's own.
fn separate(arguments: &[OsString]) -> Vec<OsString> {
    let own = own_flags();
    let mut position = 0;
    while let Some(argument) = arguments.get(position).and_then(|a| a.to_str()) {
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (argument, None),
        };
        if !own.iter().any(|own| own == flag) {
            break;
        }
        position += if value.is_some() { 1 } else { 2 };
    }
    let position = position.min(arguments.len());
    let mut separated = arguments[..position].to_vec();
    if arguments
        .get(position)
        .is_none_or(|argument| argument != "--")
    {
        separated.push("--".into());
    }
    separated.extend_from_slice(&arguments[position..]);
    separated
}

/// Runs `reheap cc` or `reheap c++`, without the parser, which would split the compiler's arguments.
pub(crate) fn run_if_asked(arguments: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    let language = match arguments.get(1)?.to_str()? {
        "cc" => Language::C,
        "c++" => Language::Cxx,
        _ => return None,
    };
    if env_vars::variable(env_vars::STARTED_AS_COMPILER).is_some() {
        let hint = "name another compiler in CC_<target> and CXX_<target>, and take reheap out of the `cc` in PATH";
        return Some(Err(Failure::usage(REFUSES_ITSELF).hint(hint).into()));
    }
    let rest = &arguments[2..];
    if rest.is_empty() || rest[0] == "--help" || rest[0] == "-h" {
        return None; // the full parser prints the help
    }
    let mut own: Vec<OsString> = vec!["reheap cc".into()];
    own.extend(separate(rest));
    Some(
        match super::parse::<OwnArguments>(OwnArguments::command(), &own) {
            Ok(own) => run(language, &own.arguments),
            Err(code) => Ok(code),
        },
    )
}

/// The full parser took the arguments because there were none.
pub(crate) fn run_without_arguments() -> anyhow::Result<ExitCode> {
    Err(Failure::usage("no compiler arguments")
        .hint("reheap cc -O2 hello.c -o hello")
        .into())
}

fn run(language: Language, arguments: &CcArguments) -> anyhow::Result<ExitCode> {
    let linked_with = arguments.linked_with.check()?;
    let target = choice::musl_target(arguments.target.as_deref())?;
    refuse_missing(&linked_with.choice, &target)?;
    let workshop = Workshop::new(Network::AsConfigured);
    let given = &arguments.given;
    let read = call::with_response_files(given)?;
    refuse_late_target(&read)?;
    let call = Call::of(&read);
    if call == Call::LinksShared {
        // A library made by the compiler alone would be useless: libtool and CMake link the project's programs with it
        // next.
        let text = "cannot make a shared library: reheap links static programs, and those load no libraries";
        let hint = "tell the project to make static libraries: `./configure --disable-shared` with libtool, \
                    `-DBUILD_SHARED_LIBS=OFF` with CMake, `-Ddefault_library=static` with Meson";
        return Err(Failure::usage(text).hint(hint).into());
    }
    // Objects use the same compiler as links: another one may have other headers or another C++ library.
    let compiler = match &arguments.compiler {
        Some(command) => workshop.named_compiler(command, &target, language)?,
        None => workshop.compiler(&target, language, Purpose::Programs)?,
    };
    let pie = Pie::of_arguments(&read);
    let mut command = driver(&compiler, &workshop, &read);
    let cannot_start = || format!("cannot start `{}`", compiler.program.display());
    if call != Call::Links {
        // Objects that can go into a static-pie; a later flag of the user's wins.
        let for_pie = (call == Call::Compiles && pie == Pie::Yes).then_some("-fPIE");
        if compiler.compiles_only_the_first()
            && let Some(calls) = call::for_each_file(&read)
        {
            let mut code = ExitCode::SUCCESS;
            for given in calls {
                let mut command = driver(&compiler, &workshop, &read);
                let status = command.args(for_pie).args(given).status();
                let status = status.with_context(cannot_start)?;
                if !status.success() {
                    code = exit::passed_on(status);
                }
            }
            return Ok(code);
        }
        command.args(for_pie);
        // There is nothing to do afterwards, so reheap becomes the compiler.
        let error = command.args(given).exec();
        return Err(error).with_context(cannot_start);
    }
    let original = match &arguments.libc {
        Some(file) => libc_for(&target, file, workshop.search())?,
        None => workshop.original_libc(&compiler, &target)?,
    };
    let derived = workshop.derived_directory(&linked_with.choice, &target, &original)?;
    let directory = match derived {
        Some(directory) => directory,
        None => original.parent().unwrap_or(Path::new(".")).to_owned(),
    };
    let scripts = workshop.cache()?.directory("compilers")?;
    command.args(compiler.link_arguments(&directory, pie, &scripts)?);
    let mut linked_by = Vec::new();
    if linked_with.stack_size_bytes > 0 {
        let bytes = linked_with.stack_size_bytes;
        linked_by.push(format!("-Wl,-z,stack-size={bytes}").into());
    }
    command.args(&linked_by);
    // Last, because the last of them may be a flag that lacks its value.
    let status = command.args(given).status().with_context(cannot_start)?;
    if let Some(option) = compiler.unknown_to_its_linker(&read)
        && !status.success()
    {
        let text = format!("Zig cannot link a program with `{option}`");
        let hint = "choose another compiler: --compiler <COMPILER>";
        return Err(Failure::failed(text).hint(hint).into());
    }
    if status.success() {
        let output = call::output_of(&read);
        prove(&output, &linked_with.choice, &target)?;
        linked_by.extend(read);
        stack::set_if_ignored(&output, &linked_by)?;
    }
    Ok(exit::passed_on(status))
}

/// The compiler with the user's own terminal, input and language.
fn driver(compiler: &Compiler, workshop: &Workshop, given: &[OsString]) -> Command {
    let mut command = compiler.command_in(workshop.search());
    command.args(compiler.front_of(given));
    command.stdin(Stdio::inherit()).env_remove("LC_ALL");
    command.envs(env_vars::variable("LC_ALL").map(|value| ("LC_ALL", value)));
    command
}

/// The derived libc is the first that the linker looks into, unless the user names another.
const HINTS: Hints = Hints {
    not_static: None,
    another: Some("leave out the libc that the arguments name: reheap adds one"),
};

/// Reads back what was linked.
fn prove(output: &Path, choice: &Choice, target: &Target) -> anyhow::Result<()> {
    match output.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!("the compiler succeeded but made no `{}`", output.display());
            return Err(Failure::failed(text)
                .hint("name the program: -o <file>")
                .into());
        }
        // A script that tries a flag writes to /dev/null: there is nothing to read back.
        Ok(metadata) if !metadata.is_file() => return Ok(()),
        _ => (),
    }
    if !proof::of_executable(output, choice, HINTS)?.is_for(target) {
        let text = format!("`{}` is not for `{target}`", output.display());
        let hint = "leave out the compiler's own flags for another processor";
        return Err(Failure::failed(text).hint(hint).into());
    }
    Ok(())
}

/// GCC takes `--target` for the beginning of `--target-help`, prints a screen of that and makes nothing. Clang's flag is
/// one word, `--target=…`.
fn refuse_late_target(compiler: &[OsString]) -> Result<(), Failure> {
    let late = compiler.windows(2).find(|words| words[0] == "--target");
    let Some(target) = late.and_then(|words| words[1].to_str()) else {
        return Ok(());
    };
    let text = "`--target` stands behind the compiler's arguments, and reheap's own come first";
    Err(Failure::usage(text).hint(format!("put it first: --target {target}")))
}

/// The libc.a that the user names.
fn libc_for(target: &Target, file: &Path, search: &Search) -> anyhow::Result<PathBuf> {
    let its_own = Target::musl(original::find(file, search)?.architecture());
    if its_own != *target {
        let text = format!("`{}` is a libc for {its_own}", file.display());
        let hint = format!("make programs for it: --target {its_own}");
        return Err(Failure::usage(text).hint(hint).into());
    }
    Ok(file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(arguments: &[&str]) -> Vec<OsString> {
        arguments.iter().map(OsString::from).collect()
    }

    #[test]
    fn only_what_stands_in_front_is_reheaps_own() {
        let given = strings(&["-a", "jemalloc", "-ansi", "-a", "-target", "x", "f.c"]);
        let expected = strings(&["-a", "jemalloc", "--", "-ansi", "-a", "-target", "x", "f.c"]);
        assert_eq!(separate(&given), expected);
        assert_eq!(
            separate(&strings(&["-a", "x", "--", "f.c"])),
            strings(&["-a", "x", "--", "f.c"])
        );
        assert_eq!(
            separate(&strings(&["-O2", "f.c"])),
            strings(&["--", "-O2", "f.c"])
        );
        for (given, expected) in [
            (
                &["--target=t", "--target=u", "f.c"][..],
                &["--target=t", "--target=u", "--", "f.c"][..],
            ),
            (
                &["--target", "t", "-O2", "--target=u"],
                &["--target", "t", "--", "-O2", "--target=u"],
            ),
            (&["--", "--target=u", "f.c"], &["--", "--target=u", "f.c"]),
        ] {
            assert_eq!(separate(&strings(given)), strings(expected));
        }
    }
}
