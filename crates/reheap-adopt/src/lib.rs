//! Which allocator a Rust project chooses: what its manifests and sources say, where the two differ, and how to change
//! both.
//!
//! ```text
//! manifests ─► manifest ─┐                          ┌─► findings   what is wrong, and how to repair it
//!                        ├─► project (conditions) ──┤
//! sources  ─► sources  ──┘                          └─► adoption   texts to insert, and to take out again
//! ```
//!
//! Conditions (`cfg(…)`, target tables, features) are compared as boolean functions over all targets that rustc knows,
//! never as text. Files are changed by inserting text at known places, so what somebody else wrote keeps its bytes.
//!
//! This crate prints nothing and changes no file; it reads those of a project, and asks Cargo for its packages.

pub mod adoption;
pub mod builds;
mod checks;
pub mod condition;
pub mod crates;
pub mod error;
pub mod features;
mod files;
pub mod finding;
pub mod findings;
mod linked;
pub mod manifest;
pub mod project;
pub mod readers;
pub mod sources;
pub mod text;
pub mod workflows;
