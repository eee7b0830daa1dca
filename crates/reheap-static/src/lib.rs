//! Static executables: Rust projects and compiler calls, linked with a derived libc, and proved.
#![allow(
    clippy::missing_errors_doc,
    reason = "errors are messages to the user, whatever failed"
)]

pub mod cc;
pub mod project;
