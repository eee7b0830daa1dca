//! The figures of a profile that can be compared with another profile, or with a limit, each with the name that users
//! type.

use crate::profile::number::grouped;
use crate::profile::whole::Whole;
use reheap_bench::figures;
pub use reheap_bench::threshold::Unit;

/// A figure that can be compared.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// As users type it.
    pub name: &'static str,
    /// In a sentence.
    pub noun: &'static str,
    /// What it counts.
    pub unit: Unit,
    value: fn(&Whole<'_>) -> Option<f64>,
}

const fn figure(
    name: &'static str,
    noun: &'static str,
    unit: Unit,
    value: fn(&Whole<'_>) -> Option<f64>,
) -> Figure {
    Figure {
        name,
        noun,
        unit,
        value,
    }
}

/// All figures, in the order in which they are told.
pub static FIGURES: [Figure; 23] = [
    figure("calls", "calls", Unit::Count, |whole| {
        Some(whole.calls() as f64)
    }),
    figure("allocations", "allocations", Unit::Count, |whole| {
        Some(whole.counts.allocations as f64)
    }),
    figure("allocated", "allocated bytes", Unit::Bytes, |whole| {
        Some(whole.counts.requested_bytes as f64)
    }),
    figure("peak", "live memory at its peak", Unit::Bytes, |whole| {
        whole.largest.map(|process| process.peak.live.bytes as f64)
    }),
    figure(
        "peak_blocks",
        "live blocks at the peak",
        Unit::Count,
        |whole| whole.largest.map(|process| process.peak.live.blocks as f64),
    ),
    figure(
        "resident",
        "resident memory at most",
        Unit::Bytes,
        |whole| {
            let most = crate::profile::facts::most_resident(whole.largest?);
            most.map(|(_, bytes)| bytes as f64)
        },
    ),
    figure(
        "live_at_end",
        "memory that is not freed",
        Unit::Bytes,
        |whole| Some(whole.live_at_end.bytes as f64),
    ),
    figure(
        "blocks_at_end",
        "blocks that are not freed",
        Unit::Count,
        |whole| Some(whole.live_at_end.blocks as f64),
    ),
    figure("temporaries", "temporary blocks", Unit::Count, |whole| {
        Some(whole.counts.temporaries as f64)
    }),
    figure(
        "freed_by_another_thread",
        "blocks freed by another thread",
        Unit::Count,
        |whole| Some(whole.counts.freed_by_another_thread.blocks as f64),
    ),
    figure("moved", "blocks that realloc moved", Unit::Count, |whole| {
        Some(whole.counts.realloc.moved as f64)
    }),
    figure(
        "copied",
        "bytes that realloc copied",
        Unit::Bytes,
        |whole| Some(whole.counts.realloc.copied_bytes as f64),
    ),
    figure("rounding", "rounding", Unit::Share, |whole| {
        whole.rounding()
    }),
    figure("failed", "failed requests", Unit::Count, |whole| {
        Some(whole.counts.failed as f64)
    }),
    figure(
        "zero_size",
        "requests for zero bytes",
        Unit::Count,
        |whole| Some(whole.counts.zero_size as f64),
    ),
    figure("huge", "huge requests", Unit::Count, |whole| {
        Some(whole.counts.huge as f64)
    }),
    figure(
        "allocator",
        "CPU time in the allocator",
        Unit::Share,
        |whole| whole.allocator_share(),
    ),
    figure(
        "memory_functions",
        "CPU time in memory functions",
        Unit::Share,
        |whole| whole.memory_functions_share(),
    ),
    figure(
        "page_fault_time",
        "CPU time for page faults",
        Unit::Share,
        |whole| whole.page_faults_share(),
    ),
    figure("cpu", "CPU time", Unit::Seconds, |whole| {
        whole
            .time
            .as_ref()
            .map(|time| time.user_seconds + time.system_seconds)
    }),
    figure(
        "waited",
        "waiting in the allocator",
        Unit::Seconds,
        |whole| whole.time.as_ref().map(|time| time.waited_seconds),
    ),
    figure("page_faults", "page faults", Unit::Count, |whole| {
        whole
            .time
            .as_ref()
            .map(|time| time.minor_faults.saturating_add(time.major_faults) as f64)
    }),
    figure(
        "threads",
        "threads that allocate or free",
        Unit::Count,
        |whole| Some(whole.threads.len() as f64),
    ),
];

impl Figure {
    /// The figure with this name; `-` is as good as `_`.
    pub fn named(name: &str) -> Option<&'static Figure> {
        let name = name.replace('-', "_");
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// None if it was not observed.
    pub(crate) fn of(&self, whole: &Whole<'_>) -> Option<f64> {
        (self.value)(whole).filter(|value| value.is_finite())
    }

    /// A value of it, with its unit.
    pub(crate) fn said(&self, value: f64) -> String {
        match self.unit {
            Unit::Count => grouped(value.round() as u64),
            Unit::Bytes => figures::bytes(value),
            Unit::Seconds => figures::seconds(value),
            Unit::Share => figures::percent(value),
        }
    }
}
