//! What a user may ask of `reheap adopt`.

use reheap_command::choice::AllocatorArguments;

/// What to set up, and how.
#[derive(Debug, clap::Args)]
#[command(mut_arg("allocator", |argument| argument.help(
    "The allocator; `--with crate` has only some of those of `reheap list` [default: mimalloc]"
)))]
pub(crate) struct SetUpArguments {
    #[command(flatten)]
    pub(crate) allocator: AllocatorArguments,
    /// The style: in the sources, or in Cargo.toml for `cargo reheap` [default: `reheap` if the project is built only
    /// for musl, else `crate`]
    #[arg(long = "with", value_name = "STYLE")]
    pub(crate) style: Option<Style>,
    /// The targets that get it: triples with commas, a condition, or `all` [default: cfg(target_env = "musl"), with
    /// --wheel cfg(target_os = "linux")]
    #[arg(long, value_name = "TARGETS")]
    pub(crate) targets: Option<String>,
    /// The stack size of threads that do not set one, in bytes; only with `--with reheap`
    #[arg(long, value_name = "BYTES")]
    pub(crate) stack_size: Option<u64>,
    /// A feature to add, which turns the allocator on
    #[arg(long, value_name = "NAME")]
    pub(crate) feature: Option<String>,
    /// Turn that feature on by default
    #[arg(long, requires = "feature")]
    pub(crate) on_by_default: bool,
    /// Set up modules of Python or Node, for the Rust code of their shared libraries
    #[arg(long)]
    pub(crate) wheel: bool,
    /// Add a job that checks the project
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
