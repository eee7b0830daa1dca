//! `reheap adopt`: sets up a Rust project's allocator, checks it, and takes it out again.

use crate::adopting;
use crate::choice::AllocatorArguments;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Two styles: `crate` puts a #[global_allocator] into each program, so that everybody who builds them gets it; `reheap`
leaves the sources alone and writes the choice into Cargo.toml, for `cargo reheap build`.

Exit codes: 0 done, or nothing found; 1 not done, or `--undo` left something, or `--check` could not read all; 2 this is no
project; 3 `--check` found something.

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
    /// How to print what `--check` finds
    #[arg(long, value_name = "FORMAT", requires = "check")]
    format: Option<Format>,
    /// Print JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// What to set up, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct SetUpArguments {
    #[command(flatten)]
    pub(crate) allocator: AllocatorArguments,
    /// In the sources, or for `cargo reheap` [default: `reheap` if the project is built only for musl, else `crate`]
    #[arg(long = "with", value_name = "STYLE")]
    pub(crate) style: Option<Style>,
    /// On which targets: triples with commas, a condition, or `all` [default: cfg(target_env = "musl"), with --wheel
    /// cfg(target_os = "linux")]
    #[arg(long, value_name = "TARGETS")]
    pub(crate) targets: Option<String>,
    /// With `--with reheap`: the stack size of threads that do not set one, in bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) stack_size: Option<u64>,
    /// Only with this feature, which is added
    #[arg(long, value_name = "NAME")]
    pub(crate) feature: Option<String>,
    /// Turn that feature on by default
    #[arg(long, requires = "feature")]
    pub(crate) on_by_default: bool,
    /// In the shared libraries of Python or Node modules, for their Rust code
    #[arg(long)]
    pub(crate) wheel: bool,
    /// Add a job that checks it
    #[arg(long, value_name = "SERVICE")]
    pub(crate) ci: Option<Service>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Edit files that have changes which are not committed
    #[arg(long)]
    pub(crate) allow_dirty: bool,
    /// Let Cargo use no network
    #[arg(long)]
    pub(crate) offline: bool,
}

/// Where the choice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Style {
    // In the sources.
    Crate,
    // In Cargo.toml, for `cargo reheap`.
    Reheap,
}

/// Who runs the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Service {
    Github,
}

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    Github,
}

pub(crate) fn run(arguments: &AdoptArguments) -> anyhow::Result<ExitCode> {
    let path = arguments.path.as_deref();
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
