//! What each thread of a watched process counts: `struct slot` in `hooks/recording.c`.

use super::{FUNCTIONS, SLOT_BYTES};
use crate::profile::{
    Counts, HUGE_BYTES, LifetimeBucket, LifetimeInAllocationsBucket, Live, Realloc, SizeBucket,
    Thread, Usable,
};
use reheap_trace::SharedMemory;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

// Offsets, in words.
const OWNER_TID: usize = 1;
const INSIDE: usize = 2;
const ALLOCATED: usize = 4;
const FREED: usize = 6;
const NUMBER: usize = 8;
const FREES: usize = 9;
const FIRST: usize = 10;
const CALLS: usize = 11;
const TOLD_BYTES: usize = 27;
const FAILED: usize = 34;
const EMPTIED: usize = 35;
const HUGE: usize = 36;
const OF_OTHERS: usize = 37;
const OF_OTHERS_AT_ONCE: usize = 39;
const UNKNOWN_FREES: usize = 40;
const IN_PLACE: usize = 41;
const MOVED: usize = 42;
const COPIED_BYTES: usize = 43;
const ALIGNMENTS: usize = 44;
const ALIGNMENTS_MAX: usize = 32;
const SMALL: usize = 76;
const FINE_BYTES: usize = 256;
const FINE_SIZES: usize = FINE_BYTES / 8 + 1;
const LIVED: usize = SMALL + FINE_BYTES + 1;
const LIVED_TIMES: usize = 30;
const LIVED_DISTANCES: usize = 33;
const LARGE: usize = LIVED + 2 * LIVED_TIMES * LIVED_DISTANCES;
const SIZES_MAX: usize = 160;
const USABLE: usize = LARGE + 2 * (SIZES_MAX - FINE_SIZES);
pub(super) const WORDS: usize = USABLE + 3 * SIZES_MAX;
const _: () = assert!(8 * WORDS <= SLOT_BYTES);
const _: () = assert!(HUGE_BYTES == 1 << 25, "HUGE_BYTES_LOG2 in hooks/count.c");

// Of these, the last one has all that is more.
const TIMES_MAX: usize = 24;
const DISTANCES_MAX: usize = 32;

/// What one thread writes down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(super) memory: &'a SharedMemory,
    /// Where it begins in the memory.
    pub(super) base: usize,
    /// Which of its place's it is.
    pub(super) index: usize,
}

/// Where a thread can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    Program,
    Hook,
    Allocator,
}

impl Slot<'_> {
    fn word(&self, word: usize) -> u64 {
        let word = self.memory.word(self.base + 8 * word);
        word.load(Ordering::Relaxed)
    }

    pub(crate) fn tid(&self) -> u32 {
        self.word(OWNER_TID) as u32
    }

    /// Where the thread is just now.
    pub(crate) fn whereabouts(&self) -> Whereabouts {
        match self.word(INSIDE) {
            0 => Whereabouts::Program,
            1 => Whereabouts::Hook,
            _ => Whereabouts::Allocator,
        }
    }

    /// What it allocated more than it freed, and the place does not know of.
    pub(super) fn pending_bytes(&self) -> i64 {
        let bytes = |budget| self.word(budget).wrapping_sub(self.word(budget + 1));
        let live = bytes(ALLOCATED).wrapping_sub(bytes(FREED));
        live.wrapping_sub(self.word(TOLD_BYTES)) as i64
    }

    pub(super) fn allocations(&self) -> u64 {
        self.word(NUMBER).wrapping_sub(self.word(FIRST))
    }

    pub(super) fn frees(&self) -> u64 {
        self.word(FREES)
    }

    pub(super) fn words(&self) -> Vec<u64> {
        (0..WORDS).map(|word| self.word(word)).collect()
    }

    pub(super) fn thread(&self) -> Thread {
        let words = self.words();
        Thread {
            tid: self.tid(),
            name: None,
            allocated: Live {
                blocks: self.allocations(),
                bytes: total(sizes(&words).map(|size| size.bytes)),
            },
            freed: lived(&words).fold(Live::default(), |sum, (_, _, freed)| add(sum, freed)),
            freed_of_others: pair(&words, OF_OTHERS),
        }
    }
}

fn pair(slot: &[u64], at: usize) -> Live {
    Live {
        blocks: slot[at],
        bytes: slot[at + 1],
    }
}

fn add(a: Live, b: Live) -> Live {
    Live {
        blocks: a.blocks.wrapping_add(b.blocks),
        bytes: a.bytes.wrapping_add(b.bytes),
    }
}

fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::wrapping_add)
}

/// The freed blocks, with the numbers of their lifetimes in time and in allocations.
fn lived(slot: &[u64]) -> impl Iterator<Item = (usize, usize, Live)> {
    (0..LIVED_TIMES * LIVED_DISTANCES).map(|cell| {
        let time = (cell / LIVED_DISTANCES).min(TIMES_MAX - 1);
        let distance = (cell % LIVED_DISTANCES).min(DISTANCES_MAX - 1);
        (time, distance, pair(slot, LIVED + 2 * cell))
    })
}

