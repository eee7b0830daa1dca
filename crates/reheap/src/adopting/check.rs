//! `reheap adopt --check`: one finding per line, for people, programs, and GitHub.

use crate::cli::adopt::Format;
use crate::exit;
use crate::ui;
use reheap_adopt::findings::{self, Finding};
use reheap_adopt::project::Project;
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn run(path: Option<&Path>, format: Format) -> anyhow::Result<ExitCode> {
    let project = super::project(path)?;
    for error in unread(&project) {
        ui::note(&format!("{error}; what it says is not checked"));
    }
    let findings = findings::of(&project);
    let relative = |finding: &Finding| {
        let path = finding.path.strip_prefix(&project.root);
        ui::printable(path.unwrap_or(&finding.path))
    };
    let printed: Vec<String> = match format {
        Format::Json => {
            let all: Vec<Value> = findings
                .iter()
                .map(|it| {
                    json!({
                        "rule": it.rule.name(), "path": relative(it), "line": it.line,
                        "what": it.what, "fix": it.fix,
                    })
                })
                .collect();
            vec![format!("{:#}\n", Value::from(all))]
        }
        Format::Text => findings
            .iter()
            .map(|it| {
                let place = format!("{}:{}", relative(it), it.line);
                format!("{place}: {} [{}]; {}\n", it.what, it.rule.name(), it.fix)
            })
            .collect(),
        Format::Github => findings
            .iter()
            .map(|it| annotation(it, &relative(it)))
            .collect(),
    };
    ui::data(&printed.concat())?;
    Ok(match findings.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(exit::THRESHOLD_VIOLATED),
    })
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
        escaped(&format!("{}; {}", finding.what, finding.fix))
    )
}

/// The files that are no Rust.
fn unread(project: &Project) -> impl Iterator<Item = &reheap_adopt::error::AdoptError> {
    let targets = project.packages.iter().flat_map(|package| &package.targets);
    targets.flat_map(|target| &target.sources.unread)
}
