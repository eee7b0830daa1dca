//! What a command, a file, a process or an image is: its program, libc, allocator, and what stands in the way.
#![allow(
    clippy::missing_errors_doc,
    reason = "errors are messages to the user, whatever failed"
)]

pub mod container;
pub mod inspect;
pub mod limits;
pub mod open_file;
pub mod other_preloads;
pub mod preload_files;
pub mod process_scope;
pub mod program;
pub mod readers;
pub mod remote;
