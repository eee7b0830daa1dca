//! What the commands that measure have in common: variants, options, the way from commands to results.

pub(crate) mod linked;
pub(crate) mod measure;
pub(crate) mod options;
pub(crate) mod outputs;
pub(crate) mod preloaded;
pub(crate) mod progress;
pub(crate) mod ready;
pub(crate) mod search;
pub(crate) mod sweep;
mod twins;
pub(crate) mod variants;
pub(crate) mod write;
