//! `make bench`: everything that the README claims, with raw data, in a folder named by day and machine.
//!
//! Programs are compared by `reheap bench`, as a user would; only the baselines that reheap has nothing to do with are
//! built here.

use crate::figures;
use crate::machine::Machine;
use crate::prerequisites;
use crate::programs::{self, RustProgram, ServerProgram, SystemProgram};
use crate::progress::Progress;
use crate::table::Table;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use reheap_bench::analysis::analyse;
use reheap_bench::compare::title;
use reheap_bench::results::{Quantity, Results};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `cargo reheap bench` compares: both libcs, preloads, the fast allocators in musl, and what each step brings.
const VARIANTS: &str = "glibc,glibc+mimalloc,glibc+jemalloc,musl,\
                        musl+mimalloc[purge_delay=10,memory_functions=stock],musl+mimalloc[purge_delay=10],\
                        musl+mimalloc,musl+mimalloc3,musl+jemalloc,musl+jemalloc[huge_pages=allow],\
                        musl+snmalloc,musl+rpmalloc";

/// From stock musl to the default, one change at a time.
const STEPS: [(&str, &str); 4] = [
    ("musl", "stock musl"),
    (
        "musl+mimalloc[purge_delay=10,memory_functions=stock]",
        "allocator",
    ),
    ("musl+mimalloc[purge_delay=10]", "memory functions"),
    ("musl+mimalloc", "tuning"),
];

/// What projects do today: a crate as global allocator, by a feature that every workload has.
const CRATES: [(&str, &str); 2] = [
    ("musl, crate mimalloc", "mimalloc-crate"),
    ("musl, crate tikv-jemallocator", "jemalloc-crate"),
];

/// Measures and writes the folder. With names, only these programs.
pub(crate) fn run(
    workspace: &Workspace,
    rounds: usize,
    machine_name: Option<String>,
    only: &[String],
) -> Result<()> {
    let progress = Progress::start();
    let machine = Machine::describe()?;
    progress.step(
        "building reheap",
        workspace
            .cargo()
            .args(["build", "--release", "-p", "reheap"]),
    )?;
    prerequisites::install_missing(workspace, &progress)?;
    let folder = machine.folder(workspace, machine_name)?;
    let measuring = Measuring {
        workspace,
        progress: &progress,
        folder: &folder,
        rounds,
    };
    let mut prepared = programs::prepare(workspace, &progress)?;
    let is_chosen = |name: &str| only.is_empty() || only.iter().any(|chosen| chosen == name);
    prepared.rust.retain(|program| is_chosen(program.package));
    prepared.system.retain(|program| is_chosen(program.name));
    prepared.servers.retain(|program| is_chosen(program.name));
    for program in &prepared.rust {
        measuring.rust(program)?;
    }
    for program in &prepared.system {
        measuring.system(program)?;
    }
    for program in &prepared.servers {
        measuring.server(program)?;
    }
    for left_out in &prepared.left_out {
        progress.say(format!("left out: {}: {}", left_out.name, left_out.reason));
    }
    if is_chosen("figures") {
        let figures = figures::measure(workspace, &progress)?;
        let raw = serde_json::to_string_pretty(&figures).context("cannot write JSON")?;
        write(&folder.join("figures.json"), &raw)?;
        write(&folder.join("figures.md"), &figures.markdown()?)?;
    }
    measuring.report(&machine)?;
    progress.say(format!("written to `{}`", folder.display()));
    Ok(())
}

fn read(file: &Path) -> Result<Results> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("cannot understand `{}`", file.display()))
}

/// Whether the program was linked with musl, too.
fn is_linked_anew(results: &Results) -> bool {
    let mut variants = results
        .benchmarks
        .iter()
        .flat_map(|benchmark| &benchmark.variants);
    variants.any(|variant| variant.name == STEPS[0].0)
}

/// JSON in the folder that is no file of results.
const NO_RESULTS: [&str; 2] = ["figures.json", "trust.json"];

struct Measuring<'a> {
    workspace: &'a Workspace,
    progress: &'a Progress,
    folder: &'a Path,
    rounds: usize,
}

