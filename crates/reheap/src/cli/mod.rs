//! The table of contents: one `match` per program, one file per subcommand.

pub(crate) mod adopt;
mod attack;
mod bench;
mod cache;
mod cargo;
mod cargo_bench;
mod cc;
mod check_memory;
mod compare;
mod disable;
mod doctor;
mod enable;
mod generate;
mod graft;
mod groups;
mod image;
mod inspect;
mod libc;
mod link_names;
mod list;
mod list_file;
mod preload;
mod profile;
mod recommend;
mod replay;
mod report;
mod run;
mod status;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser};
use groups::grouped;
use reheap_command::exit;
use reheap_command::interrupt;
use reheap_command::ui;
use reheap_static::project::{Verb, linker, separate};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Give any Linux program a better memory allocator, prove that it has it, and measure what changed
#[derive(Debug, Parser)]
#[command(
    name = "reheap",
    version,
    after_help = "`reheap COMMAND --help` shows the options of a command.\n\n\
                  Examples:\n  cargo reheap build --release\n  reheap run -a jemalloc -- python3 train.py\n  \
                  reheap recommend -- ./server --selftest",
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Reheap {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Compile and link a static C program with another allocator
    #[command(after_help = cc::EXAMPLES)]
    Cc(cc::CcArguments),
    /// Compile and link a static C++ program with another allocator
    #[command(name = "c++", after_help = cc::EXAMPLES_CXX)]
    Cxx(cc::CcArguments),
    /// Make a derived libc and print its directory
    #[command(after_help = libc::EXAMPLES)]
    Libc(libc::LibcArguments),
    /// Run a program with another allocator
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArguments),
    /// Put another allocator into a finished static executable
    #[command(after_help = graft::EXAMPLES)]
    Graft(graft::GraftArguments),
    /// Make short names for `reheap run`, such as `mimalloc-run`
    #[command(after_help = link_names::EXAMPLES)]
    LinkNames(link_names::LinkNamesArguments),
    /// Give every dynamic program of a system another allocator
    #[command(after_help = enable::EXAMPLES)]
    Enable(enable::EnableArguments),
    /// Undo what `enable` did
    #[command(after_help = disable::EXAMPLES)]
    Disable(disable::DisableArguments),
    /// Show what is enabled in a system, and which processes have it
    #[command(after_help = status::EXAMPLES)]
    Status(status::StatusArguments),
    /// Write the library of an allocator, for your own deployment
    #[command(after_help = preload::EXAMPLES)]
    Preload(preload::PreloadArguments),
    Inspect(inspect::Arguments),
    /// Compare time and memory of a command under several allocators
    #[command(after_help = bench::EXAMPLES)]
    Bench(Box<bench::BenchArguments>),
    /// Find out which allocator is best for a command
    #[command(after_help = recommend::EXAMPLES)]
    Recommend(Box<recommend::RecommendArguments>),
    /// Show how a command allocates: sizes, lifetimes, call sites
    #[command(after_help = profile::EXAMPLES)]
    Profile(profile::ProfileArguments),
    /// Show the memory errors that the strictest allocators notice
    #[command(after_help = check_memory::EXAMPLES)]
    CheckMemory(check_memory::CheckMemoryArguments),
    /// Make the calls of a recorded program under another allocator
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArguments),
    /// Commit memory errors, and show which allocator stops which
    #[command(after_help = attack::EXAMPLES)]
    Attack(attack::AttackArguments),
    /// Make reports from the results of `reheap bench --json`
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportingArguments),
    /// Make a container image from programs, without a container engine
    #[command(after_help = image::EXAMPLES)]
    Image(Box<image::ImageArguments>),
    /// Set up the allocator of a Rust project, check it, or undo that
    #[command(after_help = adopt::EXAMPLES)]
    Adopt(Box<adopt::AdoptArguments>),
    /// Show what reheap keeps in its cache, or remove it
    #[command(after_help = cache::EXAMPLES)]
    Cache(cache::CacheArguments),
    /// Show the allocators that there are, or everything about one
    #[command(after_help = list::EXAMPLES)]
    List(list::ListArguments),
    /// Show what this machine has and lacks, for each command
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArguments),
    /// Print a man page or the completions of a shell
    #[command(after_help = generate::EXAMPLES)]
    Generate(generate::GenerateArguments),
}

/// Cargo's commands, for static executables with another allocator
#[derive(Debug, Parser)]
#[command(
    name = "cargo reheap",
    bin_name = "cargo reheap",
    version,
    after_help = "`cargo reheap COMMAND --help` shows the options of a command.\n\n\
                  Example:\n  cargo reheap build --release -a jemalloc",
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct CargoReheap {
    #[command(subcommand)]
    command: CargoCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CargoCommand {
    /// Build static executables with another allocator
    #[command(
        after_help = "Examples:\n  cargo reheap build --release\n  cargo reheap build --release -a jemalloc -t narenas=2\n  \
                      cargo reheap build --target x86_64-unknown-linux-musl --target aarch64-unknown-linux-musl"
    )]
    Build(cargo::CargoArguments),
    /// Check the project for the musl target, without building executables
    #[command(after_help = "Example:\n  cargo reheap check --workspace")]
    Check(cargo::CargoArguments),
    /// Run Clippy on the project for the musl target
    #[command(after_help = "Example:\n  cargo reheap clippy --all-targets -- -D warnings")]
    Clippy(cargo::CargoArguments),
    /// Build one static executable, with flags for its compiler
    #[command(
        after_help = "Example:\n  cargo reheap rustc --release --bin app -- -C target-cpu=native"
    )]
    Rustc(cargo::CargoArguments),
    /// Build and run a static executable with another allocator
    #[command(
        after_help = "Example:\n  cargo reheap run --release -a snmalloc -- --the-programs-flag"
    )]
    Run(cargo::CargoArguments),
    /// Build the tests as static executables, and run them
    #[command(after_help = "Example:\n  cargo reheap test -a mimalloc-secure -p one-package")]
    Test(cargo::CargoArguments),
    /// Compare time and memory of the program under each allocator
    #[command(after_help = cargo_bench::EXAMPLES)]
    Bench(Box<cargo_bench::CargoBenchArguments>),
    /// Find out which allocator is best for the project's program
    #[command(after_help = recommend::CARGO_EXAMPLES)]
    Recommend(Box<recommend::CargoRecommendArguments>),
    /// Build static executables and make a container image of them
    #[command(after_help = image::CARGO_EXAMPLES)]
    Image(Box<image::CargoImageArguments>),
    /// Set up the allocator of the project, check it, or undo that
    #[command(after_help = adopt::EXAMPLES)]
    Adopt(Box<adopt::AdoptArguments>),
    /// Install a static executable with another allocator
    #[command(
        after_help = "Examples:\n  cargo reheap install ripgrep\n  cargo reheap install --path . -a jemalloc"
    )]
    Install(cargo::CargoArguments),
}

