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
use super::runs::{self, DEADLINE, Ran, judge, last_lines, trial_directory, with_mode};
use crate::machine::today;
use anyhow::{Context, Result, ensure};
use reheap_bench::run::Launcher;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::TcpListener;
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
        let plain = runs::plain(&first, &second)?;
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
        let deadline = runs::deadline(plain);
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
        let arguments = self.arguments(how, directory.path())?;
        runs::run(&self.launcher, arguments, directory.path(), deadline)
    }

    /// The script, in an environment that holds nothing of the user's.
    fn arguments(&self, how: How<'_>, directory: &Path) -> Result<Vec<OsString>> {
        let scripts = self.workspace.root.join("lab/trials");
        let port = OsString::from(free_port()?.to_string());
        let mut arguments = runs::environment(
            directory,
            &[
                ("PATH", PATH.as_ref()),
                ("TRIALS", scripts.as_os_str()),
                ("PORT", &port),
                ("REHEAP_CACHE_DIR", self.libraries.cache.as_os_str()),
            ],
        );
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
        Ok(arguments)
    }
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

/// A directory in which processes of every user can write to each other's files: one that changes its user and then
/// executes another program has that one's log added to its own. With the sticky bit Linux would refuse that
/// (`fs.protected_regular`).
fn log_directory() -> Result<TempDir> {
    with_mode(0o777)
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("cannot find a free port")?;
    let address = listener.local_addr().context("cannot find a free port")?;
    Ok(address.port())
}
