//! The rules, one file for each subject.

pub(crate) mod conditions;
pub(crate) mod missing_preload;
pub(crate) mod patched_libc;
pub(crate) mod untested_target;
