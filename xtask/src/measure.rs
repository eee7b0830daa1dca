//! `make bench`: everything that the README claims, with raw data, in a folder named by day and machine.

use crate::comparison::{Comparison, compare, legend};
use crate::figures;
use crate::machine::{Machine, today};
use crate::prerequisites;
use crate::progress::Progress;
use crate::variants::{self, LeftOut, Selection};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::path::Path;

#[derive(Serialize)]
struct Raw<'a> {
    machine: &'a Machine,
    left_out: &'a [LeftOut],
    comparisons: &'a [Comparison],
}

pub(crate) fn run(
    workspace: &Workspace,
    rounds: usize,
    machine_name: Option<String>,
) -> Result<()> {
    let progress = Progress::start();
    let machine = Machine::describe()?;
    progress.step(
        "building reheap",
        workspace
            .cargo()
            .args(["build", "--release", "-p", "reheap"]),
    )?;
    prerequisites::install_missing(workspace, &progress)?;
    let (built, left_out) = variants::build(workspace, &progress, Selection::AllAndCrates)?;
    let comparisons = compare(&built, &progress, rounds, 1)?;
    let figures = figures::measure(workspace, &progress)?;

    let name = machine_name.unwrap_or_else(|| machine.short_name());
    let folder = workspace
        .root
        .join("docs/measurements")
        .join(format!("{}-{name}", today()?));
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
    let mut text = format!(
        "# Measurements\n\n{machine}.\nMade by `make bench`; the raw runs are beside this file.\n"
    );
    for comparison in &comparisons {
        text += &format!("\n## {}\n\n{}", comparison.title(), comparison.table()?);
    }
    text += &format!("\n{}\n\n{}", legend(rounds), figures.markdown()?);
    for left_out in &left_out {
        text += &format!("\nLeft out: {}: {}\n", left_out.variant, left_out.reason);
    }
    let raw = Raw {
        machine: &machine,
        left_out: &left_out,
        comparisons: &comparisons,
    };
    write(
        &folder.join("workloads.json"),
        &serde_json::to_string_pretty(&raw).context("cannot write JSON")?,
    )?;
    write(
        &folder.join("figures.json"),
        &serde_json::to_string_pretty(&figures).context("cannot write JSON")?,
    )?;
    write(&folder.join("README.md"), &text)?;
    println!("{text}");
    progress.say(format!("written to `{}`", folder.display()));
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
}
