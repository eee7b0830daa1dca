//! How true a replay is: a program under some allocators, and the replay of its trace under the same.

use super::{Session, cpu_seconds, figures, median, origin, read, variants};
use crate::programs::{self, SQLITE};
use crate::table::Table;
use anyhow::{Context, Result, bail};
use reheap_bench::results::{Results, Run};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use xtask::files;

/// The programs, by the names of their workloads.
pub(super) const PROGRAMS: [&str; 6] = [
    "json",
    "tokenize",
    "wasm-compile",
    "redis",
    "readers",
    "deflate",
];
/// All are preloaded, so that a program and its replay differ in nothing else.
const ALLOCATORS: [&str; 5] = ["mimalloc", "mimalloc3", "jemalloc", "rpmalloc", "snmalloc"];
/// Two allocators are ranked if they differ at least by this factor in the program.
const APART: f64 = 1.03;

/// Records a program, then measures it and its replay.
pub(super) fn measure(session: &Session<'_>, name: &str) -> Result<()> {
    let command = command(session, name)?;
    let trace = session.scratch(&format!("{name}.rht"));
    let mut profile = session.workspace.reheap();
    profile
        .args(["profile", "--every", "0", "--trace", &trace, "--"])
        .args(&command);
    session.step(&format!("recording {name}"), &mut profile)?;
    let size = fs::metadata(session.workspace.root.join(&trace))
        .context("there is no trace")?
        .len();
    files::write(
        session.results.join(format!("trace-{name}.bytes")),
        format!("{size}\n"),
    )?;
    let preloaded = ALLOCATORS
        .map(|allocator| format!("glibc+{allocator}"))
        .join(",");
    let variants = ["--variant".to_owned(), format!("glibc,{preloaded}")];
    session.bench(&format!("program-{name}"), &variants, &command)?;
    let replay = variants.into_iter().chain(["--trace".to_owned(), trace]);
    session.bench(&format!("replay-{name}"), &replay.collect::<Vec<_>>(), &[])
}

/// What is run, at the root of the workspace.
fn command(session: &Session<'_>, name: &str) -> Result<Vec<String>> {
    let workspace = session.workspace;
    let built = |package, manifest| -> Result<Vec<String>> {
        let program = programs::rust_program(workspace, package, manifest);
        let built = program.build_stock(workspace, session.progress)?;
        Ok([session.relative(&built), "--threads".into(), "2".into()].to_vec())
    };
    let fetched = programs::fetched(workspace)?;
    Ok(match name {
        "json" => built("json", "Cargo.toml")?,
        "tokenize" => built("tokenize", programs::REAL)?,
        "wasm-compile" => {
            let mut words = built("wasm-compile", programs::REAL)?;
            words.push(session.relative(&SQLITE.fetch(&fetched, session.progress)?));
            words
        }
        "redis" => ["sh", "lab/workloads/redis/once.sh"]
            .map(String::from)
            .to_vec(),
        // Python's objects come from malloc; by default small ones come from Python's own allocator.
        "readers" => [
            "env",
            "PYTHONMALLOC=malloc",
            "python3",
            "lab/workloads/readers/readers.py",
        ]
        .map(String::from)
        .to_vec(),
        "deflate" => {
            let mut javac = Command::new("javac");
            javac
                .arg("-d")
                .arg(&fetched)
                .arg("lab/workloads/deflate/Deflate.java");
            session.step("compiling deflate", &mut javac)?;
            let words = [
                "java",
                "-XX:MaxDirectMemorySize=64m",
                "-cp",
                &session.relative(&fetched),
                "Deflate",
            ];
            words
                .into_iter()
                .chain(["--threads", "2"])
                .map(String::from)
                .collect()
        }
        _ => bail!("there is no program `{name}`"),
    })
}

/// The median of each variant, by its name.
type Medians = Vec<(String, f64)>;
/// How a figure is read from a run.
type Quantity = fn(&Run) -> f64;
const PEAK: Quantity = |run| run.cost.peak_rss_bytes as f64;
const CPU: Quantity = cpu_seconds;

