//! Rust projects: Cargo's own commands, linked with a derived libc, and proved.
//!
//! A [`request`] is what the user types. [`resolved`] adds what Cargo and the manifests say, and has a [`plan`] for each
//! package. [`cargo_run`] runs Cargo with [`linker`] as its linker, which links as planned and keeps [`records`] for a
//! relink; [`proof`] reads back what came of it. [`session`] puts these together for each command. [`project_choice`] is
//! what the manifests choose, [`workspace`] for which package.

mod additions;
mod built;
mod cargo_run;
mod choices;
mod compilers;
mod config;
mod default_linker;
mod doctests;
mod flags;
mod install;
pub mod linker;
mod locate;
mod messages;
mod metadata;
mod notes;
mod packing;
mod plan;
pub(crate) mod project_choice;
pub mod proof;
pub mod records;
mod request;
mod resolved;
mod response_file;
mod rust_heap;
mod session;
pub mod stack;
mod targets;
mod workspace;

pub use built::Built;
pub use flags::separate;
pub use packing::{Origin, Packing};
pub use request::Verb;
pub use session::Session;
