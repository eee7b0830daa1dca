//! What happens to real programs under every allocator: the same as without it, or not.
//!
//! A dynamic program does real work under `reheap run`, and its exit code and its output are compared with those of plain
//! runs; a static one is built by reheap and runs its own test suite, and each test is compared with a build that has
//! musl's own allocator. So what fails without reheap too is not blamed on it. A program whose plain runs differ from
//! each other proves nothing and is an error here: its script must print less.
//!
//! Results are kept by name, so a trial can be repeated alone. To add a dynamic program: a script in `xtask/trials` and a
//! row in `dynamic_rows.rs`; a static one: a row in `static_rows.rs`.

mod bindings;
mod dynamic;
mod dynamic_rows;
mod packages;
mod page;
mod records;
mod static_programs;
mod static_rows;
mod static_tests;

use crate::machine::{Machine, today};
use crate::progress::Progress;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use records::Records;
use reheap_allocators::catalogue::CATALOGUE;
use std::fs;
use std::path::{Path, PathBuf};

/// What the command line asks for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the table is written, from the root of the workspace; results that are there already are kept
    #[arg(long, value_name = "FOLDER")]
    folder: PathBuf,
    /// Install the Debian packages that are missing, as root, with apt-get
    #[arg(long)]
    install: bool,
    /// Only these programs, or `dynamic` or `static` for all of a kind
    only: Vec<String>,
}

impl Options {
    fn wants(&self, name: &str, kind: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name || only == kind)
    }
}

/// Tries the programs and writes the table after each, so that nothing is lost when the command is interrupted.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    let dynamic: Vec<_> = dynamic_rows::ROWS
        .iter()
        .filter(|row| options.wants(row.name, "dynamic"))
        .collect();
    let built: Vec<_> = static_rows::ROWS
        .iter()
        .filter(|row| options.wants(row.name, "static"))
        .collect();
    refuse_unknown(&options.only)?;
    let wanted = dynamic.iter().flat_map(|row| row.packages);
    let wanted: Vec<&str> = wanted
        .chain(built.iter().flat_map(|row| row.packages))
        .copied()
        .collect();
    packages::provide(&wanted, options.install)?;
    let progress = Progress::start();
    progress.step(
        "building reheap",
        workspace
            .cargo()
            .args(["build", "--release", "-p", "reheap"]),
    )?;
    let folder = workspace.root.join(&options.folder);
    let mut records = Records::read(&folder)?;
    let libraries = dynamic::Libraries::prepare(workspace, &progress, &allocators())?;
    let mut failed = Vec::new();
    for row in dynamic {
        match dynamic::try_program(workspace, &progress, &libraries, row) {
            Ok(trial) => drop(records.dynamic.insert(row.name.to_owned(), trial)),
            Err(error) => failed.push(failure(&progress, row.name, &error)),
        }
        write(&folder, &mut records)?;
    }
    for row in built {
        match static_programs::try_program(workspace, &progress, &allocators(), row) {
            Ok(trial) => drop(records.built.insert(row.name.to_owned(), trial)),
            Err(error) => failed.push(failure(&progress, row.name, &error)),
        }
        write(&folder, &mut records)?;
    }
    progress.say(format!("written to `{}`", folder.display()));
    ensure!(
        failed.is_empty(),
        "no comparison was possible for: {}",
        failed.join(", ")
    );
    Ok(())
}

/// Says why a program could not be tried, and goes on with the others.
fn failure(progress: &Progress, name: &'static str, error: &anyhow::Error) -> &'static str {
    progress.say(format!("{name}: {error:#}"));
    name
}

/// Those of the catalogue that reheap builds, which is all but the libc's own.
fn allocators() -> Vec<&'static str> {
    let built = CATALOGUE
        .iter()
        .filter(|allocator| allocator.build.is_some());
    built.map(|allocator| allocator.name).collect()
}

fn refuse_unknown(only: &[String]) -> Result<()> {
    let names = || {
        let dynamic = dynamic_rows::ROWS.iter().map(|row| row.name);
        dynamic.chain(static_rows::ROWS.iter().map(|row| row.name))
    };
    for name in only {
        let known = ["dynamic", "static"].contains(&name.as_str()) || names().any(|n| n == name);
        if !known {
            let names: Vec<&str> = names().collect();
            bail!(
                "there is no trial `{name}`\n\nhint: the trials are {}",
                names.join(" ")
            );
        }
    }
    Ok(())
}

fn write(folder: &Path, records: &mut Records) -> Result<()> {
    records.machine = serde_json::to_value(Machine::describe()?)?;
    records.day = today()?;
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
    records.write(folder)?;
    let page = folder.join("trials.md");
    let text = page::page(&Machine::describe()?, records, &allocators())?;
    ensure!(!text.is_empty(), "the page is empty");
    fs::write(&page, text).with_context(|| format!("cannot write `{}`", page.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use static_rows::Source;

    #[test]
    fn the_trials_have_names_of_their_own_and_scripts() {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("trials");
        let dynamic = dynamic_rows::ROWS.iter().map(|row| row.name.to_owned());
        let is_c = |row: &&static_rows::StaticRow| matches!(row.source, Source::Debian { .. });
        let built = static_rows::ROWS.iter().filter(is_c);
        for name in dynamic.chain(built.map(|row| format!("static-{}", row.name))) {
            let script = scripts.join(format!("{name}.sh"));
            assert!(script.is_file(), "{} is missing", script.display());
        }
        let dynamic = dynamic_rows::ROWS.iter().map(|row| row.name);
        let built = static_rows::ROWS.iter().map(|row| row.name);
        let mut names: Vec<&str> = dynamic.chain(built).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(
            dynamic_rows::ROWS.len() >= 15,
            "{}",
            dynamic_rows::ROWS.len()
        );
        assert!(static_rows::ROWS.len() >= 10, "{}", static_rows::ROWS.len());
    }

    #[test]
    fn every_script_belongs_to_a_trial() {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("trials");
        for entry in fs::read_dir(scripts).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let known = match name.strip_prefix("static-") {
                Some(name) => static_rows::ROWS.iter().any(|row| row.name == name),
                None => dynamic_rows::ROWS.iter().any(|row| row.name == name),
            };
            assert!(known || name == "lib", "{}", path.display());
        }
    }

    #[test]
    fn a_trial_that_is_not_there_is_refused_with_the_names_of_those_that_are() {
        let error = refuse_unknown(&["nonsense".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("perl"), "{error}");
        assert!(refuse_unknown(&["perl".to_owned(), "static".to_owned()]).is_ok());
    }
}
