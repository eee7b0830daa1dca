//! The rules, one file for each subject.

pub(crate) mod conditions;
