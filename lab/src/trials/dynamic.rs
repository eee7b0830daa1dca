//! A dynamic program: two plain runs, and two under each allocator.
//!
//! The second run under an allocator has the dynamic linker write down whose malloc is called ([`super::bindings`]);
//! the first has not, because that slows it down. A trial has a directory, an environment and a port of its own, and
//! everything that it started is ended with it.

use super::bindings;
use super::cache;
use super::dynamic_rows::DynamicRow;
use super::packages;
use super::records::{DynamicTrial, Evidence, Plain, Under, Verdict};
use crate::machine::today;
use anyhow::{Context, Result, bail, ensure};
use reheap_bench::results::Outcome;
use reheap_bench::run::{CommandLine, Finished, Launcher, Limits};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// Where Debian's programs are; those that somebody put elsewhere are not on trial.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How long a plain run may take, and how long any run may take in any case.
const DEADLINE: Duration = Duration::from_secs(120);
/// How many times as long as the plain run one under an allocator may take, beyond that.
const PATIENCE: f64 = 20.0;
/// How much of standard error is kept when something is wrong.
const STDERR_LINES: usize = 12;

/// The library of each allocator, built, by its file name.
pub(super) struct Libraries {
    names: Vec<(&'static str, String)>,
    cache: PathBuf,
}

impl Libraries {
    /// Has reheap build them before anything is timed or compared.
    pub(super) fn prepare(
        workspace: &Workspace,
        progress: &Progress,
        allocators: &[&'static str],
    ) -> Result<Libraries> {
        let cache = cache(workspace);
        let mut names = Vec::new();
        for allocator in allocators {
            progress.say(format!("building {allocator}, unless it is there"));
            let mut reheap = workspace.reheap();
            reheap
                .args(["run", "-a", allocator, "--", "printenv", "LD_PRELOAD"])
                .env("REHEAP_CACHE_DIR", &cache)
                .env_remove("LD_PRELOAD");
            let path = stdout_of(&mut reheap)?;
            let name = Path::new(path.trim())
                .file_name()
                .context("reheap run sets no LD_PRELOAD")?;
            names.push((*allocator, name.to_string_lossy().into_owned()));
        }
        Ok(Libraries { names, cache })
    }
}

/// How a run differs from others of the same script.
#[derive(Clone, Copy)]
enum How<'a> {
    Plain,
    Under(&'a str),
    /// Under this allocator, with the dynamic linker's log in this directory.
    Logged(&'a str, &'a Path),
}

/// One run and what is compared of it.
struct Ran {
    outcome: Outcome,
    seconds: f64,
    stdout: Vec<u8>,
    stdout_sha256: String,
    stderr: Vec<u8>,
}

/// All that the runs of one program share.
struct Trial<'a> {
    workspace: &'a Workspace,
    libraries: &'a Libraries,
    row: &'a DynamicRow,
    launcher: Launcher,
}

/// Tries one program under every allocator.
pub(super) fn try_program(
    workspace: &Workspace,
    progress: &Progress,
    libraries: &Libraries,
    row: &DynamicRow,
) -> Result<DynamicTrial> {
    let trial = Trial {
        workspace,
        libraries,
        row,
        launcher: Launcher::new()?,
    };
    let (plain, first) = trial.plain()?;
    progress.say(format!(
        "{}: {} in {:.1} s",
        row.name, plain.outcome, plain.seconds
    ));
    let mut under = BTreeMap::new();
    for (allocator, library) in &libraries.names {
        let found = trial.under(allocator, library, &plain, &first)?;
        let cell = found.verdict.cell();
        progress.say(format!("{}: {allocator}: {cell}", row.name));
        under.insert((*allocator).to_owned(), found);
    }
    Ok(DynamicTrial {
        day: today(),
        packages: packages::versions(row.packages),
        plain,
        under,
    })
}

impl Trial<'_> {
    /// Two runs that must be the same, or nothing could be compared with them.
    fn plain(&self) -> Result<(Plain, Ran)> {
        let first = self.run(How::Plain, DEADLINE)?;
        let second = self.run(How::Plain, DEADLINE)?;
        let said = String::from_utf8_lossy(&first.stderr);
        ensure!(
            first.outcome.is_success(),
            "the plain run failed: {}\n{}{said}",
            first.outcome,
            String::from_utf8_lossy(&first.stdout),
        );
        if let Some(difference) = difference(&first, &second) {
            bail!("two plain runs are not the same: {difference}");
        }
        let plain = Plain {
            outcome: first.outcome.to_string(),
            seconds: first.seconds,
            stdout_bytes: first.stdout.len() as u64,
            stdout_sha256: first.stdout_sha256.clone(),
            stderr_is_compared: first.stderr == second.stderr,
        };
        Ok((plain, first))
    }

