//! What allocators do with memory errors: attacks, and the errors of a program.
#![allow(
    clippy::missing_errors_doc,
    reason = "errors are messages to the user, whatever failed"
)]

pub mod addresses;
pub mod attacking;
pub mod memory_check;
