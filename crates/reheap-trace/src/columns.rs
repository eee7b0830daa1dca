//! The events of a chunk: thread by thread, and of each thread its functions, times, sizes and blocks apart.
//!
//! A thread repeats itself, and two threads together do not: so each is written for itself, and the reader puts them
//! together by their times. Only what crosses threads needs an order that is certain, and the writer sees to it that a
//! block is taken at a later tick than that of its allocation by another thread. Columns of one kind also compress far
//! better than whole events.
//!
//! | payload | |
//! | --- | --- |
//! | first tick of all | number |
//! | threads | number |
//! | for each | thread, events, first tick less that of all, blocks that it had made before |
//! | for each column | compression (1 byte), length, length as stored, bytes |

use super::format::{folded, put_number, take_number, unfolded};
use super::{Block, Effect, Event, Function, TICK_NANOSECONDS, Taken};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

/// No writer puts more into a chunk.
pub(super) const EVENTS_MAX: usize = 1 << 17;
/// The longest that a column can be: two numbers for each event.
const COLUMN_BYTES_MAX: usize = 20 * EVENTS_MAX;

const COLUMNS: usize = 5;
const OPERATIONS: usize = 0;
const TIMES: usize = 1;
const SIZES: usize = 2;
const BLOCKS: usize = 3;
const ALIGNMENTS: usize = 4;

/// An operation is a function in the lower five bits, and above them how the block is said.
const FUNCTION_BITS: u32 = 5;

/// How a block is said, and whether the call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum How {
    /// There is none: a null pointer, or an allocation.
    Null = 0,
    Unknown = 1,
    /// By how many blocks of the same thread are newer, and it.
    FromNewest = 2,
    /// By its distance from the one that was taken last.
    FromLast = 3,
    /// Another thread's: the thread, and the distance from the last that was taken from it.
    Foreign = 4,
    /// As `Null`, and the call failed.
    FailedNull = 5,
    /// As `FromNewest`, and the call failed.
    FailedOwn = 6,
    /// As `Foreign`, and the call failed.
    FailedForeign = 7,
}

impl How {
    const ALL: [How; 8] = [
        How::Null,
        How::Unknown,
        How::FromNewest,
        How::FromLast,
        How::Foreign,
        How::FailedNull,
        How::FailedOwn,
        How::FailedForeign,
    ];

    fn failed(self) -> bool {
        self as u8 >= How::FailedNull as u8
    }
}

/// What is known of a thread while its part of a chunk is written or read.
#[derive(Debug)]
struct Context {
    tick: u64,
    /// Blocks that it made.
    made: u64,
    /// The block of its own that it took last.
    last: u64,
    /// The block that it took last of each other thread.
    last_of_others: BTreeMap<u32, u64>,
}

impl Context {
    fn new(tick: u64, made: u64) -> Self {
        Self {
            tick,
            made,
            last: made,
            last_of_others: BTreeMap::new(),
        }
    }

    fn last_of(&mut self, thread: u32) -> &mut u64 {
        self.last_of_others.entry(thread).or_default()
    }
}

/// One thread's part of a chunk that is being written.
#[derive(Debug)]
pub(super) struct Lane {
    thread: u32,
    events: u64,
    first_tick: u64,
    made_before: u64,
    context: Context,
    columns: [Vec<u8>; COLUMNS],
}

/// What a lane needs to know of an event. Its tick is not before that of the event before.
pub(super) struct Call {
    pub(super) tick: u64,
    pub(super) function: Function,
    pub(super) size: u64,
    pub(super) alignment: u64,
    pub(super) taken: Taken,
    pub(super) failed: bool,
}

impl Lane {
    pub(super) fn new(thread: u32, first_tick: u64, made_before: u64) -> Self {
        Self {
            thread,
            events: 0,
            first_tick,
            made_before,
            context: Context::new(first_tick, made_before),
            columns: Default::default(),
        }
    }

    pub(super) fn put(&mut self, call: &Call) {
        self.events += 1;
        let since = call.tick - self.context.tick;
        put_number(&mut self.columns[TIMES], since);
        self.context.tick = call.tick;
        let how = self.put_taken(call);
        let operation = call.function as u8 | (how as u8) << FUNCTION_BITS;
        self.columns[OPERATIONS].push(operation);
        if has_size(call.function) {
            put_number(&mut self.columns[SIZES], call.size);
        }
        if call.function.is_aligned() {
            put_number(&mut self.columns[ALIGNMENTS], call.alignment);
        }
        if makes(call.function) && !call.failed {
            self.context.made += 1;
        }
    }

