//! `reheap report`: reports of what was measured earlier, also on several machines.

use crate::bench::outputs::ReportArguments;
use crate::bench::write;
use crate::ui::Failure;
use anyhow::Context as _;
use reheap_bench::overview::Overview;
use reheap_bench::results::Results;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  reheap bench --json results.json -- ./server --selftest\n  \
    reheap report results.json --html report.html\n  \
    reheap report laptop.json server.json --markdown";

#[derive(Debug, clap::Args)]
pub(crate) struct ReportingArguments {
    /// A file of `reheap bench --json`, or - for standard input; several files make one report
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    reports: ReportArguments,
}

/// Writes the reports.
pub(crate) fn run(arguments: &ReportingArguments) -> anyhow::Result<ExitCode> {
    let outputs = arguments.reports.check()?;
    let results = arguments.files.iter().map(|file| read(file));
    let results: Vec<Results> = results.collect::<anyhow::Result<_>>()?;
    write::all(&Overview::of(&results), &outputs)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a file of results.
pub(crate) fn read(path: &Path) -> anyhow::Result<Results> {
    let (shown, bytes) = match path.as_os_str() == "-" {
        true => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().read_to_end(&mut bytes).map(|_| bytes);
            ("standard input".to_owned(), read)
        }
        false => (format!("`{}`", path.display()), fs::read(path)),
    };
    let bytes = bytes.with_context(|| format!("cannot read {shown}"))?;
    Results::from_json(&String::from_utf8_lossy(&bytes)).map_err(|reason| {
        let failure = Failure::failed(format!("cannot read results from {shown}: {reason}"));
        failure
            .hint("make such a file with `reheap bench --json FILE -- COMMAND`")
            .into()
    })
}
