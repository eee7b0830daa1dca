//! What is shown, measured and tried with reheap: `cargo lab <task>`. The README says how.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "lab is a program, and talking is its job"
)]

mod adopt_corpus;
mod adopt_trials;
mod attacks;
mod demo;
mod emulator;
mod figures;
mod fuzz;
mod grafts;
mod inspect_corpus;
mod known;
mod machine;
mod many_processors;
mod measure;
mod measurement;
mod memory_counts;
mod memory_functions;
mod memory_plot;
mod pages;
mod prerequisites;
mod profiles;
mod program_counts;
mod programs;
mod published;
mod real;
mod registry;
mod scaling;
mod sources;
mod start;
mod table;
mod trials;
mod trust;

use clap::Parser;
use measure::Subject;
use std::process::ExitCode;
use xtask::workspace::Workspace;

/// Shows reheap, measures it, and tries it on real programs.
#[derive(Parser)]
#[command(name = "cargo lab", bin_name = "cargo lab")]
enum Task {
    /// Measure everything that the README claims, and write tables and raw data to docs/measurements/
    Measure {
        /// How often every variant runs
        #[arg(long, value_name = "N", default_value_t = 10)]
        rounds: usize,
        /// Name of this machine in the directory's name [default: architecture and number of processors]
        #[arg(long, value_name = "NAME")]
        machine: Option<String>,
        /// Only what protection costs: the hardened allocators beside those without
        #[arg(long)]
        hardened: bool,
        /// Only how the time changes with one to 32 threads
        #[arg(long, conflicts_with = "hardened")]
        scaling: bool,
        /// Only what others have published, repeated here
        #[arg(long, conflicts_with_all = ["hardened", "scaling"])]
        published: bool,
        /// Only programs that nobody here wrote, from the registries, at everyday work
        #[arg(long, conflicts_with_all = ["hardened", "scaling", "published"])]
        real: bool,
        /// Only released static programs, as they are, grafted, and for glibc; `start` for what their start costs
        #[arg(long, conflicts_with_all = ["hardened", "scaling", "published", "real"])]
        graft: bool,
        /// Only these programs; `figures` for what reheap itself costs
        only: Vec<String>,
    },
    /// Compare a small program with glibc, stock musl and mimalloc in musl, and print a chart
    Demo {
        /// Two programs, with every allocator, and with one thread and two
        #[arg(long)]
        all: bool,
    },
    /// Write the charts, tables and figures of all measurements again, from the raw data
    Pages,
    /// Fuzz each reader of foreign files for a while, and write a table of what came of it
    Fuzz {
        /// How long each target runs, in seconds of processor time
        #[arg(long, value_name = "N", default_value_t = 3600)]
        seconds: u64,
        /// How many targets run at once [default: one on each processor]
        #[arg(long, value_name = "N")]
        at_once: Option<std::num::NonZeroUsize>,
        /// Only these targets
        only: Vec<String>,
    },
    /// Count the instructions of the memory functions for AArch64 and of musl's, in an emulator
    CountMemory {
        /// Where to write the table and the raw data [default: only print the table]
        #[arg(long, value_name = "DIRECTORY")]
        into: Option<std::path::PathBuf>,
    },
    /// Count the instructions that programs for AArch64 execute with each libc and allocator, in an emulator
    CountPrograms {
        /// Where the table and the raw data are written, from the root of the workspace
        #[arg(long, value_name = "DIRECTORY")]
        directory: std::path::PathBuf,
    },
    /// Predict how threads hold each other up on one to 64 processors, in an emulator with a model of caches
    ManyProcessors {
        /// Where the page, its chart and the raw data are written, from the root of the workspace
        #[arg(long, value_name = "DIRECTORY")]
        directory: std::path::PathBuf,
    },
    /// Measure memcpy, memset, strlen and the like against musl's and glibc's, and plot them
    MeasureMemory {
        /// Name of this machine in the directory's name [default: architecture and number of processors]
        #[arg(long, value_name = "NAME")]
        machine: Option<String>,
    },
    /// Measure what the start of a small program costs with each allocator
    MeasureStart {
        /// Where the table and the raw data are written, from the root of the workspace
        #[arg(long, value_name = "DIRECTORY")]
        directory: std::path::PathBuf,
    },
    /// Measure how far `reheap bench` may be trusted: false and missed differences, peak memory, its own overhead
    MeasureTrust {
        /// Name of this machine in the directory's name [default: architecture and number of processors]
        #[arg(long, value_name = "NAME")]
        machine: Option<String>,
        /// Results that are there already, and where new ones go [default: in Cargo's target directory]
        #[arg(long, value_name = "DIRECTORY")]
        raw: Option<std::path::PathBuf>,
    },
    /// Measure what `reheap profile` costs beside other heap profilers, and how true a replay is; today's results are kept
    MeasureProfile {
        /// How often every variant runs
        #[arg(long, value_name = "N", default_value_t = 10)]
        rounds: usize,
        /// Name of this machine in the directory's name [default: architecture and number of processors]
        #[arg(long, value_name = "NAME")]
        machine: Option<String>,
        /// Only `cost`, or the replays of these programs
        only: Vec<String>,
    },
    /// Fetch and build files that bring allocators, inspect them, and write verdicts beside the truth
    InspectCorpus {
        /// Where the tables are written, from the root of the workspace
        #[arg(long, value_name = "DIRECTORY")]
        directory: std::path::PathBuf,
    },
    /// Fetch real projects, run `reheap adopt --check` in each, and write its findings beside the verdicts
    AdoptCorpus {
        /// Where the table is written, from the root of the workspace
        #[arg(long, value_name = "DIRECTORY")]
        directory: std::path::PathBuf,
    },
    /// Run `reheap adopt` and `--undo` in real projects, build these, and write whether they have the allocator
    AdoptTrials {
        /// Where the table is written, from the root of the workspace
        #[arg(long, value_name = "DIRECTORY")]
        directory: std::path::PathBuf,
    },
    /// Run every attack under every variant of the catalogue, and write the matrix and its raw data
    Attacks {
        /// Where both are written, from the root of the workspace
        #[arg(long, value_name = "DIRECTORY")]
        directory: std::path::PathBuf,
    },
    /// Run real programs under every allocator, and the test suites of static ones, and write how they compare
    Trials(trials::Options),
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Measure {
            rounds,
            machine,
            hardened,
            scaling,
            published,
            real,
            graft,
            only,
        } => {
            let chosen = [
                (hardened, Subject::Hardened),
                (scaling, Subject::Scaling),
                (published, Subject::Published),
                (real, Subject::Real),
                (graft, Subject::Graft),
            ];
            let chosen = chosen.into_iter().find(|(is_chosen, _)| *is_chosen);
            let subject = chosen.map_or(Subject::All, |(_, subject)| subject);
            measure::run(&workspace, rounds, machine, subject, &only)
        }
        Task::Demo { all } => demo::run(workspace, all),
        Task::Pages => pages::run(&workspace),
        Task::Fuzz {
            seconds,
            at_once,
            only,
        } => fuzz::run(&workspace, seconds, at_once, &only),
        Task::CountMemory { into } => memory_counts::run(&workspace, into),
        Task::CountPrograms { directory } => program_counts::run(&workspace, &directory),
        Task::ManyProcessors { directory } => many_processors::run(&workspace, &directory),
        Task::MeasureMemory { machine } => memory_functions::run(&workspace, machine),
        Task::MeasureStart { directory } => start::run(workspace, &directory),
        Task::MeasureTrust { machine, raw } => trust::run(&workspace, machine, raw),
        Task::MeasureProfile {
            rounds,
            machine,
            only,
        } => profiles::run(&workspace, rounds, machine, &only),
        Task::InspectCorpus { directory } => inspect_corpus::run(&workspace, &directory),
        Task::AdoptCorpus { directory } => adopt_corpus::run(workspace, &directory),
        Task::AdoptTrials { directory } => adopt_trials::run(workspace, &directory),
        Task::Attacks { directory } => attacks::run(workspace, &directory),
        Task::Trials(options) => trials::run(&workspace, &options),
    }
}
