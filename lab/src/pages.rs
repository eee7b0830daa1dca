//! What people read of a directory of measurements: charts, tables, and the figures in its README, all from the raw
//! data.
//!
//! A page is written by hand, because only a person can answer a question. Its figures are not: they are in blocks
//! between two comments, and this rewrites the blocks. its test compares what is committed with what the
//! data gives, so a figure cannot outlive the measurement that it came from.
//!
//! To add a block: a function in `answers.rs`, its name in [`Measurements::block`], and its two comments in a page.

pub(crate) mod answers;
mod blocks;
pub(crate) mod chart;
pub(crate) mod page;
pub(crate) mod ratios;
pub(crate) mod tables;

use crate::attacks;
use crate::figures::Figures;
use crate::grafts;
use crate::many_processors;
use crate::measurement;
use crate::profiles;
use crate::program_counts;
use crate::published;
use crate::real;
use crate::scaling;
use crate::start;
use crate::trust::Trust;
use anyhow::{Context, Result, bail};
use page::Page;
use ratios::{LINKED, PRELOADED, Ratios};
use reheap_bench::results::Results;
use std::path::{Path, PathBuf};
use tables::tables;
use xtask::files;
use xtask::workspace::Workspace;

/// The README of a directory that has none yet. Whoever measured adds what the figures mean.
const SKELETON: &str = include_str!("pages/skeleton.txt");

/// The directory, in one of measurements, of what protection costs.
pub(crate) const HARDENED: &str = "hardened";

/// The raw data of a directory.
struct Measurements {
    /// `2026-11-22`, as the directory's name begins.
    day: String,
    /// Programs that were linked with musl, too, with the names of their files.
    linked: Vec<(String, Results)>,
    /// Programs that allocators were only preloaded into.
    preloaded: Vec<(String, Results)>,
    figures: Option<Figures>,
}

/// Writes everything that is made from raw data.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    for directory in directories(workspace)? {
        write(workspace, &directory)?;
    }
    Ok(())
}

/// Writes everything that is made from the raw data of a directory.
pub(crate) fn write(workspace: &Workspace, directory: &Path) -> Result<()> {
    let readme = directory.join("README.md");
    if !readme.exists() {
        files::write(&readme, SKELETON)?;
    }
    for page in pages(workspace, directory)? {
        files::write(&page.path, &page.text)?;
    }
    Ok(())
}

/// Everything that is made from the raw data of a directory, as it has to be.
pub(crate) fn pages(workspace: &Workspace, directory: &Path) -> Result<Vec<Page>> {
    let measurements = Measurements::read(directory)?;
    let mut pages = profiles::pages(directory)?;
    let mut page = |name: &str, text: String| {
        pages.push(Page {
            path: directory.join(name),
            text,
        });
    };
    let linked = Ratios::of(&measurements.linked);
    let preloaded = Ratios::of(&measurements.preloaded);
    if !measurements.linked.is_empty() {
        let title = "Time and peak memory, compared with plain glibc";
        let chart = chart::svg(title, &linked, LINKED, &measurements.day);
        page("overview.svg", chart);
        let title = "Every program that reheap links, every variant";
        page("tables.md", tables(title, &measurements.linked)?);
    }
    if !measurements.preloaded.is_empty() {
        let title = "Python, Java, Node and Redis: a preload compared with none";
        let chart = chart::svg(title, &preloaded, PRELOADED, &measurements.day);
        page("preloaded.svg", chart);
        let title = "Allocators preloaded into Python, Java, Node and Redis";
        page("preloaded.md", tables(title, &measurements.preloaded)?);
    }
    if directory.join(HARDENED).exists() {
        let hardened = Measurements::read(&directory.join(HARDENED))?;
        let linked = tables(
            "What protection costs: programs that reheap links",
            &hardened.linked,
        )?;
        let title = "What protection costs: preloaded into Python, Node and Redis";
        let preloaded = tables(title, &hardened.preloaded)?;
        page("hardened/linked.md", linked);
        page("hardened/preloaded.md", preloaded);
    }
    let scaled = directory.join(scaling::DIRECTORY);
    if scaled.exists() {
        page(scaling::PAGE, scaling::page(&scaled)?);
    }
    let real = directory.join(real::DIRECTORY);
    let real = if real.exists() {
        let measured = Measurements::read(&real)?;
        let ratios = Ratios::of(&measured.linked);
        page(real::CHART, real::chart(&ratios, &measurements.day));
        page(real::PAGE, real::page(&measured.linked, &ratios)?);
        for (name, tables) in real::long_tables(&measured.linked)? {
            page(name, tables);
        }
        Some(ratios)
    } else {
        None
    };
    let grafted = directory.join(grafts::DIRECTORY);
    if grafted.exists() {
        let measured = Measurements::read(&grafted)?.preloaded;
        page(grafts::CHART, grafts::chart(&measured, &measurements.day)?);
        page(grafts::PAGE, grafts::page(&grafted, &measured)?);
    }
    let repeated = directory.join(published::DIRECTORY);
    if repeated.exists() {
        let path = directory.join(published::PAGE);
        let text = if path.exists() {
            files::read(&path)?
        } else {
            published::SKELETON.to_owned()
        };
        let measured = Measurements::read(&repeated)?;
        let block = |name: &str| match name {
            "machine" => measured.block(name, &linked, &preloaded),
            name => published::block(directory, name),
        };
        page(published::PAGE, blocks::filled(&text, block)?);
    }
    let trust = directory.join("trust.json");
    if trust.exists() {
        let trust: Trust = files::read_json(&trust)?;
        page("trust.md", trust.markdown()?);
    }
    let starts = directory.join(start::RAW);
    if starts.exists() {
        page(start::PAGE, start::page(&files::read(&starts)?)?);
    }
    let counted = directory.join(program_counts::RAW);
    if counted.exists() {
        page(
            program_counts::PAGE,
            program_counts::page(&files::read(&counted)?)?,
        );
    }
    let modelled = directory.join(many_processors::RAW);
    if modelled.exists() {
        let raw = files::read(&modelled)?;
        page(many_processors::PAGE, many_processors::page(&raw)?);
        page(many_processors::CURVES, many_processors::curves(&raw)?);
    }
    let attacks = directory.join(attacks::RAW);
    if attacks.exists() {
        page(attacks::PAGE, attacks::page(&files::read(&attacks)?)?);
    }
    if let Some(figures) = &measurements.figures {
        page("figures.md", figures.markdown()?);
    }
    let readme = directory.join("README.md");
    if readme.exists() {
        let block = |name: &str| measurements.block(name, &linked, &preloaded);
        page("README.md", blocks::filled(&files::read(&readme)?, block)?);
    }
    // The front page of the repository shows one of the directories.
    let front = workspace.root.join("README.md");
    let text = files::read(&front)?;
    let name = directory.file_name().and_then(|name| name.to_str());
    let is_shown = name.is_some_and(|name| text.contains(&format!("{name}/{}", real::CHART)));
    if let (Some(ratios), true) = (real, is_shown) {
        pages.push(Page {
            path: front,
            text: blocks::filled(&text, |_| real::block(&ratios))?,
        });
    }
    Ok(pages)
}

