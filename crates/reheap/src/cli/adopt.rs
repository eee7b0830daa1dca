//! `reheap adopt`: sets up a Rust project's allocator, checks it, and takes it out again.

use crate::adopting;
use crate::adopting::options::{Format, SetUpArguments};
use reheap_command::ui::Failure;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Two styles: `crate` puts a #[global_allocator] into each program, so that everybody who builds
them gets it; `reheap` leaves the sources alone and writes the choice into Cargo.toml, for
`cargo reheap build`.

Exit codes: 0 done, or nothing found; 1 not done, or `--undo` left something, or `--check` could
not read all; 2 wrong usage, or no project; 3 `--check` found something.

Examples:
  reheap adopt --dry-run
  reheap adopt --with crate -a mimalloc --targets 'cfg(target_env = \"musl\")'
  reheap adopt --check --format github
  reheap adopt --undo";

#[derive(Debug, clap::Args)]
pub(crate) struct AdoptArguments {
    /// The project: a directory or a Cargo.toml [default: the one around the current directory]
    path: Option<PathBuf>,
    /// Say what is wrong with the project's allocators, and change nothing
    #[arg(long, conflicts_with = "undo")]
    check: bool,
    /// Take out what adopt put in
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    pub(crate) set_up: SetUpArguments,
    /// The form of what `--check` finds
    #[arg(long, value_name = "FORMAT", requires = "check")]
    format: Option<Format>,
    /// Print what `--check` finds as JSON
    #[arg(long, conflicts_with = "format", requires = "check")]
    json: bool,
}

pub(crate) fn run(arguments: &AdoptArguments) -> anyhow::Result<ExitCode> {
    let path = arguments.path.as_deref();
    // Whoever names an allocator means to set one up.
    let without_choice = [(arguments.check, "--check"), (arguments.undo, "--undo")];
    if let Some((_, flag)) = without_choice.iter().find(|(is_given, _)| *is_given)
        && !arguments.set_up.is_default()
    {
        let text = format!("`{flag}` is for whatever is set up, so nothing can be chosen with it");
        let hint = format!("leave out {flag}, or all flags that choose something");
        return Err(Failure::usage(text).hint(hint).into());
    }
    if arguments.check {
        let format = match (arguments.format, arguments.json) {
            (Some(format), _) => format,
            (None, true) => Format::Json,
            (None, false) => Format::Text,
        };
        return adopting::check::run(path, format);
    }
    if arguments.undo {
        return adopting::undo::run(path, &arguments.set_up);
    }
    adopting::set_up::run(path, &arguments.set_up)
}
