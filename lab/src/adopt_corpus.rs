//! How often `reheap adopt --check` is right: its findings in real projects beside what a person read in their sources.
//!
//! The projects are packages of the Rust registry at fixed versions, fetched by `cargo info`, which verifies them. A
//! finding without a verdict is an error, as is a verdict without its finding: whoever changes a rule reads the sources
//! again.

mod rows;

use crate::machine::today;
use crate::measurement;
use crate::registry;
use anyhow::{Context, Result, bail, ensure};
use rows::{PROJECTS, Project, VERDICTS, Verdict};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Build, Workspace};

/// At most one finding in so many may be false.
const FALSE_ONE_IN: usize = 10;

/// What is read of the JSON.
#[derive(Deserialize)]
struct Report {
    findings: Vec<Finding>,
    programs: Vec<Program>,
}

#[derive(Deserialize)]
struct Finding {
    rule: String,
    path: String,
    line: usize,
    what: String,
    fix: String,
}

#[derive(Deserialize)]
struct Program {
    allocators: Vec<Allocator>,
}

#[derive(Deserialize)]
struct Allocator {
    #[serde(rename = "crate")]
    package: Option<String>,
    condition: String,
}

/// A project with what was found in it.
struct Checked {
    project: &'static Project,
    report: Report,
}

/// Fetches the projects, checks them, compares with the verdicts, and writes the table.
pub(crate) fn run(mut workspace: Workspace, directory: &Path) -> Result<()> {
    workspace.build = Build::Debug;
    let workspace = &workspace;
    let progress = Progress::start();
    workspace.build_reheap(&progress)?;
    let home = workspace.target.join("adopt-corpus/cargo");
    files::make_directory(&home)?;
    let mut checked = Vec::new();
    for project in PROJECTS {
        progress.say(format!("{} {}", project.name, project.version));
        let report = check(workspace, &home, &project.fetched(&home)?)?;
        checked.push(Checked { project, report });
    }
    let unread = unread(&checked);
    ensure!(
        unread.is_empty(),
        "lab/src/adopt_corpus/rows.rs does not fit what was found; read the sources, and correct it:\n{}",
        unread.join("\n")
    );
    let directory = workspace.root.join(directory);
    measurement::write(
        &progress,
        &directory,
        &[("adopt-check.md", page(&checked)?)],
    )?;
    let count = VERDICTS.iter().filter(|verdict| !verdict.is_true).count();
    ensure!(
        count * FALSE_ONE_IN <= VERDICTS.len(),
        "{count} of {} findings are false",
        VERDICTS.len()
    );
    Ok(())
}

impl Project {
    /// Its directory in Cargo's home, with the archive verified.
    fn fetched(&self, home: &Path) -> Result<PathBuf> {
        let name = format!("{}-{}", self.name, self.version);
        let (archive, sources) = registry::fetched(home, self.name, self.version)?;
        let sum = files::sha256(&files::read_bytes(&archive)?);
        ensure!(sum == self.sha256, "{name} has the checksum {sum}");
        Ok(sources)
    }
}

fn check(workspace: &Workspace, home: &Path, directory: &Path) -> Result<Report> {
    let output = workspace
        .reheap()
        .args(["adopt", "--check", "--json"])
        .arg(directory)
        // Cargo then knows that these packages are no members of this workspace.
        .env("CARGO_HOME", home)
        .output()
        .context("cannot start reheap")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !matches!(output.status.code(), Some(0 | 3)) {
        bail!("the check of `{}` failed: {errors}", directory.display());
    }
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "cannot understand what was said of `{}`",
            directory.display()
        )
    })
}