/// The directories of measurements in the repository.
pub(crate) fn directories(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let directory = workspace.root.join(measurement::ALL);
    let entries = files::entries(&directory)?;
    Ok(entries.into_iter().filter(|path| path.is_dir()).collect())
}

impl Measurements {
    fn read(directory: &Path) -> Result<Measurements> {
        let name = directory
            .file_name()
            .with_context(|| format!("`{}` has no name", directory.display()))?;
        let mut measurements = Measurements {
            day: name.to_string_lossy().chars().take(10).collect(),
            linked: Vec::new(),
            preloaded: Vec::new(),
            figures: None,
        };
        for file in files::entries(directory)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            if !name.ends_with(".json") {
                continue;
            }
            let text = files::read(&file)?;
            let cannot_understand = || format!("cannot understand `{}`", file.display());
            if name == "figures.json" {
                let figures = serde_json::from_str(&text).with_context(cannot_understand)?;
                measurements.figures = Some(figures);
            } else if text.contains("\"reheap_bench\"") {
                let results: Results =
                    serde_json::from_str(&text).with_context(cannot_understand)?;
                let with_musl = results
                    .benchmarks
                    .iter()
                    .flat_map(|benchmark| &benchmark.variants)
                    .any(|variant| variant.name == "musl");
                let programs = if with_musl {
                    &mut measurements.linked
                } else {
                    &mut measurements.preloaded
                };
                programs.push((name.into_owned(), results));
            }
        }
        Ok(measurements)
    }

    /// What is between the two comments of that name.
    fn block(&self, name: &str, linked: &Ratios, preloaded: &Ratios) -> Result<String> {
        // One may measure a few programs only.
        let is_missing = match name {
            "time" | "steps" | "memory" => self.linked.is_empty(),
            "no-help" => self.preloaded.is_empty(),
            "machine" | "visible" => self.linked.is_empty() && self.preloaded.is_empty(),
            _ => false,
        };
        if is_missing {
            return Ok("Not measured.\n".to_owned());
        }
        match name {
            "machine" => Ok(answers::machine(&self.linked, &self.preloaded)),
            "time" => Ok(answers::time(linked)),
            "steps" => Ok(answers::steps(&self.linked)),
            "memory" => Ok(answers::memory(linked)),
            "no-help" => answers::no_help(linked, preloaded),
            "costs" => match &self.figures {
                Some(figures) => figures.short(),
                None => Ok("Not measured.\n".to_owned()),
            },
            "visible" => Ok(answers::visible(linked, preloaded)),
            _ => bail!("a page has a block `{name}`, which nothing writes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_page_is_what_the_raw_data_gives() {
        let workspace = Workspace::find().unwrap();
        let directories = directories(&workspace).unwrap();
        let pages = directories
            .iter()
            .flat_map(|directory| pages(&workspace, directory).unwrap());
        let stale: Vec<PathBuf> = pages
            .filter(|page| fs::read_to_string(&page.path).unwrap() != page.text)
            .map(|page| page.path)
            .collect();
        assert!(
            stale.is_empty(),
            "run `cargo lab pages`, which changes {stale:#?}"
        );
    }
}
