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

use super::room::Room;
use super::source::Source;
use super::{Options, ReplayError, Speed, Touch};
use crate::reader::{Ending, Record};
use crate::{AddressHasher, Block, Effect, Event, Function, Process, Stream, Taken};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"reheappl";
const FORMAT: u32 = 1;
const HEADER_BYTES: u64 = 80;
const OPERATION_BYTES: usize = 16;
const OPERATIONS_PER_BLOCK: usize = 1024;
/// No thread is more epochs ahead of the slowest.
const WINDOW: u32 = 1;
const NO_EPOCH: u32 = u32::MAX;
/// Sizes have 48 bits; nobody has so much memory.
const SIZE_MAX: u64 = (1 << 48) - 1;
/// A thread keeps so many empty slots for itself.
const OWN_SLOTS_MAX: usize = 1024;
/// Shorter pauses than this are not waited for: looking at the clock takes a part of it.
const PAUSE_NANOSECONDS_MIN: u64 = 2000;

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

type Map<K, V> = HashMap<K, V, BuildHasherDefault<AddressHasher>>;

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
    let mut surveys = survey_all(&mut source, room)?;
    let processes = surveys.len();
    let busiest = surveys.iter().max_by_key(|(stream, survey)| {
        let earliest = std::cmp::Reverse(**stream);
        (survey.calls, earliest)
    });
    let stream = *busiest.ok_or(ReplayError::Empty)?.0;
    let mut survey = surveys.remove(&stream).ok_or(ReplayError::Empty)?;
    survey.live = Map::default();
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

/// What has to be known of a process before its plan can be made.
#[derive(Debug, Default)]
struct Survey {
    process: Process,
    /// By event: whether another thread takes the block that it makes.
    is_shared: Vec<u64>,
    events: u64,
    calls: u64,
    live: Map<Block, Allocated>,
    now: Live,
    peak: Live,
    /// The event after which the most bytes are live.
    peak_at: u64,
    first_nanoseconds: Option<u64>,
    last_nanoseconds: u64,
    lost_calls: u64,
}

/// A block that is live.
#[derive(Debug, Clone, Copy)]
struct Allocated {
    event: u64,
    size: u64,
}

/// How long the plan of so many calls is, at most.
fn plan_bytes(calls: u64, speed: Speed) -> u64 {
    let operations = match speed {
        Speed::Max => calls,
        Speed::Recorded => calls.saturating_mul(2), // a pause before each
    };
    operations.saturating_mul(OPERATION_BYTES as u64)
}

fn survey_all(source: &mut Source, room: Room) -> Result<BTreeMap<Stream, Survey>, ReplayError> {
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
                    live -= std::mem::take(&mut survey.live).len();
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
            && let Some(allocated) = self.live.remove(&block)
        {
            self.now.remove(allocated.size);
            if block.thread != event.thread {
                let word = &mut self.is_shared[(allocated.event / 64) as usize];
                *word |= 1 << (allocated.event % 64);
            }
        }
        if let Some(block) = event.made {
            self.make(block, index, event.size.min(SIZE_MAX));
        }
    }

    fn make(&mut self, block: Block, event: u64, size: u64) {
        let allocated = Allocated { event, size };
        if let Some(lost) = self.live.insert(block, allocated) {
            self.now.remove(lost.size);
        }
        self.now.add(size);
        if self.now.bytes > self.peak.bytes {
            self.peak = self.now;
            self.peak_at = event;
        }
    }

    fn is_shared(&self, event: u64) -> bool {
        let word = self.is_shared.get((event / 64) as usize);
        word.is_some_and(|word| word >> (event % 64) & 1 == 1)
    }
}

/// The block that an event takes from the program; a realloc that failed takes none.
fn taken_by(event: &Event) -> Option<Block> {
    let failed = event.function.effect() == Effect::Reallocates && event.made.is_none();
    match event.taken {
        Taken::Block(block) if !failed => Some(block),
        _ => None,
    }
}

