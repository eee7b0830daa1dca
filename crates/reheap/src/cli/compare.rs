//! `reheap bench compare`: two files of results, for CI.

use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  reheap bench compare old.json new.json --fail-if 'wall>+2%'";

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArguments {
    old: std::path::PathBuf,
    new: std::path::PathBuf,
}

pub(crate) fn run(arguments: &CompareArguments) -> anyhow::Result<ExitCode> {
    let _ = arguments;
    Ok(ExitCode::SUCCESS)
}
