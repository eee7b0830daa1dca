//! `reheap report`: reports of what was measured earlier, also on several machines.

use anyhow::Context as _;
use reheap_bench::overview::Overview;
use reheap_bench::results::Results;
use reheap_command::ui::Failure;
use reheap_hardening::attacking::reports;
use reheap_report::attacks::{self, ReadError};
use reheap_variants::bench::outputs::ReportArguments;
use reheap_variants::bench::write;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  reheap bench --json results.json -- ./server --selftest\n  \
    reheap report results.json --html report.html\n  \
    reheap report laptop.json server.json --markdown";

#[derive(Debug, clap::Args)]
pub(crate) struct ReportingArguments {
    /// A file of `reheap bench --json` or `reheap attack --json`, or - for standard input; several files of
    /// benchmarks make one report
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    reports: ReportArguments,
}

/// Writes the reports.
pub(crate) fn run(arguments: &ReportingArguments) -> anyhow::Result<ExitCode> {
    let outputs = arguments.reports.check()?;
    let files: Vec<Input> = arguments
        .files
        .iter()
        .map(|file| Input::read(file))
        .collect::<anyhow::Result<_>>()?;
    if let Some(file) = files.iter().find(|file| file.is_of_attacks()) {
        reports::check(&outputs)?;
        let matrix = file.attacks()?;
        if files.len() > 1 {
            let text = format!("{} has results of `reheap attack`", file.shown);
            return Err(Failure::usage(text).hint("give it alone").into());
        }
        reports::write(&matrix, &outputs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let results: Vec<Results> = files
        .iter()
        .map(Input::benchmarks)
        .collect::<anyhow::Result<_>>()?;
    write::all(&Overview::of(&results), &outputs)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a file of results of benchmarks.
pub(crate) fn read(path: &Path) -> anyhow::Result<Results> {
    Input::read(path)?.benchmarks()
}

struct Input {
    /// What messages call it.
    shown: String,
    text: String,
}

impl Input {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let (shown, bytes) = if path.as_os_str() == "-" {
            let mut bytes = Vec::new();
            let read = std::io::stdin().read_to_end(&mut bytes).map(|_| bytes);
            ("standard input".to_owned(), read)
        } else {
            (format!("`{}`", path.display()), fs::read(path))
        };
        let bytes = bytes.with_context(|| format!("cannot read {shown}"))?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { shown, text })
    }

    fn is_of_attacks(&self) -> bool {
        !matches!(
            attacks::from_json(&self.text),
            Err(ReadError::NotJson(_) | ReadError::NotResults)
        )
    }

    fn attacks(&self) -> anyhow::Result<attacks::Results> {
        attacks::from_json(&self.text)
            .map_err(|reason| self.unreadable(&reason, "`reheap attack --json FILE`"))
    }

    fn benchmarks(&self) -> anyhow::Result<Results> {
        let how = "`reheap bench --json FILE -- COMMAND`";
        Results::from_json(&self.text).map_err(|reason| self.unreadable(&reason, how))
    }

    fn unreadable(&self, reason: &dyn std::fmt::Display, how: &str) -> anyhow::Error {
        let text = format!("cannot read results from {}: {reason}", self.shown);
        let failure = Failure::failed(text);
        failure.hint(format!("make such a file with {how}")).into()
    }
}
