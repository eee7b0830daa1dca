//! Where a built allocator, preload or libc comes from: a package, the cache, or a build.
#![allow(
    clippy::missing_errors_doc,
    reason = "errors are messages to the user, whatever failed"
)]

pub mod conformance;
pub mod debugging;
pub mod grafting;
pub mod original;
pub mod prebuilt;
pub mod preloading;
pub mod static_program;
pub mod workshop;
