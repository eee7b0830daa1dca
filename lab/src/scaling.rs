//! `cargo lab measure --scaling`: the same work on one to 32 threads, and what the threads of each allocator do when
//! they all run at once.
//!
//! Times come from `reheap bench`. A machine has only so many processors, so `lockstep.c` also executes the threads in
//! step, and counts the instructions that say how an allocator would do on more.

use crate::programs::{RustProgram, rust_program};
use crate::table::Table;
use anyhow::{Context, Result};
use reheap_bench::results::{Benchmark, Machine, Results, Role, Variant};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Workspace, musl_target};

/// What takes part in the times.
pub(crate) const VARIANTS: &str = "glibc,glibc+mimalloc,glibc+jemalloc,musl,musl+mimalloc,musl+mimalloc3,musl+jemalloc,\
                                   musl+snmalloc,musl+rpmalloc,musl+mimalloc-secure,musl+hardened_malloc-light";
/// What is executed in step. Preloads are left out: their code is that of the static executables.
const COUNTED: [&str; 9] = [
    "glibc",
    "stock",
    "mimalloc",
    "mimalloc3",
    "jemalloc",
    "snmalloc",
    "rpmalloc",
    "mimalloc-secure",
    "hardened_malloc-light",
];
const PROGRAMS: [&str; 3] = ["churn", "larson", "producers"];
/// Of all threads together.
const AMOUNT: &str = "2000000";
const SWEEP: &str = "threads=1,2,4,8,16,32";
const THREADS_IN_STEP: [u64; 2] = [1, 4];
/// Of each thread, in two runs. What both have, such as their start, is not counted.
const OPERATIONS_IN_STEP: [u64; 2] = [250, 500];
/// musl's own allocator, which keeps nothing for each thread and so is not faster later.
const OPERATIONS_OF_STOCK: [u64; 2] = [50, 100];
/// In the directory of the measurements.
pub(crate) const DIRECTORY: &str = "scaling";
/// What one can choose beside the programs: the counts.
pub(crate) const IN_STEP: &str = "in-step";
pub(crate) const RAW: &str = "in-step.json";
/// Where the page's links to programs lead: the book of the documentation has no page for what is outside of docs/.
const WORKLOADS: &str = "https://github.com/reheap/reheap/blob/main/workloads";
pub(crate) const PAGE: &str = "scaling.md";

/// What a program did on so many threads.
#[derive(Serialize, Deserialize)]
struct InStep {
    program: String,
    allocator: String,
    threads: u64,
    operations: [u64; 2],
    counts: [Counts; 2],
}

/// As `lockstep` prints them, of all threads.
#[derive(Serialize, Deserialize)]
struct Counts {
    instructions: u64,
    /// Instructions that lock a cache line.
    atomics: u64,
    /// Instructions that say that the thread waits and looks again.
    pauses: u64,
    /// Calls of the kernel that wait for another thread.
    waits: u64,
    /// Calls of the kernel that let others run, or sleep.
    yields: u64,
}

/// The programs, each with one thread to 32.
pub(crate) fn programs(workspace: &Workspace) -> Vec<RustProgram> {
    let program = |package| RustProgram {
        sweep: Some(SWEEP),
        arguments: ["--threads", "{threads}", "--amount", AMOUNT]
            .map(String::from)
            .to_vec(),
        ..rust_program(workspace, package, "Cargo.toml")
    };
    PROGRAMS.map(program).into()
}

