//! The matrix of attacks over all allocators: raw data, a table to read, and what `recommend` knows of it.

use crate::measurement::{self, without_places};
use anyhow::Result;
use reheap_report::attacks::{Summary, from_json, markdown};
use std::path::Path;
use xtask::files;
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
    workspace.build_reheap(&progress)?;
    let directory = workspace.root.join(directory);
    files::make_directory(&directory)?;
    let raw = directory.join(RAW);
    let mut attack = workspace.reheap();
    attack.args(["attack", "--json"]).arg(&raw);
    progress.quietly("attacking every allocator", &mut attack)?;
    let text = without_places(&workspace, &files::read(&raw)?);
    let summary = Summary::of(&from_json(&text)?);
    files::write(workspace.root.join(EMBEDDED), files::json(&summary)?)?;
    let files = [(PAGE, page(&text)?), (RAW, text)];
    measurement::write(&progress, &directory, &files)
}

/// The table of these raw data.
pub(crate) fn page(raw: &str) -> Result<String> {
    Ok(format!("{TITLE}{}", markdown(&from_json(raw)?)))
}
