//! The GitHub action, run as a runner does: the steps of `action.yml` in their order, with what they say of themselves.
//!
//! Only as much of GitHub's language is understood as the file uses, and anything else is an error.

use super::TestDist;
use super::outcome::{self, Outcome};
use super::server::{Archives, Server};
use super::yaml;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;

const PROGRAM: &str = r#"
fn main() {
    let sum: usize = (0..100_000).map(|i| vec![1_u8; i % 1000 + 1].len()).sum();
    println!("{sum}");
}
"#;
/// Fewer rounds would leave it open whether a condition holds.
const CARGO_BENCH: &str = "--release --variant glibc,musl+mimalloc --rounds 6 --";
const BENCH: &str = "--variant glibc,jemalloc --rounds 6 -- python3 -c 'print(len([1] * 1000))'";

type Inputs = BTreeMap<String, String>;

/// A job on a runner: directories and files that are its own.
struct Job<'a> {
    test: &'a TestDist<'a>,
    action: Value,
    directory: PathBuf,
    from: String,
}

pub(super) fn check(test: &TestDist<'_>) -> Result<()> {
    let server = Server::start(test, Archives::Whole)?;
    let action = yaml::read(test, &test.source("action.yml"))?;
    let job = |name: &str| {
        let directory = test.new_directory(name)?;
        write_project(&directory)?;
        Ok::<_, anyhow::Error>(Job {
            test,
            action: action.clone(),
            directory,
            from: server.address.clone(),
        })
    };
    holds(&job("holds-")?)?;
    is_violated(&job("violated-")?)?;
    changes_need_earlier_results(&job("refused-")?)
}

fn holds(job: &Job<'_>) -> Result<()> {
    let inputs = [
        ("build", "--release"),
        ("cargo-bench", CARGO_BENCH),
        ("fail-if", "peak-rss>500MiB\nwall>60s\n"),
    ];
    job.run(&inputs)?.succeeded()?;
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let program = job
        .project()
        .join("target")
        .join(target)
        .join("release/app");
    let reheap = job.directory.join("temporary/reheap/bin/reheap");
    outcome::succeed(Command::new(reheap).arg("inspect").arg(program))?.said("mimalloc")?;
    let results = job.check_summary("musl+mimalloc")?;
    job.test
        .saw("installed, built and compared; the condition holds, and the table is in the summary");

    let earlier = results.with_extension("earlier");
    fs::copy(&results, &earlier)?;
    let against = earlier.display().to_string();
    let inputs = [
        ("cargo-bench", CARGO_BENCH),
        ("against", against.as_str()),
        ("fail-if", "peak-rss>+400%"),
    ];
    job.run(&inputs)?.succeeded()?;
    job.test.saw("compared with earlier results");
    Ok(())
}

fn is_violated(job: &Job<'_>) -> Result<()> {
    let inputs = [("bench", BENCH), ("fail-if", "wall>60s\npeak-rss>1KiB")];
    job.run(&inputs)?
        .ended_with(3)?
        .said("violated: peak-rss")?
        .did_not_say("violated: wall")?;
    job.check_summary("glibc+jemalloc")?;
    ensure!(
        job.file("summary")?.contains("violated: peak-rss"),
        "the summary does not say what was violated"
    );
    job.test
        .saw("a violated condition ends the job with 3, and the table is in the summary");
    Ok(())
}

fn changes_need_earlier_results(job: &Job<'_>) -> Result<()> {
    let inputs = [("bench", BENCH), ("fail-if", "wall>+5%")];
    job.run(&inputs)?.ended_with(2)?.said("against")?;
    job.test
        .saw("a condition about a change is refused without earlier results");
    Ok(())
}

