//! Preloads for one command and for a whole system: checked, enabled, undone.
#![allow(
    clippy::missing_errors_doc,
    reason = "errors are messages to the user, whatever failed"
)]

pub mod census;
pub mod system;
pub mod verify;