/// Executes every program with every allocator in step, and writes the counts.
pub(crate) fn count(workspace: &Workspace, progress: &Progress, directory: &Path) -> Result<()> {
    let place = workspace.target.join("in-step");
    files::make_directory(&place)?;
    let lockstep = place.join("lockstep");
    let mut cc = Command::new("cc");
    let source = workspace.root.join("lab/lockstep.c");
    progress.quietly(
        "building lockstep",
        cc.arg("-O2").arg(source).arg("-o").arg(&lockstep),
    )?;
    let path = directory.join(RAW);
    let mut rows = Vec::new();
    for program in programs(workspace) {
        for allocator in COUNTED {
            let executable = executable(workspace, progress, &program, allocator, &place)?;
            for threads in THREADS_IN_STEP {
                let name = program.package;
                progress.say(format!("{name} with {allocator}, {threads} threads"));
                let operations = match allocator {
                    "stock" => OPERATIONS_OF_STOCK,
                    _ => OPERATIONS_IN_STEP,
                };
                let [few, many] =
                    operations.map(|count| counted(&lockstep, &executable, threads, count));
                rows.push(InStep {
                    program: name.to_owned(),
                    allocator: allocator.to_owned(),
                    threads,
                    operations,
                    counts: [few?, many?],
                });
            }
        }
        // Each takes minutes, and an interrupt is to lose no more than that.
        files::write(&path, files::json(&rows)?)?;
    }
    Ok(())
}

/// The program with this allocator in musl, or with glibc.
fn executable(
    workspace: &Workspace,
    progress: &Progress,
    program: &RustProgram,
    allocator: &str,
    place: &Path,
) -> Result<PathBuf> {
    if allocator == "glibc" {
        return program.build_stock(workspace, progress);
    }
    let triple = musl_target()?.triple().to_owned();
    let mut command = workspace.cargo_reheap();
    command.args(["build", "-a", allocator, "--target", &triple]);
    command.args(program.cargo_flags(workspace));
    progress.quietly(
        &format!("linking {} with {allocator}", program.package),
        &mut command,
    )?;
    let built = workspace.target.join(triple).join("release");
    let executable = place.join(format!("{}-{allocator}", program.package));
    files::copy(&built.join(program.package), &executable)?;
    Ok(executable)
}

fn counted(lockstep: &Path, executable: &Path, threads: u64, operations: u64) -> Result<Counts> {
    let amount = (threads * operations).to_string();
    let mut command = Command::new(lockstep);
    command.arg(executable);
    command.args(["--threads", &threads.to_string(), "--amount", &amount]);
    serde_json::from_str(&stdout_of(&mut command)?).context("cannot understand the counts")
}

/// The page of these raw data.
pub(crate) fn page(directory: &Path) -> Result<String> {
    let read = |name: &str| {
        let path = directory.join(name);
        files::read(&path)
    };
    let mut text = String::new();
    let mut machine = None;
    for program in PROGRAMS {
        let results: Results = serde_json::from_str(&read(&format!("{program}.json"))?)
            .with_context(|| format!("cannot understand {program}.json"))?;
        text += &format!("\n### {program}\n\n{}", times(&results)?.render());
        machine.get_or_insert(results.machine);
    }
    let Machine {
        processor,
        processors,
        kernel,
        load_average,
        ..
    } = machine.context("there are no programs")?;
    let load = load_average.unwrap_or_default();
    let rows: Vec<InStep> = serde_json::from_str(&read(RAW)?).context("cannot understand it")?;
    let mut text = format!(
        "# One to 32 threads\n\n{processor}, {processors} processors, {kernel}, load before {load:.2}.\nMade by `cargo lab \
         measure --scaling`; raw data in [{DIRECTORY}/]({DIRECTORY}/).\n\nEach program does the same work however many \
         threads share it. [churn]({WORKLOADS}/churn/README.md): each thread\nfrees its own blocks. \
         [larson]({WORKLOADS}/larson/README.md): threads end and leave their blocks to others. \
         [producers]({WORKLOADS}/producers/README.md):\nevery block is freed by another thread, and there is a \
         consumer beside each thread that is counted.\n\n## Time\n\nMilliseconds by the clock, medians; in brackets the \
         time with 32 threads, compared with that of the\nbest number of threads. With more threads than processors no \
         allocator can be faster, only slower.\n{text}\n## In step\n\nThe threads are executed in step, one \
         instruction of each at a time, so all of them run at once, as on a\nmachine with a processor for each, on which \
         every instruction takes equally long. For each operation (a block\nallocated and freed, with the program's \
         share): instructions, those of them that lock a cache line, and calls\nof the kernel that wait for another \
         thread or let it run. An allocator scales if none of them grows with the\nthreads. What it costs to move cache \
         lines between processors is not seen here.\nThe figures are differences of two runs, so some that are 0 come out a \
         little less. In producers, the queue between the\nthreads waits, too.\n"
    );
    for program in PROGRAMS {
        let rows: Vec<&InStep> = rows.iter().filter(|row| row.program == program).collect();
        text += &format!("\n### {program}\n\n{}", counts(&rows).render());
    }
    Ok(text)
}