impl Measuring<'_> {
    fn rust(&self, program: &RustProgram) -> Result<()> {
        let mut command = self.workspace.cargo_reheap();
        command.args(["bench", "--name", program.package, "--variant", VARIANTS]);
        for (name, feature) in CRATES {
            let built = program.build_with_feature(self.workspace, self.progress, feature)?;
            let words = program.arguments.join(" ");
            let variant = format!("{name}={} {words}", built.display());
            command.args(["--variant", &variant]);
        }
        // Last, because the first variant is the baseline and the limit is none to choose.
        command.args(["--variant", "musl+limit"]);
        if let Some(sweep) = program.sweep {
            command.args(["-L", sweep]);
        }
        command.args(program.cargo_flags(self.workspace));
        self.measure(program.package, &mut command, &program.arguments)
    }

    fn system(&self, program: &SystemProgram) -> Result<()> {
        let mut command = self.workspace.reheap();
        command.args(["bench", "--name", program.name]);
        command.envs(program.environment.iter().copied());
        self.measure(program.name, &mut command, &program.words)
    }

    fn server(&self, program: &ServerProgram) -> Result<()> {
        let mut command = self.workspace.reheap();
        command.args(["bench", "--name", program.name, "--server", program.server]);
        command.args([
            "--ready-port",
            &program.ready_port.to_string(),
            "--load",
            program.load,
        ]);
        for metric in program.metrics {
            command.args(["--metric", metric]);
        }
        self.measure(program.name, &mut command, &[])
    }

    fn measure(&self, name: &str, command: &mut Command, words: &[String]) -> Result<()> {
        let file = self.folder.join(format!("{name}.json"));
        command.args(["--rounds", &self.rounds.to_string(), "--json"]);
        command.arg(&file);
        if !words.is_empty() {
            command.arg("--").args(words);
        }
        self.progress.step(&format!("measuring {name}"), command)?;
        // Where these folders lie is nobody's business, and on another machine they lie elsewhere.
        let text = fs::read_to_string(&file)
            .with_context(|| format!("cannot read `{}`", file.display()))?;
        let root = format!("{}/", self.workspace.root.display());
        let home = format!("{}/", env::var("HOME").context("there is no HOME")?);
        write(&file, &text.replace(&root, "").replace(&home, "~/"))
    }

    /// The page of all results in the folder, also of those that were measured before; a README of the programs that were
    /// linked anew, and a text of those that allocators were preloaded into.
    fn report(&self, machine: &Machine) -> Result<()> {
        let results = self.results()?;
        if results.is_empty() {
            return Ok(());
        }
        let mut html = self.workspace.reheap();
        html.arg("report").args(&results).arg("--html");
        html.arg(self.folder.join("report.html"));
        self.progress.step(
            "writing report.html",
            html.stdout(std::process::Stdio::null()),
        )?;
        let (mut linked, mut preloaded) = (Vec::new(), Vec::new());
        for file in &results {
            match is_linked_anew(&read(file)?) {
                true => linked.push(file),
                false => preloaded.push(file),
            }
        }
        let title = |title: &str| {
            format!(
                "# {title}\n\n{machine}.\nMade by `make bench`. The raw runs are in the JSON files beside this one, \
                 charts of them in report.html.\n"
            )
        };
        let steps = self.steps(&linked)?;
        let figures = self.folder.join("figures.md");
        let figures = fs::read_to_string(figures).unwrap_or_default();
        let text = format!(
            "{}Programs that nobody here links anew are in [preloaded.md](preloaded.md).\n\n{steps}{}\n{figures}",
            title("Measurements"),
            self.markdown(&linked)?
        );
        write(&self.folder.join("README.md"), &text)?;
        let text = format!(
            "{}\n{}",
            title("Allocators preloaded into Python, Java, Node and Redis"),
            self.markdown(&preloaded)?
        );
        write(&self.folder.join("preloaded.md"), &text)
    }

    fn markdown(&self, files: &[&PathBuf]) -> Result<String> {
        if files.is_empty() {
            return Ok("None yet.\n".to_owned());
        }
        let mut command = self.workspace.reheap();
        command.arg("report").args(files).arg("--markdown");
        let output = command.output().context("cannot start reheap")?;
        ensure!(output.status.success(), "reheap report failed");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// CPU time over glibc's after each step from stock musl to the default.
    fn steps(&self, files: &[&PathBuf]) -> Result<String> {
        let mut table = Table::new([
            "CPU time / glibc's",
            STEPS[0].1,
            STEPS[1].1,
            STEPS[2].1,
            STEPS[3].1,
        ]);
        for file in files {
            let results = read(file)?;
            for benchmark in &results.benchmarks {
                let analysis = analyse(benchmark, &Quantity::Cpu, results.settings.output);
                let Some(analysis) = analysis else { continue };
                let ratio = |variant: &str| {
                    let row = analysis.rows.iter().find(|row| row.variant == variant)?;
                    Some(row.comparison?.ratio?.value)
                };
                let ratios: Vec<f64> = STEPS.iter().filter_map(|step| ratio(step.0)).collect();
                let Ok(ratios) = <[f64; STEPS.len()]>::try_from(ratios) else {
                    continue; // a program that cannot be linked with musl
                };
                let [stock, allocator, functions, tuning] =
                    ratios.map(|ratio| format!("{ratio:.2}"));
                table.row([title(benchmark), stock, allocator, functions, tuning]);
            }
        }
        Ok(format!("## What each step brings\n\n{}\n", table.render()))
    }

    fn results(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(self.folder).context("cannot read the folder of results")?;
        let mut results = Vec::new();
        for entry in entries {
            let path = entry.context("cannot read the folder of results")?.path();
            let is_json = path
                .extension()
                .is_some_and(|extension| extension == "json");
            if is_json && !NO_RESULTS.iter().any(|name| path.ends_with(name)) {
                results.push(path);
            }
        }
        results.sort();
        Ok(results)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}
