//! `cargo lab many-processors`: how threads would hold each other up on a server with a processor for each of them.
//!
//! Machines with two processors cannot show it. A plugin of qemu executes the threads in the order of their clocks, and
//! keeps a model of their caches (`lab/processors.c`, whose header says what the model is). Each figure is the difference of
//! two runs, so what both have, such as their start, is not in it.

mod curves;

use crate::emulator;
use crate::machine::today;
use crate::measurement;
use crate::programs::{RustProgram, rust_program};
use crate::table::Table;
use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Workspace, musl_target};

/// The raw data, and what is made from them.
pub(crate) const RAW: &str = "many-processors.json";
pub(crate) const PAGE: &str = "many-processors.md";
pub(crate) const CURVES: &str = "many-processors.svg";
const PROGRAMS: [&str; 3] = ["churn", "passwords", "producers"];
/// What each is linked with: glibc's own, or one in musl.
const ALLOCATORS: [&str; 6] = [
    GLIBC,
    "stock",
    "mimalloc",
    "mimalloc3",
    "jemalloc",
    "rpmalloc",
];
const GLIBC: &str = "glibc";
const QEMU: &str = "qemu-x86_64";
const THREADS: [u64; 9] = [1, 2, 4, 8, 16, 22, 32, 48, 64];
/// Whose causes the page shows.
const THREADS_EXPLAINED: u64 = 48;
/// Those that this machine can run at once.
const THREADS_MEASURED: [u64; 2] = [1, 2];
const RUNS_MEASURED: usize = 9;
/// Of each thread: enough for a difference that the clock sees.
const OPERATIONS_MEASURED: [u64; 2] = [100_000, 700_000];

/// How long a line of memory takes from one processor's cache to another's, in nanoseconds: medians that
/// <https://github.com/nviennot/core-to-core-latency> published.
#[derive(Clone, Copy)]
struct Server {
    name: &'static str,
    processor: &'static str,
    near: u32,
    far: u32,
    /// How many processors are near each other.
    cluster: u32,
}

const SERVERS: [Server; 2] = [
    Server {
        name: "Xeon",
        processor: "Intel Xeon Platinum 8375C, Ice Lake",
        near: 51,
        far: 51,
        cluster: 64,
    },
    Server {
        name: "EPYC",
        processor: "AMD EPYC 7R13, Milan",
        near: 23,
        far: 107,
        cluster: 8,
    },
];

/// What others have published: the time of the first allocator, as a multiple of the second's.
/// `published.rs` says where.
const PUBLISHED: [(&str, u64, &str, &str, &str); 4] = [
    ("passwords", 22, "stock", GLIBC, "9.2"),
    ("passwords", 22, "mimalloc", GLIBC, "1.02"),
    ("passwords", 22, "jemalloc", GLIBC, "1.20"),
    ("churn", 32, "stock", "mimalloc", "360"),
];

#[derive(Serialize, Deserialize)]
struct Results {
    date: String,
    emulator: String,
    runs: Vec<Run>,
    measured: Vec<Measured>,
}

/// A program on a server, with this many operations of each thread, and with more.
#[derive(Serialize, Deserialize)]
struct Run {
    program: String,
    allocator: String,
    server: String,
    threads: u64,
    operations: [u64; 2],
    counts: [Counts; 2],
}

/// As the plugin writes them, of all threads but the first, which only waits for them.
#[derive(Serialize, Deserialize)]
struct Counts {
    nanoseconds: u64,
    instructions: u64,
    atomics: u64,
    /// Lines that came from another processor's cache.
    moved: u64,
    /// How long they waited for other processors that wanted them too.
    contended_nanoseconds: u64,
    /// Calls of futex(2) that may wait.
    waits: u64,
}

/// The shortest of some runs on the machine itself.
#[derive(Serialize, Deserialize)]
struct Measured {
    program: String,
    allocator: String,
    threads: u64,
    operations: u64,
    nanoseconds: u64,
}

