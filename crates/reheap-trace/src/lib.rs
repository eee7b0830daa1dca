//! Every call of an allocator's functions, recorded so that it can be performed again.
//!
//! A trace has blocks, not addresses: the n-th block that a thread allocated. So nobody needs the address space of the
//! recorded program, a pattern that repeats is the same bytes each time, and a reader knows for each `free` which call
//! made the block.
//!
//! The file is a sequence of chunks, each with its length and checksum, and each readable without those before it. A
//! program that is killed, or a recorder that is, leaves whole chunks and one cut-off one, which is left out.
//!
//! Times are kept in steps of [`TICK_NANOSECONDS`]. Nobody can wait for less, and finer times would be most of the file.

mod columns;
mod format;
pub mod reader;
pub mod replay;
pub mod ring;
mod sys;
pub mod writer;

pub use sys::shared_memory::SharedMemory;

use serde::{Deserialize, Serialize};
use std::hash::Hasher;
use std::io;

/// Times are multiples of this.
pub const TICK_NANOSECONDS: u64 = 128;

/// The format that this version writes.
pub const FORMAT: u16 = 1;

/// Declares the functions once: their numbers, which `hooks/trace.h` has too, and their names.
macro_rules! functions {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// A function that was called. The numbers are part of the format.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Function {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Function {
            /// All of them.
            pub const ALL: &[Function] = &[$(Function::$variant),*];

            /// As programs call it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Function::$variant => $name,)*
                }
            }
        }
    };
}

functions! {
    /// `malloc`.
    Malloc = 0, "malloc";
    /// `calloc`, and `mi_zalloc`.
    Calloc = 1, "calloc";
    /// `realloc`.
    Realloc = 2, "realloc";
    /// `free`.
    Free = 3, "free";
    /// `aligned_alloc`.
    AlignedAlloc = 4, "aligned_alloc";
    /// `posix_memalign`.
    PosixMemalign = 5, "posix_memalign";
    /// `memalign`.
    Memalign = 6, "memalign";
    /// `valloc`.
    Valloc = 7, "valloc";
    /// `pvalloc`.
    Pvalloc = 8, "pvalloc";
    /// `reallocarray`.
    Reallocarray = 9, "reallocarray";
    /// jemalloc's `mallocx`, and `mi_malloc_aligned`.
    AllocateAligned = 10, "mallocx";
    /// `mallocx` with `MALLOCX_ZERO`, and `mi_zalloc_aligned`.
    AllocateAlignedZeroed = 11, "mallocx zeroed";
    /// jemalloc's `rallocx`, and `mi_realloc_aligned`.
    ReallocateAligned = 12, "rallocx";
    /// jemalloc's `sdallocx`.
    FreeSized = 13, "sdallocx";
    /// jemalloc's `xallocx`, which never moves a block.
    Resize = 14, "xallocx";
    /// A `realloc` to nothing that freed its block.
    ReallocToNothing = 15, "realloc to 0";
    /// No call: the block must have been freed, because its memory was given out again.
    LostFree = 16, "lost free";
    /// No call: the thread ended.
    ThreadEnd = 17, "thread end";
}

/// Of raw events only: a block goes into a `realloc`, whose own event follows when it returned.
pub const INTO_REALLOC: u32 = 18;

impl Function {
    /// The function of that number.
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// What it does.
    pub fn effect(self) -> Effect {
        use Function as F;
        match self {
            F::Malloc | F::Calloc | F::AlignedAlloc | F::PosixMemalign | F::Memalign => {
                Effect::Allocates
            }
            F::Valloc | F::Pvalloc | F::AllocateAligned | F::AllocateAlignedZeroed => {
                Effect::Allocates
            }
            F::Realloc | F::Reallocarray | F::ReallocateAligned | F::Resize => Effect::Reallocates,
            F::Free | F::FreeSized | F::ReallocToNothing | F::LostFree => Effect::Frees,
            F::ThreadEnd => Effect::Nothing,
        }
    }

    /// Whether the caller says an alignment.
    pub fn is_aligned(self) -> bool {
        use Function as F;
        matches!(
            self,
            F::AlignedAlloc
                | F::PosixMemalign
                | F::Memalign
                | F::AllocateAligned
                | F::AllocateAlignedZeroed
                | F::ReallocateAligned
        )
    }
}

/// What a function does to blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It makes a block.
    Allocates,
    /// It makes one of another.
    Reallocates,
    /// It takes one.
    Frees,
    /// None of these.
    Nothing,
}

/// A call as the hooks saw it.
///
/// The time of an allocation was read after the allocator returned, and that of a free before it was called. So for each
/// address the order of times is the order of owners. A `realloc` is both: two events, [`INTO_REALLOC`] before it with
/// the old block, if there is one, and its own one after it with the new block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawEvent {
    /// By a clock that all threads share.
    pub nanoseconds: u64,
    /// The address that the allocator gave or got; 0 for none.
    pub block: u64,
    /// The size that was asked for.
    pub size: u64,
    /// The alignment that was asked for; 0 for none.
    pub alignment: u64,
    /// A [`Function`], or [`INTO_REALLOC`].
    pub function: u32,
}

/// A block: the n-th of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    /// The thread that allocated it.
    pub thread: u32,
    /// How many this thread had allocated before it.
    pub number: u64,
}

/// What a call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Taken {
    /// Nothing: it frees none.
    #[default]
    Nothing,
    /// A null pointer.
    Null,
    /// A block from before the recording, or from elsewhere.
    Unknown,
    /// This block.
    Block(Block),
}

/// A call, as it is in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, by the clock of the recording.
    pub nanoseconds: u64,
    /// The thread, counted from 0 in the order in which they first called something.
    pub thread: u32,
    /// What was called.
    pub function: Function,
    /// The size that was asked for.
    pub size: u64,
    /// The alignment that was asked for; 0 for none.
    pub alignment: u64,
    /// What it took.
    pub taken: Taken,
    /// What it made; none for a free, and for an allocation that failed.
    pub made: Option<Block>,
}

/// A recorded process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The number of the process that forked it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// When the recording began, by its clock.
    pub began_nanoseconds: u64,
}

/// What was written of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Calls, with those that failed.
    pub calls: u64,
    /// Frees of blocks that were not seen allocated.
    pub unknown_frees: u64,
    /// Blocks whose memory was given out again without a free that was seen.
    pub lost_frees: u64,
    /// Events that came later than they should have, or that no version knows.
    pub out_of_order: u64,
    /// Calls that the hooks could not record.
    pub lost_calls: u64,
}

/// Which of the processes of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream(pub u32);

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is something else.
    #[error("it is not a trace of reheap's")]
    NotATrace,
    /// Another version wrote it.
    #[error("it has format {found}; this version of reheap reads format {FORMAT}")]
    OtherFormat {
        /// The format that it says it has.
        found: u16,
    },
    /// The file was changed after it was written.
    #[error("it is damaged at byte {offset}: {what}")]
    Damaged {
        /// Where the chunk begins.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
}

/// Addresses and numbers of blocks are spread well by a multiplication.
#[derive(Debug, Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(29) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
