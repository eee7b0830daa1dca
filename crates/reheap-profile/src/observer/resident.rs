//! Where the resident memory of a watched process is, seen from time to time.
//!
//! A look reads what the hooks know of each block, which takes some tenths of a millisecond for each MiB of a heap. The program
//! goes on meanwhile, so a look is begun when live memory is steady, and what it shows is forgotten if that changed. It is
//! taken soon when live memory has risen above all that was seen before or fallen to a half, otherwise rarely, and never
//! for more than a small part of the time. It has a thread of its own, so that nothing else has to wait for it.

use crate::block_tables::BlockTables;
use crate::heap_pages::HeapPages;
use crate::profile::{ResidentParts, SizeBucket};
use crate::recording::{Place, Recording};
use reheap_proc::maps::{self, Mapping};
use reheap_proc::memory::is_arena;
use reheap_proc::pagemap::Pagemap;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Below so much live memory, it does not matter where it is.
const LIVE_BYTES_MIN: u64 = 256 << 10;
/// After live memory has changed much, looking may take one part in so many of the time.
const SHARE_OF_CHANGE: u32 = 10;
/// Otherwise.
const SHARE: u32 = 50;
/// The time between two looks, at least, where nothing seems to change.
const IDLE_STEP: Duration = Duration::from_millis(200);
/// Live memory is steady if it does not change much in this time.
const STEADY: Duration = Duration::from_millis(10);

/// Allocators give larger blocks back to the system, and then other memory may be at their addresses: glibc from 128 KiB on.
const FREED_BYTES_MAX: u64 = 64 << 10;

/// What looks at resident memory have shown.
#[derive(Debug, Default)]
pub(super) struct ResidentLooks {
    most: Option<ResidentParts>,
    last: Option<ResidentParts>,
    /// The most that was live at a look.
    highest_live_bytes: u64,
    /// What was live at the last look.
    live_bytes: u64,
    /// A time a little earlier, and what was live then.
    earlier: (Duration, u64),
    /// When the last look began, and the CPU time that it took.
    looked: Duration,
    took: Duration,
    /// The look that is going on.
    current: Option<JoinHandle<Look>>,
}

/// What came of a look: nothing, where memory cannot be seen, or where so much changed meanwhile that its pages and its blocks
/// are not of the same time.
#[derive(Debug)]
struct Look {
    parts: Option<ResidentParts>,
    took: Duration,
}

impl ResidentLooks {
    /// Begins a look, if it is time for that.
    pub(super) fn look(
        &mut self,
        pid: u32,
        recording: &Arc<Recording>,
        place: Place,
        now: Duration,
    ) {
        if self
            .current
            .as_ref()
            .is_some_and(|look| !look.is_finished())
        {
            return;
        }
        self.wait();
        let live = recording.roughly_live_bytes(place);
        let (then, earlier) = self.earlier;
        if now < then + STEADY {
            return;
        }
        self.earlier = (now, live);
        if !is_steady(earlier, live) {
            return;
        }
        let highest = self.highest_live_bytes;
        let share = if live > highest + highest / 16 || live < self.live_bytes / 2 {
            SHARE_OF_CHANGE
        } else {
            SHARE
        };
        let step = if live == self.live_bytes {
            IDLE_STEP
        } else {
            STEADY
        };
        let pause = step.max(self.took * share);
        if live.max(highest) >= LIVE_BYTES_MIN && now >= self.looked + pause {
            self.begin(pid, recording, place, now);
        }
    }

    /// Looks now, and waits for what comes of it.
    pub(super) fn look_now(
        &mut self,
        pid: u32,
        recording: &Arc<Recording>,
        place: Place,
        now: Duration,
    ) {
        self.wait();
        self.begin(pid, recording, place, now);
        self.wait();
    }

    fn begin(&mut self, pid: u32, recording: &Arc<Recording>, place: Place, now: Duration) {
        self.live_bytes = recording.roughly_live_bytes(place);
        self.highest_live_bytes = self.highest_live_bytes.max(self.live_bytes);
        self.looked = now;
        let recording = Arc::clone(recording);
        self.current = Some(thread::spawn(move || {
            let begin = cpu_time();
            let before = recording.roughly_live_bytes(place);
            let parts = parts(pid, &recording, place, now).ok();
            let after = recording.roughly_live_bytes(place);
            let took = cpu_time().saturating_sub(begin);
            Look {
                parts: parts.filter(|_| is_steady(before, after)),
                took,
            }
        }));
    }

    /// Takes what comes of the look that is going on.
    fn wait(&mut self) {
        let Some(look) = self.current.take() else {
            return;
        };
        let look = look.join().expect("a look does not panic");
        self.took = look.took;
        if let Some(parts) = look.parts {
            let is_most = |most: &ResidentParts| parts.resident_bytes > most.resident_bytes;
            if self.most.as_ref().is_none_or(is_most) {
                self.most = Some(parts);
            }
            self.last = Some(parts);
        }
    }

