//! Runs of a program in a trial, and how they compare with each other.

use super::records::{Plain, Verdict};
use anyhow::{Context, Result, bail};
use reheap_bench::results::Outcome;
use reheap_bench::run::{CommandLine, Finished, Launcher, Limits};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use xtask::files;

/// How long a plain run may take, and how long any run may take in any case.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);
/// How many times as long as the plain run one under an allocator may take, beyond that.
const PATIENCE: f64 = 20.0;
/// How much of standard error is kept when something is wrong.
const STDERR_LINES: usize = 12;

/// One run and what is compared of it.
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    pub(super) seconds: f64,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

/// The arguments of env(1) for a run in this directory, in an environment that holds nothing of the user's but these
/// variables.
pub(super) fn environment(directory: &Path, variables: &[(&str, &OsStr)]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-i".into(), "-C".into(), directory.into()];
    let home = directory.as_os_str();
    let usual = [
        ("LC_ALL", "C.UTF-8".as_ref()),
        ("TZ", "UTC".as_ref()),
        ("HOME", home),
        ("TMPDIR", home),
    ];
    for (name, value) in usual.iter().chain(variables) {
        let mut variable = OsString::from(format!("{name}="));
        variable.push(value);
        arguments.push(variable);
    }
    arguments
}

/// Runs env(1) with these arguments to its end, or until this time is over.
pub(super) fn run(
    launcher: &Launcher,
    arguments: Vec<OsString>,
    directory: &Path,
    deadline: Duration,
) -> Result<Ran> {
    let command = CommandLine {
        program: "/usr/bin/env".into(),
        arguments,
        ..CommandLine::default()
    };
    let limits = Limits {
        time: Some(deadline),
        ..Limits::default()
    };
    Ran::new(launcher.run(&command, &limits, &[])?, directory)
}

/// How long a run may take that took so long without an allocator.
pub(super) fn deadline(plain: &Plain) -> Duration {
    DEADLINE + Duration::from_secs_f64(plain.seconds * PATIENCE)
}

/// What two plain runs have in common. They must be the same, or nothing could be compared with them.
pub(super) fn plain(first: &Ran, second: &Ran) -> Result<Plain> {
    if let Some(difference) = difference(first, second) {
        bail!("two plain runs are not the same: {difference}");
    }
    Ok(Plain {
        outcome: first.outcome.to_string(),
        seconds: first.seconds,
        stdout_bytes: first.stdout.len() as u64,
        stdout_sha256: files::sha256(&first.stdout),
        stderr_is_compared: first.stderr == second.stderr,
    })
}

impl Ran {
    /// The directory has another name in each run.
    fn new(finished: Finished, directory: &Path) -> Result<Ran> {
        let whole = |output: &reheap_bench::run::Output| {
            let bytes = output.whole().context("a trial prints more than 128 KiB")?;
            let text = String::from_utf8_lossy(&bytes);
            anyhow::Ok(
                text.replace(&*directory.to_string_lossy(), "DIRECTORY")
                    .into_bytes(),
            )
        };
        Ok(Ran {
            outcome: finished.outcome,
            seconds: finished.cost.wall_seconds,
            stdout: whole(&finished.stdout)?,
            stderr: whole(&finished.stderr)?,
        })
    }
}

pub(super) fn judge(ran: &Ran, first: &Ran, plain: &Plain) -> Verdict {
    match ran.outcome {
        Outcome::TimedOut => return Verdict::Hung,
        Outcome::Signalled(signal) => return Verdict::Crashed(signal_name(signal)),
        // A shell says so when a program that it started ended by a signal.
        Outcome::Exited(code) if code > 128 && ran.outcome != first.outcome => {
            return Verdict::Crashed(signal_name(code - 128));
        }
        _ => {}
    }
    if let Some(difference) = difference(first, ran) {
        return Verdict::Differs(difference);
    }
    if plain.stderr_is_compared && ran.stderr != first.stderr {
        Verdict::Differs("standard error".to_owned())
    } else {
        Verdict::Same
    }
}

/// What is not the same in the exit code or the standard output.
fn difference(one: &Ran, other: &Ran) -> Option<String> {
    if one.outcome != other.outcome {
        return Some(format!("{}, not {}", other.outcome, one.outcome));
    }
    if one.stdout == other.stdout {
        return None;
    }
    let texts = [one, other].map(|ran| String::from_utf8_lossy(&ran.stdout));
    let lines = texts[0].lines().map(Some).chain([None]);
    let others = texts[1].lines().map(Some).chain([None]);
    let mut pairs = lines.zip(others).enumerate();
    let (number, (line, other)) = pairs.find(|(_, (line, other))| line != other)?;
    let shown = |line: Option<&str>| line.map_or("nothing".to_owned(), |line| format!("`{line}`"));
    let (line, other) = (shown(line), shown(other));
    Some(format!("line {} is {other}, not {line}", number + 1))
}

/// A directory that daemons under another user's name can enter.
pub(super) fn trial_directory() -> Result<TempDir> {
    with_mode(0o755)
}

pub(super) fn with_mode(mode: u32) -> Result<TempDir> {
    let directory = tempfile::Builder::new()
        .prefix("trial-")
        .tempdir()
        .context("cannot make a temporary directory")?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode))
        .context("cannot open a temporary directory to others")?;
    Ok(directory)
}

/// Signals that tell of a crash by their names, others by their numbers (signal(7)).
fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        31 => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

pub(super) fn last_lines(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(STDERR_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(outcome: Outcome, stdout: &str) -> Ran {
        Ran {
            outcome,
            seconds: 0.1,
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
        }
    }

    fn verdict(run: &Ran) -> Verdict {
        let plain = Plain {
            outcome: String::new(),
            seconds: 0.1,
            stdout_bytes: 0,
            stdout_sha256: String::new(),
            stderr_is_compared: true,
        };
        judge(run, &ran(Outcome::Exited(0), "one\ntwo\n"), &plain)
    }

    #[test]
    fn a_run_with_the_same_output_is_the_same() {
        assert_eq!(
            verdict(&ran(Outcome::Exited(0), "one\ntwo\n")),
            Verdict::Same
        );
    }

    #[test]
    fn the_first_line_that_differs_is_shown() {
        let told = |text: &str| Verdict::Differs(text.to_owned());
        let found = verdict(&ran(Outcome::Exited(0), "one\n2\n"));
        assert_eq!(found, told("line 2 is `2`, not `two`"));
        let found = verdict(&ran(Outcome::Exited(0), "one\n"));
        assert_eq!(found, told("line 2 is nothing, not `two`"));
        let found = verdict(&ran(Outcome::Exited(1), "one\ntwo\n"));
        assert_eq!(found, told("exit code 1, not exit code 0"));
    }

    #[test]
    fn a_crash_is_seen_through_the_shell_that_started_the_program() {
        let crashed = Verdict::Crashed("SIGSEGV".to_owned());
        assert_eq!(verdict(&ran(Outcome::Signalled(11), "")), crashed);
        assert_eq!(verdict(&ran(Outcome::Exited(139), "")), crashed);
        assert_eq!(verdict(&ran(Outcome::TimedOut, "")), Verdict::Hung);
    }
}