    fn under(&self, allocator: &str, library: &str, plain: &Plain, first: &Ran) -> Result<Under> {
        if let Some(reason) = self.refused(allocator)? {
            return Ok(Under {
                verdict: Verdict::Refused(reason),
                seconds: None,
                stderr: None,
                evidence: None,
            });
        }
        let deadline = DEADLINE + Duration::from_secs_f64(first.seconds * PATIENCE);
        let ran = self.run(How::Under(allocator), deadline)?;
        let mut verdict = judge(&ran, first, plain);
        let mut shown = ran.stderr;
        let mut evidence = None;
        if verdict == Verdict::Same {
            let logs = log_directory()?;
            let again = self.run(How::Logged(allocator, logs.path()), deadline)?;
            verdict = judge(&again, first, plain);
            shown = again.stderr;
            let found = read_logs(logs.path(), self.row.program, library)?;
            if verdict == Verdict::Same && found.starts == 0 {
                verdict = Verdict::NotActive;
            }
            evidence = Some(found);
        }
        let is_same = verdict == Verdict::Same;
        Ok(Under {
            verdict,
            seconds: Some(ran.seconds),
            stderr: (!is_same).then(|| last_lines(&shown)),
            evidence,
        })
    }

    /// Why reheap will not run the program with this allocator, if it will not.
    fn refused(&self, allocator: &str) -> Result<Option<String>> {
        #[derive(Deserialize)]
        struct Check {
            verdict: String,
            reason: Option<String>,
        }
        // The shell expands the patterns in which a version is not said.
        let output = Command::new("sh")
            .args(["-c", "exec \"$0\" run --check --json -a \"$1\" -- $2"])
            .arg(self.workspace.reheap().get_program())
            .args([allocator, self.row.program])
            .env("PATH", PATH)
            .env("REHEAP_CACHE_DIR", &self.libraries.cache)
            .output()
            .context("cannot start reheap")?;
        let said = String::from_utf8_lossy(&output.stderr);
        let check: Check = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("cannot understand what --check said: {}", said.trim()))?;
        let refused = !output.status.success();
        Ok(refused.then(|| check.reason.unwrap_or(check.verdict)))
    }

    fn run(&self, how: How<'_>, deadline: Duration) -> Result<Ran> {
        let directory = trial_directory()?;
        let command = self.command(how, directory.path())?;
        let limits = Limits {
            time: Some(deadline),
            ..Limits::default()
        };
        let finished = self.launcher.run(&command, &limits, &[])?;
        Ran::new(finished, directory.path())
    }

    /// The script, in an environment that holds nothing of the user's.
    fn command(&self, how: How<'_>, directory: &Path) -> Result<CommandLine> {
        let scripts = self.workspace.root.join("lab/trials");
        let mut arguments: Vec<OsString> = vec!["-i".into(), "-C".into(), directory.into()];
        let mut set = |name: &str, value: &Path| {
            let mut variable = OsString::from(format!("{name}="));
            variable.push(value);
            arguments.push(variable);
        };
        set("PATH", Path::new(PATH));
        set("LC_ALL", Path::new("C.UTF-8"));
        set("TZ", Path::new("UTC"));
        set("HOME", directory);
        set("TMPDIR", directory);
        set("TRIALS", &scripts);
        set("PORT", Path::new(&free_port()?.to_string()));
        set("REHEAP_CACHE_DIR", &self.libraries.cache);
        if let How::Under(allocator) | How::Logged(allocator, _) = how {
            let reheap = self.workspace.reheap();
            arguments.push(reheap.get_program().to_owned());
            arguments.extend(["run", "-a", allocator, "--"].map(OsString::from));
        }
        if let How::Logged(_, logs) = how {
            arguments.extend(["env", "LD_DEBUG=libs,bindings"].map(OsString::from));
            let mut output = OsString::from("LD_DEBUG_OUTPUT=");
            output.push(logs.join("ld"));
            arguments.push(output);
        }
        arguments.extend(["sh", "-eu"].map(OsString::from));
        arguments.push(scripts.join(format!("{}.sh", self.row.name)).into());
        Ok(CommandLine {
            program: "/usr/bin/env".into(),
            arguments,
            ..CommandLine::default()
        })
    }
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
            stdout_sha256: finished.stdout.sha256.clone(),
            stderr: whole(&finished.stderr)?,
        })
    }
}

fn judge(ran: &Ran, first: &Ran, plain: &Plain) -> Verdict {
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

fn read_logs(directory: &Path, program: &str, library: &str) -> Result<Evidence> {
    let name = Path::new(program).file_name().unwrap_or_default();
    let program = name.to_string_lossy();
    let mut evidence = Evidence::default();
    for path in files::entries(directory)? {
        let log = files::read_bytes(&path)?;
        bindings::read(
            &String::from_utf8_lossy(&log),
            &program,
            library,
            &mut evidence,
        );
    }
    evidence.elsewhere.sort();
    Ok(evidence)
}

/// A directory that daemons under another user's name can enter.
fn trial_directory() -> Result<TempDir> {
    with_mode(0o755)
}

/// A directory in which processes of every user can write to each other's files: one that changes its user and then
/// executes another program has that one's log added to its own. With the sticky bit Linux would refuse that
/// (`fs.protected_regular`).
fn log_directory() -> Result<TempDir> {
    with_mode(0o777)
}

fn with_mode(mode: u32) -> Result<TempDir> {
    let directory = tempfile::Builder::new()
        .prefix("trial-")
        .tempdir()
        .context("cannot make a temporary directory")?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode))
        .context("cannot open a temporary directory to others")?;
    Ok(directory)
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot find a free port")?;
    let address = listener.local_addr().context("cannot find a free port")?;
    Ok(address.port())
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

fn last_lines(bytes: &[u8]) -> String {
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
            stdout_sha256: String::new(),
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
