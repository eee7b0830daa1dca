//! A command with each allocator: made ready, measured, and reported.
#![allow(
    clippy::missing_errors_doc,
    reason = "errors are messages to the user, whatever failed"
)]

pub mod bench;
pub mod measured_attacks;
pub mod own_program;
pub mod replaying;
