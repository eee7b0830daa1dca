//! `reheap status`: what is enabled in a system, by whom, and who has it.

use crate::system::change::{self, Interrupted};
use crate::system::disk::Disk;
use crate::system::processes::{self, Processes};
use crate::system::root::Root;
use crate::system::state::{self, Drift, Record};
use crate::system::{LD_SO_PRELOAD, PROFILE_SCRIPT, lines};
use crate::ui;
use anyhow::Context as _;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:
  reheap status
  reheap status --root ./image
  reheap status --json | jq '.processes[].name'";

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArguments {
    /// The root folder of another system
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What there is to tell.
#[derive(Debug, Serialize)]
struct Report {
    root: PathBuf,
    enabled: Option<Enabled>,
    files: Vec<FileReport>,
    /// What `/etc/ld.so.preload` names beside reheap's library.
    others: Vec<String>,
    /// What is not as it should be, each with what to do.
    problems: Vec<String>,
    processes: Vec<processes::Having>,
    processes_without: usize,
    processes_not_looked_at: usize,
}

#[derive(Debug, Serialize)]
struct Enabled {
    allocator: String,
    version: String,
    tuning: BTreeMap<String, String>,
    /// By libc.
    libraries: BTreeMap<String, String>,
    by: String,
}

#[derive(Debug, Serialize)]
struct FileReport {
    path: String,
    drift: Drift,
}

/// Looks, changes nothing, and needs no rights.
pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    let root = Root::of(arguments.root.as_deref(), "reheap status")?;
    let report = look(&root)?;
    ui::data(&match arguments.json {
        true => format!("{}\n", serde_json::to_string_pretty(&report)?),
        false => text(&report),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn look(root: &Root) -> anyhow::Result<Report> {
    let disk = Disk::new(root);
    let record = Record::read(root)?;
    let preloaded = disk.read(LD_SO_PRELOAD)?;
    let names = preloaded.map_or_else(Vec::new, |file| lines::names(file.bytes()));
    let (ours, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| lines::is_ours(name));
    let mut problems = problems_of_journal(root)?;
    let mut files = Vec::new();
    for managed in record.iter().flat_map(|record| &record.files) {
        let path = managed.path.clone();
        let drift = managed.drift(disk.read(&path)?.as_ref());
        problems.extend(problem_of(&path, drift));
        files.push(FileReport { path, drift });
    }
    let libraries = record.iter().flat_map(|record| record.libraries.values());
    let set = libraries
        .chain(&ours)
        .collect::<std::collections::BTreeSet<_>>();
    for library in set
        .into_iter()
        .filter(|library| root.open_file(library).is_err())
    {
        problems.push(format!(
            "`{library}` is missing: enable it again, or `reheap disable`"
        ));
    }
    if record.is_none() && problems.is_empty() && is_left_over(&disk, &ours)? {
        problems.push(
            "there is something of reheap's without a record: `reheap disable` takes it out"
                .to_owned(),
        );
    }
    let Processes {
        having,
        others: without,
        denied,
    } = processes::look(root).context("cannot look at processes")?;
    Ok(Report {
        root: root.folder().to_owned(),
        enabled: record.map(|record| Enabled {
            allocator: record.allocator,
            version: record.version,
            tuning: record.tuning,
            libraries: record.libraries,
            by: format!("reheap {}", record.reheap),
        }),
        files,
        others,
        problems,
        processes: having,
        processes_without: without,
        processes_not_looked_at: denied,
    })
}

fn is_left_over(disk: &Disk, ours: &[String]) -> anyhow::Result<bool> {
    let script = disk.read(PROFILE_SCRIPT)?;
    let sets = script.is_some_and(|file| lines::library_of_script(file.bytes()).is_some());
    Ok(!ours.is_empty() || sets || !state::folders(disk.root).is_empty())
}

fn problems_of_journal(root: &Root) -> anyhow::Result<Vec<String>> {
    let problem = match change::interrupted(root)? {
        None => return Ok(Vec::new()),
        Some(Interrupted::Before) => {
            "a change was interrupted, or is being made: the next `reheap enable` or `disable` undoes it first"
        }
        Some(Interrupted::After) => {
            "a command was interrupted and left files: the next `reheap enable` or `disable` deletes them"
        }
    };
    Ok(vec![problem.to_owned()])
}

fn problem_of(path: &str, drift: Drift) -> Option<String> {
    match drift {
        Drift::None => None,
        Drift::Edited => Some(format!(
            "`{path}` was edited since: `reheap disable` will take out its own part only"
        )),
        Drift::TakenOut => Some(format!(
            "reheap's part is no longer in `{path}`: enable it again, or `reheap disable`"
        )),
    }
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "{label:<10} {value}"); // writing to a String cannot fail
    };
    match &report.enabled {
        None => line("allocator", "stock: nothing is enabled"),
        Some(enabled) => {
            let options: Vec<String> = enabled
                .tuning
                .iter()
                .map(|(key, value)| format!(", {key}={value}"))
                .collect();
            let (name, version) = (&enabled.allocator, &enabled.version);
            line(
                "allocator",
                &format!("{name} {version}{}, by {}", options.concat(), enabled.by),
            );
            for (libc, library) in &enabled.libraries {
                line(libc, library);
            }
        }
    }
    for file in &report.files {
        line("set in", &file.path);
    }
    for other in &report.others {
        line(
            "others",
            &format!("{other}, in {LD_SO_PRELOAD}, not by reheap"),
        );
    }
    line("processes", &processes_text(report));
    for problem in &report.problems {
        line("problem", problem);
    }
    text
}

fn processes_text(report: &Report) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for process in &report.processes {
        *counts.entry(&process.name).or_default() += 1;
    }
    let names: Vec<String> = counts
        .iter()
        .map(|(name, count)| match count {
            1 => (*name).to_owned(),
            count => format!("{name} ({count})"),
        })
        .collect();
    const SHOWN_MAX: usize = 12;
    let shown = names[..names.len().min(SHOWN_MAX)].join(", ");
    let more = match names.len().saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more programs"),
    };
    let having = report.processes.len();
    let all = having + report.processes_without;
    let denied = match report.processes_not_looked_at {
        0 => String::new(),
        count => format!("; {count} may not be looked at"),
    };
    let colon = if having == 0 { "" } else { ": " };
    format!("{having} of {all} have it{colon}{shown}{more}{denied}")
}
