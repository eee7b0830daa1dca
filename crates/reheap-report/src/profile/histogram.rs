//! Histograms with as many bars as a reader can take in: neighbours that hold little become one.

use crate::profile::number::grouped;
use crate::profile::whole::{joined_sizes, rounding, share};
use reheap_bench::figures;
use reheap_profile::profile::{Counts, SizeBucket};

/// A bar and what stands beside it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bar {
    /// The range of what it counts: `17–32 B`.
    pub(crate) range: String,
    pub(crate) blocks: u64,
    /// Of all blocks.
    pub(crate) share: f64,
    /// The bytes of these blocks; not told of those that were never freed.
    pub(crate) bytes: Option<u64>,
    /// Of what the allocator gave for these blocks, the part that nobody asked for.
    pub(crate) rounding: Option<f64>,
}

/// How many were allocated of which size.
pub(crate) fn sizes(counts: &Counts, bars_max: usize) -> Vec<Bar> {
    let doubling = |bucket: &SizeBucket| bucket.to.max(1).checked_next_power_of_two();
    let mut buckets: Vec<SizeBucket> = Vec::new();
    for bucket in &counts.sizes {
        match buckets.last_mut() {
            Some(last) if counts.sizes.len() > bars_max && doubling(last) == doubling(bucket) => {
                *last = joined_sizes(*last, *bucket);
            }
            _ => buckets.push(*bucket),
        }
    }
    join_smallest(&mut buckets, bars_max, |bucket| bucket.blocks, joined_sizes);
    let all = sum(buckets.iter().map(|bucket| bucket.blocks));
    let bar = |bucket: &SizeBucket| Bar {
        range: byte_range(bucket.from, bucket.to),
        blocks: bucket.blocks,
        share: share(bucket.blocks, all).unwrap_or(0.0),
        bytes: Some(bucket.requested_bytes),
        rounding: bucket.usable.as_ref().and_then(rounding),
    };
    buckets.iter().map(bar).collect()
}

/// A range of lifetimes that is being joined with others.
#[derive(Clone, Debug)]
struct Lifetimes {
    from: Option<String>,
    below: Option<String>,
    blocks: u64,
    bytes: u64,
}

fn joined_lifetimes(one: Lifetimes, other: Lifetimes) -> Lifetimes {
    Lifetimes {
        from: one.from,
        below: other.below,
        blocks: one.blocks.saturating_add(other.blocks),
        bytes: one.bytes.saturating_add(other.bytes),
    }
}

/// How long blocks lived; the last bar is of those that were not freed.
pub(crate) fn lifetimes(counts: &Counts, never_freed: u64, bars_max: usize) -> Vec<Bar> {
    let buckets = counts.lifetimes.iter();
    let buckets = buckets.map(|bucket| {
        (
            bucket.below_seconds.map(short_seconds),
            bucket.blocks,
            bucket.bytes,
        )
    });
    lifetime_bars(buckets, counts.frees, never_freed, bars_max)
}

/// How long blocks lived, counted in allocations of their thread; the last bar is of those that were not freed.
pub(crate) fn lifetimes_in_allocations(
    counts: &Counts,
    never_freed: u64,
    bars_max: usize,
) -> Vec<Bar> {
    let buckets = counts.lifetimes_in_allocations.iter();
    let buckets = buckets.map(|bucket| {
        (
            bucket.below_allocations.map(grouped),
            bucket.blocks,
            bucket.bytes,
        )
    });
    lifetime_bars(buckets, counts.frees, never_freed, bars_max)
}

