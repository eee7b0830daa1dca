//! `cargo lab fuzz`: each fuzz target for a while, and a table of what came of it.
//!
//! A target runs on each processor, or more of them where something else is to have the processors first. Its time is
//! processor time, so that a busy machine does not make it shorter, and what came of it is added to what is in the table.
//! libFuzzer ends at the first input that it calls a failure. Then the rest of the time begins again from the corpus, so
//! that one failure does not hide others.

use crate::machine::Machine;
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// After so many failures of a target, more would tell nothing new.
const FINDS_MAX: usize = 20;
/// An input that takes more processor time is a find. libFuzzer writes down what takes longer by the clock, which is its
/// default, too.
const INPUT_SECONDS_MAX: u64 = 10;
/// By the clock. What takes so long has to be ended, or the round would not.
const HANG_SECONDS: u64 = 120;
const INPUT_BYTES_MAX: u64 = 100_000;
/// For the files that targets write: to make one on a disk can take twenty times as long as to read it.
const MEMORY: &str = "/dev/shm";
/// A round by the clock. What an interrupt ends is not counted, so no round is long.
const ROUND_MAX: Duration = Duration::from_secs(600);

/// What came of one target, in all its runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Row {
    /// Processor time.
    seconds: f64,
    /// By the clock, for which it shared the processors. Not known of the first runs.
    #[serde(default)]
    clock_seconds: f64,
    executions: u64,
    finds: usize,
    corpus_files: usize,
    /// How many branches of the program the inputs reach. Not known of the first runs.
    #[serde(default)]
    branches: Option<u64>,
    /// How many of them nothing before the last run reached: with few, more time finds little.
    #[serde(default)]
    new_branches: Option<u64>,
    /// Of the last run.
    date: String,
}

/// The rows, by target.
type Rows = BTreeMap<String, Row>;

pub(crate) fn run(
    workspace: &Workspace,
    seconds: u64,
    at_once: Option<NonZeroUsize>,
    only: &[String],
) -> Result<()> {
    let progress = Progress::start();
    let machine = Machine::describe()?;
    // Not in the directory of a day: what came of the runs of all days is one sum.
    let directory = workspace.root.join("docs/measurements");
    let fuzz = workspace.root.join("fuzz");
    let names = targets(&fuzz)?;
    let unknown = only.iter().find(|name| !names.contains(name));
    ensure!(
        unknown.is_none(),
        "there is no fuzz target `{}`; there are {}",
        unknown.map_or("", String::as_str),
        names.join(", ")
    );
    let mut seeds = workspace.cargo();
    seeds.args(["run", "--quiet", "--manifest-path", "fuzz/Cargo.toml"]);
    progress.step(
        "making the first inputs",
        seeds.args(["--example", "seeds"]),
    )?;
    progress.step(
        "building the fuzz targets",
        &mut cargo_fuzz(workspace, "exec \"$@\"", "build"),
    )?;
    let raw = directory.join("fuzz.json");
    let rows = if raw.exists() {
        files::read_json(&raw)?
    } else {
        Rows::new()
    };
    let rows = Mutex::new(rows);
    let is_asked = |name: &String| only.is_empty() || only.contains(name);
    let waiting = Mutex::new(names.into_iter().filter(is_asked));
    let work = || -> Result<()> {
        loop {
            let Some(name) = waiting.lock().expect("no thread panics").next() else {
                return Ok(());
            };
            progress.say(format!("{name}, for {seconds} s"));
            let mut left = Duration::from_secs(seconds);
            let mut new_branches = 0;
            while left > Duration::ZERO {
                let mut round = fuzzed(workspace, &fuzz, &name, left.min(ROUND_MAX))?;
                left = left.saturating_sub(Duration::from_secs_f64(round.seconds));
                new_branches += round.new_branches.unwrap_or(0);
                round.new_branches = Some(new_branches);
                let mut rows = rows.lock().expect("no thread panics");
                let row = rows.entry(name.clone()).or_default();
                row.add(round);
                if row.finds >= FINDS_MAX {
                    left = Duration::ZERO;
                }
                // After each round, so that an interrupt loses no more than that.
                write(&directory, &raw, &machine, &rows)?;
            }
        }
    };
    let at_once = at_once.map_or_else(thread::available_parallelism, Ok)?;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once.get()).map(|_| scope.spawn(work)).collect();
        let mut results = threads.into_iter().map(|thread| thread.join());
        results.try_for_each(|result| result.expect("no thread panics"))
    })?;
    println!("{}", table(&rows.into_inner().expect("no thread panics")));
    progress.say(format!("written to `{}`", directory.display()));
    Ok(())
}