/// Runs everything, and writes all three files.
pub(crate) fn run(workspace: &Workspace, directory: &Path) -> Result<()> {
    let progress = Progress::start();
    workspace.build_reheap(&progress)?;
    let model = Model::prepare(workspace, &progress)?;
    let mut results = Results {
        date: today(),
        emulator: emulator::version(QEMU)?,
        runs: Vec::new(),
        measured: Vec::new(),
    };
    for package in PROGRAMS {
        let program = rust_program(workspace, package, "Cargo.toml");
        for allocator in ALLOCATORS {
            let executable = model.executable(&program, allocator)?;
            progress.say(format!("{package} with {allocator}"));
            for server in SERVERS {
                for threads in THREADS {
                    let run = model.run(package, allocator, server, threads, &executable)?;
                    results.runs.push(run);
                }
            }
            for threads in THREADS_MEASURED {
                let measured = measure(package, allocator, threads, &executable)?;
                results.measured.push(measured);
            }
        }
        // Each takes minutes, and an interrupt is to lose no more than that.
        let raw = files::json(&results)?;
        let pages = [(PAGE, page(&raw)?), (CURVES, curves(&raw)?), (RAW, raw)];
        measurement::write(&progress, &workspace.root.join(directory), &pages)?;
    }
    Ok(())
}

/// Operations of each thread. The work of an operation differs, and musl's own allocator needs fewer to show what it does.
fn operations(program: &str, allocator: &str) -> [u64; 2] {
    match (program, allocator) {
        (_, "stock") => [150, 400],
        _ => [2000, 14_000],
    }
}

/// What executes programs on servers that are not there.
struct Model<'a> {
    workspace: &'a Workspace,
    progress: &'a Progress,
    place: PathBuf,
    plugin: PathBuf,
}

impl<'a> Model<'a> {
    fn prepare(workspace: &'a Workspace, progress: &'a Progress) -> Result<Self> {
        let place = workspace.target.join("many-processors");
        files::make_directory(&place)?;
        let plugin = emulator::plugin(workspace, progress, "processors", &place)?;
        Ok(Self {
            workspace,
            progress,
            place,
            plugin,
        })
    }

    /// The program with this allocator in musl, or with glibc.
    fn executable(&self, program: &RustProgram, allocator: &str) -> Result<PathBuf> {
        if allocator == GLIBC {
            return program.build_stock(self.workspace, self.progress);
        }
        let triple = musl_target()?.triple().to_owned();
        let mut command = self.workspace.cargo_reheap();
        command.args(["build", "-a", allocator, "--target", &triple]);
        command.args(program.cargo_flags(self.workspace));
        let what = format!("linking {} with {allocator}", program.package);
        self.progress.quietly(&what, &mut command)?;
        let built = self.workspace.target.join(triple).join("release");
        let executable = self.place.join(format!("{}-{allocator}", program.package));
        files::copy(&built.join(program.package), &executable)?;
        Ok(executable)
    }

    fn run(
        &self,
        program: &str,
        allocator: &str,
        server: Server,
        threads: u64,
        executable: &Path,
    ) -> Result<Run> {
        let operations = operations(program, allocator);
        let [few, many] = operations.map(|count| self.counted(server, threads, count, executable));
        Ok(Run {
            program: program.to_owned(),
            allocator: allocator.to_owned(),
            server: server.name.to_owned(),
            threads,
            operations,
            counts: [few?, many?],
        })
    }

    fn counted(
        &self,
        server: Server,
        threads: u64,
        operations: u64,
        executable: &Path,
    ) -> Result<Counts> {
        let out = self.place.join("counts");
        let Server {
            near, far, cluster, ..
        } = server;
        let plugin = format!(
            "{},out={},near={near},far={far},cluster={cluster}",
            self.plugin.display(),
            out.display()
        );
        let mut command = Command::new(QEMU);
        // glibc reads a file to learn how many processors there are. It would have eight arenas for each.
        command.env("GLIBC_TUNABLES", "glibc.malloc.arena_max=512");
        command.args(["-cpu", "max", "-plugin", &plugin]);
        command.arg(executable).args(words(threads, operations));
        stdout_of(&mut command)?;
        serde_json::from_str(&files::read(&out)?).context("cannot understand the counts")
    }
}

