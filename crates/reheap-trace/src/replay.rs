//! Performs a trace again, under any allocator.
//!
//! [`prepare`] makes a plan of a trace: for each thread the calls that it makes, with all dependencies between threads.
//! The replayer, a C program ([`SOURCE`]), performs a plan. It is compiled once for each libc, because it gets its
//! allocator as any program does: by a preload, or with the derived libc that it is linked with. And it is C, not part of
//! reheap, because it must not allocate anything for itself.

mod plan;
mod room;
mod source;

pub use plan::{Live, Plan, prepare};

use crate::TraceError;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;

/// The replayer.
pub const SOURCE: &str = include_str!("../replayer/replayer.c");

/// How it is compiled. A compiler that knows what malloc does would leave out what nobody uses.
pub const COMPILER_FLAGS: [&str; 4] = ["-O2", "-std=gnu11", "-fno-builtin", "-pthread"];

/// How a trace is performed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Which memory of each block is written.
    pub touch: Touch,
    /// When calls are made.
    pub speed: Speed,
}

/// Which memory of each block is written. A trace says nothing about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// None.
    None,
    /// The first byte and the last.
    Ends,
    /// These, and one of each page, so that the kernel gives them all.
    #[default]
    Pages,
    /// All of it, also after each realloc.
    All,
}

/// When calls are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// As soon as the calls are done that must come before.
    #[default]
    Max,
    /// Not before the time at which the program made them.
    Recorded,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It cannot be read twice.
    #[error("it is not a regular file")]
    NotAFile,
    /// Somebody wrote over it.
    #[error("it changed while it was read")]
    Changed,
    /// The plan cannot be written.
    #[error("cannot write the plan: {0}")]
    Write(io::Error),
    /// Nothing can be performed.
    #[error("no call is in it")]
    Empty,
    /// reheap has no memory for what it must know of blocks.
    #[error(
        "it has {blocks} blocks in use at a time, or more, and {} MiB of memory are too little for what reheap must know of them",
        available >> 20
    )]
    TooManyBlocks {
        /// How many were read.
        blocks: u64,
        /// Memory in bytes.
        available: u64,
    },
    /// The disk has no room for the plan.
    #[error(
        "the plan needs {} MiB in the directory for temporary files, and {} MiB are free there",
        needed.div_ceil(1 << 20), available >> 20
    )]
    LongPlan {
        /// In bytes.
        needed: u64,
        /// In bytes.
        available: u64,
    },
    /// The blocks have no room in memory.
    #[error(
        "its blocks have {} MiB when most are in use, and {} MiB of memory are available",
        needed.div_ceil(1 << 20), available >> 20
    )]
    LittleMemory {
        /// In bytes.
        needed: u64,
        /// In bytes.
        available: u64,
    },
    /// It is beyond what a plan can say.
    #[error("more than 4 billion blocks are in use at a time, or so many threads")]
    TooLarge,
}

/// What the replayer says of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The replayer's format.
    pub format: u32,
    /// From the first call to the last.
    pub nanoseconds: u64,
    /// CPU time of all threads in between, in user mode.
    pub user_nanoseconds: u64,
    /// And in the kernel.
    pub system_nanoseconds: u64,
    /// Pages that the kernel gave in between.
    pub minor_faults: u64,
    /// Calls that made a block.
    pub allocations: Calls,
    /// Calls that made one of another.
    pub reallocations: Calls,
    /// Calls that freed one, and those that freed a null pointer.
    pub frees: Calls,
    /// Timed calls during which the thread lost its processor; they do not count as timed.
    pub discarded_samples: u64,
    /// Calls that returned no block, other than in the recording.
    pub failed: u64,
    /// Blocks that did not have what was written to them.
    pub damaged: u64,
    /// How often threads waited for another's block.
    pub block_waits: u64,
    /// How long threads waited for another's block, together.
    pub block_wait_nanoseconds: u64,
    /// How often threads waited because they were ahead of others.
    pub epoch_waits: u64,
    /// How long threads waited because they were ahead of others, together.
    pub epoch_wait_nanoseconds: u64,
    /// Resident anonymous memory before the first call.
    pub resident_bytes_before: u64,
    /// The most that was seen.
    pub resident_bytes_peak: u64,
    /// Over time.
    pub resident_bytes_average: u64,
    /// When the most bytes were live.
    pub resident_bytes_at_live_peak: u64,
    /// What the replayer takes for itself, in memory that is not anonymous.
    pub own_bytes: u64,
    /// The file that its malloc was in.
    pub malloc_in: PathBuf,
    /// Nanoseconds since the first call, resident anonymous bytes, and which of [`Plan::epochs`] were over.
    pub points: Vec<(u64, u64, u64)>,
}

/// Calls of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// How many were made.
    pub calls: u64,
    /// How many of these were timed.
    pub sampled: u64,
    /// How long these took.
    pub sampled_nanoseconds: u64,
}

impl Calls {
    /// All of them together, as far as those that were timed tell; `None` if none were.
    pub fn nanoseconds(&self) -> Option<f64> {
        let per_call = self.sampled_nanoseconds as f64 / self.sampled as f64;
        (self.sampled > 0).then_some(per_call * self.calls as f64)
    }
}

impl Outcome {
    /// The time that all threads together spent in the allocator: an estimate from one call of 64. A kind of call that is
    /// too rare to be timed counts as nothing.
    pub fn nanoseconds_in_allocator(&self) -> Option<f64> {
        let kinds = [self.allocations, self.reallocations, self.frees];
        let known = kinds.iter().filter_map(Calls::nanoseconds);
        kinds
            .iter()
            .any(|kind| kind.sampled > 0)
            .then(|| known.sum())
    }

    /// Calls of all kinds.
    pub fn calls(&self) -> u64 {
        self.allocations.calls + self.reallocations.calls + self.frees.calls
    }
}
