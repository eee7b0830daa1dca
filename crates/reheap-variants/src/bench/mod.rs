//! Holds what all measuring commands share: variants, options, and the way from commands to results.

mod clock;
mod duplicates;
pub mod given;
pub mod last_words;
pub mod linked;
mod mapped;
pub mod measure;
pub mod options;
pub mod outputs;
pub(crate) mod progress;
pub mod reach;
pub mod ready;
pub mod replayed;
pub mod search;
mod shell_syntax;
pub mod sweep;
pub mod variants;
pub mod write;
