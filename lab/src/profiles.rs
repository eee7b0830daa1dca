//! `cargo lab measure-profile`: what a profile and a trace cost, beside other heap profilers, and how true a replay is.
//!
//! All runs are made by `reheap bench`: a profiler is a variant of a command. So the order is shuffled, each round has
//! every profiler, and the raw runs are kept. The pages beside them are computed from these alone.

mod cost;
mod fidelity;

use crate::machine::Machine;
use crate::measurement::{self, without_places};
use crate::pages::page::Page;
use anyhow::{Context, Result, ensure};
use reheap_bench::results::{Benchmark, Results, Role, Run, Variant};
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// What `reheap bench` ends with if a variant crashed or took too long: another profiler may, and that is a result.
const A_VARIANT_FAILED: i32 = 4;
/// Where the results are, in a directory of measurements.
const DIRECTORY: &str = "profile";

/// Measures, and writes raw results and pages. With names, only these: `cost`, or a program whose replay is compared.
pub(crate) fn run(
    workspace: &Workspace,
    rounds: usize,
    machine_name: Option<String>,
    only: &[String],
) -> Result<()> {
    let progress = Progress::start();
    workspace.build_reheap(&progress)?;
    let results = measurement::directory(workspace, &Machine::describe()?, machine_name);
    let session = Session {
        workspace,
        progress: &progress,
        results: results.join(DIRECTORY),
        scratch: workspace.target.join("profiles"),
        rounds,
    };
    files::make_directory(&session.results)?;
    files::make_directory(&session.scratch)?;
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|chosen| chosen == name);
    if is_chosen("cost") {
        cost::measure(&session)?;
        write_pages(&results)?;
    }
    for name in fidelity::PROGRAMS {
        if is_chosen(name) {
            fidelity::measure(&session, name)?;
            write_pages(&results)?;
        }
    }
    progress.say(format!("written to `{}`", session.results.display()));
    Ok(())
}

/// After each program, so that what was measured can be read even if the next one fails.
fn write_pages(measurements: &Path) -> Result<()> {
    for page in pages(measurements)? {
        files::write(&page.path, page.text)?;
    }
    Ok(())
}

/// What is made from the results in a directory of measurements.
pub(crate) fn pages(measurements: &Path) -> Result<Vec<Page>> {
    let directory = measurements.join(DIRECTORY);
    let texts = [
        ("cost.md", cost::markdown(&directory)?),
        ("fidelity.md", fidelity::markdown(&directory)?),
    ];
    let pages = texts.into_iter().filter_map(|(name, text)| {
        let path = directory.join(name);
        text.map(|text| Page { path, text })
    });
    Ok(pages.collect())
}

/// One call of the command.
struct Session<'a> {
    workspace: &'a Workspace,
    progress: &'a Progress,
    /// Where raw results go.
    results: PathBuf,
    /// Where programs, traces and what other profilers write go.
    scratch: PathBuf,
    rounds: usize,
}

impl Session<'_> {
    /// A program in the directory to work in, as it is typed at the root of the workspace.
    fn scratch(&self, name: &str) -> String {
        self.relative(&self.scratch.join(name))
    }

    fn relative(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.workspace.root).unwrap_or(path);
        path.display().to_string()
    }

    /// reheap, as it is typed at the root of the workspace.
    fn reheap(&self) -> String {
        self.relative(Path::new(self.workspace.reheap().get_program()))
    }

    /// Lets `reheap bench` measure, with these arguments, and keeps the results under that name. Results that are there
    /// already are kept.
    fn bench(&self, name: &str, arguments: &[String], command: &[String]) -> Result<()> {
        let file = self.results.join(format!("{name}.json"));
        if file.exists() {
            return Ok(());
        }
        let mut bench = self.workspace.reheap();
        bench.current_dir(&self.workspace.root);
        bench.args(["bench", "--ignore-output", "--name", name]);
        bench.args(["--rounds", &self.rounds.to_string(), "--json"]);
        bench.arg(&file).args(arguments);
        if !command.is_empty() {
            bench.arg("--").args(command);
        }
        self.progress.say(format!("measuring {name}"));
        let status = bench.status().context("cannot start reheap")?;
        ensure!(
            [Some(0), Some(A_VARIANT_FAILED)].contains(&status.code()),
            "reheap bench failed ({status})"
        );
        let text = files::read(&file)?;
        files::write(&file, without_places(self.workspace, &text))
    }

    /// Runs a command at the root of the workspace.
    fn step(&self, what: &str, command: &mut Command) -> Result<()> {
        command.current_dir(&self.workspace.root);
        self.progress.quietly(what, command)
    }
}

/// The results of that name, if they were measured.
fn read(directory: &Path, name: &str) -> Result<Option<Results>> {
    let file = directory.join(format!("{name}.json"));
    if !file.exists() {
        return Ok(None);
    }
    files::read_json(&file).map(Some)
}

/// A figure of each run that succeeded, with the run's round.
fn figures(variant: &Variant, of: impl Fn(&Run) -> Option<f64>) -> Vec<(usize, f64)> {
    let runs = variant.runs.iter().filter(|run| run.outcome.is_success());
    runs.filter_map(|run| Some((run.round, of(run)?))).collect()
}

/// All variants but the baseline's second run.
fn variants(benchmark: &Benchmark) -> impl Iterator<Item = &Variant> {
    let variants = benchmark.variants.iter();
    variants.filter(|variant| variant.role != Role::BaselineCopy)
}

fn median(figures: &[(usize, f64)]) -> Option<f64> {
    let mut values: Vec<f64> = figures.iter().map(|(_, value)| *value).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

fn cpu_seconds(run: &Run) -> f64 {
    run.cost.user_seconds + run.cost.system_seconds
}

/// What all pages say of where their figures are from.
fn origin(results: &Results) -> String {
    let machine = &results.machine;
    format!(
        "Measured on {} with {} processors ({}, {}), as of {}. Raw runs are in the JSON files beside this page; \
         `cargo lab measure-profile` measures again.",
        if machine.is_virtual {
            "a virtual machine"
        } else {
            "a machine"
        },
        machine.processors,
        machine.processor,
        machine.kernel,
        results.started_at.get(..10).unwrap_or_default(),
    )
}
