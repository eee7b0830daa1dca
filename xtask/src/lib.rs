//! What `xtask` and `lab` share: where things are, what is being done, and on which machine.
#![allow(
    clippy::print_stderr,
    clippy::missing_errors_doc,
    reason = "both are programs that say what they do, and an error ends them"
)]

pub mod aarch64;
pub mod command;
pub mod files;
pub mod progress;
pub mod workspace;
