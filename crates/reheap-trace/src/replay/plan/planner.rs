//! Makes operations of events, in a second reading of the trace.

use super::epochs::Epochs;
use super::file::{Header, PlanFile};
use super::live::LiveBlocks;
use super::operation::{Code, KNOWN, OF_ANOTHER, Operation, SHARED, SIZE_MAX, call_of, taken_by};
use super::slots::{Slot, Slots};
use super::survey::Survey;
use super::{NO_EPOCH, Options, Plan, ReplayError, Speed};
use crate::reader::Ending;
use crate::{Block, Effect, Event};
use std::collections::HashMap;
use std::fs::File;

/// Shorter pauses than this are not waited for: looking at the clock takes a part of it.
const PAUSE_NANOSECONDS_MIN: u64 = 2000;

/// Makes the plan of a process.
pub(super) struct Planner {
    survey: Survey,
    options: Options,
    file: PlanFile,
    threads: Threads,
    live: LiveBlocks<Slot>,
    slots: Slots,
    epochs: Epochs,
    event: u64,
    left_out: LeftOut,
}

/// The threads of the plan.
#[derive(Debug, Default)]
struct Threads {
    /// Places in `known`, by number in the trace.
    numbers: HashMap<u32, u32>,
    known: Vec<Thread>,
    /// The one that made the last call.
    last: u32,
}

/// A thread of the plan.
#[derive(Debug, Default)]
struct Thread {
    epoch: Option<u32>,
    waited_until: u64,
}

/// Calls that are not performed.
#[derive(Debug, Default)]
struct LeftOut {
    failed: u64,
    unknown_frees: u64,
}

impl Planner {
    pub(super) fn new(survey: Survey, options: &Options, file: File) -> Result<Self, ReplayError> {
        Ok(Self {
            epochs: Epochs::new(survey.peak),
            survey,
            options: *options,
            file: PlanFile::begin(file)?,
            threads: Threads::default(),
            live: LiveBlocks::default(),
            slots: Slots::default(),
            event: 0,
            left_out: LeftOut::default(),
        })
    }

    /// Plans what an event needs.
    pub(super) fn add(&mut self, event: &Event) -> Result<(), ReplayError> {
        let index = self.event;
        self.event += 1;
        let Some((code, log)) = call_of(event) else {
            self.leave_out(event);
            return Ok(());
        };
        let thread = self.thread_for(event.thread)?;
        self.begin_call(thread, event.nanoseconds)?;
        let mut operation = Operation::new(code, 0);
        operation.log = log;
        let taken = self.take(event, &mut operation);
        if let Some(block) = event.made {
            self.make(thread, block, index, event, &mut operation)?;
        }
        if let Some(slot) = taken {
            // Not before: a block must not go from its slot into the same one.
            self.slots.empty(thread, slot, self.epochs.number());
        }
        self.file.put(thread, operation)?;
        if index == self.survey.peak_at {
            self.file.put(thread, Operation::new(Code::Look, 0))?;
        }
        self.threads.last = thread;
        self.end_call(event)
    }

    fn leave_out(&mut self, event: &Event) {
        match event.function.effect() {
            Effect::Allocates | Effect::Reallocates => self.left_out.failed += 1,
            Effect::Frees => self.left_out.unknown_frees += 1,
            Effect::Nothing => {
                if let Some(thread) = self.threads.numbers.get(&event.thread) {
                    self.slots.end_thread(*thread, self.epochs.number());
                }
            }
        }
    }

    /// The thread of that number. If this is its first call, the thread that made the last call before it starts it.
    fn thread_for(&mut self, number: u32) -> Result<u32, ReplayError> {
        if let Some(thread) = self.threads.numbers.get(&number) {
            return Ok(*thread);
        }
        let thread = self.file.add_thread()?;
        self.slots.add_thread();
        self.threads.known.push(Thread::default());
        self.threads.numbers.insert(number, thread);
        if thread > 0 {
            let start = Operation::new(Code::Start, thread);
            self.file.put(self.threads.last, start)?;
        }
        Ok(thread)
    }

