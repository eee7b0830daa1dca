//! What reheap itself costs: relinking, a build through it, the first build of an allocator, bytes in an executable.

use crate::table::Table;
use anyhow::{Context, Result, ensure};
use reheap_allocators::catalogue::CATALOGUE;
use reheap_bench::results::Cost;
use reheap_bench::rounds::{Turn, interleave};
use reheap_bench::run::{CommandLine, Launcher, Limits};
use reheap_stats::{Sample, paired_differences};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Workspace, musl_target};

/// How often a build is repeated that takes seconds.
const REPETITIONS: usize = 5;
/// How often an allocator is built into an empty cache; one that builds slowly is built once.
const FIRST_BUILDS: usize = 3;
/// How often a program is started that ends at once.
const STARTS: usize = 200;

/// The raw runs behind all of these figures.
#[derive(Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Builds that differ from the one before in the allocator alone.
    relink: Relink,
    /// Builds of a new project, with Cargo and with reheap.
    fresh: Pair,
    /// Starts of `/bin/true` with a preload, by the bare variable and by `reheap run`.
    start: Pair,
    /// Derived libcs, made with an empty cache.
    first: Vec<FirstBuild>,
    /// Sizes of a program that prints one line.
    hello: Vec<Size>,
}

#[derive(Serialize, Deserialize)]
struct Relink {
    executable_bytes: u64,
    runs: Vec<Cost>,
}

/// What each round does twice: without reheap and with it.
#[derive(Serialize, Deserialize)]
struct Pair {
    without_reheap: Vec<Cost>,
    with_reheap: Vec<Cost>,
}

#[derive(Serialize, Deserialize)]
struct FirstBuild {
    allocator: String,
    runs: Vec<Cost>,
}

#[derive(Serialize, Deserialize)]
struct Size {
    variant: String,
    bytes: u64,
}

/// Measures all of it. The allocators have to be in the user's cache already.
pub(crate) fn measure(workspace: &Workspace, progress: &Progress) -> Result<Figures> {
    let launcher = Launcher::new()?;
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let hello = hello_project(directory.path())?;
    Ok(Figures {
        relink: relink(workspace, progress, &launcher)?,
        fresh: fresh(workspace, progress, &launcher, &hello)?,
        start: start(workspace, progress, &launcher)?,
        hello: sizes(workspace, progress, &launcher, &hello)?,
        first: first_builds(workspace, progress, &launcher)?,
    })
}

/// reheap in the development profile is the executable: large, and here anyway.
fn relink(workspace: &Workspace, progress: &Progress, launcher: &Launcher) -> Result<Relink> {
    let build = |allocator: &str| {
        let manifest = workspace.root.join("Cargo.toml");
        let mut command = workspace.cargo_reheap();
        command
            .args([
                "build",
                "-p",
                "reheap",
                "--bin",
                "reheap",
                "-a",
                allocator,
                "--manifest-path",
            ])
            .arg(manifest);
        command
            .arg("--target-dir")
            .arg(workspace.target.join("relink"));
        run(launcher, &command, &[])
    };
    let allocators = ["mimalloc", "mimalloc3"];
    progress.say("relinking with another allocator: the first builds");
    for allocator in allocators {
        build(allocator)?;
    }
    let mut runs = Vec::new();
    for repetition in 1..=REPETITIONS {
        progress.say(format!(
            "relinking with another allocator: {repetition} of {REPETITIONS}"
        ));
        for allocator in allocators {
            runs.push(build(allocator)?);
        }
    }
    let executable = workspace
        .target
        .join("relink")
        .join(musl_target()?.triple())
        .join("debug/reheap");
    Ok(Relink {
        executable_bytes: bytes(&executable)?,
        runs,
    })
}

fn fresh(
    workspace: &Workspace,
    progress: &Progress,
    launcher: &Launcher,
    hello: &Path,
) -> Result<Pair> {
    let target = musl_target()?;
    Pair::measure(REPETITIONS, |turn| {
        let mut command = if turn.variant == 0 {
            let mut cargo = workspace.cargo();
            cargo.args(["build", "--release", "--target", target.triple()]);
            cargo
        } else {
            let mut reheap = workspace.cargo_reheap();
            reheap.args(["build", "--release"]);
            reheap
        };
        progress.say(format!(
            "a new project, round {} of {REPETITIONS}: {}",
            turn.round + 1,
            ["Cargo", "reheap"][turn.variant]
        ));
        let build = tempfile::tempdir().context("cannot make a temporary directory")?;
        run(
            launcher,
            project_arguments(&mut command, hello, build.path()),
            &[],
        )
    })
}

