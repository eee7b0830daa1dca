//! The live memory of a watched process over time, and its peak.

use crate::curve::Curve;
use crate::profile::{Live, Peak, Point};
use crate::recording::{LiveNow, Place, Recording, STEP_BYTES};
use reheap_proc::by_number;
use reheap_proc::pagemap::Pagemap;
use std::time::{Duration, Instant};

/// What was seen of a process's memory.
#[derive(Debug)]
pub(super) struct LiveMemory {
    curve: Curve,
    highest: LiveAt,
    resident: LookAtResident,
}

/// The most live memory that was seen by looking.
#[derive(Debug, Clone, Copy, Default)]
struct LiveAt {
    live: Live,
    seconds: f64,
}

/// The last look at resident memory.
#[derive(Debug, Clone, Copy, Default)]
struct LookAtResident {
    took: Duration,
    at: Duration,
}

impl LiveMemory {
    pub(super) fn new() -> Self {
        Self {
            curve: Curve::new(),
            highest: LiveAt::default(),
            resident: LookAtResident::default(),
        }
    }

    /// Whether it is time for another point.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.curve.is_due(now)
    }

    /// How many points there are.
    pub(super) fn points(&self) -> usize {
        self.curve.len()
    }

    /// Notes this moment, if it is the highest since the last point.
    pub(super) fn raise(&mut self, recording: &Recording, place: Place, now: Duration) {
        if self.curve.is_high(recording.roughly_live_bytes(place)) {
            self.curve.raise(point(recording.live(place), now, None));
        }
    }

    /// Adds a point, with resident memory if the process's number is known.
    pub(super) fn add_point(
        &mut self,
        pid: Option<u32>,
        recording: &Recording,
        place: Place,
        now: Duration,
    ) {
        let live_now = recording.live(place);
        let (live, seconds) = (live_now.live, now.as_secs_f64());
        if live.bytes > self.highest.live.bytes {
            self.highest = LiveAt { live, seconds };
        }
        let resident_bytes =
            pid.and_then(|pid| self.resident.resident_bytes(pid, recording, place, now));
        self.curve.add(point(live_now, now, resident_bytes), now);
    }

    /// The higher of what the threads told and what was seen by looking.
    pub(super) fn peak(&self, now: &LiveNow) -> Peak {
        let within_bytes = now.threads * STEP_BYTES;
        if now.peak_bytes > self.highest.live.bytes {
            let live = Live {
                blocks: now.peak_blocks,
                bytes: now.peak_bytes,
            };
            return Peak {
                live,
                seconds: now.peak_seconds,
                within_bytes,
            };
        }
        Peak {
            live: self.highest.live,
            seconds: self.highest.seconds,
            within_bytes,
        }
    }

    /// All points, in the order of time.
    pub(super) fn into_points(self) -> Vec<Point> {
        self.curve.points()
    }
}

impl LookAtResident {
    /// Resident memory without that of the hooks. Looking at the hooks' tables takes time, so it may take at most a
    /// hundredth of all.
    fn resident_bytes(
        &mut self,
        pid: u32,
        recording: &Recording,
        place: Place,
        now: Duration,
    ) -> Option<u64> {
        if self.took * 100 > now.saturating_sub(self.at) {
            return None;
        }
        let begin = Instant::now();
        let resident = by_number::resident_bytes(pid).filter(|bytes| *bytes > 0)?;
        let (tables, bytes) = recording.tables(place);
        let pagemap = Pagemap::open(pid).ok()?;
        let of_tables = pagemap.resident_bytes(tables..tables.saturating_add(bytes));
        let ours = of_tables.ok()? + recording.shared_bytes(place);
        *self = Self {
            took: begin.elapsed(),
            at: now,
        };
        Some(resident.saturating_sub(ours))
    }
}

fn point(live: LiveNow, now: Duration, resident_bytes: Option<u64>) -> Point {
    Point {
        seconds: now.as_secs_f64(),
        live: live.live,
        allocations: live.allocations,
        resident_bytes,
    }
}
