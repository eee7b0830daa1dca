//! Runs variants of a command side by side and measures time and memory.
//!
//! [`run`] owns processes and is the only part that does. [`rounds`] decides what runs when, and [`stats`] turns runs
//! into numbers with a spread; both are pure, so a report can be made again from the raw runs.

pub mod analysis;
pub mod figures;
pub mod results;
pub mod rounds;
pub mod run;
#[cfg(test)]
mod simulated;
pub mod stats;
pub mod sweeps;
mod sys;
pub mod warnings;