/// What the replayer can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Code {
    Malloc = 0,
    Calloc = 1,
    Aligned = 2,
    AlignedZeroed = 3,
    Realloc = 4,
    ReallocAligned = 5,
    Free = 6,
    FreeNull = 7,
    Start = 8,
    Epoch = 9,
    Look = 10,
    Until = 11,
}

const SHARED: u64 = 1;
const OF_ANOTHER: u64 = 2;
const KNOWN: u64 = 4;

/// The least alignment that `posix_memalign` knows, as a logarithm.
const ALIGNMENT_LOG_MIN: u8 = 3;
const PAGE_LOG: u8 = 12;

/// The operation for an event, and the logarithm of its alignment; `None` if there is nothing to do.
fn call_of(event: &Event) -> Option<(Code, u8)> {
    use Function as F;
    let makes = event.made.is_some();
    let log = alignment_log(event.alignment);
    let aligned = |aligned, plain| match event.alignment {
        0 | 1 => (plain, 0),
        _ => (aligned, log),
    };
    match event.function.effect() {
        Effect::Allocates if !makes => None,
        Effect::Allocates => Some(match event.function {
            F::Malloc => (Code::Malloc, 0),
            F::Calloc => (Code::Calloc, 0),
            F::Valloc | F::Pvalloc => (Code::Aligned, PAGE_LOG),
            F::AllocateAlignedZeroed => aligned(Code::AlignedZeroed, Code::Calloc),
            _ => aligned(Code::Aligned, Code::Malloc),
        }),
        Effect::Reallocates if !makes => None,
        Effect::Reallocates => Some(match (event.taken, event.function) {
            // Of a block that nobody saw allocated, nothing is there that could grow.
            (Taken::Block(_) | Taken::Null, F::ReallocateAligned) => {
                aligned(Code::ReallocAligned, Code::Realloc)
            }
            (Taken::Block(_) | Taken::Null, _) => (Code::Realloc, 0),
            (_, F::ReallocateAligned) => aligned(Code::Aligned, Code::Malloc),
            _ => (Code::Malloc, 0),
        }),
        Effect::Frees => match event.taken {
            Taken::Block(_) => Some((Code::Free, 0)),
            Taken::Null => Some((Code::FreeNull, 0)),
            Taken::Nothing | Taken::Unknown => None,
        },
        Effect::Nothing => None,
    }
}

/// Programs may ask for 3; allocators that give it, give 4.
fn alignment_log(alignment: u64) -> u8 {
    let power = alignment.checked_next_power_of_two().unwrap_or(1 << 47);
    (power.trailing_zeros() as u8).clamp(ALIGNMENT_LOG_MIN, 47)
}

/// A step of a thread.
#[derive(Debug, Clone, Copy)]
struct Operation {
    code: Code,
    slot: u32,
    other: u32,
    size: u64,
    flags: u64,
    log: u8,
}

impl Operation {
    fn new(code: Code, slot: u32) -> Self {
        Self {
            code,
            slot,
            other: 0,
            size: 0,
            flags: 0,
            log: 0,
        }
    }

    fn to_bytes(self) -> [u8; OPERATION_BYTES] {
        let size = self.size.min(SIZE_MAX);
        let code = u64::from(self.code as u8);
        let packed = size | code << 48 | self.flags << 52 | u64::from(self.log) << 56;
        let mut bytes = [0; OPERATION_BYTES];
        bytes[..4].copy_from_slice(&self.slot.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.other.to_le_bytes());
        bytes[8..].copy_from_slice(&packed.to_le_bytes());
        bytes
    }
}

/// A thread of the plan.
#[derive(Debug, Default)]
struct Thread {
    operations: u64,
    /// Those that are not in the file yet.
    waiting: Vec<u8>,
    /// Where the others are.
    blocks: Vec<u64>,
    epoch: Option<u32>,
    /// Slots that it emptied, the latest last.
    slots: VecDeque<u32>,
    waited_until: u64,
}

