//! What happens to real programs under every allocator: the same as without it, or not.
//!
//! A dynamic program does real work under `reheap run`, and its exit code and its output are compared with those of
//! plain runs; a static one is built by reheap and runs its own test suite, and each test is compared with a build that
//! has musl's own allocator. So what fails without reheap too is not blamed on it. A program whose plain runs differ
//! from each other proves nothing and is an error here: its script must print less.
//!
//! A released static program gets an allocator by `reheap graft`, and does the same work before and after.
//!
//! Results are kept by name, so a trial can be repeated alone. To add a dynamic program: a script in `lab/trials` and
//! a row in `dynamic_rows.rs`; a static one: a row in `static_rows.rs`; a released one: a row in `grafts/rows.rs`.

mod bindings;
mod dynamic;
mod dynamic_rows;
mod grafts;
mod packages;
mod page;
mod records;
mod runs;
mod static_programs;
mod static_rows;
mod static_tests;

use crate::grafts as released;
use crate::machine::{Machine, today};
use anyhow::{Result, bail, ensure};
use dynamic::Libraries;
use dynamic_rows::DynamicRow;
use records::Records;
use reheap_allocators::catalogue::CATALOGUE;
use static_rows::StaticRow;
use std::env;
use std::path::PathBuf;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// What the command line asks for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the table is written, from the root of the workspace; results that are there already are kept
    #[arg(long, value_name = "DIRECTORY")]
    directory: PathBuf,
    /// Install the Debian packages that are missing, as root, with apt-get
    #[arg(long)]
    install: bool,
    /// Only these programs, or `dynamic`, `static` or `graft` for all of a kind
    only: Vec<String>,
}

impl Options {
    fn wants(&self, name: &str, kind: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name || only == kind)
    }
}

/// Tries the programs and writes the table after each, so that nothing is lost when the command is interrupted.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    refuse_unknown(&options.only)?;
    let dynamic = dynamic_rows::ROWS.iter();
    let dynamic: Vec<_> = dynamic
        .filter(|row| options.wants(row.name, "dynamic"))
        .collect();
    let built = static_rows::ROWS.iter();
    let built: Vec<_> = built
        .filter(|row| options.wants(row.name, "static"))
        .collect();
    let grafts = released::ROWS.iter();
    let grafts: Vec<_> = grafts
        .filter(|row| options.wants(row.name, "graft"))
        .collect();
    let of_dynamic = dynamic.iter().flat_map(|row| row.packages);
    let of_built = built.iter().flat_map(|row| row.packages);
    let of_grafts = grafts.iter().filter_map(|row| match row.release.source {
        released::Source::Linked(compiler, _) => Some(compiler),
        _ => None,
    });
    let wanted = of_dynamic.chain(of_built).copied().chain(of_grafts);
    let wanted: Vec<&str> = wanted.collect();
    packages::provide(&wanted, options.install)?;
    let progress = Progress::start();
    workspace.build_reheap(&progress)?;
    let mut session = Session::start(workspace, &progress, options)?;
    session.try_dynamic(&dynamic)?;
    session.try_built(&built)?;
    session.try_grafts(&grafts)?;
    session.end()
}

/// The trials of one call of the command.
struct Session<'a> {
    workspace: &'a Workspace,
    progress: &'a Progress,
    directory: PathBuf,
    records: Records,
    /// The programs that could not be compared with themselves.
    failed: Vec<&'static str>,
}

impl<'a> Session<'a> {
    fn start(
        workspace: &'a Workspace,
        progress: &'a Progress,
        options: &Options,
    ) -> Result<Session<'a>> {
        let directory = workspace.root.join(&options.directory);
        let records = Records::read(&directory)?;
        Ok(Session {
            workspace,
            progress,
            directory,
            records,
            failed: Vec::new(),
        })
    }

    fn try_dynamic(&mut self, rows: &[&DynamicRow]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let (workspace, progress) = (self.workspace, self.progress);
        let libraries = Libraries::prepare(workspace, progress, &allocators())?;
        for row in rows {
            match dynamic::try_program(workspace, progress, &libraries, row) {
                Ok(trial) => {
                    self.records.dynamic.insert(row.name.to_owned(), trial);
                }
                Err(error) => self.give_up(row.name, &error),
            }
            self.write()?;
        }
        Ok(())
    }

    fn try_built(&mut self, rows: &[&StaticRow]) -> Result<()> {
        for row in rows {
            let tried =
                static_programs::try_program(self.workspace, self.progress, &allocators(), row);
            match tried {
                Ok(trial) => {
                    self.records.built.insert(row.name.to_owned(), trial);
                }
                Err(error) => self.give_up(row.name, &error),
            }
            self.write()?;
        }
        Ok(())
    }

    fn try_grafts(&mut self, rows: &[&'static released::Row]) -> Result<()> {
        for row in rows {
            match grafts::try_program(self.workspace, self.progress, &released::allocators(), row) {
                Ok(trial) => {
                    self.records.graft.insert(row.name.to_owned(), trial);
                }
                Err(error) => self.give_up(row.name, &error),
            }
            self.write()?;
        }
        Ok(())
    }

    /// Says why a program could not be tried; the others still are.
    fn give_up(&mut self, name: &'static str, error: &anyhow::Error) {
        self.progress.say(format!("{name}: {error:#}"));
        self.failed.push(name);
    }

    fn write(&mut self) -> Result<()> {
        let machine = Machine::describe()?;
        self.records.machine = serde_json::to_value(&machine)?;
        self.records.day = today();
        files::make_directory(&self.directory)?;
        self.records.write(&self.directory)?;
        let page = self.directory.join("trials.md");
        let text = page::page(
            &machine,
            &self.records,
            &allocators(),
            &released::allocators(),
        )?;
        files::write(&page, text)
    }

    fn end(self) -> Result<()> {
        let directory = self.directory.display();
        self.progress.say(format!("written to `{directory}`"));
        let failed = self.failed.join(", ");
        ensure!(
            failed.is_empty(),
            "no comparison was possible for: {failed}"
        );
        Ok(())
    }
}

/// Where the allocators are built: in the cache of the tests, which has them already, unless the user says otherwise.
fn cache(workspace: &Workspace) -> PathBuf {
    env::var_os("REHEAP_CACHE_DIR")
        .map_or_else(|| workspace.target.join("tmp/reheap-cache"), PathBuf::from)
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
        let built = static_rows::ROWS.iter().map(|row| row.name);
        let grafts = released::ROWS.iter().map(|row| row.name);
        dynamic.chain(built).chain(grafts)
    };
    for name in only {
        let known =
            ["dynamic", "static", "graft"].contains(&name.as_str()) || names().any(|n| n == name);
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

#[cfg(test)]
mod tests {
    use super::*;
    use static_rows::Source;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

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
    fn at_least_thirty_released_programs_have_names_and_files_of_their_own() {
        let rows = released::ROWS;
        let names: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
        let digests = rows.iter().filter_map(|row| row.release.sha256);
        let files: BTreeSet<&str> = digests.clone().collect();
        assert_eq!(names.len(), rows.len());
        assert_eq!(files.len(), digests.count());
        assert!(files.len() >= 30, "{}", files.len());
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
            let is_shared = ["lib", "graft"].contains(&name);
            assert!(known || is_shared, "{}", path.display());
        }
    }

    #[test]
    fn a_trial_that_is_not_there_is_refused_with_the_names_of_those_that_are() {
        let error = refuse_unknown(&["nonsense".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("perl"), "{error}");
        assert!(refuse_unknown(&["perl".to_owned(), "static".to_owned()]).is_ok());
    }
}
