//! `cargo xtask measure-trust`: how far what `reheap bench` says may be trusted.
//!
//! Four questions: how often is a difference claimed where there is none, is a small one found, is peak memory what GNU
//! time says, and does the tool itself take longer for a run than hyperfine. The results of every comparison are kept
//! in a directory; those that are there already are not measured again, so a long session can be broken off, and
//! results of another machine can be looked at.

use crate::machine::Machine;
use crate::programs::{self, SQLITE};
use crate::progress::Progress;
use crate::table::Table;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use reheap_bench::findings::Findings;
use reheap_bench::results::{Quantity, Results};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// How often each comparison is repeated.
const REPETITIONS: usize = 20;
/// How often GNU time runs a program; the median counts.
const PEAK_RUNS: usize = 5;

/// A comparison that is repeated; the second variant is the one that is judged.
struct Experiment {
    name: &'static str,
    question: &'static str,
    rounds: usize,
    variants: [String; 2],
}

/// What one comparison said of the second variant.
#[derive(Serialize)]
struct Repetition {
    experiment: &'static str,
    repetition: usize,
    rounds: usize,
    ratio: f64,
    low: f64,
    high: f64,
    p: f64,
    claimed: bool,
    /// Wall time of every run of the baseline, its copy and the second variant, in seconds.
    wall_seconds: Vec<Vec<f64>>,
}

/// Peak memory of one program, by both tools.
#[derive(Serialize)]
struct Peak {
    command: String,
    reheap_kib: Vec<u64>,
    gnu_time_kib: Vec<u64>,
}

/// What a run of `/bin/true` takes, in milliseconds: by the clock of the tool, and by the clock on the wall.
#[derive(Serialize)]
struct Overhead {
    tool: &'static str,
    runs: usize,
    reported_ms: f64,
    whole_ms: f64,
}

/// All of it, as written to `trust.json`.
#[derive(Serialize)]
struct Trust {
    machine: reheap_bench::results::Machine,
    repetitions: Vec<Repetition>,
    peaks: Vec<Peak>,
    overhead: Vec<Overhead>,
}

/// Measures what is not yet in the directory of raw results, and writes `trust.json` and `trust.md`.
pub(crate) fn run(
    workspace: &Workspace,
    machine_name: Option<String>,
    raw: Option<PathBuf>,
) -> Result<()> {
    let progress = Progress::start();
    let directory = Machine::describe()?.directory(workspace, machine_name)?;
    let raw = raw.unwrap_or_else(|| workspace.target.join("trust"));
    fs::create_dir_all(&raw).context("cannot make the directory of raw results")?;
    let build = |package, manifest| {
        programs::rust_program(workspace, package, manifest).build_stock(workspace, &progress)
    };
    let churn = build("churn", "Cargo.toml")?;
    let compile = build("wasm-compile", programs::REAL)?;
    let module = SQLITE.fetch(&programs::fetched(workspace)?, &progress)?;
    let experiments = experiments(&churn, &compile, &module);
    let mut trust = None;
    for experiment in &experiments {
        for repetition in 1..=REPETITIONS {
            let name = format!("{}-{repetition}", experiment.name);
            let file = raw.join(format!("{name}.json"));
            if !file.exists() {
                progress.say(format!("{name} of {REPETITIONS}"));
                experiment.measure(workspace, &file)?;
            }
            let results = read(&file)?;
            let trust = trust.get_or_insert_with(|| Trust {
                machine: results.machine.clone(),
                repetitions: Vec::new(),
                peaks: Vec::new(),
                overhead: Vec::new(),
            });
            let repetition = experiment.judge(&results, repetition);
            let repetition = repetition.with_context(|| format!("{name} compares nothing"))?;
            trust.repetitions.push(repetition);
        }
    }
    let mut trust = trust.context("there are no experiments")?;
    trust.peaks = peaks(workspace, &progress, &churn)?;
    trust.overhead = overhead(workspace, &progress)?;
    let json = serde_json::to_string(&trust).context("cannot write JSON")?;
    fs::write(directory.join("trust.json"), json).context("cannot write trust.json")?;
    fs::write(directory.join("trust.md"), trust.markdown(&experiments))
        .context("cannot write trust.md")?;
    progress.say(format!("written to `{}`", directory.display()));
    Ok(())
}