    /// Brings the thread into this epoch, and to the time of the call if that matters.
    fn begin_call(&mut self, thread: u32, nanoseconds: u64) -> Result<(), ReplayError> {
        let number = self.epochs.number();
        let known = &mut self.threads.known[thread as usize];
        let before = known.epoch.replace(number);
        if before != Some(number) {
            let mut operation = Operation::new(Code::Epoch, before.unwrap_or(NO_EPOCH));
            operation.other = number;
            self.epochs.join();
            self.file.put(thread, operation)?;
        }
        if self.options.speed == Speed::Recorded {
            let first = self.survey.first_nanoseconds.unwrap_or(0);
            let time = nanoseconds.saturating_sub(first);
            if time >= known.waited_until + PAUSE_NANOSECONDS_MIN {
                known.waited_until = time;
                let mut operation = Operation::new(Code::Until, 0);
                operation.size = time;
                self.file.put(thread, operation)?;
            }
        }
        Ok(())
    }

    /// Takes the block that the event takes out of its slot.
    fn take(&mut self, event: &Event, operation: &mut Operation) -> Option<Slot> {
        let taken = taken_by(event).and_then(|block| {
            if block.thread != event.thread {
                operation.flags |= OF_ANOTHER;
            }
            self.live.remove(&block)
        });
        let Some((size, slot)) = taken else {
            // In a trace that somebody changed, a block may be taken twice.
            operation.flags = 0;
            operation.code = match operation.code {
                Code::Free => Code::FreeNull,
                Code::Realloc => Code::Malloc,
                Code::ReallocAligned => Code::Aligned,
                code => code,
            };
            return None;
        };
        if size > 0 {
            operation.flags |= KNOWN;
        }
        operation.slot = slot.number;
        operation.other = slot.number;
        Some(slot)
    }

    /// Gives the block that the event makes a slot.
    fn make(
        &mut self,
        thread: u32,
        block: Block,
        index: u64,
        event: &Event,
        operation: &mut Operation,
    ) -> Result<(), ReplayError> {
        let slot = self.slots.fill(thread, self.survey.is_shared(index))?;
        let size = event.size.min(SIZE_MAX);
        if slot.is_shared {
            operation.flags |= SHARED;
        }
        operation.slot = slot.number;
        operation.size = size;
        self.live.insert(block, size, slot);
        Ok(())
    }

    /// Ends the epoch with this call, if it is time.
    fn end_call(&mut self, event: &Event) -> Result<(), ReplayError> {
        let allocated = event.made.map_or(0, |_| event.size.min(SIZE_MAX));
        self.epochs.count(allocated);
        if self.epochs.is_over() {
            self.epochs.begin_next(self.live.now())?;
            self.slots.release(self.epochs.number());
        }
        Ok(())
    }

    /// Ends the threads, and writes what the replayer needs besides their operations.
    pub(super) fn finish(mut self, ending: Ending, processes: usize) -> Result<Plan, ReplayError> {
        for (thread, known) in (0..).zip(&self.threads.known) {
            if let Some(epoch) = known.epoch {
                let mut operation = Operation::new(Code::Epoch, epoch);
                operation.other = NO_EPOCH;
                self.file.put(thread, operation)?;
            }
        }
        let (survey, end) = (self.survey, self.live.now());
        let (epochs, participants) = self.epochs.finish(end);
        let header = Header {
            touch: self.options.touch,
            slots: self.slots.count(),
            calls: survey.calls,
            participants: &participants,
        };
        let threads = self.file.threads();
        self.file.finish(&header).map_err(ReplayError::Write)?;
        Ok(Plan {
            recorded_nanoseconds: survey.nanoseconds(),
            process: survey.process,
            processes,
            ending,
            threads,
            calls: survey.calls,
            failed: self.left_out.failed,
            unknown_frees: self.left_out.unknown_frees,
            lost_calls: survey.lost_calls,
            peak: survey.peak,
            end,
            epochs,
            slots: u64::from(self.slots.count()),
        })
    }
}
