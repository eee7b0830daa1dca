//! `cargo lab measure-trust`: how far what `reheap bench` says may be trusted.
//!
//! Four questions: how often is a difference claimed where there is none, is a small one found, is peak memory what GNU
//! time says, and does the tool itself take longer for a run than hyperfine. The results of every comparison are kept
//! in a directory; those that are there already are not measured again, so a long session can be broken off, and
//! results of another machine can be looked at.

mod record;

pub(crate) use record::Trust;

use crate::machine::Machine;
use crate::measurement;
use crate::programs::{self, SQLITE};
use anyhow::{Context, Result};
use record::{Overhead, Peak, Repetition, median};
use reheap_bench::results::Results;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// How often each comparison is repeated.
const REPETITIONS: usize = 20;
/// How often GNU time runs a program; the median counts.
const PEAK_RUNS: usize = 5;

/// A comparison that is repeated; the second variant is the one that is judged.
struct Experiment {
    name: &'static str,
    rounds: usize,
    variants: [String; 2],
}

/// Measures what is not yet in the directory of raw results, and writes `trust.json` and `trust.md`.
pub(crate) fn run(
    workspace: &Workspace,
    machine_name: Option<String>,
    raw: Option<PathBuf>,
) -> Result<()> {
    let progress = Progress::start();
    let directory = measurement::directory(workspace, &Machine::describe()?, machine_name);
    let raw = raw.unwrap_or_else(|| workspace.target.join("trust"));
    files::make_directory(&raw)?;
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
            let results: Results = files::read_json(&file)?;
            let trust = trust.get_or_insert_with(|| Trust {
                machine: results.machine.clone(),
                repetitions: Vec::new(),
                peaks: Vec::new(),
                overhead: Vec::new(),
            });
            let repetition = experiment.kept(&results, repetition);
            trust
                .repetitions
                .push(repetition.with_context(|| format!("{name} has no runs"))?);
        }
    }
    let mut trust = trust.context("there are no experiments")?;
    trust.peaks = peaks(workspace, &progress, &churn)?;
    trust.overhead = overhead(workspace, &progress)?;
    let json = serde_json::to_string(&trust).context("cannot write JSON")?;
    let files = [("trust.md", trust.markdown()?), ("trust.json", json)];
    measurement::write(&progress, &directory, &files)
}

fn experiments(churn: &Path, compile: &Path, module: &Path) -> Vec<Experiment> {
    // The amount that takes about a fifth of a second, and 3 % more.
    let churn = |amount: &str| format!("{} --threads 2 --amount {amount}", churn.display());
    let (base, slower) = (churn("16000000"), churn("16480000"));
    let compile = format!("{} --threads 2 {}", compile.display(), module.display());
    vec![
        Experiment {
            name: "churn",
            rounds: 10,
            variants: [base.clone(), base.clone()],
        },
        Experiment {
            name: "wasm-compile",
            rounds: 10,
            variants: [compile.clone(), compile],
        },
        Experiment {
            name: "planted",
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
        stdout_of(&mut command).map(drop)
    }

    fn kept(&self, results: &Results, repetition: usize) -> Option<Repetition> {
        let variants = results.benchmarks.first()?.variants.iter();
        let seconds = variants.map(|variant| {
            let runs = variant.runs.iter();
            runs.map(|run| run.cost.wall_seconds).collect()
        });
        Some(Repetition {
            experiment: self.name.to_owned(),
            repetition,
            claimed_before: None,
            wall_seconds: seconds.collect(),
        })
    }
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
            rounds: PEAK_RUNS,
            variants: [command.clone(), command.clone()],
        };
        experiment.measure(workspace, &file)?;
        let baseline = &files::read_json::<Results>(&file)?.benchmarks[0].variants[0];
        let runs = baseline.runs.iter();
        let reheap_kib = runs.map(|run| run.cost.peak_rss_bytes / 1024).collect();
        let gnu_time_kib = (0..PEAK_RUNS)
            .map(|_| gnu_time(&baseline.command))
            .collect::<Result<_>>()?;
        // Where the checkout is means nothing on another machine.
        let root = format!("{}/", workspace.root.display());
        peaks.push(Peak {
            command: command.replace(&root, ""),
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
        let runs = files::read_json::<Results>(&file)?
            .benchmarks
            .remove(0)
            .variants
            .remove(0)
            .runs;
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
    let row = |tool: &str, turns: &[(f64, f64)]| Overhead {
        tool: tool.to_owned(),
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
    stdout_of(command)?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}