fn start(workspace: &Workspace, progress: &Progress, launcher: &Launcher) -> Result<Pair> {
    progress.say("starting a program with a preload");
    let by_reheap = |words: &[&str]| {
        let mut command = workspace.reheap();
        command.args(["run", "-a", "mimalloc", "--"]).args(words);
        command
    };
    let library = stdout_of(&mut by_reheap(&["printenv", "LD_PRELOAD"]))?;
    let variable = ("LD_PRELOAD".into(), library.trim_end().into());
    Pair::measure(STARTS, |turn| match turn.variant {
        0 => run(
            launcher,
            &Command::new("/bin/true"),
            std::slice::from_ref(&variable),
        ),
        _ => run(launcher, &by_reheap(&["/bin/true"]), &[]),
    })
}

fn sizes(
    workspace: &Workspace,
    progress: &Progress,
    launcher: &Launcher,
    hello: &Path,
) -> Result<Vec<Size>> {
    progress.say("the size of a program that prints one line");
    let target = musl_target()?;
    let build = tempfile::tempdir().context("cannot make a temporary directory")?;
    let executable = build.path().join(target.triple()).join("release/hello");
    let size = |variant: String, mut command: Command| {
        run(
            launcher,
            project_arguments(&mut command, hello, build.path()),
            &[],
        )?;
        Ok::<_, anyhow::Error>(Size {
            variant,
            bytes: bytes(&executable)?,
        })
    };
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--target", target.triple()]);
    let mut sizes = vec![size("musl".to_owned(), cargo)?];
    for allocator in CATALOGUE.iter().filter(|row| row.build.is_some()) {
        let allocator = allocator.name;
        let mut reheap = workspace.cargo_reheap();
        reheap.args(["build", "--release", "-a", allocator]);
        match size(format!("musl+{allocator}"), reheap) {
            Ok(size) => sizes.push(size),
            Err(error) => progress.say(format!("left out: {error:#}")),
        }
    }
    Ok(sizes)
}

fn first_builds(
    workspace: &Workspace,
    progress: &Progress,
    launcher: &Launcher,
) -> Result<Vec<FirstBuild>> {
    let mut first = Vec::new();
    for allocator in CATALOGUE {
        let Some(recipe) = &allocator.build else {
            continue;
        };
        let repetitions = if recipe.builds_slowly {
            1
        } else {
            FIRST_BUILDS
        };
        let mut runs = Vec::new();
        for repetition in 1..=repetitions {
            progress.say(format!(
                "{} into an empty cache: {repetition} of {repetitions}",
                allocator.name
            ));
            let cache = tempfile::tempdir().context("cannot make a temporary directory")?;
            let mut command = workspace.reheap();
            command.args(["libc", "-a", allocator.name]);
            match run(
                launcher,
                &command,
                &[("REHEAP_CACHE_DIR".into(), cache.path().into())],
            ) {
                Ok(measurement) => runs.push(measurement),
                Err(error) => progress.say(format!("left out: {error:#}")),
            }
        }
        if !runs.is_empty() {
            first.push(FirstBuild {
                allocator: allocator.name.to_owned(),
                runs,
            });
        }
    }
    Ok(first)
}

/// A project without dependencies, outside this workspace.
fn hello_project(directory: &Path) -> Result<PathBuf> {
    let manifest = directory.join("Cargo.toml");
    files::write(
        &manifest,
        "[package]\nname = \"hello\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n",
    )?;
    files::write(
        directory.join("src/main.rs"),
        "fn main() {\n    println!(\"Hello, world!\");\n}\n",
    )?;
    Ok(manifest)
}

fn project_arguments<'a>(
    command: &'a mut Command,
    manifest: &Path,
    target_directory: &Path,
) -> &'a Command {
    command
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target_directory)
}

/// Runs a command with what it costs, which must end well. The launcher does not search `PATH` and keeps the working
/// directory.
fn run(
    launcher: &Launcher,
    command: &Command,
    environment: &[(OsString, OsString)],
) -> Result<Cost> {
    let arguments = command.get_args().map(Into::into).collect();
    let program = command.get_program().into();
    let measured = CommandLine {
        program,
        arguments,
        environment: environment.to_vec(),
        ..CommandLine::default()
    };
    let run = launcher.run(&measured, &Limits::default(), &[])?;
    ensure!(
        run.outcome.is_success(),
        "{} failed ({}): {}",
        xtask::command::shown(command),
        run.outcome,
        run.stderr.last_lines(20)
    );
    Ok(run.cost)
}

fn bytes(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path)
        .with_context(|| format!("cannot read the size of `{}`", path.display()))?
        .len())
}