impl Job<'_> {
    fn project(&self) -> PathBuf {
        self.directory.join("project")
    }

    /// What a step wrote for the runner.
    fn file(&self, name: &str) -> Result<String> {
        let path = self.directory.join(name);
        files::read(&path)
    }

    /// The results' file, if the summary has a table with this variant.
    fn check_summary(&self, variant: &str) -> Result<PathBuf> {
        let summary = self.file("summary")?;
        ensure!(
            summary.contains(&format!("\n| {variant} |")),
            "the summary has no row of {variant}: {summary}"
        );
        let outputs = self.file("output")?;
        let results = outputs
            .lines()
            .find_map(|line| line.strip_prefix("results="))
            .map(PathBuf::from)
            .context("there is no output `results`")?;
        let json: Value = files::read_json(&results)?;
        ensure!(json.is_object(), "the results are no JSON");
        Ok(results)
    }

    /// Runs the steps until one fails.
    fn run(&self, given: &[(&str, &str)]) -> Result<Outcome> {
        let inputs = self.inputs(given)?;
        let steps = self.action["runs"]["steps"].as_array();
        let mut last = None;
        for step in steps.context("action.yml has no steps")? {
            if !condition(step["if"].as_str().unwrap_or("true"), &inputs)? {
                continue;
            }
            let outcome = outcome::of(&mut self.step(step, &inputs)?)?;
            let failed = outcome.has_failed();
            last = Some(outcome);
            if failed {
                break;
            }
        }
        last.context("no step ran")
    }

    /// All inputs, with their defaults.
    fn inputs(&self, given: &[(&str, &str)]) -> Result<Inputs> {
        let mut inputs = Inputs::new();
        let known = self.action["inputs"].as_object();
        for (name, input) in known.context("action.yml has no inputs")? {
            let default = input["default"].as_str().unwrap_or_default();
            inputs.insert(name.clone(), default.to_owned());
        }
        for &(name, value) in [("from", self.from.as_str())].iter().chain(given) {
            let old = inputs.insert(name.to_owned(), value.to_owned());
            ensure!(old.is_some(), "action.yml has no input `{name}`");
        }
        Ok(inputs)
    }

    fn step(&self, step: &Value, inputs: &Inputs) -> Result<Command> {
        let script = step["run"].as_str().context("a step runs nothing")?;
        ensure!(step["shell"] == "bash", "a step needs another shell");
        let temporary = self.directory.join("temporary");
        fs::create_dir_all(&temporary)?;
        // As the runner calls it for `shell: bash`.
        let mut command = Command::new("bash");
        command
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(self.project())
            .env("GITHUB_ACTION_PATH", &self.test.workspace.root)
            .env("GITHUB_PATH", self.directory.join("path"))
            .env("GITHUB_OUTPUT", self.directory.join("output"))
            .env("GITHUB_STEP_SUMMARY", self.directory.join("summary"))
            .env("RUNNER_TEMP", temporary)
            .env("PATH", self.path())
            .env("REHEAP_CACHE_DIR", self.directory.join("cache"))
            .env_remove("REHEAP_PREBUILT")
            .env_remove("CARGO_TARGET_DIR");
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            let value = value.as_str().context("a variable is no text")?;
            command.env(name, expand(value, inputs)?);
        }
        Ok(command)
    }

    /// What earlier steps added comes first.
    fn path(&self) -> String {
        let added = self.file("path").unwrap_or_default();
        let own = std::env::var("PATH").unwrap_or_default();
        added
            .lines()
            .rev()
            .chain([own.as_str()])
            .collect::<Vec<_>>()
            .join(":")
    }
}

/// `${{ inputs.name }}`
fn expand(value: &str, inputs: &Inputs) -> Result<String> {
    let inner = value
        .strip_prefix("${{ ")
        .and_then(|v| v.strip_suffix(" }}"));
    input(inner.unwrap_or(value), inputs)
}

/// `inputs.a != '' || inputs.b != ''`
fn condition(text: &str, inputs: &Inputs) -> Result<bool> {
    if text == "true" {
        return Ok(true);
    }
    for part in text.split(" || ") {
        let Some(name) = part.strip_suffix(" != ''") else {
            bail!("the condition `{text}` is not understood");
        };
        if !input(name, inputs)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn input(text: &str, inputs: &Inputs) -> Result<String> {
    let name = text.strip_prefix("inputs.");
    let value = name.and_then(|name| inputs.get(name));
    value
        .cloned()
        .with_context(|| format!("`{text}` is no input of action.yml"))
}

fn write_project(directory: &Path) -> Result<()> {
    let project = directory.join("project");
    let manifest =
        "[package]\nname = \"app\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[workspace]\n";
    files::write(project.join("Cargo.toml"), manifest)?;
    files::write(project.join("src/main.rs"), PROGRAM)
}
