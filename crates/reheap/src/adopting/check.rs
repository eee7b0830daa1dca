//! `reheap adopt --check`: one finding per line, for people, programs, and GitHub.

use super::options::Format;
use reheap_adopt::findings::{self, Artifact, Finding, Unchecked};
use reheap_adopt::project::{Kind, Project};
use reheap_command::exit;
use reheap_command::pulse;
use reheap_command::ui;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// What is known of a project when it is checked.
struct Check<'a> {
    project: &'a Project,
    findings: Vec<Finding>,
    unchecked: Vec<Unchecked>,
    artifacts: Vec<Artifact<'a>>,
}

pub(crate) fn run(path: Option<&Path>, format: Format) -> anyhow::Result<ExitCode> {
    let project = pulse::while_spinning("reading the project", || super::project(path))?;
    let check = pulse::while_spinning("checking the project", || Check {
        findings: findings::of(&project),
        unchecked: findings::unchecked(&project),
        artifacts: findings::artifacts(&project),
        project: &project,
    });
    for skipped in &check.unchecked {
        ui::note(&format!(
            "{}:{}: {}; not checked",
            check.relative(&skipped.path),
            skipped.line,
            skipped.why
        ));
    }
    ui::data(&check.printed(format))?;
    ui::note(&check.summary());
    let is_incomplete = check.unchecked.iter().any(|skipped| skipped.is_broken);
    // A finding is certain, whatever else was not checked.
    Ok(match (check.findings.is_empty(), is_incomplete) {
        (false, _) => ExitCode::from(exit::THRESHOLD_VIOLATED),
        (true, true) => ExitCode::from(exit::FAILED),
        (true, false) => ExitCode::SUCCESS,
    })
}

impl Check<'_> {
    /// A path as it is from the project's root.
    fn relative(&self, path: &Path) -> String {
        super::relative(self.project, path)
    }

    fn printed(&self, format: Format) -> String {
        let lines = |line: &dyn Fn(&Finding) -> String| self.findings.iter().map(line).collect();
        match format {
            Format::Json => format!("{:#}\n", self.json()),
            Format::Text => lines(&|finding| {
                let place = format!("{}:{}", self.relative(&finding.path), finding.line);
                let (what, fix) = (ui::printable(&finding.what), ui::printable(&finding.fix));
                format!("{place}: {what} [{}]; {fix}\n", finding.rule.name())
            }),
            // GitHub knows files by their places in the repository.
            Format::Github => lines(&|finding| {
                let path = self.project.relative_in_repository(&finding.path);
                annotation(finding, &ui::printable(&path))
            }),
        }
    }

    fn json(&self) -> Value {
        let place = |path: &Path, line: usize| json!({"path": self.relative(path), "line": line});
        let findings = self.findings.iter().map(|found| {
            let mut finding = place(&found.path, found.line);
            finding["rule"] = found.rule.name().into();
            finding["what"] = found.what.as_str().into();
            finding["fix"] = found.fix.as_str().into();
            finding
        });
        let unchecked = self.unchecked.iter().map(|skipped| {
            let mut unchecked = place(&skipped.path, skipped.line);
            unchecked["why"] = skipped.why.as_str().into();
            unchecked
        });
        let programs = self.artifacts.iter().map(|artifact| {
            let allocators = artifact.allocators.iter().map(|choice| {
                let mut chosen = place(&choice.allocator.path, choice.allocator.line);
                chosen["allocator"] = choice.brought.map(|row| row.allocator).into();
                chosen["crate"] = choice.brought.map(|row| row.package).into();
                chosen["condition"] = choice.allocator.condition.to_string().into();
                chosen
            });
            json!({
                "package": artifact.package.name,
                "name": artifact.target.name,
                "kind": match artifact.target.kind {
                    Kind::Program => "program",
                    _ => "library",
                },
                "allocators": allocators.collect::<Vec<Value>>(),
            })
        });
        json!({
            "version": 1,
            "project": ui::printable(&self.project.root),
            "findings": findings.collect::<Vec<Value>>(),
            "unchecked": unchecked.collect::<Vec<Value>>(),
            "programs": programs.collect::<Vec<Value>>(),
        })
    }

    /// How much was found, and in how much.
    fn summary(&self) -> String {
        let packages = counted(self.project.packages.len(), "package");
        match self.findings.len() {
            0 => format!("no findings in {packages}; {}", self.allocators()),
            count => format!("{} in {packages}", counted(count, "finding")),
        }
    }

    /// In how many programs each allocator is, in a clause.
    fn allocators(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for artifact in &self.artifacts {
            let allocators = artifact.allocators.iter();
            let mut names: Vec<&str> = allocators
                .map(|choice| {
                    choice
                        .brought
                        .map_or("an allocator of its own", |row| row.allocator)
                })
                .collect();
            names.sort_unstable();
            names.dedup();
            names
                .iter()
                .for_each(|name| *counts.entry(*name).or_default() += 1);
        }
        let all = self.artifacts.len();
        if counts.is_empty() {
            format!("no allocator in {}", counted(all, "program"))
        } else {
            let counts = counts.iter();
            let parts: Vec<String> = counts
                .map(|(name, count)| format!("{name} in {count} of {}", counted(all, "program")))
                .collect();
            parts.join(", ")
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A command that GitHub shows beside the line ("Workflow commands for GitHub Actions").
fn annotation(finding: &Finding, path: &str) -> String {
    let escaped = |text: &str| {
        let text = text.replace('%', "%25").replace('\r', "%0D");
        text.replace('\n', "%0A")
    };
    let property = |text: &str| escaped(text).replace(':', "%3A").replace(',', "%2C");
    format!(
        "::error file={},line={},title={}::{}\n",
        property(path),
        finding.line,
        finding.rule.name(),
        escaped(&ui::printable(format!("{}; {}", finding.what, finding.fix)))
    )
}
