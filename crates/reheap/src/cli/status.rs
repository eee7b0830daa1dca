//! `reheap status`: shows what is enabled in a system, which version of reheap did it, and which processes have it.

use anyhow::Context as _;
use reheap_command::exit;
use reheap_command::ui;
use reheap_preload::system::disk::Disk;
use reheap_preload::system::health::{self, Findings};
use reheap_preload::system::processes::{self, Processes};
use reheap_preload::system::root::Root;
use reheap_preload::system::state::{Drift, Record};
use reheap_subject::preload_files::{self, LD_SO_PRELOAD};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
reheap compares the library with the one that `enable` installed. Exit code 1 means a problem.

Examples:
  reheap status
  reheap status --root ./image
  reheap status --json | jq '.processes[].name'";

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArguments {
    /// The root directory of another system
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The report.
#[derive(Debug, Serialize)]
struct Report {
    root: PathBuf,
    enabled: Option<Enabled>,
    files: Vec<FileReport>,
    /// What `/etc/ld.so.preload` names besides reheap's library.
    others: Vec<String>,
    /// What is wrong, each with what to do.
    problems: Vec<String>,
    /// What else there is to know.
    notes: Vec<String>,
    processes: Vec<processes::ProcessWithLibrary>,
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
    /// The hash of each as `enable` wrote it; none if an older reheap did.
    sha256: BTreeMap<String, String>,
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
    ui::data(&if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        text(&report)
    })?;
    Ok(if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::FAILED)
    })
}

fn look(root: &Root) -> anyhow::Result<Report> {
    let record = Record::read(root)?;
    let preloaded = Disk::new(root).read(LD_SO_PRELOAD)?;
    let names = preloaded.map_or_else(Vec::new, |file| preload_files::names(file.bytes()));
    let (ours, others): (Vec<_>, Vec<_>) = names
        .into_iter()
        .partition(|name| preload_files::is_ours(name));
    let Findings {
        problems,
        notes,
        files,
    } = health::check(root, record.as_ref(), &ours)?;
    let Processes {
        with_library,
        others: without,
        denied,
    } = processes::look(root).context("cannot list the processes")?;
    let files = files.into_iter();
    Ok(Report {
        root: root.directory().to_owned(),
        enabled: record.map(|record| Enabled {
            allocator: record.allocator,
            version: record.version,
            tuning: record.tuning,
            libraries: record.libraries,
            sha256: record.sha256,
            by: format!("reheap {}", record.reheap),
        }),
        files: files
            .map(|(path, drift)| FileReport { path, drift })
            .collect(),
        others,
        problems,
        notes,
        processes: with_library,
        processes_without: without,
        processes_not_looked_at: denied,
    })
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    // Any user may name a process, and whoever reads this may be root.
    let mut line = |label: &str, value: &str| {
        let value = ui::printable(value);
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
    if let Some(processes) = processes_text(report) {
        line("processes", &processes);
    }
    for problem in &report.problems {
        line("problem", problem);
    }
    for note in &report.notes {
        line("note", note);
    }
    text
}

/// The processes by whether they have the library; empty where no library or no process is.
fn processes_text(report: &Report) -> Option<String> {
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
        count => format!("; you may not inspect {count}"),
    };
    let is_anybody_there = all + report.processes_not_looked_at > 0;
    let (have, colon) = match (&report.enabled, having) {
        (None, 0) => return None,
        (None, _) => ("still have a library of reheap", ": "),
        (Some(_), 0) if !is_anybody_there => return None,
        (Some(_), 0) => ("have it", ""),
        (Some(_), _) => ("have it", ": "),
    };
    Some(format!(
        "{having} of {all} {have}{colon}{shown}{more}{denied}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_can_neither_make_lines_nor_reach_the_terminal() {
        let having = processes::ProcessWithLibrary {
            pid: 1,
            name: "a\u{1b}[2J\nproblem".to_owned(),
            library: "/usr/local/lib/reheap/mimalloc.so".to_owned(),
        };
        let shown = text(&Report {
            root: PathBuf::from("/"),
            enabled: None,
            files: Vec::new(),
            others: vec!["/opt/\u{9b}1m.so".to_owned()],
            problems: Vec::new(),
            notes: Vec::new(),
            processes: vec![having],
            processes_without: 1,
            processes_not_looked_at: 0,
        });
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "allocator  stock: nothing is enabled",
                "others     /opt/\\u{9b}1m.so, in /etc/ld.so.preload, not by reheap",
                "processes  1 of 2 still have a library of reheap: a\\u{1b}[2J\\nproblem",
            ]
        );
    }
}
