//! Rust projects: Cargo's own commands, linked with a derived libc, and proved.
//!
//! [`session`] runs Cargo with [`linker`] as its linker, which links as [`plan`] says and keeps [`records`] for a
//! relink; [`proof`] reads back what came of it. [`project_choice`] is what the manifests choose, [`workspace`] for which
//! package.

mod compilers;
mod config;
mod default_linker;
mod doctests;
mod flags;
mod install;
pub mod linker;
mod messages;
mod metadata;
mod packing;
mod plan;
pub(crate) mod project_choice;
pub mod proof;
pub mod records;
mod response_file;
mod rust_heap;
mod session;
pub mod stack;
mod workspace;

pub use flags::separate;
pub use packing::{Origin, Packing};
pub use session::{Built, Session, Verb};