impl Figures {
    /// The figures that a user asks for first, as one table.
    pub(crate) fn short(&self) -> Result<String> {
        let mut table = Table::new(["", "wall time"]);
        let relink = format!(
            "another allocator for an executable of {:.0} MB, the whole command",
            self.relink.executable_bytes as f64 / 1e6
        );
        table.row([relink, seconds(&wall_seconds(&self.relink.runs)?)]);
        table.row([
            "`cargo reheap build` of a new project, more than `cargo build`".to_owned(),
            seconds(&self.fresh.difference()?),
        ]);
        for first in &self.first {
            table.row([
                format!("first build of {}, once per machine", first.allocator),
                seconds(&wall_seconds(&first.runs)?),
            ]);
        }
        table.row([
            "start of a program by `reheap run`, more than with `LD_PRELOAD`".to_owned(),
            milliseconds(&self.start.difference()?),
        ]);
        let stock = self.hello.first().context("no sizes")?.bytes as f64;
        let sizes: Vec<String> = self.hello[1..]
            .iter()
            .map(|size| {
                let allocator = size.variant.trim_start_matches("musl+");
                format!(
                    "{allocator} {:.0} KiB",
                    (size.bytes as f64 - stock) / 1024.0
                )
            })
            .collect();
        Ok(format!(
            "{}\nAn executable that prints one line grows over stock musl's by: {}.\n",
            table.render(),
            sizes.join(", ")
        ))
    }

    /// The figures as sentences and tables in Markdown.
    pub(crate) fn markdown(&self) -> Result<String> {
        let mut text = String::from("# What reheap costs\n\n");
        let mut table = Table::new(["the whole command", "wall time"]);
        let relink = format!(
            "`cargo reheap build` with another allocator, executable of {:.1} MB",
            self.relink.executable_bytes as f64 / 1e6
        );
        table.row([relink, seconds(&wall_seconds(&self.relink.runs)?)]);
        table.row([
            "a new project, `cargo build --release --target …-musl`".to_owned(),
            seconds(&wall_seconds(&self.fresh.without_reheap)?),
        ]);
        table.row([
            "a new project, `cargo reheap build --release`".to_owned(),
            seconds(&wall_seconds(&self.fresh.with_reheap)?),
        ]);
        table.row([
            "what reheap adds to it, by round".to_owned(),
            seconds(&self.fresh.difference()?),
        ]);
        table.row([
            "`/bin/true` with mimalloc in `LD_PRELOAD`".to_owned(),
            milliseconds(&wall_seconds(&self.start.without_reheap)?),
        ]);
        table.row([
            "what `reheap run -a mimalloc` adds to it, by round".to_owned(),
            milliseconds(&self.start.difference()?),
        ]);
        text += &table.render();
        let mut table = Table::new(["first build into an empty cache", "wall time", "CPU time"]);
        for first in &self.first {
            let cpu = Sample::new(first.runs.iter().map(Cost::cpu_seconds))
                .context("cannot summarize: no runs")?;
            table.row([
                first.allocator.clone(),
                seconds(&wall_seconds(&first.runs)?),
                seconds(&cpu),
            ]);
        }
        text += "\n";
        text += &table.render();
        let stock = self.hello.first().context("no sizes")?.bytes as i64;
        let mut table = Table::new(["hello world, symbols included", "KiB", "more than stock"]);
        for size in &self.hello {
            let kib = |bytes: i64| format!("{:.1}", bytes as f64 / 1024.0);
            table.row([
                size.variant.clone(),
                kib(size.bytes as i64),
                kib(size.bytes as i64 - stock),
            ]);
        }
        Ok(text + "\n" + &table.render())
    }
}

impl Pair {
    /// The first variant of each round is without reheap.
    fn measure(rounds: usize, run: impl FnMut(Turn) -> Result<Cost>) -> Result<Self> {
        let mut costs = interleave(2, rounds, 1, run)?;
        let with_reheap = costs.pop().unwrap_or_default();
        let without_reheap = costs.pop().unwrap_or_default();
        Ok(Self {
            without_reheap,
            with_reheap,
        })
    }

    /// What reheap adds.
    fn difference(&self) -> Result<Sample> {
        let wall = |runs: &[Cost]| runs.iter().map(|run| run.wall_seconds).collect::<Vec<_>>();
        paired_differences(&wall(&self.with_reheap), &wall(&self.without_reheap))
            .context("cannot compare: a round is incomplete")
    }
}

fn wall_seconds(runs: &[Cost]) -> Result<Sample> {
    Sample::new(runs.iter().map(|run| run.wall_seconds)).context("cannot summarize: no runs")
}

fn milliseconds(sample: &Sample) -> String {
    format!(
        "{:.2} ± {:.2} ms (n = {})",
        sample.median() * 1e3,
        sample.median_absolute_deviation() * 1e3,
        sample.count()
    )
}

/// Median, spread and number of the values. A single one has no spread.
fn seconds(sample: &Sample) -> String {
    match sample.count() {
        1 => format!("{:.2} s (n = 1)", sample.median()),
        count => format!(
            "{:.2} ± {:.2} s (n = {count})",
            sample.median(),
            sample.median_absolute_deviation()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_shown_without_a_spread() {
        let shown = |values: &[f64]| seconds(&Sample::new(values.iter().copied()).unwrap());
        assert_eq!(shown(&[1.25]), "1.25 s (n = 1)");
        assert_eq!(shown(&[1.0, 1.25, 2.0]), "1.25 ± 0.25 s (n = 3)");
    }
}