/// The page, if anything was measured.
pub(super) fn markdown(directory: &Path) -> Result<Option<String>> {
    let mut compared = Vec::new();
    for name in PROGRAMS {
        let program = read(directory, &format!("program-{name}"))?;
        let replay = read(directory, &format!("replay-{name}"))?;
        let bytes = fs::read_to_string(directory.join(format!("trace-{name}.bytes")));
        if let (Some(program), Some(replay), Ok(bytes)) = (program, replay, bytes) {
            compared.push(Compared {
                name,
                program,
                replay,
                trace_bytes: bytes.trim().parse()?,
            });
        }
    }
    let Some(first) = compared.first() else {
        return Ok(None);
    };
    let mut page = format!("# How true a replay is\n\n{}\n", origin(&first.program));
    _ = write!(
        page,
        "\nEach program ran under plain glibc and {} preloaded allocators, and so did the replay of its trace. Medians.\n\n\
         ## At a glance\n\nPeak memory of the replay, as a part of the program's: the least and the most of all allocators. \
         And in how many pairs of allocators that differ by at least {:.0} % in the program the replay has the same one \
         ahead.\n\n",
        ALLOCATORS.len(),
        (APART - 1.0) * 100.0
    );
    page += &glance(&compared);
    for compared in &compared {
        _ = write!(page, "\n## {}\n\n", compared.name);
        page += &compared.table();
    }
    Ok(Some(page))
}

/// A program and its replay.
struct Compared {
    name: &'static str,
    program: Results,
    replay: Results,
    trace_bytes: u64,
}

fn glance(all: &[Compared]) -> String {
    let mut table = Table::new([
        "",
        "trace",
        "peak memory",
        "same order by peak memory",
        "same order by CPU time",
    ]);
    for compared in all {
        let (program, replay) = compared.medians(PEAK);
        let shares: Vec<f64> = program
            .iter()
            .zip(&replay)
            .map(|((_, program), (_, replay))| replay / program)
            .collect();
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let most = shares.iter().copied().fold(0.0, f64::max);
        table.row([
            compared.name.to_owned(),
            reheap_bench::figures::bytes(compared.trace_bytes as f64),
            format!("{least:.2} to {most:.2}"),
            compared.order(PEAK),
            compared.order(CPU),
        ]);
    }
    table.render()
}

impl Compared {
    /// Name and median of each variant, of the program and of the replay, in the same order.
    fn medians(&self, of: Quantity) -> (Medians, Medians) {
        let medians = |results: &Results| -> Medians {
            let variants = results.benchmarks.iter().flat_map(variants);
            let medians = variants.filter_map(|variant| {
                let figures = figures(variant, |run| Some(of(run)));
                Some((variant.name.clone(), median(&figures)?))
            });
            medians.collect()
        };
        let (program, replay) = (medians(&self.program), medians(&self.replay));
        let in_replay = |name: &str| replay.iter().find(|(other, _)| other == name).cloned();
        program
            .into_iter()
            .filter_map(|variant| {
                let replayed = in_replay(&variant.0)?;
                Some((variant, replayed))
            })
            .unzip()
    }

    /// `9 of 10`: pairs that the replay has in the program's order, of those that are apart in the program.
    fn order(&self, quantity: Quantity) -> String {
        let (program, replay) = self.medians(quantity);
        let (mut same, mut all) = (0, 0);
        for first in 0..program.len() {
            for second in first + 1..program.len() {
                let ratio = program[first].1 / program[second].1;
                if (1.0 / APART..=APART).contains(&ratio) {
                    continue;
                }
                all += 1;
                same += usize::from((ratio > 1.0) == (replay[first].1 > replay[second].1));
            }
        }
        format!("{same} of {all}")
    }

    fn table(&self) -> String {
        let mut table = Table::new([
            "",
            "peak, program",
            "peak, replay",
            "replay / program",
            "CPU / glibc's, program",
            "CPU / glibc's, replay",
        ]);
        let ((peak, peak_of_replay), (cpu, cpu_of_replay)) =
            (self.medians(PEAK), self.medians(CPU));
        for index in 0..peak.len() {
            let bytes = |figures: &Medians| reheap_bench::figures::bytes(figures[index].1);
            let to_first = |figures: &Medians| format!("{:.2}", figures[index].1 / figures[0].1);
            table.row([
                peak[index].0.clone(),
                bytes(&peak),
                bytes(&peak_of_replay),
                format!("{:.2}", peak_of_replay[index].1 / peak[index].1),
                to_first(&cpu),
                to_first(&cpu_of_replay),
            ]);
        }
        table.render()
    }
}