    fn put_taken(&mut self, call: &Call) -> How {
        let block = match call.taken {
            Taken::Block(block) => block,
            _ if call.failed => return How::FailedNull,
            Taken::Unknown => return How::Unknown,
            Taken::Nothing | Taken::Null => return How::Null,
        };
        let blocks = &mut self.columns[BLOCKS];
        if block.thread != self.thread {
            let last = self.context.last_of(block.thread);
            put_number(blocks, u64::from(block.thread));
            put_number(blocks, folded(*last, block.number));
            *last = block.number;
            return if !call.failed {
                How::Foreign
            } else {
                How::FailedForeign
            };
        }
        let from_newest = self.context.made - 1 - block.number;
        let from_last = folded(self.context.last, block.number);
        self.context.last = block.number;
        if call.failed {
            put_number(blocks, from_newest);
            How::FailedOwn
        } else if length(from_last) < length(from_newest) {
            put_number(blocks, from_last);
            How::FromLast
        } else {
            put_number(blocks, from_newest);
            How::FromNewest
        }
    }
}

/// The bytes of a number.
fn length(number: u64) -> u32 {
    (64 - (number | 1).leading_zeros()).div_ceil(7)
}

fn has_size(function: Function) -> bool {
    makes(function) || function == Function::FreeSized
}

fn makes(function: Function) -> bool {
    matches!(function.effect(), Effect::Allocates | Effect::Reallocates)
}

/// The payload of a chunk with these lanes, of which none is empty.
pub(super) fn encode(lanes: &[Lane]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let base = lanes.iter().map(|lane| lane.first_tick).min().unwrap_or(0);
    put_number(&mut bytes, base);
    put_number(&mut bytes, lanes.len() as u64);
    for lane in lanes {
        put_number(&mut bytes, u64::from(lane.thread));
        put_number(&mut bytes, lane.events);
        put_number(&mut bytes, lane.first_tick - base);
        put_number(&mut bytes, lane.made_before);
    }
    let mut column = Vec::new();
    for index in 0..COLUMNS {
        column.clear();
        for lane in lanes {
            column.extend_from_slice(&lane.columns[index]);
        }
        put_column(&mut bytes, &column);
    }
    bytes
}

const STORED: u8 = 0;
const DEFLATED: u8 = 1;

fn put_column(bytes: &mut Vec<u8>, column: &[u8]) {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(column);
    let deflated = written
        .and_then(|()| encoder.finish())
        .expect("memory can be written");
    let (method, stored) = if deflated.len() < column.len() {
        (DEFLATED, deflated.as_slice())
    } else {
        (STORED, column)
    };
    bytes.push(method);
    put_number(bytes, column.len() as u64);
    put_number(bytes, stored.len() as u64);
    bytes.extend_from_slice(stored);
}

fn take_column(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let (&method, rest) = bytes.split_first()?;
    *bytes = rest;
    let length = usize::try_from(take_number(bytes)?).ok()?;
    let stored = usize::try_from(take_number(bytes)?).ok()?;
    if length > COLUMN_BYTES_MAX {
        return None;
    }
    let (stored, rest) = bytes.split_at_checked(stored)?;
    *bytes = rest;
    let column = match method {
        STORED => stored.to_vec(),
        DEFLATED => {
            let mut column = Vec::new();
            let mut decoder = DeflateDecoder::new(stored).take(length as u64 + 1);
            decoder.read_to_end(&mut column).ok()?;
            column
        }
        _ => return None,
    };
    (column.len() == length).then_some(column)
}

/// The head of a lane.
struct Head {
    thread: u32,
    events: u64,
    first_tick: u64,
    made_before: u64,
}

