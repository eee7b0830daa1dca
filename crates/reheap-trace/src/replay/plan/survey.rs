//! What has to be known of a process before its plan can be made: a first reading of the trace.

use super::live::LiveBlocks;
use super::operation::{SIZE_MAX, call_of, taken_by};
use super::{Live, ReplayError, Room, Source};
use crate::reader::Record;
use crate::{Event, Process, Stream};
use std::collections::BTreeMap;

/// What has to be known of a process.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) process: Process,
    /// By event: whether another thread takes the block that it makes.
    is_shared: Vec<u64>,
    events: u64,
    pub(super) calls: u64,
    /// Each block with the event that made it.
    pub(super) live: LiveBlocks<u64>,
    pub(super) peak: Live,
    /// The event after which the most bytes are live.
    pub(super) peak_at: u64,
    pub(super) first_nanoseconds: Option<u64>,
    last_nanoseconds: u64,
    pub(super) lost_calls: u64,
}

/// The survey of each process.
pub(super) fn all(
    source: &mut Source,
    room: Room,
) -> Result<BTreeMap<Stream, Survey>, ReplayError> {
    let mut surveys: BTreeMap<Stream, Survey> = BTreeMap::new();
    // Of all processes.
    let mut live = 0;
    source.read(|record| {
        match record {
            Record::Process(stream, process) => {
                surveys.entry(stream).or_default().process = process;
            }
            Record::Event(stream, event) => {
                let survey = surveys.entry(stream).or_default();
                live -= survey.live.len();
                survey.add(&event);
                live += survey.live.len();
                room.check_blocks(live as u64)?;
            }
            Record::End(stream, totals) => {
                if let Some(survey) = surveys.get_mut(&stream) {
                    survey.lost_calls = totals.lost_calls;
                    // Other processes may need the memory.
                    live -= survey.live.forget();
                }
            }
        }
        Ok(())
    })?;
    Ok(surveys)
}

impl Survey {
    fn add(&mut self, event: &Event) {
        let index = self.events;
        self.events += 1;
        if self.events > self.is_shared.len() as u64 * 64 {
            self.is_shared.push(0);
        }
        self.first_nanoseconds.get_or_insert(event.nanoseconds);
        self.last_nanoseconds = event.nanoseconds;
        if call_of(event).is_some() {
            self.calls += 1;
        }
        if let Some(block) = taken_by(event)
            && let Some((_, made_by)) = self.live.remove(&block)
            && block.thread != event.thread
        {
            self.is_shared[(made_by / 64) as usize] |= 1 << (made_by % 64);
        }
        if let Some(block) = event.made {
            self.live.insert(block, event.size.min(SIZE_MAX), index);
            if self.live.now().bytes > self.peak.bytes {
                self.peak = self.live.now();
                self.peak_at = index;
            }
        }
    }

    /// Whether another thread takes the block that an event makes.
    pub(super) fn is_shared(&self, event: u64) -> bool {
        let word = self.is_shared.get((event / 64) as usize);
        word.is_some_and(|word| word >> (event % 64) & 1 == 1)
    }

    /// From the first call to the last.
    pub(super) fn nanoseconds(&self) -> u64 {
        self.last_nanoseconds - self.first_nanoseconds.unwrap_or(0)
    }
}
