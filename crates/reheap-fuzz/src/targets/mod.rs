//! The targets, by what they read.

pub(crate) mod elf;
pub(crate) mod image;
pub(crate) mod program;
pub(crate) mod text;
pub(crate) mod trace;