/// A block of the program while it is live.
#[derive(Debug, Clone, Copy)]
struct Place {
    slot: u32,
    size: u64,
    /// Another thread takes it.
    is_shared: bool,
}

struct Planner {
    survey: Survey,
    options: Options,
    output: BufWriter<File>,
    written: u64,
    /// Places in `threads`, by number in the trace.
    numbers: HashMap<u32, u32>,
    threads: Vec<Thread>,
    places: Map<Block, Place>,
    slots: u32,
    /// Slots that were emptied in these epochs.
    emptied: VecDeque<(u32, u32)>,
    /// Slots that any thread may use.
    free: Vec<u32>,
    event: u64,
    last_thread: u32,
    epoch: Epoch,
    epochs: Vec<Live>,
    /// By epoch, how many threads take part.
    participants: Vec<u32>,
    now: Live,
    failed: u64,
    unknown_frees: u64,
}

/// The epoch that is being planned.
#[derive(Debug, Default)]
struct Epoch {
    number: u32,
    calls: u64,
    bytes: u64,
}

impl Planner {
    fn new(survey: Survey, options: &Options, file: File) -> Result<Self, ReplayError> {
        let mut planner = Self {
            survey,
            options: *options,
            output: BufWriter::new(file),
            written: 0,
            numbers: HashMap::new(),
            threads: Vec::new(),
            places: Map::default(),
            slots: 0,
            emptied: VecDeque::new(),
            free: Vec::new(),
            event: 0,
            last_thread: 0,
            epoch: Epoch::default(),
            epochs: Vec::new(),
            participants: vec![0],
            now: Live::default(),
            failed: 0,
            unknown_frees: 0,
        };
        planner.write(&[0; HEADER_BYTES as usize])?;
        Ok(planner)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ReplayError> {
        self.written += bytes.len() as u64;
        self.output.write_all(bytes).map_err(ReplayError::Write)
    }

    fn add(&mut self, event: &Event) -> Result<(), ReplayError> {
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
        if let Some(place) = taken {
            // Not before: a block must not go from its slot into the same one.
            self.empty(thread, place);
        }
        self.put(thread, operation)?;
        if index == self.survey.peak_at {
            self.put(thread, Operation::new(Code::Look, 0))?;
        }
        self.last_thread = thread;
        self.end_call(event)
    }

    fn leave_out(&mut self, event: &Event) {
        match event.function.effect() {
            Effect::Allocates | Effect::Reallocates => self.failed += 1,
            Effect::Frees => self.unknown_frees += 1,
            Effect::Nothing => {
                if let Some(thread) = self.numbers.get(&event.thread) {
                    let slots = std::mem::take(&mut self.threads[*thread as usize].slots);
                    let epoch = self.epoch.number;
                    self.emptied.extend(slots.iter().map(|slot| (epoch, *slot)));
                }
            }
        }
    }

    /// The thread of that number. If this is its first call, the thread that made the last call before it starts it.
    fn thread_for(&mut self, number: u32) -> Result<u32, ReplayError> {
        if let Some(thread) = self.numbers.get(&number) {
            return Ok(*thread);
        }
        let thread = u32::try_from(self.threads.len()).map_err(|_| ReplayError::TooLarge)?;
        self.threads.push(Thread::default());
        self.numbers.insert(number, thread);
        if thread > 0 {
            self.put(self.last_thread, Operation::new(Code::Start, thread))?;
        }
        Ok(thread)
    }

    /// Brings the thread into this epoch, and to the time of the call if that matters.
    fn begin_call(&mut self, thread: u32, nanoseconds: u64) -> Result<(), ReplayError> {
        let number = self.epoch.number;
        let before = self.threads[thread as usize].epoch.replace(number);
        if before != Some(number) {
            let mut operation = Operation::new(Code::Epoch, before.unwrap_or(NO_EPOCH));
            operation.other = number;
            self.participants[number as usize] += 1;
            self.put(thread, operation)?;
        }
        if self.options.speed == Speed::Recorded {
            let first = self.survey.first_nanoseconds.unwrap_or(0);
            let time = nanoseconds.saturating_sub(first);
            let waited = &mut self.threads[thread as usize].waited_until;
            if time >= *waited + PAUSE_NANOSECONDS_MIN {
                *waited = time;
                let mut operation = Operation::new(Code::Until, 0);
                operation.size = time;
                self.put(thread, operation)?;
            }
        }
        Ok(())
    }

    /// Takes the block that the event takes out of its slot.
    fn take(&mut self, event: &Event, operation: &mut Operation) -> Option<Place> {
        let place = taken_by(event).and_then(|block| {
            if block.thread != event.thread {
                operation.flags |= OF_ANOTHER;
            }
            self.places.remove(&block)
        });
        let Some(place) = place else {
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
        if place.size > 0 {
            operation.flags |= KNOWN;
        }
        self.now.remove(place.size);
        operation.slot = place.slot;
        operation.other = place.slot;
        Some(place)
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
        let is_shared = self.survey.is_shared(index);
        let slot = if is_shared {
            self.free.pop()
        } else {
            self.threads[thread as usize].slots.pop_back()
        };
        let slot = slot.map_or_else(|| self.another_slot(), Ok)?;
        let size = event.size.min(SIZE_MAX);
        let place = Place {
            slot,
            size,
            is_shared,
        };
        if is_shared {
            operation.flags |= SHARED;
        }
        operation.slot = slot;
        operation.size = size;
        if let Some(lost) = self.places.insert(block, place) {
            self.now.remove(lost.size);
        }
        self.now.add(size);
        Ok(())
    }

    fn empty(&mut self, thread: u32, place: Place) {
        let epoch = self.epoch.number;
        let slots = &mut self.threads[thread as usize].slots;
        if place.is_shared {
            self.emptied.push_back((epoch, place.slot));
            return;
        }
        slots.push_back(place.slot);
        if slots.len() > OWN_SLOTS_MAX {
            let oldest = slots.drain(..OWN_SLOTS_MAX / 2);
            self.emptied.extend(oldest.map(|slot| (epoch, slot)));
        }
    }

    /// A slot that nobody looks into.
    fn another_slot(&mut self) -> Result<u32, ReplayError> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        let slot = self.slots;
        self.slots = slot.checked_add(1).ok_or(ReplayError::TooLarge)?;
        Ok(slot)
    }

    fn put(&mut self, thread: u32, operation: Operation) -> Result<(), ReplayError> {
        let thread = &mut self.threads[thread as usize];
        thread.operations += 1;
        thread.waiting.extend_from_slice(&operation.to_bytes());
        if thread.waiting.len() < OPERATIONS_PER_BLOCK * OPERATION_BYTES {
            return Ok(());
        }
        thread.blocks.push(self.written);
        let block = std::mem::take(&mut thread.waiting);
        self.write(&block)
    }

    /// An epoch ends after some calls or some bytes: by then threads that run side by side have made calls together, and
    /// what is live is close to what was.
    fn end_call(&mut self, event: &Event) -> Result<(), ReplayError> {
        let epoch = &mut self.epoch;
        epoch.calls += 1;
        if event.made.is_some() {
            epoch.bytes = epoch.bytes.saturating_add(event.size.min(SIZE_MAX));
        }
        let threads = u64::from(self.participants[epoch.number as usize]);
        let has_calls = epoch.calls >= 8192.max(1024 * threads);
        let bytes = (256 << 10).max(self.survey.peak.bytes / 32);
        let has_bytes = epoch.bytes >= bytes && epoch.calls >= 64 * threads;
        if has_calls || has_bytes {
            let number = epoch
                .number
                .checked_add(1)
                .filter(|n| *n != NO_EPOCH)
                .ok_or(ReplayError::TooLarge)?;
            self.epochs.push(self.now);
            self.participants.push(0);
            self.epoch = Epoch {
                number,
                ..Epoch::default()
            };
            self.release_slots();
        }
        Ok(())
    }

    /// Whoever is in this epoch knows that those so many before it are over.
    fn release_slots(&mut self) {
        let over = |epoch: u32| epoch + WINDOW < self.epoch.number;
        while let Some((_, slot)) = self.emptied.pop_front_if(|(epoch, _)| over(*epoch)) {
            self.free.push(slot);
        }
    }

    fn finish(mut self, ending: Ending, processes: usize) -> Result<Plan, ReplayError> {
        for thread in 0..self.threads.len() as u32 {
            if let Some(epoch) = self.threads[thread as usize].epoch {
                let mut operation = Operation::new(Code::Epoch, epoch);
                operation.other = NO_EPOCH;
                self.put(thread, operation)?;
            }
        }
        // Nobody is in an epoch that began with the last call.
        self.participants.retain(|threads| *threads > 0);
        if self.epochs.len() < self.participants.len() {
            self.epochs.push(self.now);
        }
        let calls = self.survey.calls;
        self.write_tables(calls).map_err(ReplayError::Write)?;
        let survey = self.survey;
        Ok(Plan {
            process: survey.process,
            processes,
            ending,
            threads: self.threads.len() as u32,
            calls,
            failed: self.failed,
            unknown_frees: self.unknown_frees,
            lost_calls: survey.lost_calls,
            recorded_nanoseconds: survey.last_nanoseconds - survey.first_nanoseconds.unwrap_or(0),
            peak: survey.peak,
            end: self.now,
            epochs: self.epochs,
            slots: u64::from(self.slots),
        })
    }

    fn write_tables(&mut self, calls: u64) -> io::Result<()> {
        for thread in &mut self.threads {
            let block = std::mem::take(&mut thread.waiting);
            if !block.is_empty() {
                thread.blocks.push(self.written);
                self.written += block.len() as u64;
                self.output.write_all(&block)?;
            }
        }
        let epochs_at = self.written;
        for participants in &self.participants {
            self.output.write_all(&participants.to_le_bytes())?;
        }
        let epochs = self.participants.len() as u64;
        let padding = epochs * 4 % 8;
        self.output.write_all(&[0; 8][..padding as usize])?;
        let threads_at = epochs_at + epochs * 4 + padding;
        let mut first_block = 0u64;
        for thread in &self.threads {
            self.output.write_all(&thread.operations.to_le_bytes())?;
            self.output.write_all(&first_block.to_le_bytes())?;
            first_block += thread.blocks.len() as u64;
        }
        for offset in self.threads.iter().flat_map(|thread| &thread.blocks) {
            self.output.write_all(&offset.to_le_bytes())?;
        }
        let blocks_at = threads_at + self.threads.len() as u64 * 16;
        let header = self.header(calls, [epochs_at, threads_at, blocks_at]);
        self.output.seek(SeekFrom::Start(0))?;
        self.output.write_all(&header)?;
        self.output.flush()
    }

    fn header(&self, calls: u64, [epochs_at, threads_at, blocks_at]: [u64; 3]) -> Vec<u8> {
        let touch = match self.options.touch {
            Touch::None => 0u32,
            Touch::Ends => 1,
            Touch::Pages => 2,
            Touch::All => 3,
        };
        let mut header = MAGIC.to_vec();
        for number in [FORMAT, touch, self.threads.len() as u32, WINDOW] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        let numbers = [
            u64::from(self.slots),
            self.participants.len() as u64,
            calls,
            epochs_at,
            threads_at,
            blocks_at,
            OPERATIONS_PER_BLOCK as u64,
        ];
        for number in numbers {
            header.extend_from_slice(&number.to_le_bytes());
        }
        assert_eq!(
            header.len() as u64,
            HEADER_BYTES,
            "the header has a fixed size"
        );
        header
    }
}

#[cfg(test)]
mod tests;
