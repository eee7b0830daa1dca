//! Holds what all measuring commands share: variants, options, and the way from commands to results.

mod clock;
pub(crate) mod last_words;
pub(crate) mod linked;
pub(crate) mod measure;
pub(crate) mod options;
pub(crate) mod outputs;
pub(crate) mod preloaded;
pub(crate) mod progress;
pub(crate) mod reach;
pub(crate) mod ready;
pub(crate) mod replayed;
pub(crate) mod search;
mod shell_syntax;
pub(crate) mod sweep;
mod twins;
pub(crate) mod variants;
pub(crate) mod write;
