//! Makes a trace of what the hooks saw.
//!
//! The calls of each thread come in batches, in any interleaving. [`Writer::advance`] says until when all have come. A
//! recorder gets that without any guess: it reads the clock, then empties all buffers, then advances to the time that it
//! read. What it missed because a thread was held up between its look at the clock and its buffer comes with the next
//! batch, and nobody can have used the block meanwhile: a free is in the buffer before the allocator gets the block, and
//! an allocation before the program does. Such events only get a slightly later time.

use super::columns::{self, Call, EVENTS_MAX, Lane};
use super::format::{Chunk, Kind, file_header};
use super::{
    AddressHasher, Block, Effect, Function, INTO_REALLOC, Process, RawEvent, Stream,
    TICK_NANOSECONDS, Taken, Totals, TraceError,
};
use serde::Serialize;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io::Write;

/// A chunk is written when it has so many events, if nobody asks for it before.
const EVENTS_PER_CHUNK: usize = EVENTS_MAX / 2;

/// Writes a trace.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    recordings: Vec<Recording>,
    totals: Totals,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// A trace without any process.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn new(mut output: W) -> Result<Self, TraceError> {
        let header = file_header();
        output.write_all(&header)?;
        Ok(Self {
            output,
            recordings: Vec::new(),
            totals: Totals::default(),
            bytes: header.len() as u64,
        })
    }

    /// Begins the recording of a process.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn begin_process(&mut self, process: &Process) -> Result<Stream, TraceError> {
        let stream = self.recordings.len() as u32;
        self.recordings.push(Recording::default());
        self.write_json(Kind::Process, stream, process)?;
        Ok(Stream(stream))
    }

    /// Takes calls of one thread, in the order in which it made them. Threads have any numbers; one that comes again
    /// after its [`Function::ThreadEnd`] is another thread.
    ///
    /// # Panics
    /// When this writer did not begin the stream.
    pub fn push(&mut self, stream: Stream, thread: u32, events: &[RawEvent]) {
        let recording = &mut self.recordings[stream.0 as usize];
        let waiting = events.iter().map(|event| (thread, *event));
        recording.waiting.extend(waiting);
    }

    /// Says that all calls until this time were pushed. They go into the file when there are enough for a chunk.
    ///
    /// # Errors
    /// When the output cannot be written.
    ///
    /// # Panics
    /// When this writer did not begin the stream.
    pub fn advance(&mut self, stream: Stream, nanoseconds: u64) -> Result<(), TraceError> {
        let mut ready = self.recordings[stream.0 as usize].ready(nanoseconds);
        // Batches are in order already, so this merges them; it keeps the order of each thread's.
        ready.sort_by_key(|(_, event)| event.nanoseconds);
        for (thread, event) in ready {
            let recording = &mut self.recordings[stream.0 as usize];
            recording.record(thread, &event);
            if recording.events >= EVENTS_PER_CHUNK {
                self.write_events(stream)?;
            }
        }
        Ok(())
    }

    /// Writes what there is, although a chunk could take more: after this, a process that is killed takes none of it
    /// along.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        for stream in 0..self.recordings.len() as u32 {
            self.write_events(Stream(stream))?;
        }
        Ok(self.output.flush()?)
    }

    /// Ends the recording of a process whose hooks could not record `lost_calls`.
    ///
    /// # Errors
    /// When the output cannot be written.
    ///
    /// # Panics
    /// When this writer did not begin the stream.
    pub fn end_process(&mut self, stream: Stream, lost_calls: u64) -> Result<(), TraceError> {
        self.advance(stream, u64::MAX)?;
        self.write_events(stream)?;
        let recording = std::mem::take(&mut self.recordings[stream.0 as usize]);
        let totals = Totals {
            lost_calls,
            ..recording.totals
        };
        self.totals.add(&totals);
        self.write_json(Kind::End, stream.0, &totals)
    }

    /// Says that the recording is whole, and what was written. Processes that were not ended stay without an end.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn finish(mut self) -> Result<(W, Written), TraceError> {
        self.flush()?;
        for recording in &self.recordings {
            self.totals.add(&recording.totals);
        }
        self.write(&Chunk {
            kind: Kind::Finished,
            stream: 0,
            payload: Vec::new(),
        })?;
        self.output.flush()?;
        let written = Written {
            totals: self.totals,
            bytes: self.bytes,
        };
        Ok((self.output, written))
    }

    fn write_events(&mut self, stream: Stream) -> Result<(), TraceError> {
        let lanes = self.recordings[stream.0 as usize].take_lanes();
        if lanes.is_empty() {
            return Ok(());
        }
        self.write(&Chunk {
            kind: Kind::Events,
            stream: stream.0,
            payload: columns::encode(&lanes),
        })
    }

    fn write_json(
        &mut self,
        kind: Kind,
        stream: u32,
        value: &impl Serialize,
    ) -> Result<(), TraceError> {
        let payload = serde_json::to_vec(value).map_err(std::io::Error::from)?;
        self.write(&Chunk {
            kind,
            stream,
            payload,
        })
    }

    fn write(&mut self, chunk: &Chunk) -> Result<(), TraceError> {
        self.bytes += chunk.bytes();
        Ok(self.output.write_all(&chunk.to_bytes())?)
    }
}

