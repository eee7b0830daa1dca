use crate::setup::ChoiceArguments;
use std::ffi::OsString;
use std::process::ExitCode;
pub(crate) const EXAMPLES: &str = "";
pub(crate) const EXAMPLES_CXX: &str = "";
#[derive(Debug, clap::Args)]
pub(crate) struct CcArguments {
    #[command(flatten)]
    choice: ChoiceArguments,
}
pub(crate) fn run_if_asked(_arguments: &[OsString]) -> Option<anyhow::Result<ExitCode>> {
    None
}