/// The programs of `fuzz/Cargo.toml`.
fn targets(fuzz: &Path) -> Result<Vec<String>> {
    let files = files::entries(&fuzz.join("fuzz_targets"))?;
    let stems = files.iter().filter_map(|file| file.file_stem());
    Ok(stems
        .map(|stem| stem.to_string_lossy().into_owned())
        .collect())
}

/// What `sh -c SCRIPT` does with `"$@"`, which is the command of cargo-fuzz. It needs a nightly Rust.
fn cargo_fuzz(workspace: &Workspace, script: &str, subcommand: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", "cargo", "+nightly", "fuzz", subcommand]);
    command.current_dir(&workspace.root);
    if Path::new(MEMORY).is_dir() {
        command.env("TMPDIR", MEMORY);
    }
    command
}

impl Row {
    fn add(&mut self, round: Self) {
        self.seconds += round.seconds;
        self.clock_seconds += round.clock_seconds;
        self.executions += round.executions;
        self.finds += round.finds;
        self.corpus_files = round.corpus_files;
        self.branches = round.branches;
        self.new_branches = round.new_branches;
        self.date = round.date;
    }
}

/// Fuzzes one target until it finds something or that time has passed; then it may have had less processor time.
fn fuzzed(workspace: &Workspace, fuzz: &Path, name: &str, time: Duration) -> Result<Row> {
    let artifacts = fuzz.join("artifacts").join(name);
    let found_before = names(&artifacts);
    // `times` is the shell's way to tell the processor time of what it has started.
    let mut command = cargo_fuzz(workspace, "\"$@\" >/dev/null; times", "run");
    command.args([name, "--", "-print_final_stats=1"]);
    command.arg(format!("-max_total_time={}", time.as_secs().max(1)));
    command.arg(format!("-timeout={HANG_SECONDS}"));
    command.arg(format!("-report_slow_units={INPUT_SECONDS_MAX}"));
    command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
    let start = Instant::now();
    let output = command.output().context("cannot start cargo fuzz")?;
    let clock_seconds = start.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    let times = String::from_utf8_lossy(&output.stdout);
    let row = executed(&said).zip(children_seconds(&times));
    let (executions, seconds) = row.with_context(|| {
        let end: Vec<&str> = said.lines().rev().take(20).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        format!("`{name}` did not run:\n{}", end.join("\n"))
    })?;
    drop_what_was_slow_once(workspace, name, &artifacts)?;
    let (at_first, branches) = branches(&said).unwrap_or_default();
    Ok(Row {
        seconds,
        clock_seconds,
        executions,
        finds: names(&artifacts).difference(&found_before).count(),
        corpus_files: names(&fuzz.join("corpus").join(name)).len(),
        branches: Some(branches),
        new_branches: Some(branches - at_first),
        date: crate::machine::today(),
    })
}

/// libFuzzer measures by the clock, so on a busy machine any input may take too long. What needs that much processor time
/// stays.
fn drop_what_was_slow_once(workspace: &Workspace, name: &str, artifacts: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(artifacts) else {
        return Ok(()); // nothing was found yet
    };
    for entry in entries {
        let path = entry.context("cannot read the failures")?.path();
        let is_slow = path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with("timeout-") || name.starts_with("slow-unit-")
        });
        if !is_slow {
            continue;
        }
        let limited = format!("ulimit -t {INPUT_SECONDS_MAX}; exec \"$@\"");
        let mut again = cargo_fuzz(workspace, &limited, "run");
        again.arg(name).arg(&path).args(["--", "-timeout=0"]);
        let output = again.output().context("cannot start cargo fuzz")?;
        if output.status.success() {
            fs::remove_file(&path)
                .with_context(|| format!("cannot remove `{}`", path.display()))?;
        }
    }
    Ok(())
}

/// The processor time in the second line of what `times` of a shell prints (POSIX): `0m1.50s 0m0.25s`.
fn children_seconds(times: &str) -> Option<f64> {
    let children = times.lines().nth(1)?.split_whitespace();
    let seconds = children.map(|time| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    });
    seconds.sum()
}

/// The number of executions that libFuzzer prints in the end, or, if it was ended by an input, at the last sign of life.
fn executed(said: &str) -> Option<u64> {
    let last = said.lines().rev().find_map(|line| {
        line.strip_prefix("stat::number_of_executed_units:")?
            .trim()
            .parse()
            .ok()
    });
    last.or_else(|| {
        // `#4711	NEW    cov: 1 …`
        said.lines().rev().find_map(|line| {
            let words = line.strip_prefix('#')?;
            words.split_whitespace().next()?.parse().ok()
        })
    })
}

