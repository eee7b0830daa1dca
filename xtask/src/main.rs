//! Automation of this repository: `cargo xtask <task>`.
//!
//! In Rust and not in shell scripts, so that it is checked like everything else; the Makefile and `.ci/run` only call
//! it. A task is one variant of [`Task`] and one file.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "xtask is a program, and talking is its job"
)]

mod ci;
mod deny;
mod dist;
mod docs;
mod release_notes;
mod targets;
mod test_crates;
mod test_dist;
mod tests;
mod tidy;
mod update_sources;

use clap::Parser;
use dist::Programs;
use reheap_allocators::target::Architecture;
use std::process::ExitCode;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// Automation of the reheap repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Check the format, run clippy, the tests and the tidy checks, as CI does
    Ci {
        /// Test with every allocator, and not only with a sample
        #[arg(long)]
        all: bool,
    },
    /// Check what no compiler checks: lengths of files, descriptions, paths of somebody's machine
    Tidy,
    /// Fill dist/ with what users download: archives, packages and wheels with prebuilt allocators
    Dist {
        /// Only for these processors [default: all]
        #[arg(long = "architecture", value_name = "NAME", value_parser = architecture)]
        architectures: Vec<Architecture>,
    },
    /// Build the book of the documentation in target/book, and check its links
    Docs,
    /// Print what the changelog says of this version, as the notes of a release
    ReleaseNotes {
        /// The tag of the release, for which everything must be ready
        tag: Option<String>,
    },
    /// Package all crates for the registry, and install the program from these packages alone
    TestCrates,
    /// Install each package of `dist` into a new root, use it there, and run the recipes and the action
    TestDist {
        /// Make and test only the short form that `cargo xtask ci` has: one archive with two allocators
        #[arg(long, conflicts_with_all = ["directory", "only"])]
        short: bool,
        /// Where the finished files are [default: dist/]
        directory: Option<std::path::PathBuf>,
        /// Only this part; may be given several times
        #[arg(long, value_name = "PART", value_parser = test_dist::names())]
        only: Vec<String>,
    },
    /// Run the tests for other processors in emulators, which takes minutes
    TestTargets {
        /// Only static programs, with every allocator for every target
        #[arg(long)]
        static_programs: bool,
    },
    /// Renew the lock file of the packages that allocators are built from
    UpdateSources,
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match task {
        Task::Ci { all } => ci::run(&workspace, all),
        Task::Tidy => tidy::run(&workspace),
        Task::Dist { architectures } if architectures.is_empty() => {
            dist::run(&workspace, &Architecture::WITH_PRELOADS)
        }
        Task::Dist { architectures } => dist::run(&workspace, &architectures),
        Task::Docs => docs::run(&workspace),
        Task::ReleaseNotes { tag } => release_notes::run(&workspace, tag.as_deref()),
        Task::TestCrates => test_crates::run(&workspace),
        Task::TestDist { short: true, .. } => {
            test_dist::run_short(&workspace, Programs::OfTests, &Progress::start())
        }
        Task::TestDist {
            directory, only, ..
        } => test_dist::run(&workspace, directory, &only),
        Task::TestTargets {
            static_programs: true,
        } => targets::test_static_programs(&workspace),
        Task::TestTargets { .. } => targets::run(&workspace),
        Task::UpdateSources => update_sources::run(&workspace),
    }
}

fn architecture(name: &str) -> Result<Architecture, String> {
    let known = Architecture::WITH_PRELOADS
        .into_iter()
        .find(|known| known.name() == name);
    known.ok_or_else(|| {
        format!(
            "it is none of {}",
            Architecture::WITH_PRELOADS
                .map(Architecture::name)
                .join(", ")
        )
    })
}
