//! `cargo lab measure-start`: what the start of a program costs with each allocator, as raw data and table.
//!
//! The program makes one block and prints one line. Rounds go over all variants, so that a neighbour on the machine slows
//! down all of them. A small C program starts the others: the kernel's work for a fork grows with the process that forks.

use crate::grafts;
use crate::machine::{Machine, today};
use crate::measurement;
use crate::table::Table;
use anyhow::{Context, Result};
use reheap_allocators::catalogue::CATALOGUE;
use reheap_stats::interval::Estimate;
use reheap_stats::paired_differences;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Build, Workspace};

/// The raw data, and the table that is made from them.
pub(crate) const RAW: &str = "start.json";
pub(crate) const PAGE: &str = "start.md";
/// Of the tests, which count with the same programs.
const PROGRAMS: &str = "crates/reheap/tests/programs";
const ROUNDS: usize = 7;
/// There are few variants, and the difference is small.
const ROUNDS_OF_GRAFTS: usize = 24;
const STARTS_PER_ROUND: usize = 300;
/// The allocator that others are compared with.
const BASELINE: &str = "stock";
const GLIBC: &str = "glibc, dynamic";

#[derive(Serialize, Deserialize)]
struct Results {
    machine: String,
    date: String,
    starts_per_round: usize,
    variants: Vec<Variant>,
}

#[derive(Serialize, Deserialize)]
struct Variant {
    name: String,
    counts: Counts,
    /// For each round, on average over its starts: from fork to end, and of a processor.
    nanoseconds_per_start: Vec<[u64; 2]>,
}

/// As `starts count` prints them.
#[derive(Serialize, Deserialize)]
struct Counts {
    system_calls: u64,
    cpuids: u64,
    page_faults: u64,
    resident_kib: u64,
    anonymous_kib: u64,
}

/// Measures, and writes both files.
pub(crate) fn run(mut workspace: Workspace, directory: &Path) -> Result<()> {
    workspace.build = Build::Debug; // what it links is the same
    let progress = Progress::start();
    workspace.build_reheap(&progress)?;
    let machine = Machine::describe()?.to_string();
    let place = workspace.target.join("start");
    files::make_directory(&place)?;
    let starts = compile_starts(&workspace, &progress, &place)?;
    let executables = executables(&workspace, &progress, &place)?;
    let results = measure(&progress, &starts, machine, ROUNDS, executables)?;
    let raw = files::json(&results)?;
    let files = [(PAGE, page(&raw)?), (RAW, raw)];
    measurement::write(&progress, &workspace.root.join(directory), &files)
}

/// What the start of a program costs with each allocator grafted into it, as raw data: with musl's own first.
pub(crate) fn of_grafts(workspace: &Workspace, progress: &Progress) -> Result<String> {
    let machine = Machine::describe()?.to_string();
    let place = workspace.target.join("start");
    files::make_directory(&place)?;
    let starts = compile_starts(workspace, progress, &place)?;
    let stock = place.join(BASELINE);
    let mut cc = workspace.reheap();
    cc.args(["cc", "-a", BASELINE]);
    compile(workspace, progress, &mut cc, "hello.c", &stock)?;
    let mut executables = vec![(BASELINE.to_owned(), stock.clone())];
    for allocator in grafts::allocators() {
        let executable = place.join(format!("{allocator}-grafted"));
        let mut graft = workspace.reheap();
        graft
            .args(["graft", "-a", allocator, "-o"])
            .arg(&executable);
        stdout_of(graft.arg(&stock))?;
        executables.push((allocator.to_owned(), executable));
    }
    let results = measure(progress, &starts, machine, ROUNDS_OF_GRAFTS, executables)?;
    files::json(&results)
}

/// Goes over all variants in each round.
fn measure(
    progress: &Progress,
    starts: &Path,
    machine: String,
    rounds: usize,
    executables: Vec<(String, PathBuf)>,
) -> Result<Results> {
    let mut variants = Vec::new();
    for (name, executable) in executables {
        let counted = stdout_of(Command::new(starts).arg("count").arg(&executable))?;
        let counts = serde_json::from_str(&counted).context("cannot understand the counts")?;
        let variant = Variant {
            name,
            counts,
            nanoseconds_per_start: Vec::new(),
        };
        variants.push((variant, executable));
    }
    for round in 1..=rounds {
        progress.say(format!("round {round} of {rounds}"));
        for (variant, executable) in &mut variants {
            let count = STARTS_PER_ROUND.to_string();
            let mut command = Command::new(starts);
            let printed = stdout_of(command.args(["time", &count]).arg(executable))?;
            let time = serde_json::from_str(&printed).context("cannot understand the time")?;
            variant.nanoseconds_per_start.push(time);
        }
    }
    Ok(Results {
        machine,
        date: today(),
        starts_per_round: STARTS_PER_ROUND,
        variants: variants.into_iter().map(|(variant, _)| variant).collect(),
    })
}