    /// At the time when most was resident, and at the last look.
    pub(super) fn into_parts(mut self) -> (Option<ResidentParts>, Option<ResidentParts>) {
        self.wait();
        (self.most, self.last)
    }
}

/// Whether that is about the same, in bytes.
fn is_steady(before: u64, after: u64) -> bool {
    before.abs_diff(after) <= before.min(after) / 16 + LIVE_BYTES_MIN
}

/// What this thread has used of a processor: others may take turns with it.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn parts(
    pid: u32,
    recording: &Recording,
    place: Place,
    now: Duration,
) -> io::Result<ResidentParts> {
    let pagemap = Pagemap::open(pid)?;
    let page_bytes = rustix::param::page_size();
    let tables = BlockTables {
        pid,
        pagemap: &pagemap,
        directory: recording.directory(place),
        page_bytes,
    };
    let chunks = tables.chunks()?;
    if chunks.is_empty() {
        return Err(io::ErrorKind::NotFound.into()); // it has ended, or executes another program
    }
    let sizes = recording.counts(place).sizes;
    let extra = extra_bytes(&sizes);
    let extra_bytes = |bytes| {
        let bucket = sizes.partition_point(|size| size.to < bytes);
        extra.get(bucket).copied().unwrap_or(0)
    };
    // What has ended has no pages, and then its tables cannot be read.
    let residence = |range| pagemap.pages(range).unwrap_or_default();
    let mut pages = HeapPages::new(page_bytes as u64, residence, extra_bytes);
    // Which pages are resident is seen at once. What they hold takes longer, and the process goes on.
    let mappings = maps::parse(&fs::read(format!("/proc/{pid}/smaps"))?);
    for chunk in &chunks {
        pages.see(chunk.start());
    }
    // What a program wrote where it must not is no block.
    let mapped_bytes: u64 = of_program(&mappings, recording, place)
        .map(Mapping::bytes)
        .sum();
    for chunk in &chunks {
        tables.blocks(chunk, &mut |block| {
            let bytes_max = if block.is_live {
                mapped_bytes
            } else {
                FREED_BYTES_MAX
            };
            if block.bytes <= bytes_max {
                pages.add(block);
            }
        })?;
    }
    for (index, mapping) in mappings.iter().enumerate() {
        let range = mapping.start..mapping.end;
        if is_allocators(mapping, mappings.get(index + 1)) {
            pages.is_allocators(range);
        } else {
            pages.may_be_others(range);
        }
    }
    let (all, own) = pages.finish();
    let resident = of_program(&mappings, recording, place)
        .map(|mapping| mapping.resident_bytes)
        .sum::<u64>();
    // Where the page of zeros was counted, the sum is too much.
    let used = if all.bytes() <= resident { all } else { own };
    let is_rounding_known = sizes.iter().any(|size| size.usable.is_some());
    Ok(ResidentParts {
        seconds: now.as_secs_f64(),
        resident_bytes: resident.max(used.bytes()),
        live_bytes: used.live,
        rounding_bytes: is_rounding_known.then_some(used.rounding),
        free_in_pages_bytes: Some(if is_rounding_known {
            used.free_in_pages
        } else {
            used.rounding + used.free_in_pages
        }),
        free_pages_bytes: Some(used.free_pages),
        other_bytes: resident.saturating_sub(used.bytes()),
    })
}

/// Whether a mapping has nothing but an allocator's memory: the program's break, or arenas of glibc, of which neighbours may
/// be one mapping.
fn is_allocators(mapping: &Mapping, next: Option<&Mapping>) -> bool {
    const ARENA_BYTES: u64 = 64 << 20;
    let last = || Mapping {
        start: (mapping.end - 1) / ARENA_BYTES * ARENA_BYTES,
        ..mapping.clone()
    };
    mapping.label().as_deref() == Some("[heap]")
        || mapping.start.is_multiple_of(ARENA_BYTES) && is_arena(&last(), next)
}

/// The mappings without the hooks' own.
fn of_program<'a>(
    mappings: &'a [Mapping],
    recording: &'a Recording,
    place: Place,
) -> impl Iterator<Item = &'a Mapping> {
    let (tables, _) = recording.tables(place);
    mappings.iter().filter(move |mapping| {
        !recording.is_mapped_at(mapping) && !(mapping.start..mapping.end).contains(&tables)
    })
}

/// Of each bucket, what the allocator gives on average beyond what was asked for.
fn extra_bytes(sizes: &[SizeBucket]) -> Vec<u64> {
    let extra = |size: &SizeBucket| {
        let usable = size.usable?;
        let extra = usable.usable_bytes.saturating_sub(usable.requested_bytes);
        let mean = extra as f64 / usable.blocks as f64;
        Some(mean.round() as u64)
    };
    sizes.iter().map(|size| extra(size).unwrap_or(0)).collect()
}