/// Runs the command that the arguments ask for, with the name of the program in front.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    if arguments.get(1).is_some_and(|a| a == linker::SUBCOMMAND) {
        return finish(linker::run(&arguments[2..]));
    }
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    if called.is_some_and(|name| name == "cargo-reheap") {
        run_cargo_reheap(arguments)
    } else {
        run_reheap(arguments)
    }
}

fn run_reheap(arguments: Vec<OsString>) -> ExitCode {
    let arguments = link_names::spelled_out(arguments);
    if let Some(code) = cc::run_if_asked(&arguments) {
        return finish(code);
    }
    let Reheap { command } = match parse(grouped(Reheap::command(), groups::REHEAP), &arguments) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    finish(match command {
        Command::Cc(_) | Command::Cxx(_) => cc::run_without_arguments(),
        Command::Libc(arguments) => libc::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Graft(arguments) => graft::run(&arguments),
        Command::LinkNames(arguments) => link_names::run(&arguments),
        Command::Enable(arguments) => enable::run(&arguments),
        Command::Disable(arguments) => disable::run(&arguments),
        Command::Status(arguments) => status::run(&arguments),
        Command::Preload(arguments) => preload::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Recommend(arguments) => recommend::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::CheckMemory(arguments) => check_memory::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Attack(arguments) => attack::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Adopt(arguments) => adopt::run(&arguments),
        Command::Cache(arguments) => cache::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
    })
}

/// Cargo passes `reheap` as the first argument.
fn run_cargo_reheap(mut arguments: Vec<OsString>) -> ExitCode {
    if arguments.get(1).is_some_and(|a| a == "reheap") {
        arguments.remove(1);
    }
    let mut program = CargoReheap::command();
    program.build();
    let asked = arguments.get(1).and_then(|name| name.to_str());
    let asked = asked.filter(|name| *name != "help");
    if let Some(command) = asked.and_then(|name| program.find_subcommand(name)) {
        let rest = arguments.split_off(2);
        arguments.extend(separate(command, &rest));
    }
    let CargoReheap { command } = match parse(grouped(program, groups::CARGO_REHEAP), &arguments) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    finish(match command {
        CargoCommand::Build(arguments) => cargo::run(Verb::Build, &arguments),
        CargoCommand::Check(arguments) => cargo::run(Verb::Check, &arguments),
        CargoCommand::Clippy(arguments) => cargo::run(Verb::Clippy, &arguments),
        CargoCommand::Rustc(arguments) => cargo::run(Verb::Rustc, &arguments),
        CargoCommand::Run(arguments) => cargo::run(Verb::Run, &arguments),
        CargoCommand::Test(arguments) => cargo::run(Verb::Test, &arguments),
        CargoCommand::Bench(arguments) => cargo_bench::run(&arguments),
        CargoCommand::Recommend(arguments) => recommend::run_for_cargo(&arguments),
        CargoCommand::Image(arguments) => image::run_for_cargo(&arguments),
        CargoCommand::Adopt(arguments) => adopt::run(&arguments),
        CargoCommand::Install(arguments) => cargo::run(Verb::Install, &arguments),
    })
}

fn parse<P: Parser>(mut program: clap::Command, arguments: &[OsString]) -> Result<P, ExitCode> {
    let matches = program.try_get_matches_from_mut(arguments);
    let parsed = matches.and_then(|matches| P::from_arg_matches(&matches));
    parsed.map_err(|mut error| {
        advise_on_command(&mut error);
        // If the message cannot be written, there is nobody left to tell.
        let _ = error.print();
        if error.use_stderr() {
            ExitCode::from(exit::WRONG_USAGE)
        } else {
            ExitCode::SUCCESS
        }
    })
}

/// A command in a place where none can be lacks the `--` that separates its flags from reheap's.
fn advise_on_command(error: &mut clap::Error) {
    let is_word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => !word.starts_with('-'),
        _ => false,
    };
    let usage = error.get(ContextKind::Usage).map(ToString::to_string);
    let takes_command = usage.is_some_and(|usage| usage.contains("-- "));
    if error.kind() == ErrorKind::UnknownArgument && is_word && takes_command {
        let tip = "put `--` before the command and its arguments".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
}

fn finish(result: anyhow::Result<ExitCode>) -> ExitCode {
    interrupt::wait_if_ending();
    result.unwrap_or_else(|error| ui::report(&error))
}
