//! A static program: its test suite with musl's own allocator, without reheap, and with each allocator.

use super::cache;
use super::records::{StaticTrial, Verdict, With};
use super::static_rows::{Source, StaticRow};
use super::static_tests::Suite;
use crate::machine::today;
use crate::registry;
use crate::sources::{copy, debian, detach};
use anyhow::{Context, Result, ensure};
use reheap_bench::results::Outcome;
use reheap_bench::run::{CommandLine, Launcher, Limits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Workspace, musl_target};

/// How long building and testing may take.
const DEADLINE: Duration = Duration::from_secs(1800);
/// How much of the output is kept when something is wrong.
const OUTPUT_LINES: usize = 30;

/// A program whose sources are there.
struct Sources<'a> {
    workspace: &'a Workspace,
    row: &'a StaticRow,
    /// Everything of this program.
    directory: PathBuf,
    /// The sources as they were published.
    published: PathBuf,
    version: String,
    launcher: Launcher,
    target: String,
}

/// A test suite that has run.
struct Tested {
    outcome: Outcome,
    seconds: f64,
    suite: Suite,
    log: String,
    directory: PathBuf,
}

/// Builds and tests one program with every allocator.
pub(super) fn try_program(
    workspace: &Workspace,
    progress: &Progress,
    allocators: &[&'static str],
    row: &StaticRow,
) -> Result<StaticTrial> {
    let directory = workspace.target.join("trials").join(row.name);
    files::make_directory(&directory)?;
    let (published, version) = match row.source {
        Source::Crate { version, .. } => {
            let home = directory.join("fetch");
            files::make_directory(&home)?;
            (
                registry::fetched(&home, row.name, version)?.1,
                version.into(),
            )
        }
        Source::Debian { .. } => debian(workspace, &directory, row.name)?,
    };
    let sources = Sources {
        workspace,
        row,
        directory,
        published,
        version,
        launcher: Launcher::new()?,
        target: musl_target()?.to_string(),
    };
    let stock = sources.test(None)?;
    let summary = stock.suite.summary();
    let (name, passed, failed) = (row.name, summary.passed, summary.failed.len());
    ensure!(
        passed > 0,
        "no test passes with musl's allocator:\n{}",
        last_lines(&stock.log)
    );
    progress.say(format!(
        "{name}: {passed} tests pass, {failed} fail, in {:.0} s",
        stock.seconds
    ));
    let mut with = BTreeMap::new();
    for allocator in allocators {
        let tested = sources.test(Some(allocator))?;
        let found = sources.judge(allocator, &tested, &stock.suite)?;
        progress.say(format!("{name}: {allocator}: {}", found.verdict.cell()));
        with.insert((*allocator).to_owned(), found);
    }
    Ok(StaticTrial {
        day: today(),
        version: sources.version,
        stock: summary,
        with,
    })
}

impl Sources<'_> {
    fn judge(&self, allocator: &str, tested: &Tested, stock: &Suite) -> Result<With> {
        let mut proved = 0;
        let mut all_proved = true;
        for executable in self.executables(&tested.suite) {
            if proves(
                self.workspace,
                &tested.directory.join(&executable),
                allocator,
            )? {
                proved += 1;
            } else {
                all_proved = false;
            }
        }
        let mut verdict = match tested.outcome {
            Outcome::TimedOut => Verdict::Hung,
            _ => tested.suite.judge(stock),
        };
        if verdict == Verdict::Same && (!all_proved || proved == 0) {
            verdict = Verdict::NotActive;
        }
        let is_same = verdict == Verdict::Same;
        Ok(With {
            verdict,
            seconds: tested.seconds,
            proved,
            output: (!is_same).then(|| last_lines(&tested.log)),
        })
    }

    /// Those that are tested, from the directory of the sources.
    fn executables(&self, suite: &Suite) -> Vec<String> {
        match self.row.source {
            Source::Crate { .. } => suite.executables.clone(),
            Source::Debian { executables } => executables.iter().map(|e| (*e).to_owned()).collect(),
        }
    }

    /// Builds and tests with this allocator, or with musl's and without reheap.
    fn test(&self, allocator: Option<&str>) -> Result<Tested> {
        let directory = self.directory.join("sources");
        let log = self
            .directory
            .join(format!("{}.log", allocator.unwrap_or("stock")));
        let command = match self.row.source {
            Source::Crate { flags, .. } => {
                if !directory.exists() {
                    copy(&self.published, &directory)?;
                    detach(&directory.join("Cargo.toml"))?;
                }
                self.cargo_test(flags, allocator)
            }
            Source::Debian { .. } => {
                copy(&self.published, &directory)?;
                self.script(allocator)
            }
        };
        let mut arguments: Vec<OsString> = vec![
            "-c".into(),
            "cd \"$1\" && log=$2 && shift 2 && exec \"$@\" >\"$log\" 2>&1".into(),
            "sh".into(),
            directory.clone().into(),
            log.clone().into(),
        ];
        arguments.extend(command.words);
        let line = CommandLine {
            program: "/bin/sh".into(),
            arguments,
            environment: command.environment,
            ..CommandLine::default()
        };
        let limits = Limits {
            time: Some(DEADLINE),
            ..Limits::default()
        };
        let finished = self.launcher.run(&line, &limits, &[])?;
        let log = String::from_utf8_lossy(&files::read_bytes(&log)?).into_owned();
        Ok(Tested {
            outcome: finished.outcome,
            seconds: finished.cost.wall_seconds,
            suite: Suite::parse(&log),
            log,
            directory,
        })
    }

    /// `cargo test` or `cargo reheap test`. They share what they compile with one linker.
    fn cargo_test(&self, flags: &[&str], allocator: Option<&str>) -> Words {
        let mut words: Vec<OsString> = match allocator {
            None => ["cargo", "test", "--target", &self.target]
                .map(OsString::from)
                .into(),
            Some(allocator) => {
                let cargo_reheap = self.workspace.cargo_reheap();
                let mut words = vec![cargo_reheap.get_program().to_owned()];
                words.extend(["reheap", "test", "-a", allocator].map(OsString::from));
                words
            }
        };
        words.extend(["--locked", "--no-fail-fast"].map(OsString::from));
        if !flags.contains(&"--test") {
            words.push("--tests".into());
        }
        words.extend(flags.iter().map(OsString::from));
        let mut environment = vec![(
            "CARGO_TARGET_DIR".into(),
            self.directory.join("target").into(),
        )];
        if allocator.is_none() {
            let compiler = format!("CC_{}", self.target.replace('-', "_"));
            environment.push((compiler.into(), "musl-gcc".into()));
        }
        environment.push(("REHEAP_CACHE_DIR".into(), cache(self.workspace).into()));
        Words { words, environment }
    }

    /// The script of a C program, with the compiler that it is to use.
    fn script(&self, allocator: Option<&str>) -> Words {
        let scripts = self.workspace.root.join("lab/trials");
        let script = scripts.join(format!("static-{}.sh", self.row.name));
        let compiler = match allocator {
            None => OsString::from("musl-gcc -static"),
            Some(_) => {
                let mut compiler = self.workspace.reheap().get_program().to_owned();
                compiler.push(" cc");
                compiler
            }
        };
        let kind = allocator.map_or("stock", |_| "reheap");
        let configured = self.directory.join(format!("{kind}.cache"));
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("CC".into(), compiler),
            ("TRIALS".into(), scripts.into()),
            ("CONFIGURED".into(), configured.into()),
        ];
        if let Some(allocator) = allocator {
            environment.push(("REHEAP_ALLOCATOR".into(), allocator.into()));
        }
        environment.push(("REHEAP_CACHE_DIR".into(), cache(self.workspace).into()));
        Words {
            words: vec!["sh".into(), "-eu".into(), script.into()],
            environment,
        }
    }
}

struct Words {
    words: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

/// Whether `reheap inspect` says that the allocator is in there and its malloc the program's.
fn proves(workspace: &Workspace, executable: &Path, allocator: &str) -> Result<bool> {
    #[derive(Deserialize)]
    struct Identity {
        marker: Option<Marker>,
        malloc: Malloc,
    }
    #[derive(Deserialize)]
    struct Marker {
        allocator: String,
    }
    #[derive(Deserialize)]
    struct Malloc {
        provider: Provider,
    }
    #[derive(Deserialize)]
    struct Provider {
        by: String,
    }
    let output = workspace
        .reheap()
        .args(["inspect", "--json"])
        .arg(executable)
        .output()
        .context("cannot start reheap")?;
    let Ok([identity]) = serde_json::from_slice::<[Identity; 1]>(&output.stdout) else {
        return Ok(false);
    };
    let marked = identity
        .marker
        .is_some_and(|marker| marker.allocator == allocator);
    Ok(marked && identity.malloc.provider.by == "allocator")
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(OUTPUT_LINES)..].join("\n")
}