/// The events of a payload, in the order of their times; `None` if it is not one.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<Event>> {
    let base = take_number(&mut bytes)?;
    let lanes = take_number(&mut bytes)?;
    let mut heads = Vec::new();
    let mut events = 0u64;
    for _ in 0..lanes {
        let head = Head {
            thread: u32::try_from(take_number(&mut bytes)?).ok()?,
            events: take_number(&mut bytes)?,
            first_tick: base.checked_add(take_number(&mut bytes)?)?,
            made_before: take_number(&mut bytes)?,
        };
        events = events.checked_add(head.events)?;
        if head.events == 0 || events > EVENTS_MAX as u64 {
            return None;
        }
        heads.push(head);
    }
    let mut columns: [Vec<u8>; COLUMNS] = Default::default();
    for column in &mut columns {
        *column = take_column(&mut bytes)?;
    }
    let mut rest = columns.each_ref().map(Vec::as_slice);
    if !bytes.is_empty() || rest[OPERATIONS].len() as u64 != events {
        return None;
    }
    let mut decoded = Vec::with_capacity(rest[OPERATIONS].len());
    for head in &heads {
        let mut context = Context::new(head.first_tick, head.made_before);
        for _ in 0..head.events {
            decoded.push(take_event(head.thread, &mut context, &mut rest)?);
        }
    }
    // Threads that did something in the same tick follow one another as they were written.
    decoded.sort_by_key(|event| event.nanoseconds);
    rest.iter()
        .all(|column| column.is_empty())
        .then_some(decoded)
}

fn take_event(thread: u32, context: &mut Context, rest: &mut [&[u8]; COLUMNS]) -> Option<Event> {
    let (&operation, operations) = rest[OPERATIONS].split_first()?;
    rest[OPERATIONS] = operations;
    let number = u32::from(operation) & ((1 << FUNCTION_BITS) - 1);
    let function = Function::of_number(number)?;
    let how = How::ALL[usize::from(operation >> FUNCTION_BITS)];
    let tick = context.tick.checked_add(take_number(&mut rest[TIMES])?)?;
    context.tick = tick;
    let taken = take_taken(thread, function, how, context, &mut rest[BLOCKS])?;
    let size = if has_size(function) {
        take_number(&mut rest[SIZES])?
    } else {
        0
    };
    let alignment = if function.is_aligned() {
        take_number(&mut rest[ALIGNMENTS])?
    } else {
        0
    };
    let made = (makes(function) && !how.failed()).then_some(Block {
        thread,
        number: context.made,
    });
    context.made = context.made.checked_add(u64::from(made.is_some()))?;
    Some(Event {
        nanoseconds: tick.checked_mul(TICK_NANOSECONDS)?,
        thread,
        function,
        size,
        alignment,
        taken,
        made,
    })
}

fn take_taken(
    thread: u32,
    function: Function,
    how: How,
    context: &mut Context,
    blocks: &mut &[u8],
) -> Option<Taken> {
    let takes = matches!(function.effect(), Effect::Frees | Effect::Reallocates);
    if how.failed() && !makes(function) {
        return None;
    }
    let (thread, number) = match how {
        How::Null | How::FailedNull if !takes => return Some(Taken::Nothing),
        _ if !takes => return None,
        How::Null | How::FailedNull => return Some(Taken::Null),
        How::Unknown => return Some(Taken::Unknown),
        How::FromNewest | How::FailedOwn => {
            let newer = take_number(blocks)?.checked_add(1)?;
            (thread, context.made.checked_sub(newer)?)
        }
        How::FromLast => (thread, unfolded(context.last, take_number(blocks)?)),
        How::Foreign | How::FailedForeign => {
            let other = u32::try_from(take_number(blocks)?).ok()?;
            let last = context.last_of(other);
            *last = unfolded(*last, take_number(blocks)?);
            return Some(Taken::Block(Block {
                thread: other,
                number: *last,
            }));
        }
    };
    context.last = number;
    Some(Taken::Block(Block { thread, number }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If each was searched for among all others, this would take most of a minute.
    #[test]
    fn a_thread_may_free_one_block_of_each_of_many_threads() {
        let mut lane = Lane::new(0, 0, 0);
        let blocks = (1..=EVENTS_MAX as u32).map(|thread| Block { thread, number: 7 });
        for block in blocks.clone() {
            lane.put(&Call {
                tick: 0,
                function: Function::Free,
                size: 0,
                alignment: 0,
                taken: Taken::Block(block),
                failed: false,
            });
        }
        let events = decode(&encode(&[lane])).unwrap();
        let taken = events.into_iter().map(|event| event.taken);
        assert!(taken.eq(blocks.map(Taken::Block)));
    }
}