fn experiments(churn: &Path, compile: &Path, module: &Path) -> Vec<Experiment> {
    // The amount that takes about a fifth of a second, and 3 % more.
    let churn = |amount: &str| format!("{} --threads 2 --amount {amount}", churn.display());
    let (base, slower) = (churn("16000000"), churn("16480000"));
    let compile = format!("{} --threads 2 {}", compile.display(), module.display());
    vec![
        Experiment {
            name: "churn",
            question: "the same program twice: differences claimed",
            rounds: 10,
            variants: [base.clone(), base.clone()],
        },
        Experiment {
            name: "wasm-compile",
            question: "the same program twice: differences claimed",
            rounds: 10,
            variants: [compile.clone(), compile],
        },
        Experiment {
            name: "planted",
            question: "churn with 3 % more work: found",
            rounds: 30,
            variants: [base, slower],
        },
    ]
}

impl Experiment {
    fn measure(&self, workspace: &Workspace, file: &Path) -> Result<()> {
        let [base, other] = &self.variants;
        let mut command = workspace.reheap();
        command
            .args(["bench", "--ignore-output", "--name", self.name])
            .args(["--variant", &format!("base={base}")])
            .args(["--variant", &format!("other={other}")])
            .args(["--rounds", &self.rounds.to_string(), "--json"])
            .arg(file);
        let output = command.output().context("cannot start reheap")?;
        ensure!(
            output.status.success(),
            "reheap bench failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    fn judge(&self, results: &Results, repetition: usize) -> Option<Repetition> {
        let benchmark = results.benchmarks.first()?;
        let findings = Findings::of(results, benchmark);
        let last = benchmark.variants.len().checked_sub(1)?;
        let comparison = findings.comparison(&Quantity::Wall, last)?;
        let ratio = comparison.ratio?;
        let runs = benchmark.variants.iter().map(|variant| {
            let runs = variant.runs.iter();
            runs.map(|run| run.cost.wall_seconds).collect()
        });
        Some(Repetition {
            experiment: self.name,
            repetition,
            rounds: comparison.rounds,
            ratio: ratio.value,
            low: ratio.interval.low,
            high: ratio.interval.high,
            p: comparison.p_adjusted,
            claimed: comparison.verdict.is_claimed(),
            wall_seconds: runs.collect(),
        })
    }
}

fn read(file: &Path) -> Result<Results> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("cannot understand `{}`", file.display()))
}

/// Five programs of different sizes and kinds.
fn peaks(workspace: &Workspace, progress: &Progress, churn: &Path) -> Result<Vec<Peak>> {
    let churn = churn.display();
    let commands = [
        "/bin/true".to_owned(),
        format!("{churn} --threads 2 --amount 100000"),
        format!(
            "sort --parallel=1 {}",
            workspace.root.join("Cargo.lock").display()
        ),
        "python3 -c bytearray(300000000)".to_owned(),
        "python3 -c import\\ json,decimal,asyncio".to_owned(),
    ];
    let mut peaks = Vec::new();
    for command in commands {
        progress.say(format!("peak memory of {command}"));
        let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
        let file = directory.path().join("results.json");
        let experiment = Experiment {
            name: "peak",
            question: "",
            rounds: PEAK_RUNS,
            variants: [command.clone(), command.clone()],
        };
        experiment.measure(workspace, &file)?;
        let baseline = &read(&file)?.benchmarks[0].variants[0];
        let runs = baseline.runs.iter();
        let reheap_kib = runs.map(|run| run.cost.peak_rss_bytes / 1024).collect();
        let gnu_time_kib = (0..PEAK_RUNS)
            .map(|_| gnu_time(&baseline.command))
            .collect::<Result<_>>()?;
        peaks.push(Peak {
            command,
            reheap_kib,
            gnu_time_kib,
        });
    }
    Ok(peaks)
}

/// The maximum resident set size in KiB, as GNU time says it.
fn gnu_time(words: &[String]) -> Result<u64> {
    let mut command = Command::new("/usr/bin/time");
    let output = command
        .args(["-f", "%M"])
        .args(words)
        .output()
        .context("cannot start /usr/bin/time")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().last().unwrap_or_default();
    last.parse()
        .with_context(|| format!("/usr/bin/time said `{text}`"))
}

