//! What somebody who looks on is told.

use crate::outlook::ExpectedEnd;
use crate::run::Finished;
use crate::server::{Load, Waiting};
use std::time::Duration;

/// Looks on, to tell a person how far it is. All are called between runs, so they may take their time.
pub trait Watch {
    /// A run is about to begin.
    fn run_begins(&mut self, progress: &Progress<'_>);

    /// Each variant ran once, and the rounds begin, with so many candidates.
    fn rounds_begin(&mut self, end: &ExpectedEnd, candidates: usize) {
        let _ = (end, candidates);
    }

    /// How it stands; called between rounds, at most twice a second.
    fn standing(&mut self, standing: &Standing<'_>) {
        let _ = standing;
    }

    /// A variant was left out, or leaves.
    fn left(&mut self, variant: &str, reason: &str) {
        let _ = (variant, reason);
    }

    /// It has ended, in whatever way.
    fn run_ended(&mut self, progress: &Progress<'_>, finished: &Finished) {
        let _ = (progress, finished);
    }

    /// A server takes a while to get ready; called again when that is over.
    fn waits_for_server(&mut self, load: &Load, waiting: Waiting) {
        let _ = (load, waiting);
    }
}

/// How far a benchmark is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress<'a> {
    /// The variant that runs.
    pub variant: &'a str,
    /// What the run is for.
    pub stage: Stage,
    /// Since the beginning of the benchmark.
    pub elapsed: Duration,
}

/// How the variants compare so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing<'a> {
    /// The rounds so far.
    pub rounds: usize,
    /// The candidate with the best ratio, and the ratio.
    pub leader: Option<(&'a str, f64)>,
    /// How large a difference would be seen.
    pub visible: Option<f64>,
    /// When the rounds will end.
    pub end: ExpectedEnd,
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The first run of each variant is not kept: it fills the page cache.
    WarmUp,
    /// The round, from 0.
    Round(usize),
}
