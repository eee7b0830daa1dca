//! All processes of a profile together, as far as their figures may be added.
//!
//! Calls, sizes and lifetimes add up. Peaks do not: each process had its own at a time of its own. So memory over time
//! is that of one process, the one whose peak was highest.

use crate::profile::shares::of_samples;
use reheap_profile::profile::{
    Counts, LifetimeBucket, LifetimeInAllocationsBucket, Live, Lost, Process, Profile, Realloc,
    SizeBucket, Thread, TimeShares, Usable,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What all processes did.
pub(crate) struct Whole<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) counts: Counts,
    pub(crate) live_at_end: Live,
    /// Of the processes whose time was looked at.
    pub(crate) time: Option<TimeShares>,
    pub(crate) lost: Lost,
    /// All threads, that which allocated most blocks first.
    pub(crate) threads: Vec<(&'a Process, &'a Thread)>,
    /// The process that had the most bytes live at a time.
    pub(crate) largest: Option<&'a Process>,
}

impl<'a> Whole<'a> {
    pub(crate) fn of(profile: &'a Profile) -> Whole<'a> {
        let mut whole = Whole {
            profile,
            counts: Counts::default(),
            live_at_end: Live::default(),
            time: None,
            lost: Lost::default(),
            threads: Vec::new(),
            // Of several alike, the first.
            largest: profile
                .processes
                .iter()
                .rev()
                .max_by_key(|process| process.peak.live.bytes),
        };
        for process in &profile.processes {
            whole.add(process);
        }
        whole
            .threads
            .sort_by_key(|(_, thread)| Reverse(thread.allocated.blocks));
        whole
    }

    fn add(&mut self, process: &'a Process) {
        add_counts(&mut self.counts, &process.counts);
        add_live(&mut self.live_at_end, process.live_at_end);
        if let Some(time) = &process.time {
            self.time = Some(match self.time.take() {
                None => time.clone(),
                Some(sum) => added_times(sum, time),
            });
        }
        let (sum, lost) = (&mut self.lost, process.lost);
        sum.calls = sum.calls.saturating_add(lost.calls);
        sum.blocks = sum.blocks.saturating_add(lost.blocks);
        sum.stacks = sum.stacks.saturating_add(lost.stacks);
        let threads = process.threads.iter();
        self.threads.extend(threads.map(|thread| (process, thread)));
    }

    /// All calls, of whatever function.
    pub(crate) fn calls(&self) -> u64 {
        calls(&self.counts)
    }

    /// The allocator's share of CPU time, if enough samples were taken.
    pub(crate) fn allocator_share(&self) -> Option<f64> {
        let time = self.time.as_ref()?;
        of_samples(time.in_allocator, time.samples)
    }

    /// The share of memory functions, as far as the allocator did not call them.
    pub(crate) fn memory_functions_share(&self) -> Option<f64> {
        let time = self.time.as_ref()?;
        of_samples(time.in_memory_functions?, time.samples)
    }

    /// The share of page faults.
    pub(crate) fn page_faults_share(&self) -> Option<f64> {
        let time = self.time.as_ref()?;
        of_samples(time.in_page_faults?, time.samples)
    }

    /// Of all that the allocator gave, the part that nobody asked for. What was seen of some blocks of a size stands for
    /// all of that size.
    pub(crate) fn rounding(&self) -> Option<f64> {
        let mut requested = 0.0;
        let mut given = 0.0;
        for bucket in &self.counts.sizes {
            let Some(unused) = bucket.usable.as_ref().and_then(rounding) else {
                continue;
            };
            requested += bucket.requested_bytes as f64;
            given += bucket.requested_bytes as f64 / (1.0 - unused);
        }
        (given > 0.0 && given.is_finite()).then(|| 1.0 - requested / given)
    }
}

/// All calls, of whatever function.
pub(crate) fn calls(counts: &Counts) -> u64 {
    let calls = counts.calls.values();
    calls.fold(0, |sum, calls| sum.saturating_add(*calls))
}

/// A part of a whole; none of nothing.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// The part of what the allocator gave that nobody asked for.
pub(crate) fn rounding(usable: &Usable) -> Option<f64> {
    let unused = usable.usable_bytes.saturating_sub(usable.requested_bytes);
    share(unused, usable.usable_bytes)
}

fn add_counts(sum: &mut Counts, counts: &Counts) {
    for (function, calls) in &counts.calls {
        let of_function = sum.calls.entry(function.clone()).or_default();
        *of_function = of_function.saturating_add(*calls);
    }
    for (alignment, blocks) in &counts.alignments {
        let of_alignment = sum.alignments.entry(*alignment).or_default();
        *of_alignment = of_alignment.saturating_add(*blocks);
    }
    for (sum, more) in [
        (&mut sum.allocations, counts.allocations),
        (&mut sum.frees, counts.frees),
        (&mut sum.requested_bytes, counts.requested_bytes),
        (&mut sum.failed, counts.failed),
        (&mut sum.zero_size, counts.zero_size),
        (&mut sum.huge, counts.huge),
        (&mut sum.temporaries, counts.temporaries),
        (&mut sum.unknown_frees, counts.unknown_frees),
    ] {
        *sum = sum.saturating_add(more);
    }
    add_live(
        &mut sum.freed_by_another_thread,
        counts.freed_by_another_thread,
    );
    add_realloc(&mut sum.realloc, counts.realloc);
    sum.sizes = added_sizes(&sum.sizes, &counts.sizes);
    sum.lifetimes = added_lifetimes(&sum.lifetimes, &counts.lifetimes);
    sum.lifetimes_in_allocations = added_lifetimes_in_allocations(
        &sum.lifetimes_in_allocations,
        &counts.lifetimes_in_allocations,
    );
}

fn add_live(sum: &mut Live, more: Live) {
    sum.blocks = sum.blocks.saturating_add(more.blocks);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
}

fn add_realloc(sum: &mut Realloc, more: Realloc) {
    sum.in_place = sum.in_place.saturating_add(more.in_place);
    sum.moved = sum.moved.saturating_add(more.moved);
    sum.copied_bytes = sum.copied_bytes.saturating_add(more.copied_bytes);
}

fn added_sizes(one: &[SizeBucket], other: &[SizeBucket]) -> Vec<SizeBucket> {
    let mut sum: BTreeMap<(u64, u64), SizeBucket> = BTreeMap::new();
    for bucket in one.iter().chain(other) {
        sum.entry((bucket.from, bucket.to))
            .and_modify(|sum| *sum = joined_sizes(*sum, *bucket))
            .or_insert(*bucket);
    }
    sum.into_values().collect()
}

/// Two buckets as one, which spans both.
pub(crate) fn joined_sizes(one: SizeBucket, other: SizeBucket) -> SizeBucket {
    SizeBucket {
        from: one.from.min(other.from),
        to: one.to.max(other.to),
        blocks: one.blocks.saturating_add(other.blocks),
        requested_bytes: one.requested_bytes.saturating_add(other.requested_bytes),
        usable: one
            .usable
            .into_iter()
            .chain(other.usable)
            .reduce(added_usable),
    }
}

fn added_usable(one: Usable, other: Usable) -> Usable {
    Usable {
        blocks: one.blocks.saturating_add(other.blocks),
        requested_bytes: one.requested_bytes.saturating_add(other.requested_bytes),
        usable_bytes: one.usable_bytes.saturating_add(other.usable_bytes),
    }
}

fn added_lifetimes(one: &[LifetimeBucket], other: &[LifetimeBucket]) -> Vec<LifetimeBucket> {
    let mut all: Vec<LifetimeBucket> = one.iter().chain(other).copied().collect();
    let bound = |bucket: &LifetimeBucket| bucket.below_seconds.unwrap_or(f64::INFINITY);
    all.sort_by(|one, other| bound(one).total_cmp(&bound(other)));
    let mut sum: Vec<LifetimeBucket> = Vec::new();
    for bucket in all {
        match sum.last_mut() {
            Some(last) if last.below_seconds == bucket.below_seconds => {
                last.blocks = last.blocks.saturating_add(bucket.blocks);
                last.bytes = last.bytes.saturating_add(bucket.bytes);
            }
            _ => sum.push(bucket),
        }
    }
    sum
}

fn added_lifetimes_in_allocations(
    one: &[LifetimeInAllocationsBucket],
    other: &[LifetimeInAllocationsBucket],
) -> Vec<LifetimeInAllocationsBucket> {
    let mut sum: BTreeMap<u64, LifetimeInAllocationsBucket> = BTreeMap::new();
    for bucket in one.iter().chain(other) {
        sum.entry(bucket.below_allocations.unwrap_or(u64::MAX))
            .and_modify(|sum| {
                sum.blocks = sum.blocks.saturating_add(bucket.blocks);
                sum.bytes = sum.bytes.saturating_add(bucket.bytes);
            })
            .or_insert(*bucket);
    }
    sum.into_values().collect()
}

fn added_times(mut sum: TimeShares, more: &TimeShares) -> TimeShares {
    sum.user_seconds += more.user_seconds;
    sum.system_seconds += more.system_seconds;
    sum.measured = sum.measured.min(more.measured);
    sum.samples = sum.samples.saturating_add(more.samples);
    sum.in_hooks = match (sum.in_hooks, more.in_hooks) {
        (None, None) => None,
        (one, other) => Some(one.unwrap_or(0).saturating_add(other.unwrap_or(0))),
    };
    sum.in_allocator = sum.in_allocator.saturating_add(more.in_allocator);
    sum.in_kernel = added(sum.in_kernel, more.in_kernel);
    sum.in_kernel_for_allocator = added(sum.in_kernel_for_allocator, more.in_kernel_for_allocator);
    sum.in_memory_functions = added(sum.in_memory_functions, more.in_memory_functions);
    for (name, samples) in &more.memory_functions {
        let of_function = sum.memory_functions.entry(name.clone()).or_default();
        *of_function = of_function.saturating_add(*samples);
    }
    sum.in_page_faults = added(sum.in_page_faults, more.in_page_faults);
    sum.waited_seconds += more.waited_seconds;
    sum.minor_faults = sum.minor_faults.saturating_add(more.minor_faults);
    sum.major_faults = sum.major_faults.saturating_add(more.major_faults);
    sum
}

/// What was told of both.
fn added(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one?.saturating_add(other?))
}
