//! `cargo reheap build`, `check`, `clippy`, `install`, `run`, `rustc` and `test`.

use reheap_command::choice::StaticArguments;
use reheap_static::project::{Session, Verb};
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

/// Runs one of the commands, for each target in turn.
pub(crate) fn run(verb: Verb, arguments: &CargoArguments) -> anyhow::Result<ExitCode> {
    let wishes = arguments.linked_with.wishes();
    for session in Session::for_each_target(verb, &wishes, &arguments.cargo)? {
        let code = session.run()?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    Ok(ExitCode::SUCCESS)
}
