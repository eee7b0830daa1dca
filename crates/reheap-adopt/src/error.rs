//! What can go wrong while a project is read.

use std::io;
use std::path::PathBuf;

/// Why a project cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// Cargo does not understand the project; its own words.
    #[error("{0}")]
    Cargo(String),
    /// The project names a toolchain of rustup's that is not there.
    #[error("the toolchain `{0}` is not installed")]
    NoToolchain(String),
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file is not in the language that it should be in.
    #[error("cannot understand `{}`, line {line}: {reason}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, in the parser's words.
        reason: String,
    },
}
