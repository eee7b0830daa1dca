//! `cargo reheap build`, `run`, `test` and `install`.

use crate::choice::StaticArguments;
use crate::project::{Session, Verb};
use std::ffi::OsString;
use std::process::ExitCode;

/// The arguments that reheap adds to a Cargo command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CargoArguments {
    #[command(flatten)]
    linked_with: StaticArguments,
    /// Any flags of the Cargo command; arguments of the program follow `--`
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO FLAGS"
    )]
    cargo: Vec<OsString>,
}

/// Runs one of the commands.
pub(crate) fn run(verb: Verb, arguments: &CargoArguments) -> anyhow::Result<ExitCode> {
    Session::new(verb, &arguments.linked_with.wishes(), &arguments.cargo)?.run()
}