/// What libFuzzer says of coverage: with the inputs that it began with, and in the end.
fn branches(said: &str) -> Option<(u64, u64)> {
    let number = |line: &str| {
        let mut words = line.strip_prefix('#')?.split_whitespace().skip(1);
        let kind = words.next()?;
        let coverage = words.skip_while(|word| *word != "cov:").nth(1)?;
        Some((kind == "INITED", coverage.parse().ok()?))
    };
    let mut numbers = said.lines().filter_map(number);
    let (_, at_first) = numbers.find(|(is_first, _)| *is_first)?;
    let in_the_end = numbers.next_back().map_or(at_first, |(_, number)| number);
    Some((at_first, in_the_end.max(at_first)))
}

/// The names of a directory's files; none if it is not there.
fn names(directory: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect()
}

fn write(directory: &Path, raw: &Path, machine: &Machine, rows: &Rows) -> Result<()> {
    let text = format!(
        "# Fuzzing\n\n{machine}.\nThat is the machine of the last run. Made by `make fuzz`; raw data in `fuzz.json`. A find is an input with which the target \
         panics, takes more than {INPUT_SECONDS_MAX} s of processor time, or uses more than 2 GiB.\n\n{}",
        table(rows)
    );
    files::write(raw, files::json(rows)?)?;
    files::write(directory.join("fuzz.md"), text)
}

fn table(rows: &Rows) -> String {
    let mut text = "| target | last run | minutes by the clock | of processor time | executions | finds | inputs in the corpus | \
                    branches | new in the last run |\n\
                    | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (name, row) in rows {
        let [branches, new_branches] = [row.branches, row.new_branches]
            .map(|number| number.map_or_else(String::new, |number| number.to_string()));
        let [clock, processor] = [row.clock_seconds, row.seconds].map(|seconds| seconds / 60.0);
        text.push_str(&format!(
            "| `{name}` | {} | {clock:.0} | {processor:.0} | {} | {} | {} | {branches} | {new_branches} |\n",
            row.date, row.executions, row.finds, row.corpus_files
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_counted_also_where_an_input_ended_the_fuzzer() {
        let whole = "#2\tINITED cov: 9\n#500\tpulse  cov: 12\nDone 900 runs in 6 second(s)\n\
                     stat::number_of_executed_units: 900\nstat::new_units_added: 3\n";
        assert_eq!(executed(whole), Some(900));
        let ended =
            "#2\tINITED cov: 9\n#500\tpulse  cov: 12\n==1== ERROR: libFuzzer: deadly signal\n";
        assert_eq!(executed(ended), Some(500));
        assert_eq!(executed("error: could not compile"), None);
    }

    #[test]
    fn branches_are_those_before_and_after_a_round() {
        let said = "INFO: seed corpus\n#2\tINITED cov: 9 ft: 10\n#500\tNEW    cov: 12 ft: 30\n#900\tDONE   cov: 15 ft: 31\n";
        assert_eq!(branches(said), Some((9, 15)));
        assert_eq!(branches("#2\tINITED cov: 9 ft: 10\n"), Some((9, 9)));
        assert_eq!(branches("error: could not compile"), None);
    }

    #[test]
    fn processor_time_is_that_of_the_children() {
        let times = "0m0.01s 0m0.02s\n61m1.50s 0m0.25s\n";
        assert_eq!(children_seconds(times), Some(3661.75));
        assert_eq!(children_seconds("0m0.01s 0m0.02s\n"), None);
    }

    #[test]
    fn rounds_of_a_target_add_up() {
        let round = |seconds, executions, date: &str| Row {
            seconds,
            clock_seconds: 2.0 * seconds,
            executions,
            finds: 1,
            corpus_files: 34,
            branches: Some(100 * executions),
            new_branches: Some(executions),
            date: date.to_owned(),
        };
        let mut row = Row::default();
        row.add(round(1.0, 5, "2026-01-01"));
        row.add(round(2.0, 7, "2026-01-02"));
        let sum = Row {
            finds: 2,
            branches: Some(700),
            new_branches: Some(7),
            ..round(3.0, 12, "2026-01-02")
        };
        assert_eq!(row, sum);
    }

    #[test]
    fn the_table_has_a_row_for_each_target() {
        let row = Row {
            seconds: 3600.0,
            clock_seconds: 7200.0,
            executions: 12,
            finds: 1,
            corpus_files: 34,
            branches: Some(560),
            new_branches: None,
            date: "2026-01-02".to_owned(),
        };
        let text = table(&Rows::from([("maps".to_owned(), row)]));
        assert!(
            text.ends_with("| `maps` | 2026-01-02 | 120 | 60 | 12 | 1 | 34 | 560 |  |\n"),
            "{text}"
        );
    }
}