/// The requests of each bucket.
fn sizes(slot: &[u64]) -> impl Iterator<Item = Live> {
    (0..SIZES_MAX).map(|bucket| match bucket.checked_sub(FINE_SIZES) {
        Some(large) => pair(slot, LARGE + 2 * large),
        None => {
            let (from, to) = sizes_of(bucket);
            (from..=to).fold(Live::default(), |sum, size| {
                let blocks = slot[SMALL + size as usize];
                let bytes = blocks.wrapping_mul(size);
                add(sum, Live { blocks, bytes })
            })
        }
    })
}

/// How often each function was called.
fn calls(slot: &[u64]) -> BTreeMap<String, u64> {
    let calls = FUNCTIONS.iter().enumerate().map(|(function, name)| {
        let counted = slot[CALLS + function];
        let calls = match *name {
            "malloc" => allocations(slot).wrapping_add(counted),
            "free" => slot[FREES].wrapping_add(counted),
            _ => counted,
        };
        ((*name).to_owned(), calls)
    });
    calls.filter(|(_, calls)| *calls > 0).collect()
}

fn allocations(slot: &[u64]) -> u64 {
    slot[NUMBER].wrapping_sub(slot[FIRST])
}

/// The counts of one slot, or of several added up.
pub(super) fn counts(slot: &[u64]) -> Counts {
    let mut times = [Live::default(); TIMES_MAX];
    let mut distances = [Live::default(); DISTANCES_MAX];
    for (time, distance, blocks) in lived(slot) {
        times[time] = add(times[time], blocks);
        distances[distance] = add(distances[distance], blocks);
    }
    let sizes: Vec<SizeBucket> = sizes(slot)
        .enumerate()
        .filter_map(|(bucket, requests)| size_bucket(slot, bucket, requests))
        .collect();
    let alignments = (0..ALIGNMENTS_MAX).map(|i| (1 << i, slot[ALIGNMENTS + i]));
    let lifetimes = times.iter().enumerate().map(|(i, freed)| LifetimeBucket {
        below_seconds: (i + 1 < TIMES_MAX).then(|| f64::from(1_u32 << i) / 1000.0),
        blocks: freed.blocks,
        bytes: freed.bytes,
    });
    let in_allocations = distances.iter().enumerate();
    let in_allocations = in_allocations.map(|(i, freed)| LifetimeInAllocationsBucket {
        below_allocations: (i + 1 < DISTANCES_MAX).then_some(1 << i),
        blocks: freed.blocks,
        bytes: freed.bytes,
    });
    Counts {
        calls: calls(slot),
        allocations: allocations(slot),
        frees: slot[FREES],
        requested_bytes: total(sizes.iter().map(|bucket| bucket.requested_bytes)),
        failed: slot[FAILED],
        zero_size: slot[SMALL].wrapping_add(slot[EMPTIED]),
        huge: slot[HUGE],
        sizes,
        alignments: alignments.filter(|(_, blocks)| *blocks > 0).collect(),
        realloc: Realloc {
            in_place: slot[IN_PLACE],
            moved: slot[MOVED],
            copied_bytes: slot[COPIED_BYTES],
        },
        lifetimes: until_the_last(lifetimes, |bucket| bucket.blocks > 0),
        lifetimes_in_allocations: until_the_last(in_allocations, |bucket| bucket.blocks > 0),
        // Its thread allocated no other block meanwhile, and freed it itself.
        temporaries: distances[0].blocks.saturating_sub(slot[OF_OTHERS_AT_ONCE]),
        freed_by_another_thread: pair(slot, OF_OTHERS),
        unknown_frees: slot[UNKNOWN_FREES],
    }
}

/// All up to the last that has something.
fn until_the_last<T>(items: impl Iterator<Item = T>, has: impl Fn(&T) -> bool) -> Vec<T> {
    let mut items: Vec<T> = items.collect();
    let last = items.iter().rposition(has);
    items.truncate(last.map_or(0, |last| last + 1));
    items
}

fn size_bucket(slot: &[u64], bucket: usize, requests: Live) -> Option<SizeBucket> {
    if requests.blocks == 0 {
        return None;
    }
    let (from, to) = sizes_of(bucket);
    let [looked_at, requested_bytes, usable_bytes] =
        [0, 1, 2].map(|i| slot[USABLE + 3 * bucket + i]);
    Some(SizeBucket {
        from,
        to,
        blocks: requests.blocks,
        requested_bytes: requests.bytes,
        usable: (looked_at > 0).then_some(Usable {
            blocks: looked_at,
            requested_bytes,
            usable_bytes,
        }),
    })
}

/// The smallest and the largest size of a bucket: `bucket_of_size` in `hooks/count.c`, the other way round.
fn sizes_of(bucket: usize) -> (u64, u64) {
    const FINE: usize = FINE_BYTES / 8;
    let upper = |bucket: usize| match bucket {
        0..=FINE => 8 * bucket as u64,
        _ => {
            let (log2, quarter) = (8 + (bucket - FINE - 1) / 4, (bucket - FINE - 1) % 4);
            (1 << log2) + ((quarter as u64 + 1) << (log2 - 2))
        }
    };
    match bucket {
        0 => (0, 0),
        _ if bucket == SIZES_MAX - 1 => (upper(bucket - 1) + 1, u64::MAX),
        _ => (upper(bucket - 1) + 1, upper(bucket)),
    }
}
