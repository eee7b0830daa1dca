//! Makes a plan: flat arrays that the replayer performs without a thought. The file, little-endian:
//!
//! | part | |
//! | --- | --- |
//! | header | `struct header` of replayer/replayer.c |
//! | operations | 16 bytes each, in blocks that belong to one thread each |
//! | epochs | how many threads take part in each, 4 bytes |
//! | threads | number of operations, and the first of its blocks: 8 bytes each |
//! | blocks | where each is in the file, 8 bytes |
//!
//! A block of the program is in a slot of one table while it is live. A slot goes to another block of the thread that
//! emptied it, if no other thread takes that: such a thread may look into the slot too early, and must find it empty. When
//! so many epochs have passed that nobody can be behind, it may go to any block. So the table is about as long as the most
//! blocks that were live at a time.
//!
//! A trace is read twice: the first time for a [`survey`], the second time by the [`planner`].

mod epochs;
mod file;
mod live;
mod operation;
mod planner;
mod slots;
mod survey;

use super::room::Room;
use super::source::Source;
use super::{Options, ReplayError, Speed};
use crate::Process;
use crate::reader::{Ending, Record};
use operation::OPERATION_BYTES;
use planner::Planner;
use std::fs::File;
use std::path::Path;

/// No thread is more epochs ahead of the slowest.
const WINDOW: u32 = 1;
const NO_EPOCH: u32 = u32::MAX;

/// What a plan is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The process that is performed: that with most calls.
    pub process: Process,
    /// How many processes the trace has.
    pub processes: usize,
    /// How the trace ends.
    pub ending: Ending,
    /// Threads that make calls.
    pub threads: u32,
    /// Calls that are performed.
    pub calls: u64,
    /// Allocations that failed, which are left out.
    pub failed: u64,
    /// Frees of blocks that nobody saw allocated, which are left out.
    pub unknown_frees: u64,
    /// Calls that could not be recorded; at least so many.
    pub lost_calls: u64,
    /// From the first call to the last, when it was recorded.
    pub recorded_nanoseconds: u64,
    /// When the most bytes were live.
    pub peak: Live,
    /// When the recording ended.
    pub end: Live,
    /// What was live at the end of each epoch.
    pub epochs: Vec<Live>,
    /// The size of the replayer's table.
    pub slots: u64,
}

/// Blocks that are in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    /// How many.
    pub blocks: u64,
    /// The sizes that were asked for.
    pub bytes: u64,
}

impl Live {
    // In a trace that somebody made up, the sizes may add up to more than there are numbers.
    fn add(&mut self, size: u64) {
        self.blocks += 1;
        self.bytes = self.bytes.saturating_add(size);
    }

    fn remove(&mut self, size: u64) {
        self.blocks -= 1;
        self.bytes = self.bytes.saturating_sub(size);
    }
}

/// Makes the plan of a trace, in an empty file.
///
/// # Errors
/// When the trace cannot be read, has no call, needs more memory than there is, or the plan cannot be written.
pub fn prepare(trace: &Path, options: &Options, plan: File) -> Result<Plan, ReplayError> {
    let room = Room::now(&plan);
    prepare_in(trace, options, plan, room)
}

fn prepare_in(
    trace: &Path,
    options: &Options,
    plan: File,
    room: Room,
) -> Result<Plan, ReplayError> {
    let mut source = Source::open(trace)?;
    let mut surveys = survey::all(&mut source, room)?;
    let processes = surveys.len();
    let busiest = surveys.iter().max_by_key(|(stream, survey)| {
        let earliest = std::cmp::Reverse(**stream);
        (survey.calls, earliest)
    });
    let stream = *busiest.ok_or(ReplayError::Empty)?.0;
    let mut survey = surveys.remove(&stream).ok_or(ReplayError::Empty)?;
    survey.live.forget();
    drop(surveys);
    if survey.calls == 0 {
        return Err(ReplayError::Empty);
    }
    room.check_plan(plan_bytes(survey.calls, options.speed))?;
    room.check_peak(survey.peak.bytes, options)?;
    let mut planner = Planner::new(survey, options, plan)?;
    let ending = source.read(|record| match record {
        Record::Event(of, event) if of == stream => planner.add(&event),
        _ => Ok(()),
    })?;
    planner.finish(ending, processes)
}

/// How long the plan of so many calls is, at most.
fn plan_bytes(calls: u64, speed: Speed) -> u64 {
    let operations = match speed {
        Speed::Max => calls,
        Speed::Recorded => calls.saturating_mul(2), // a pause before each
    };
    operations.saturating_mul(OPERATION_BYTES as u64)
}

#[cfg(test)]
mod tests;