/// Findings without a verdict, and verdicts without their finding.
fn unread(checked: &[Checked]) -> Vec<String> {
    let mut unread = Vec::new();
    for Checked { project, report } in checked {
        for finding in &report.findings {
            if verdict(project, finding).is_none() {
                unread.push(format!(
                    "no verdict: {} {} {}:{}: {}",
                    project.name, finding.rule, finding.path, finding.line, finding.what
                ));
            }
        }
    }
    for verdict in VERDICTS {
        let is_found = checked.iter().any(|Checked { project, report }| {
            let mut findings = report.findings.iter();
            findings.any(|finding| verdict.is_of(project, finding))
        });
        if !is_found {
            let Verdict {
                project,
                rule,
                path,
                line,
                ..
            } = verdict;
            unread.push(format!("not found: {project} {rule} {path}:{line}"));
        }
    }
    unread
}

impl Verdict {
    fn is_of(&self, project: &Project, finding: &Finding) -> bool {
        self.project == project.name
            && self.version == project.version
            && (self.rule, self.path, self.line) == (&finding.rule, &finding.path, finding.line)
    }
}

fn verdict(project: &Project, finding: &Finding) -> Option<&'static Verdict> {
    VERDICTS
        .iter()
        .find(|verdict| verdict.is_of(project, finding))
}

fn page(checked: &[Checked]) -> Result<String> {
    let count = |is_true: bool| {
        VERDICTS
            .iter()
            .filter(|verdict| verdict.is_true == is_true)
            .count()
    };
    let mut text = format!(
        "# reheap adopt --check on real projects\n\nMade by `cargo lab adopt-corpus` on {}. n = {} packages of the \
         Rust registry.\n\n- findings: {}, of which {} are true and {} false\n- a person read each of them in the \
         sources; the verdicts are in `lab/src/adopt_corpus/rows.rs`\n- all but the last three \
         packages were at hand while the rules were written, and four findings that were false then led to changes of \
         rules\n- a package of the registry has none of the \
         workspace around it, so rules about several programs and about CI find less there\n\n## Findings\n\n",
        today(),
        checked.len(),
        VERDICTS.len(),
        count(true),
        count(false),
    );
    for Checked { project, report } in checked {
        for finding in &report.findings {
            let Some(verdict) = verdict(project, finding) else {
                continue;
            };
            writeln!(
                text,
                "- {} {} `{}:{}` ({}): {}. Fix: {}. **{}**: {}",
                project.name,
                project.version,
                finding.path,
                finding.line,
                finding.rule,
                finding.what,
                finding.fix,
                if verdict.is_true { "True" } else { "False" },
                verdict.because,
            )?;
        }
    }
    text.push_str(
        "\n## Projects\n\n| package | allocators, and when | findings |\n| --- | --- | --: |\n",
    );
    for Checked { project, report } in checked {
        writeln!(
            text,
            "| {} {} | {} | {} |",
            project.name,
            project.version,
            choices(report),
            report.findings.len()
        )?;
    }
    text.push_str("\n## Checksums\n\nSHA-256 of the archives.\n\n");
    for project in PROJECTS {
        writeln!(
            text,
            "- {} {} `{}`",
            project.name, project.version, project.sha256
        )?;
    }
    Ok(text)
}

/// The allocators of all programs, each once.
fn choices(report: &Report) -> String {
    let allocators = report
        .programs
        .iter()
        .flat_map(|program| &program.allocators);
    let mut words: Vec<String> = allocators
        .map(|allocator| {
            let package = allocator.package.as_deref().unwrap_or("its own");
            match allocator.condition.as_str() {
                "all()" => package.to_owned(),
                condition => format!("{package} if `{condition}`"),
            }
        })
        .collect();
    words.sort();
    words.dedup();
    if words.is_empty() {
        "none in a program".to_owned()
    } else {
        words.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_corpus_has_at_least_twenty_projects_and_each_once() {
        let all: BTreeSet<(&str, &str)> = PROJECTS
            .iter()
            .map(|project| (project.name, project.version))
            .collect();
        assert!(
            all.len() >= 20 && all.len() == PROJECTS.len(),
            "{}",
            all.len()
        );
    }
}