fn words(threads: u64, operations: u64) -> [String; 4] {
    let amount = (threads * operations).to_string();
    [
        "--threads".into(),
        threads.to_string(),
        "--amount".into(),
        amount,
    ]
}

/// The difference of the shortest runs with few operations and with many: a busy machine makes some runs longer.
fn measure(program: &str, allocator: &str, threads: u64, executable: &Path) -> Result<Measured> {
    let [few, many] = OPERATIONS_MEASURED;
    let shortest = |operations: u64| -> Result<u64> {
        let mut times = Vec::new();
        for _ in 0..RUNS_MEASURED {
            let mut command = Command::new(executable);
            command.args(words(threads, operations));
            let start = Instant::now();
            let status = command.stdout(Stdio::null()).status();
            anyhow::ensure!(status?.success(), "{} failed", executable.display());
            times.push(start.elapsed().as_nanos() as u64);
        }
        times.into_iter().min().context("there was no run")
    };
    Ok(Measured {
        program: program.to_owned(),
        allocator: allocator.to_owned(),
        threads,
        operations: many - few,
        nanoseconds: shortest(many)?.saturating_sub(shortest(few)?),
    })
}

impl Run {
    /// From one operation of a thread to its next. In producers, a consumer is there as long as its producer.
    fn nanoseconds(&self) -> f64 {
        let with = if self.program == "producers" {
            2.0
        } else {
            1.0
        };
        self.per_operation(|counts| counts.nanoseconds) / with
    }

    fn per_operation(&self, figure: impl Fn(&Counts) -> u64) -> f64 {
        let [few, many] = &self.counts;
        let operations = (self.operations[1] - self.operations[0]) * self.threads;
        (figure(many) as f64 - figure(few) as f64) / operations as f64
    }
}

impl Results {
    fn run(&self, program: &str, allocator: &str, server: Server, threads: u64) -> Option<&Run> {
        self.runs.iter().find(|run| {
            run.program == program
                && run.allocator == allocator
                && run.server == server.name
                && run.threads == threads
        })
    }

    fn measured(&self, program: &str, allocator: &str, threads: u64) -> Option<f64> {
        let mut all = self.measured.iter();
        let found = all.find(|measured| {
            measured.program == program
                && measured.allocator == allocator
                && measured.threads == threads
        });
        found.map(|measured| measured.nanoseconds as f64 / measured.operations as f64)
    }
}

fn read(raw: &str) -> Result<Results> {
    serde_json::from_str(raw).context("cannot understand the raw data")
}

/// The chart of these raw data.
pub(crate) fn curves(raw: &str) -> Result<String> {
    let results = read(raw)?;
    let panels = PROGRAMS.map(|program| {
        let lines = ALLOCATORS.map(|allocator| {
            let points = THREADS.into_iter().filter_map(|threads| {
                let run = results.run(program, allocator, SERVERS[0], threads)?;
                // A thread's operations in a nanosecond, of all threads.
                Some((threads, threads as f64 / run.nanoseconds().max(0.1)))
            });
            (name(allocator), points.collect())
        });
        curves::Panel {
            title: program,
            lines: lines.into(),
        }
    });
    Ok(curves::svg(&panels))
}

