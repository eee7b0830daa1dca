//! The table of contents: one `match`, one file per subcommand.
use std::ffi::OsString;
use std::process::ExitCode;

pub(crate) fn run_reheap(_arguments: Vec<OsString>) -> ExitCode {
    ExitCode::from(2)
}

pub(crate) fn run_cargo_reheap(_arguments: Vec<OsString>) -> ExitCode {
    ExitCode::from(2)
}
