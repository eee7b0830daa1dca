//! Runs variants of a command side by side and measures time and memory.
//!
//! [`run`] owns processes and is the only part that does. [`experiment`] is the loop over it: [`rounds`] decides what
//! runs when, [`results`] is what comes out. [`analysis`] says what it means, with the formulas of [`reheap_stats`];
//! [`findings`] and [`overview`] hold what it said, for all that is made of it. None of them does input or output, so a
//! report can be made again from the raw runs.

pub mod analysis;
#[cfg(test)]
mod calibration;
pub mod command_files;
pub mod compare;
mod counters;
pub mod experiment;
pub mod failures;
pub mod figures;
pub mod findings;
pub mod machine;
pub mod memory_limit;
pub mod metrics;
pub mod outlook;
mod output;
pub mod overview;
mod race;
pub mod recommend;
mod resident;
pub mod results;
pub mod rounds;
pub mod run;
mod running;
pub mod server;
pub mod sharing;
#[cfg(test)]
mod simulated;
pub mod sweeps;
mod sys;
pub mod threshold;
pub mod unreached;
pub mod verdict;
pub mod warnings;