/// What a trace has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// All processes together.
    pub totals: Totals,
    /// The size of the file.
    pub bytes: u64,
}

impl Totals {
    /// Adds another process.
    pub fn add(&mut self, other: &Totals) {
        self.calls += other.calls;
        self.unknown_frees += other.unknown_frees;
        self.lost_frees += other.lost_frees;
        self.out_of_order += other.out_of_order;
        // The program could have written anything there.
        self.lost_calls = self.lost_calls.saturating_add(other.lost_calls);
    }
}

/// One process.
#[derive(Debug, Default)]
struct Recording {
    /// Events that other threads' may still have to come before, with their threads.
    waiting: Vec<(u32, RawEvent)>,
    /// The threads of now: the place in `threads`.
    places: HashMap<u32, usize, BuildHasherDefault<AddressHasher>>,
    threads: Vec<Thread>,
    live: HashMap<u64, Live, BuildHasherDefault<AddressHasher>>,
    /// The parts of the next chunk, and how many events are in them.
    lanes: Vec<Lane>,
    events: usize,
    /// No event of the next chunk is before this, nor any that was ready before.
    earliest_tick: u64,
    latest_tick: u64,
    totals: Totals,
}

/// A thread that called something.
#[derive(Debug, Default)]
struct Thread {
    tick: u64,
    made: u64,
    /// Its part of the next chunk.
    lane: Option<usize>,
    /// What went into a `realloc` that has not returned: the address is no longer the block's, or not for sure.
    into_realloc: Option<(u64, Taken, Option<Live>)>,
}

/// A block that is in use.
#[derive(Debug, Clone, Copy)]
struct Live {
    block: Block,
    /// That of its allocation.
    tick: u64,
}

impl Recording {
    /// Takes out what happened before a time.
    fn ready(&mut self, nanoseconds: u64) -> Vec<(u32, RawEvent)> {
        if nanoseconds == u64::MAX {
            return std::mem::take(&mut self.waiting);
        }
        let all = std::mem::take(&mut self.waiting);
        let is_ready = |(_, event): &(u32, RawEvent)| event.nanoseconds < nanoseconds;
        let (ready, waiting) = all.into_iter().partition(is_ready);
        self.waiting = waiting;
        ready
    }

    fn take_lanes(&mut self) -> Vec<Lane> {
        for thread in &mut self.threads {
            thread.lane = None;
        }
        self.events = 0;
        self.earliest_tick = self.latest_tick;
        std::mem::take(&mut self.lanes)
    }

    fn record(&mut self, thread: u32, event: &RawEvent) {
        let threads = &mut self.threads;
        let place = *self.places.entry(thread).or_insert_with(|| {
            threads.push(Thread::default());
            threads.len() - 1
        });
        if event.function == INTO_REALLOC {
            self.begin_realloc(place, event);
            return;
        }
        let Some(function) = Function::of_number(event.function) else {
            self.totals.out_of_order += 1;
            return;
        };
        let tick = self.tick_for(place, event);
        match function.effect() {
            Effect::Allocates => {
                let failed = !self.give(place, tick, event.block);
                self.put(place, call(tick, function, event, Taken::Nothing, failed));
            }
            Effect::Reallocates => self.end_realloc(place, tick, function, event),
            Effect::Frees => {
                let (taken, live) = self.take(event.block);
                if taken == Taken::Unknown {
                    self.totals.unknown_frees += 1;
                }
                let tick = self.after_allocation(place, tick, live);
                self.put(place, call(tick, function, event, taken, false));
            }
            Effect::Nothing => {
                self.put(place, call(tick, function, event, Taken::Nothing, false));
                self.places.remove(&thread);
            }
        }
    }

