//! The steps of the replayer, and which of them an event becomes.

use crate::{Block, Effect, Event, Function, Taken};

pub(super) const OPERATION_BYTES: usize = 16;
/// Sizes have 48 bits; nobody has so much memory.
pub(super) const SIZE_MAX: u64 = (1 << 48) - 1;

/// The block that an event takes from the program; a realloc that failed takes none.
pub(super) fn taken_by(event: &Event) -> Option<Block> {
    let failed = event.function.effect() == Effect::Reallocates && event.made.is_none();
    match event.taken {
        Taken::Block(block) if !failed => Some(block),
        _ => None,
    }
}

/// What the replayer can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Code {
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

pub(super) const SHARED: u64 = 1;
pub(super) const OF_ANOTHER: u64 = 2;
pub(super) const KNOWN: u64 = 4;

/// The least alignment that `posix_memalign` knows, as a logarithm.
const ALIGNMENT_LOG_MIN: u8 = 3;
const PAGE_LOG: u8 = 12;

/// The operation for an event, and the logarithm of its alignment; `None` if there is nothing to do.
pub(super) fn call_of(event: &Event) -> Option<(Code, u8)> {
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
pub(super) struct Operation {
    pub(super) code: Code,
    pub(super) slot: u32,
    pub(super) other: u32,
    pub(super) size: u64,
    pub(super) flags: u64,
    pub(super) log: u8,
}

impl Operation {
    pub(super) fn new(code: Code, slot: u32) -> Self {
        Self {
            code,
            slot,
            other: 0,
            size: 0,
            flags: 0,
            log: 0,
        }
    }

    pub(super) fn to_bytes(self) -> [u8; OPERATION_BYTES] {
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
