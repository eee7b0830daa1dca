//! Proves doctests one by one while rustdoc links them.
//!
//! rustdoc links each into a directory of its own, starts it and deletes it; Cargo names none in its messages. So the
//! linker reads them back before rustdoc has anything to start. If one is not what the user asked for, it fails there.
//! The linker writes what it saw into a file, because rustdoc shows only a linker's errors.

use super::proof::{self, Hints};
use super::workspace::ByPackage;
use anyhow::Context as _;
use reheap_allocators::memory::MemoryFunctions;
use reheap_command::choice::{Choice, StaticChoice};
use reheap_command::env_vars;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What the linker that Cargo starts must link doctests with, and where it says what it saw.
#[derive(Debug, Serialize, Deserialize)]
struct Expected {
    with: ByPackage<Expectation>,
    seen: PathBuf,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Expectation {
    allocator: String,
    tuning: Vec<String>,
    keeps_memory_functions: bool,
}

/// What the linker saw of the doctests of one run.
pub(crate) struct Doctests {
    seen: tempfile::NamedTempFile,
    expected: Expected,
}

impl Doctests {
    pub(crate) fn of(choices: &ByPackage<StaticChoice>) -> anyhow::Result<Self> {
        let seen = tempfile::Builder::new()
            .prefix("reheap-doctests-")
            .tempfile();
        let seen = seen.context("cannot make a temporary file")?;
        let with = choices.try_map(|chosen| Ok(Expectation::of(&chosen.choice)))?;
        let expected = Expected {
            with: with.shortened(),
            seen: seen.path().to_owned(),
        };
        Ok(Self { seen, expected })
    }

    /// The variable that tells the linker.
    pub(crate) fn variable(&self) -> anyhow::Result<(&'static str, OsString)> {
        Ok((
            env_vars::DOCTESTS,
            serde_json::to_string(&self.expected)?.into(),
        ))
    }

    /// The result in words; `None` if no doctest was linked.
    pub(crate) fn seen(&self) -> anyhow::Result<Option<String>> {
        let text = fs::read_to_string(self.seen.path()).context("cannot read what was linked")?;
        let mut kinds: Vec<&str> = text.lines().collect();
        let programs = match kinds.len() {
            0 => return Ok(None),
            1 => "1 program".to_owned(),
            count => format!("{count} programs"),
        };
        kinds.sort_unstable();
        kinds.dedup();
        Ok(Some(format!("doctests: {programs}, {}", kinds.join("; "))))
    }
}

impl Expectation {
    fn of(choice: &Choice) -> Self {
        let options = choice.tuning.as_given();
        Self {
            allocator: choice.allocator.name.to_owned(),
            tuning: options.iter().map(|(k, v)| format!("{k}={v}")).collect(),
            keeps_memory_functions: choice.memory_functions == MemoryFunctions::Stock,
        }
    }

    fn choice(&self) -> anyhow::Result<Choice> {
        let mut choice = Choice::of(&self.allocator, &self.tuning)?;
        if self.keeps_memory_functions {
            choice.memory_functions = MemoryFunctions::Stock;
        }
        Ok(choice)
    }
}

/// Reads back what was linked outside of Cargo's directories, if it is a doctest of `cargo reheap test`.
pub(crate) fn check(output: &Path) -> anyhow::Result<()> {
    let Some(expected) = env_vars::variable(env_vars::DOCTESTS) else {
        return Ok(());
    };
    let expected: Expected = serde_json::from_slice(expected.as_encoded_bytes())
        .with_context(|| format!("cannot read {}", env_vars::DOCTESTS))?;
    let package = env_vars::linked_package();
    let choice = expected.with.of_any(package.as_deref()).choice()?;
    let proof = proof::of_executable(output, &choice, Hints::OF_CARGO)?;
    // One short write at the end of the file, so lines of linkers that run at the same time do not mix.
    let line = format!("{}\n", proof.without_size());
    let mut file = OpenOptions::new()
        .append(true)
        .open(&expected.seen)
        .with_context(|| format!("cannot write to `{}`", expected.seen.display()))?;
    file.write_all(line.as_bytes())
        .with_context(|| format!("cannot write to `{}`", expected.seen.display()))
}
