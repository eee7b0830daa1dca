//! A released program: its work as it is, and with each allocator grafted into it.
//!
//! The grafted file must do the same, `reheap inspect` must find the allocator in it, and `--undo` must give the released file
//! back.

use super::cache;
use super::records::{GraftDone, GraftTrial, Grafted, Plain, Verdict};
use super::runs::{self, DEADLINE, Ran, judge, last_lines, trial_directory};
use crate::grafts::{DPRINT_PLUGIN, Expected, Row, home};
use crate::machine::today;
use anyhow::{Context, Result, ensure};
use reheap_bench::run::Launcher;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// What is read of the JSON.
#[derive(Deserialize)]
struct Report {
    functions: Vec<String>,
    found_by: String,
    size: u64,
    original: Original,
}

#[derive(Deserialize)]
struct Original {
    size: u64,
}

/// All that the runs of one program share.
struct Trial<'a> {
    workspace: &'a Workspace,
    row: &'a Row,
    /// As it was released.
    file: PathBuf,
    plugin: PathBuf,
    /// Where Cargo is, and Debian's programs.
    path: OsString,
    launcher: Launcher,
}

/// Tries one program with every allocator.
pub(super) fn try_program(
    workspace: &Workspace,
    progress: &Progress,
    allocators: &[&'static str],
    row: &Row,
) -> Result<GraftTrial> {
    let file = row.release.fetch(workspace, progress)?;
    let cargo = workspace.cargo();
    let cargo = Path::new(cargo.get_program()).parent();
    let mut path = OsString::from(cargo.unwrap_or(Path::new("/usr/bin")));
    path.push(":/usr/bin:/bin");
    let trial = Trial {
        workspace,
        row,
        plugin: DPRINT_PLUGIN.fetch(&home(workspace), progress)?,
        path,
        launcher: Launcher::new()?,
        file,
    };
    let plain = match row.expected {
        Expected::Works { script, .. } => Some(trial.plain(script)?),
        Expected::Refused(_) => None,
    };
    let mut with = BTreeMap::new();
    for allocator in allocators {
        let found = trial.with(allocator, plain.as_ref())?;
        progress.say(format!(
            "{}: {allocator}: {}",
            row.name,
            found.verdict.cell()
        ));
        with.insert((*allocator).to_owned(), found);
    }
    let released = files::read_bytes(&trial.file)?;
    Ok(GraftTrial {
        day: today(),
        origin: row.release.origin(),
        bytes: released.len() as u64,
        sha256: files::sha256(&released),
        plain: plain.map(|(plain, _)| plain),
        with,
    })
}

impl Trial<'_> {
    fn plain(&self, script: &str) -> Result<(Plain, Ran)> {
        let first = self.run(&self.file, script, DEADLINE)?;
        let second = self.run(&self.file, script, DEADLINE)?;
        let text = String::from_utf8_lossy(&first.stdout);
        ensure!(
            first.outcome.is_success() && text.contains("exit code 0"),
            "nothing works in the released program: {}\n{text}{}",
            first.outcome,
            String::from_utf8_lossy(&first.stderr)
        );
        Ok((runs::plain(&first, &second)?, first))
    }

    /// A run of the script, with a copy of the program: it may look at where it is.
    fn run(&self, program: &Path, script: &str, deadline: Duration) -> Result<Ran> {
        let directory = trial_directory()?;
        let tools = directory.path().join("bin");
        files::make_directory(&tools)?;
        let name = self.file.file_name().context("the program has no name")?;
        let tool = tools.join(name);
        files::copy(program, &tool)?;
        let inputs = self.workspace.root.join("lab/trials/graft/inputs.sh");
        let package = self.row.release.directory(&home(self.workspace));
        let mut arguments = runs::environment(
            directory.path(),
            &[
                ("PATH", &self.path),
                ("NO_COLOR", "1".as_ref()),
                ("TOOL", tool.as_os_str()),
                ("INPUTS", inputs.as_os_str()),
                ("PACKAGE", package.as_os_str()),
                ("PLUGIN", self.plugin.as_os_str()),
            ],
        );
        let script = format!(". \"$INPUTS\"\n{script}");
        arguments.extend(["sh", "-euc", &script].map(OsString::from));
        runs::run(&self.launcher, arguments, directory.path(), deadline)
    }

    fn reheap(&self, arguments: &[&str]) -> Command {
        let mut reheap = self.workspace.reheap();
        reheap.args(arguments);
        reheap.env("REHEAP_CACHE_DIR", cache(self.workspace));
        reheap
    }

    fn with(&self, allocator: &str, plain: Option<&(Plain, Ran)>) -> Result<Grafted> {
        // This builds the allocator too, if it is not there.
        if let Some(reason) = self.refused(allocator)? {
            return Ok(Grafted {
                verdict: Verdict::Refused(reason),
                done: None,
                stderr: None,
            });
        }
        let Expected::Works { script, .. } = self.row.expected else {
            anyhow::bail!("it is not refused with {allocator}: give it work in rows.rs");
        };
        let (plain, first) = plain.context("there is no plain run")?;
        let place = trial_directory()?;
        let grafted = place.path().join("grafted");
        let mut graft = self.reheap(&["graft", "--json", "-a", allocator]);
        let report = stdout_of(graft.arg(&self.file).arg("-o").arg(&grafted))?;
        let report: Report = serde_json::from_str(&report).context("cannot understand graft")?;
        let ran = self.run(&grafted, script, runs::deadline(plain))?;
        let mut verdict = judge(&ran, first, plain);
        let is_same = verdict == Verdict::Same;
        if is_same && !self.is_proved(allocator, &grafted)? {
            verdict = Verdict::NotActive;
        } else if is_same && !self.can_be_undone(&grafted)? {
            verdict = Verdict::Differs("what --undo gives".to_owned());
        }
        Ok(Grafted {
            verdict,
            done: Some(GraftDone {
                functions: report.functions,
                found_by: report.found_by,
                more_bytes: report.size - report.original.size,
            }),
            stderr: (!is_same).then(|| last_lines(&ran.stderr)),
        })
    }

    /// Why reheap does not graft it, if it does not.
    fn refused(&self, allocator: &str) -> Result<Option<String>> {
        let mut check = self.reheap(&["graft", "--check", "-a", allocator]);
        let output = check.arg(&self.file).output();
        let output = output.context("cannot start reheap")?;
        if output.status.success() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let path = format!("`{}`: ", self.file.display());
        let reason = said.split(&path).nth(1).unwrap_or(&said);
        Ok(Some(reason.lines().next().unwrap_or_default().to_owned()))
    }

    fn is_proved(&self, allocator: &str, grafted: &Path) -> Result<bool> {
        let mut inspect = self.reheap(&["inspect", "--expect", allocator]);
        let output = inspect.arg(grafted).output();
        Ok(output.context("cannot start reheap")?.status.success())
    }

    fn can_be_undone(&self, grafted: &Path) -> Result<bool> {
        let undone = grafted.with_extension("undone");
        let mut undo = self.reheap(&["graft", "--undo"]);
        stdout_of(undo.arg(grafted).arg("-o").arg(&undone))?;
        Ok(files::read_bytes(&undone)? == files::read_bytes(&self.file)?)
    }
}
