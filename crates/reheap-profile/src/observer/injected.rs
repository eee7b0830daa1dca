//! What was put into the code of a program that takes no preload.

use crate::profile::Access;
use std::ops::Range;

/// What was put into the code of a program that takes no preload.
#[derive(Debug, Clone)]
pub struct Injected {
    /// How its functions were found.
    pub access: Access,
    /// As [`crate::profile::Process::not_counted`].
    pub not_counted: Vec<String>,
    /// Where the hooks are in the process.
    pub hooks: Range<u64>,
    /// Where the functions are that they are in front of.
    pub functions: Vec<u64>,
}

impl Default for Injected {
    fn default() -> Self {
        Self {
            access: Access::Symbols,
            not_counted: Vec::new(),
            hooks: 0..0,
            functions: Vec::new(),
        }
    }
}