/// Both tools run `/bin/true` without a shell, in turns; the medians of the turns.
fn overhead(workspace: &Workspace, progress: &Progress) -> Result<Vec<Overhead>> {
    const TURNS: usize = 5;
    const RUNS: usize = 400;
    progress.say("/bin/true by reheap and by hyperfine");
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let file = directory.path().join("results.json");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let mut reheap = workspace.reheap();
        // Each round runs the baseline, its copy and one variant.
        reheap
            .args([
                "bench",
                "--variant",
                "a=/bin/true",
                "--variant",
                "b=/bin/true",
            ])
            .args(["--rounds", &RUNS.to_string(), "--json"])
            .arg(&file);
        let whole = timed(&mut reheap)? / (3 * RUNS) as f64;
        let runs = read(&file)?.benchmarks.remove(0).variants.remove(0).runs;
        let walls = runs.iter().map(|run| run.cost.wall_seconds * 1e3);
        ours.push((median(walls.collect()), whole));

        let mut hyperfine = Command::new("hyperfine");
        hyperfine
            .args([
                "-N",
                "--runs",
                &RUNS.to_string(),
                "/bin/true",
                "--export-json",
            ])
            .arg(&file);
        let whole = timed(&mut hyperfine)? / RUNS as f64;
        let text = fs::read_to_string(&file).context("hyperfine wrote no results")?;
        let value: serde_json::Value = serde_json::from_str(&text)?;
        let reported = value["results"][0]["median"]
            .as_f64()
            .context("hyperfine's results have no median")?;
        theirs.push((reported * 1e3, whole));
    }
    let row = |tool, turns: &[(f64, f64)]| Overhead {
        tool,
        runs: TURNS * RUNS,
        reported_ms: median(turns.iter().map(|turn| turn.0).collect()),
        whole_ms: median(turns.iter().map(|turn| turn.1).collect()),
    };
    Ok(vec![
        row("reheap bench", &ours),
        row("hyperfine -N", &theirs),
    ])
}

/// Runs a command and gives its time in milliseconds.
fn timed(command: &mut Command) -> Result<f64> {
    let started = Instant::now();
    let output = command
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    ensure!(
        output.status.success(),
        "{:?} failed: {}",
        command.get_program(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// The middle one, of the upper half if there are two; 0 of nothing.
fn median<T: Copy + PartialOrd + Default>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The median, the least and the most.
fn with_range(kib: &[u64]) -> String {
    let least = kib.iter().min().copied().unwrap_or_default();
    let most = kib.iter().max().copied().unwrap_or_default();
    format!("{} ({least} to {most})", median(kib.to_vec()))
}

impl Trust {
    fn markdown(&self, experiments: &[Experiment]) -> String {
        let machine = &self.machine;
        let load = machine.load_average.unwrap_or_default();
        let mut text = format!(
            "# How far `reheap bench` may be trusted\n\n{}, {} processors, {}, load before {load:.2}.\nMade by `cargo \
             xtask measure-trust`; all runs are in `trust.json`.\n\n## Differences claimed\n\n",
            machine.processor, machine.processors, machine.kernel
        );
        let mut table = Table::new(["program", "rounds", "question", "answer", "ratios seen"]);
        for experiment in experiments {
            let of_experiment = self.repetitions.iter();
            let all: Vec<&Repetition> = of_experiment
                .filter(|repetition| repetition.experiment == experiment.name)
                .collect();
            let claimed = all.iter().filter(|repetition| repetition.claimed).count();
            let ratios = || all.iter().map(|repetition| repetition.ratio);
            let (low, high) = (
                ratios().fold(f64::MAX, f64::min),
                ratios().fold(0.0, f64::max),
            );
            table.row([
                experiment.name.to_owned(),
                experiment.rounds.to_string(),
                experiment.question.to_owned(),
                format!("{claimed} of {}", all.len()),
                format!("{low:.3} to {high:.3}"),
            ]);
        }
        text += &table.render();
        text += "\n## Peak memory\n\nKiB: the median of five runs, and the least and the most. Linux counts the pages of a \
                 process\nfor each processor and adds them up now and then, and where libraries lie is random, so no two \
                 runs need to be\nequal, in either tool.\n\n";
        let mut table = Table::new(["command", "reheap", "GNU time"]);
        for peak in &self.peaks {
            let words = peak.command.split(' ');
            let names = words.map(|word| word.rsplit('/').next().unwrap_or(word));
            table.row([
                format!("`{}`", names.collect::<Vec<_>>().join(" ")),
                with_range(&peak.reheap_kib),
                with_range(&peak.gnu_time_kib),
            ]);
        }
        text += &table.render();
        text += "\n## What a run of `/bin/true` takes, in milliseconds\n\n";
        let mut table = Table::new(["tool", "runs", "as reported", "all of the tool, per run"]);
        for tool in &self.overhead {
            table.row([
                format!("`{}`", tool.tool),
                tool.runs.to_string(),
                format!("{:.3}", tool.reported_ms),
                format!("{:.3}", tool.whole_ms),
            ]);
        }
        text + &table.render()
    }
}
