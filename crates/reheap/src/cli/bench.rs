//! `reheap bench`: which allocator is best for this command.
//!
//! reheap runs a program with each allocator: preloaded, or mapped into the process of a static one. Other variants are the user's own commands.

use crate::cli::compare;
use reheap_command::ui::Failure;
use reheap_variants::bench::given;
use reheap_variants::bench::measure::{self, Measurement};
use reheap_variants::bench::options::{MeasuringArguments, ServerArguments};
use reheap_variants::bench::outputs::OutputArguments;
use reheap_variants::bench::replayed;
use reheap_variants::bench::sweep;
use reheap_variants::bench::variants::{self, Typed};
use reheap_variants::replaying::TraceArguments;
use reheap_workshop::workshop::{Network, Workshop};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    reheap bench -- python3 script.py\n  \
    reheap bench --variant glibc,jemalloc,mimalloc --rounds 20 --html report.html -- ./app --selftest\n  \
    reheap bench --variant old='./old {threads}' --variant new='./new {threads}' -L threads=1,2,4\n  \
    reheap bench --trace calls.rht --variant glibc,jemalloc,musl+mimalloc\n  \
    reheap bench --server './server -p 7777' --ready-port 7777 --load './load 127.0.0.1:7777'";

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "reheap bench [OPTIONS] [-- COMMAND...]\n       reheap bench compare OLD NEW"
)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    subcommand: Option<Subcommand>,
    /// The command to run under each variant
    #[arg(last = true)]
    command: Vec<OsString>,
    /// The variants to compare, the first being the baseline: glibc, jemalloc, glibc+mimalloc[purge_delay=0],
    /// or NAME=COMMAND [default: the libc's own allocator, and each that is not hardened]
    #[arg(long, value_name = "VARIANT,…")]
    variant: Vec<String>,
    /// The name in reports [default: the command]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    trace: TraceArguments,
    #[command(flatten)]
    measuring: MeasuringArguments,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Compare two files of results, for CI
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareArguments),
}

/// Measures and reports.
pub(crate) fn run(arguments: &BenchArguments) -> anyhow::Result<ExitCode> {
    if let Some(Subcommand::Compare(arguments)) = &arguments.subcommand {
        return compare::run(arguments);
    }
    let typed = variants::parse(&arguments.variant)?;
    let server = arguments.server.check()?;
    let outputs = arguments.output.check()?;
    let measuring = arguments.measuring.check()?;
    let workshop = Workshop::new(Network::AsConfigured);
    let replay = arguments.trace.prepare()?;
    let words = match (&server, &replay) {
        (Some(server), _) => server.words.clone(),
        (None, Some(replay)) => replay.words(&workshop)?,
        (None, None) => arguments.command.clone(),
    };
    refuse_wrong_words(&typed, &words)?;
    let load = server.iter().flat_map(|server| &server.load);
    let own = variants::words_of_own(&typed);
    sweep::refuse_unused(&measuring.sweep, words.iter().chain(load).chain(&own))?;
    let name = arguments.name.clone().unwrap_or_else(|| match &replay {
        Some(replay) => replay.name.clone(),
        None => shown(&words, &typed),
    });
    let measurement = Measurement::new(measuring, name, server)?;
    let (ready, left_out) = match &replay {
        Some(replay) => replayed::prepare(&typed, replay, &measurement, &workshop)?,
        None => given::prepare(&typed, &words, &measurement, &workshop)?,
    };
    let results = measurement.run(&ready, &left_out)?;
    measure::finish(&results, &outputs)
}

/// Refuses to run nothing, and a command that no variant would run.
fn refuse_wrong_words(typed: &[Typed], words: &[OsString]) -> Result<(), Failure> {
    match (words, variants::all_own(typed)) {
        ([], false) => {
            let failure = Failure::usage("there is no command to run");
            Err(failure.hint("reheap bench -- COMMAND"))
        }
        ([program, ..], true) => {
            let program = program.to_string_lossy();
            let text =
                format!("no variant runs `{program}`: each of them has a command of its own");
            let hint = "leave it out, or name a variant for it: --variant glibc";
            Err(Failure::usage(text).hint(hint))
        }
        _ => Ok(()),
    }
}

/// The command as a person types it, with the program's name alone; of several commands the names.
pub(crate) fn shown(words: &[OsString], typed: &[Typed]) -> String {
    let Some((program, arguments)) = words.split_first() else {
        let names = typed.iter().filter_map(|variant| match variant {
            Typed::OwnCommand(command) => Some(command.name.as_str()),
            Typed::OfLibc(_) => None,
        });
        return names.collect::<Vec<_>>().join(", ");
    };
    let program = Path::new(program).file_name().unwrap_or(program);
    let words = std::iter::once(program).chain(arguments.iter().map(OsString::as_os_str));
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    shell_words::join(words)
}
