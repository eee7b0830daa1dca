//! What was seen of a command, when the watching has ended.

use crate::others::{Other, Starts};
use crate::profile::{Access, Process};
use reheap_trace::TraceError;
use reheap_trace::writer::Written;
use std::collections::HashMap;
use std::time::Duration;

/// What was seen.
#[derive(Debug)]
pub struct Observed {
    /// In the order in which they began. Those that have not ended go on, without being watched.
    pub processes: Vec<Process>,
    /// Programs that ran without hooks.
    pub others: Vec<Other>,
    /// How often a program was started that found no place among those that are counted.
    pub uncounted_starts: u32,
    /// How many processes found no place.
    pub refused: u32,
    /// Of how many processes the kernel told nothing, because nobody knows their numbers.
    pub hidden: u32,
    /// What of a trace was written, if there is one.
    pub traced: Option<Result<Written, TraceError>>,
    /// How long it was watched.
    pub time: Duration,
}

/// Puts processes into the order in which they began, and says of each how it got its hooks.
pub(super) fn in_order(mut processes: Vec<Process>) -> Vec<Process> {
    processes.sort_by(|a, b| a.began.total_cmp(&b.began).then(a.pid.cmp(&b.pid)));
    inherit_access(&mut processes);
    processes
}

/// A forked child has its hooks from its parent, which began before it.
fn inherit_access(processes: &mut [Process]) {
    let mut known: HashMap<u32, Access> = HashMap::new();
    for process in processes {
        if let Some(access) = process.parent.and_then(|parent| known.get(&parent)) {
            process.access = *access;
        }
        known.insert(process.pid, process.access);
    }
}

/// reheap itself started the first program, which no hook counted.
pub(super) fn without_the_first(mut starts: Vec<Starts>, first: Option<&Process>) -> Vec<Starts> {
    let is_first =
        |starts: &&mut Starts| first.is_some_and(|first| first.program == starts.program);
    if let Some(of_first) = starts.iter_mut().find(is_first) {
        of_first.loaded = of_first.loaded.saturating_sub(1);
    }
    starts
}
