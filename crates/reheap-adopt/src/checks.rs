//! The rules, one file for each subject.

pub(crate) mod clashes;
pub(crate) mod conditions;
pub(crate) mod hardened;
pub(crate) mod libraries;
pub(crate) mod missing_preload;
pub(crate) mod options;
pub(crate) mod patched_libc;
pub(crate) mod presence;
pub(crate) mod shared;
pub(crate) mod untested_target;
pub(crate) mod versions;