/// The program with every allocator of the catalogue in musl, and with glibc.
fn executables(
    workspace: &Workspace,
    progress: &Progress,
    place: &Path,
) -> Result<Vec<(String, PathBuf)>> {
    let mut executables = Vec::new();
    for allocator in CATALOGUE.iter().map(|allocator| allocator.name) {
        let executable = place.join(allocator);
        let mut cc = workspace.reheap();
        cc.args(["cc", "-a", allocator]);
        compile(workspace, progress, &mut cc, "hello.c", &executable)?;
        executables.push((allocator.to_owned(), executable));
    }
    let executable = place.join("glibc");
    compile(
        workspace,
        progress,
        &mut Command::new("cc"),
        "hello.c",
        &executable,
    )?;
    executables.push((GLIBC.to_owned(), executable));
    executables.sort_by_key(|(name, _)| name != BASELINE);
    Ok(executables)
}

fn compile_starts(workspace: &Workspace, progress: &Progress, place: &Path) -> Result<PathBuf> {
    let starts = place.join("starts");
    let mut cc = Command::new("cc");
    compile(workspace, progress, cc.arg("-static"), "starts.c", &starts)?;
    Ok(starts)
}

fn compile(
    workspace: &Workspace,
    progress: &Progress,
    compiler: &mut Command,
    source: &str,
    executable: &Path,
) -> Result<()> {
    let source = workspace.root.join(PROGRAMS).join(source);
    let command = compiler.arg("-O2").arg(source).arg("-o").arg(executable);
    progress.quietly(&format!("linking {}", executable.display()), command)
}

/// The table of these raw data.
pub(crate) fn page(raw: &str) -> Result<String> {
    let results: Results = serde_json::from_str(raw).context("cannot understand the raw data")?;
    let mut table = Table::new([
        "allocator",
        "ms per start",
        "rounds",
        "CPU ms",
        "system calls",
        "CPUIDs",
        "page faults",
        "resident KiB",
        "own KiB",
    ]);
    for variant in &results.variants {
        let [wall, cpu] = [0, 1].map(|which| sorted(variant, which));
        let (Some(&least), Some(&most)) = (wall.first(), wall.last()) else {
            continue;
        };
        let counts = &variant.counts;
        table.row([
            match variant.name.as_str() {
                BASELINE => "musl's own (`stock`)".to_owned(),
                name => name.to_owned(),
            },
            milliseconds(wall[wall.len() / 2]),
            format!("{} to {}", milliseconds(least), milliseconds(most)),
            milliseconds(cpu[cpu.len() / 2]),
            counts.system_calls.to_string(),
            counts.cpuids.to_string(),
            counts.page_faults.to_string(),
            counts.resident_kib.to_string(),
            counts.anonymous_kib.to_string(),
        ]);
    }
    let Results {
        machine,
        date,
        starts_per_round,
        ..
    } = &results;
    Ok(format!(
        "# What a start costs\n\n{machine}.\nMade by `cargo lab measure-start` on {date}; raw data in [{RAW}]({RAW}).\n\n\
         A C program makes one block, prints one line and ends. All but the last one are static executables with musl. The \
         time is from\nfork to end: the median of the rounds, and the least and the most of them; each is the mean of \
         {starts_per_round} starts. The processor\ntime leaves out what other programs on the machine took. In a virtual \
         machine each CPUID traps. Of the resident memory, \"own\" is\nwhat is not the program's file.\n\n{}",
        table.render()
    ))
}

/// What a start with each grafted allocator takes longer than one with musl's own, by the clock and of a processor.
pub(crate) fn of_grafts_table(raw: &str) -> Result<String> {
    let results: Results = serde_json::from_str(raw).context("cannot understand the raw data")?;
    let (stock, grafted) = results.variants.split_first().context("no variants")?;
    let mut table = Table::new([
        "grafted",
        "more ms per start",
        "more CPU ms",
        "more system calls",
        "more KiB",
    ]);
    for variant in grafted {
        let more = |which: usize| -> Result<String> {
            let [with, without] = [variant, stock].map(|variant| -> Vec<f64> {
                let rounds = variant.nanoseconds_per_start.iter();
                rounds.map(|round| round[which] as f64 / 1e6).collect()
            });
            let sample = paired_differences(&with, &without).context("rounds are missing")?;
            let Estimate { value, interval } = Estimate::of_median(&sample);
            Ok(format!(
                "{value:.3} [{:.3}, {:.3}]",
                interval.low, interval.high
            ))
        };
        let counts = [&variant.counts, &stock.counts];
        let calls = counts.map(|counts| counts.system_calls as i64);
        let memory = counts.map(|counts| counts.resident_kib as i64);
        table.row([
            variant.name.clone(),
            more(0)?,
            more(1)?,
            (calls[0] - calls[1]).to_string(),
            (memory[0] - memory[1]).to_string(),
        ]);
    }
    let times = sorted(stock, 0);
    Ok(format!(
        "A C program makes one block, prints one line and ends. As it was linked, with musl's own allocator, that takes {} ms from \
         fork to end.\nBelow is how much longer it takes with an allocator grafted into it: the median of {} rounds with its \
         95 % interval, each round\nthe mean of {} starts. {}.\n\n{}",
        milliseconds(times[times.len() / 2]),
        times.len(),
        results.starts_per_round,
        results.machine,
        table.render()
    ))
}

fn sorted(variant: &Variant, which: usize) -> Vec<u64> {
    let rounds = variant.nanoseconds_per_start.iter();
    let mut times: Vec<u64> = rounds.map(|round| round[which]).collect();
    times.sort_unstable();
    times
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e6)
}