    /// The tick of an event, not before any that is in an earlier chunk or of the same thread.
    fn tick_for(&mut self, place: usize, event: &RawEvent) -> u64 {
        let tick = event.nanoseconds / TICK_NANOSECONDS;
        let earliest = self.earliest_tick.max(self.threads[place].tick);
        if tick < self.earliest_tick {
            self.totals.out_of_order += 1;
        }
        tick.max(earliest)
    }

    /// Within a tick, a reader knows the order of no two threads; so what another thread allocated is taken in a later
    /// one.
    fn after_allocation(&self, place: usize, tick: u64, live: Option<Live>) -> u64 {
        match live {
            Some(live) if live.block.thread as usize != place => tick.max(live.tick + 1),
            _ => tick,
        }
    }

    fn take(&mut self, address: u64) -> (Taken, Option<Live>) {
        if address == 0 {
            return (Taken::Null, None);
        }
        match self.live.remove(&address) {
            Some(live) => (Taken::Block(live.block), Some(live)),
            None => (Taken::Unknown, None),
        }
    }

    /// The next block of a thread gets its address, unless the allocation failed.
    fn give(&mut self, place: usize, tick: u64, address: u64) -> bool {
        if address == 0 {
            return false;
        }
        if let (Taken::Block(lost), live) = self.take(address) {
            self.totals.lost_frees += 1;
            let tick = self.after_allocation(place, tick, live);
            let event = RawEvent::default();
            let taken = Taken::Block(lost);
            self.put(place, call(tick, Function::LostFree, &event, taken, false));
        }
        let thread = &mut self.threads[place];
        let block = Block {
            thread: place as u32,
            number: thread.made,
        };
        thread.made += 1;
        let tick = tick.max(thread.tick);
        self.live.insert(address, Live { block, tick });
        true
    }

    fn begin_realloc(&mut self, place: usize, event: &RawEvent) {
        let (taken, live) = self.take(event.block);
        self.threads[place].into_realloc = Some((event.block, taken, live));
    }

    fn end_realloc(&mut self, place: usize, tick: u64, function: Function, event: &RawEvent) {
        let (address, taken, live) = match self.threads[place].into_realloc.take() {
            Some(begun) => begun,
            None => (0, Taken::Null, None),
        };
        let tick = self.after_allocation(place, tick, live);
        let is_taken = event.block != 0 || (event.size == 0 && taken != Taken::Null);
        if taken == Taken::Unknown && is_taken {
            self.totals.unknown_frees += 1;
        }
        if event.block != 0 {
            self.put_made(
                place,
                call(tick, function, event, taken, false),
                event.block,
            );
        } else if is_taken {
            let function = Function::ReallocToNothing;
            self.put(place, call(tick, function, event, taken, false));
        } else {
            // It failed: the block is where it was, and in use.
            if let Some(live) = live {
                self.live.entry(address).or_insert(live);
            }
            let taken = match taken {
                Taken::Unknown => Taken::Null,
                taken => taken,
            };
            self.put(place, call(tick, function, event, taken, true));
        }
    }

    fn put_made(&mut self, place: usize, call: Call, address: u64) {
        self.give(place, call.tick, address);
        self.put(place, call);
    }

    fn put(&mut self, place: usize, mut call: Call) {
        let thread = &mut self.threads[place];
        call.tick = call.tick.max(thread.tick);
        thread.tick = call.tick;
        self.latest_tick = self.latest_tick.max(call.tick);
        self.events += 1;
        if !matches!(call.function, Function::LostFree | Function::ThreadEnd) {
            self.totals.calls += 1;
        }
        let makes = !call.failed
            && matches!(
                call.function.effect(),
                Effect::Allocates | Effect::Reallocates
            );
        let made_before = thread.made - u64::from(makes);
        let lanes = &mut self.lanes;
        let lane = *thread.lane.get_or_insert_with(|| {
            lanes.push(Lane::new(place as u32, call.tick, made_before));
            lanes.len() - 1
        });
        lanes[lane].put(&call);
    }
}

fn call(tick: u64, function: Function, event: &RawEvent, taken: Taken, failed: bool) -> Call {
    Call {
        tick,
        function,
        size: event.size,
        alignment: event.alignment,
        taken,
        failed,
    }
}