fn lifetime_bars(
    buckets: impl Iterator<Item = (Option<String>, u64, u64)>,
    frees: u64,
    never_freed: u64,
    bars_max: usize,
) -> Vec<Bar> {
    let mut from = None;
    let mut ranges = Vec::new();
    for (below, blocks, bytes) in buckets {
        ranges.push(Lifetimes {
            from: std::mem::replace(&mut from, below.clone()),
            below,
            blocks,
            bytes,
        });
    }
    let filled = |range: &Lifetimes| range.blocks > 0;
    let last = ranges.iter().rposition(filled).map_or(0, |at| at + 1);
    ranges.truncate(last);
    // Blocks were freed, and nobody saw when they had been allocated: those that were not would look like all.
    if ranges.is_empty() && frees > 0 {
        return Vec::new();
    }
    let bars_max = bars_max - usize::from(never_freed > 0);
    join_smallest(
        &mut ranges,
        bars_max,
        |range| range.blocks,
        joined_lifetimes,
    );
    let all = sum(ranges.iter().map(|range| range.blocks).chain([never_freed]));
    let bar = |(range, blocks, bytes)| Bar {
        range,
        blocks,
        share: share(blocks, all).unwrap_or(0.0),
        bytes,
        rounding: None,
    };
    let lived = ranges.iter().map(|lifetimes| {
        let range = match (&lifetimes.from, &lifetimes.below) {
            (None, None) => "any time".to_owned(),
            (None, Some(below)) => format!("< {below}"),
            (Some(from), None) => format!("≥ {from}"),
            (Some(from), Some(below)) => range(from, below),
        };
        (range, lifetimes.blocks, Some(lifetimes.bytes))
    });
    let not_freed = (never_freed > 0).then(|| ("not freed".to_owned(), never_freed, None));
    lived.chain(not_freed).map(bar).collect()
}

/// Joins the two neighbours with the smallest sum until there are few enough.
fn join_smallest<T: Clone>(
    all: &mut Vec<T>,
    count_max: usize,
    weight: impl Fn(&T) -> u64,
    join: impl Fn(T, T) -> T,
) {
    while all.len() > count_max.max(1) {
        let pairs = all.windows(2).enumerate();
        let sums = pairs.map(|(at, pair)| (weight(&pair[0]).saturating_add(weight(&pair[1])), at));
        let (_, at) = sums.min().expect("more than one is left");
        let second = all.remove(at + 1);
        all[at] = join(all[at].clone(), second);
    }
}

/// The sum, as far as it can be written.
pub(crate) fn sum(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

/// A range of sizes, both ends of which are in it.
fn byte_range(from: u64, to: u64) -> String {
    range(&short_bytes(from), &short_bytes(to))
}

/// From one figure to another, the unit once if it is the same: `17–32 B`, `513 B – 1 KiB`.
fn range(low: &str, high: &str) -> String {
    if low == high {
        return high.to_owned();
    }
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => format!("{number}–{high}"),
        (None, None) => format!("{low}–{high}"),
        _ => format!("{low} – {high}"),
    }
}

/// An amount of memory without zeros after the point: `4 KiB`.
pub(crate) fn short_bytes(bytes: u64) -> String {
    without_zeros(&figures::bytes(bytes as f64))
}

/// A time without zeros after the point: `1 ms`.
pub(crate) fn short_seconds(seconds: f64) -> String {
    without_zeros(&figures::seconds(seconds))
}

fn without_zeros(figure: &str) -> String {
    match figure.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => figure.to_owned(),
    }
}

/// A count with three digits: `1.63 M`.
pub(crate) fn scaled(count: f64) -> String {
    match count {
        many if many >= 999_500_000.0 => format!("{} G", figures::number(many / 1e9)),
        many if many >= 999_500.0 => format!("{} M", figures::number(many / 1e6)),
        many if many >= 9_995.0 => format!("{} k", figures::number(many / 1e3)),
        few => figures::number(few),
    }
}

/// So many blocks: `1,234 blocks`.
pub(crate) fn blocks(count: u64) -> String {
    let noun = if count == 1 { "block" } else { "blocks" };
    format!("{} {noun}", grouped(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_its_unit_once() {
        assert_eq!(byte_range(17, 32), "17–32 B");
        assert_eq!(byte_range(1025, 2048), "1–2 KiB");
        assert_eq!(byte_range(513, 1024), "513 B – 1 KiB");
        assert_eq!(byte_range(8, 8), "8 B");
    }

    #[test]
    fn neighbours_that_hold_little_become_one() {
        let mut all = vec![5, 1, 1, 9, 4];
        join_smallest(&mut all, 3, |blocks| *blocks, |one, other| one + other);
        assert_eq!(all, [7, 9, 4]);
    }
}
