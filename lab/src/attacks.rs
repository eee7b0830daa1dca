//! The matrix of attacks over all allocators: raw data, a table to read, and what `recommend` knows of it.

use anyhow::{Context, Result};
use reheap_report::attacks::{Summary, from_json, markdown};
use std::fs;
use std::path::Path;
use xtask::progress::Progress;
use xtask::workspace::{Build, Workspace};

/// The raw data, and the table that is made from them.
pub(crate) const RAW: &str = "attacks.json";
pub(crate) const PAGE: &str = "attacks.md";
/// What reheap carries with it of them, for `recommend`.
const EMBEDDED: &str = "crates/reheap-variants/src/measured_attacks.json";
/// What stands above the table. What the words mean is in the guide.
const TITLE: &str = "# What each allocator stops\n\n\
    Written by `cargo lab attacks`, from `reheap attack` over the whole catalogue. The guide says\n\
    [what is tried and what the words mean](../../attacks.md). The raw data is in [attacks.json](attacks.json).\n\n";

/// Runs every attack under every variant, and writes the files.
pub(crate) fn run(mut workspace: Workspace, directory: &Path) -> Result<()> {
    workspace.build = Build::Debug; // reheap only starts what is attacked
    let progress = Progress::start();
    let mut build = workspace.cargo();
    progress.step("building reheap", build.args(["build", "-p", "reheap"]))?;
    let directory = workspace.root.join(directory);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make the directory `{}`", directory.display()))?;
    let raw = directory.join(RAW);
    let mut attack = workspace.reheap();
    attack.args(["attack", "--json"]).arg(&raw);
    progress.quietly("attacking every allocator", &mut attack)?;
    let text = fs::read_to_string(&raw)
        .with_context(|| format!("cannot read the results in `{}`", raw.display()))?;
    let text = workspace.without_places(&text);
    let table = page(&text).with_context(|| format!("cannot use `{}`", raw.display()))?;
    let mut summary = serde_json::to_string_pretty(&Summary::of(&from_json(&text)?))?;
    summary.push('\n');
    let embedded = workspace.root.join(EMBEDDED);
    let files = [
        (raw, text),
        (directory.join(PAGE), table),
        (embedded, summary),
    ];
    for (path, text) in &files {
        fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

/// The table of these raw data.
pub(crate) fn page(raw: &str) -> Result<String> {
    Ok(format!("{TITLE}{}", markdown(&from_json(raw)?)))
}