fn name(allocator: &'static str) -> &'static str {
    match allocator {
        GLIBC => "glibc's own",
        "stock" => "musl's own",
        other => other,
    }
}

/// The page of these raw data.
pub(crate) fn page(raw: &str) -> Result<String> {
    let results = read(raw)?;
    let servers = SERVERS.map(|server| {
        let Server {
            name,
            processor,
            near,
            far,
            cluster,
        } = server;
        if near == far {
            format!("- {name}: {near} ns ({processor})")
        } else {
            format!(
                "- {name}: {near} ns between {cluster} processors that share a cache, {far} ns otherwise ({processor})"
            )
        }
    });
    let mut text = format!(
        include_str!("many_processors/introduction.txt"),
        emulator = results.emulator,
        date = results.date,
        servers = servers.join("\n"),
    );
    text += &format!("\n{}", validation(&results).render());
    text += include_str!("many_processors/published.txt");
    text += &format!("\n{}", published(&results).render());
    for program in PROGRAMS {
        text += &format!("\n## {program}\n");
        for server in SERVERS {
            text += &format!(
                "\nNanoseconds of an operation, {}:\n\n{}",
                server.name,
                times(&results, program, server).render()
            );
        }
        text += &format!(
            "\nFor each operation on {THREADS_EXPLAINED} threads, {}:\n\n{}",
            SERVERS[0].name,
            causes(&results, program).render()
        );
    }
    Ok(text)
}

/// What the model says of one and two threads, beside the clock of the machine.
fn validation(results: &Results) -> Table {
    let mut table = Table::new([
        "program and allocator",
        "1, model",
        "1, clock",
        "2, model",
        "2, clock",
        "2 / 1, model",
        "2 / 1, clock",
    ]);
    for program in PROGRAMS {
        for allocator in ALLOCATORS {
            let model = |threads| {
                let run = results.run(program, allocator, SERVERS[0], threads)?;
                Some(run.nanoseconds())
            };
            let clock = |threads| results.measured(program, allocator, threads);
            let (Some(one), Some(two), Some(one_measured), Some(two_measured)) =
                (model(1), model(2), clock(1), clock(2))
            else {
                continue;
            };
            table.row([
                format!("{program}, {}", name(allocator)),
                shown(one),
                shown(one_measured),
                shown(two),
                shown(two_measured),
                format!("{:.1}", two / one),
                format!("{:.1}", two_measured / one_measured),
            ]);
        }
    }
    table
}

fn published(results: &Results) -> Table {
    let mut table = Table::new(["", "published", SERVERS[0].name, SERVERS[1].name]);
    for (program, threads, slow, fast, factor) in PUBLISHED {
        let [xeon, epyc] = SERVERS.map(|server| {
            let time = |allocator| {
                let run = results.run(program, allocator, server, threads)?;
                Some(run.nanoseconds())
            };
            let factor = time(slow).zip(time(fast)).map(|(slow, fast)| slow / fast);
            factor.map_or(String::new(), |factor| match factor {
                small if small < 10.0 => format!("{small:.2}"),
                large => format!("{large:.0}"),
            })
        });
        let (slow, fast) = (name(slow), name(fast));
        let what = format!("{program} on {threads} threads, {slow} / {fast}");
        table.row([what, factor.to_owned(), xeon, epyc]);
    }
    table
}

/// A row for each allocator, a column for each number of threads.
fn times(results: &Results, program: &str, server: Server) -> Table {
    let mut header = vec!["allocator".to_owned()];
    header.extend(THREADS.map(|threads| threads.to_string()));
    let mut table = Table::with_header(header);
    for allocator in ALLOCATORS {
        let mut cells = vec![name(allocator).to_owned()];
        cells.extend(THREADS.map(|threads| {
            let run = results.run(program, allocator, server, threads);
            run.map_or(String::new(), |run| shown(run.nanoseconds()))
        }));
        table.push(cells);
    }
    table
}

fn shown(nanoseconds: f64) -> String {
    match nanoseconds {
        small if small < 9.95 => format!("{small:.1}"),
        large => format!("{large:.0}"),
    }
}

fn causes(results: &Results, program: &str) -> Table {
    let mut table = Table::new([
        "allocator",
        "instructions",
        "atomic",
        "lines moved",
        "waited for lines, ns",
        "waits in the kernel",
    ]);
    for allocator in ALLOCATORS {
        let Some(run) = results.run(program, allocator, SERVERS[0], THREADS_EXPLAINED) else {
            continue;
        };
        let of = |figure: fn(&Counts) -> u64| run.per_operation(figure);
        table.row([
            name(allocator).to_owned(),
            format!("{:.0}", of(|counts| counts.instructions)),
            format!("{:.2}", of(|counts| counts.atomics)),
            format!("{:.2}", of(|counts| counts.moved)),
            format!("{:.0}", of(|counts| counts.contended_nanoseconds)),
            format!("{:.3}", of(|counts| counts.waits)),
        ]);
    }
    table
}