/// A row for each variant, a column for each number of threads.
fn times(results: &Results) -> Result<Table> {
    let threads = |benchmark: &Benchmark| -> Option<u64> {
        benchmark.parameters.get("threads")?.parse().ok()
    };
    let mut benchmarks: Vec<(u64, &Benchmark)> = Vec::new();
    for benchmark in &results.benchmarks {
        benchmarks.push((threads(benchmark).context("no threads")?, benchmark));
    }
    benchmarks.sort_by_key(|(threads, _)| *threads);
    let (_, first) = benchmarks.first().context("no benchmark")?;
    let mut header = vec!["variant".to_owned()];
    header.extend(benchmarks.iter().map(|(threads, _)| threads.to_string()));
    header.push("(32 / best)".to_owned());
    let mut table = Table::with_header(header);
    for variant in first
        .variants
        .iter()
        .filter(|variant| variant.role != Role::BaselineCopy)
    {
        let medians: Vec<f64> = benchmarks
            .iter()
            .filter_map(|(_, benchmark)| {
                let mut variants = benchmark.variants.iter();
                let same = variants.find(|other| other.name == variant.name);
                median_milliseconds(same?)
            })
            .collect();
        let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
        let Some(last) = medians.last().filter(|_| medians.len() == benchmarks.len()) else {
            continue;
        };
        let mut cells = vec![variant.name.clone()];
        cells.extend(medians.iter().map(|median| format!("{median:.0}")));
        cells.push(format!("({:.2})", last / best));
        table.push(cells);
    }
    Ok(table)
}

fn median_milliseconds(variant: &Variant) -> Option<f64> {
    let mut times: Vec<f64> = variant
        .runs
        .iter()
        .map(|run| run.cost.wall_seconds * 1e3)
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

/// A row for each allocator, a column for each figure and number of threads.
fn counts(rows: &[&InStep]) -> Table {
    type Figure = fn(&Counts) -> u64;
    const FIGURES: [(&str, Figure, usize); 3] = [
        ("instructions", |counts| counts.instructions, 0),
        ("atomic", |counts| counts.atomics, 2),
        ("waits", |counts| counts.waits + counts.yields, 3),
    ];
    let mut header = vec!["allocator".to_owned()];
    for (name, ..) in FIGURES {
        header.extend(THREADS_IN_STEP.map(|threads| format!("{name}, {threads}")));
    }
    let mut table = Table::with_header(header);
    for allocator in COUNTED {
        let of = |threads| {
            let mut rows = rows.iter();
            rows.find(|row| row.allocator == allocator && row.threads == threads)
        };
        let mut cells = vec![match allocator {
            "glibc" => "glibc's own".to_owned(),
            "stock" => "musl's own (`stock`)".to_owned(),
            name => name.to_owned(),
        }];
        for (_, figure, decimals) in FIGURES {
            cells.extend(THREADS_IN_STEP.map(|threads| {
                let Some(row) = of(threads) else {
                    return String::new();
                };
                format!("{:.decimals$}", row.per_operation(figure))
            }));
        }
        table.push(cells);
    }
    table
}

impl InStep {
    fn per_operation(&self, figure: impl Fn(&Counts) -> u64) -> f64 {
        let [few, many] = &self.counts;
        let operations = (self.operations[1] - self.operations[0]) * self.threads;
        (figure(many) as f64 - figure(few) as f64) / operations as f64
    }
}
