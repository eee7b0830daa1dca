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
    let linked_with = &arguments.linked_with;
    let choice = linked_with.libc.check()?;
    Session::new(verb, choice, &arguments.cargo, linked_with.stack_size)?.run()
}
