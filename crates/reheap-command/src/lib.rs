//! What all commands of reheap share: arguments, environment, messages, progress, Ctrl-C, output files, exit codes.
#![allow(
    clippy::missing_errors_doc,
    reason = "errors are messages to the user, whatever failed"
)]

pub mod choice;
pub mod env_vars;
pub mod exit;
pub mod interrupt;
pub mod named_file;
pub mod output;
pub mod pulse;
pub mod sys;
pub mod ui;
