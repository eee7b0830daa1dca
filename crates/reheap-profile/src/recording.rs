//! What the hooks write down, in memory that they share with reheap. `hooks/recording.c` explains it and has the same
//! layout; the offsets there are checked when it is compiled.
//!
//! A program that writes where it must not can write anything into it. So each number is taken as it is, sums wrap, and
//! nothing is looked for outside.

mod slot;

use crate::others::Starts;
use crate::profile::{Counts, Live, Lost, Thread};
use reheap_proc::maps::{self, Mapping};
use reheap_trace::SharedMemory;
use reheap_trace::ring::{AREA_WORDS, Area, Clock, RING_WORDS, Ring};
use rustix::fs::FallocateFlags;
pub(crate) use slot::Whereabouts;
use slot::{Slot, WORDS};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What the system calls it where it is mapped.
const NAME: &str = "reheap-profile";

/// Names the recording to the hooks of a preload.
pub const VARIABLE: &str = "REHEAP_PROFILE";

const MAGIC: u64 = u64::from_le_bytes(*b"reheapP5");
/// How many processes can be watched at a time.
const PLACES: usize = 1024;
const SLOTS: usize = 16384;
const SLOT_BYTES: usize = 24 << 10;
const RING_BYTES: usize = 8 << 20;
const HEADER_BYTES: usize = 136 << 10;
const PLACE_HEAD_BYTES: usize = 512 << 10;
const PLACE_BYTES: usize = PLACE_HEAD_BYTES + SLOTS * SLOT_BYTES + RING_BYTES;
const TRACE_RING_BYTES: usize = 131_200;

/// One unit of the recording's clock.
const TICK: Duration = Duration::from_micros(125);
/// How many samples are taken out of a ring in one look.
const SAMPLES_AT_A_TIME: usize = 256;
/// How much live memory each thread may not have told of yet.
pub(crate) const STEP_BYTES: u64 = 32 << 10;

// Offsets in the header.
const NOW: usize = 16;
const EVERY: usize = 24;
const CLOSED: usize = 32;
const REFUSED: usize = 36;
const TAKEN: usize = 40;
const CAUTIOUS: usize = 4136;
const TRACING: usize = 4140;
const THREAD_NUMBER_AT: usize = 4152;
const TRACE: usize = 4352;
const PROGRAMS_REFUSED: usize = 8184;
const PROGRAMS: usize = 8192;
const PROGRAMS_MAX: usize = 128;
const PROGRAM_BYTES: usize = 1024;
const PROGRAM_PATH_BYTES: usize = PROGRAM_BYTES - 16;

// Offsets in a place.
const PID: usize = 0;
const PARENT: usize = 4;
const ACCESS: usize = 8;
const THREADS: usize = 12;
const BEGAN: usize = 16;
const LIVE_BYTES: usize = 24;
const PEAK_BYTES: usize = 32;
const PEAK_AT: usize = 40;
const INHERITED_BYTES: usize = 48;
const INHERITED_BLOCKS: usize = 56;
const LOST_CALLS: usize = 64;
const LOST_BLOCKS: usize = 72;
const LOST_STACKS: usize = 80;
const CHUNKS: usize = 88;
const TABLES: usize = 96;
const CHUNKS_MAX: u64 = 16384;
const RING_HEAD: usize = 104;
const RING_TAIL: usize = 112;
const MAPS_BYTES: usize = 120;
const CLAIMED: usize = 128;
const PROGRAM: usize = 65_664;
const PATH_BYTES: usize = 4096;
const MAPS: usize = 69_760;
const MAPS_BYTES_MAX: usize = 256 << 10;
const PEAK_BLOCKS: usize = 331_912;
const MALLOC_FILE: usize = 331_928;
const ORDER: usize = 332_936;
const IS_BYPASSED: usize = 332_944;
const DIRECTORY: usize = 332_952;

/// The address space that entries for 64 MiB take.
const CHUNK_BYTES: u64 = 64 << 20;

/// The functions that are counted, in the order of their counters.
pub(crate) const FUNCTIONS: [&str; 16] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "reallocarray",
    "free_sized",
    "free_aligned_sized",
    "mallocx",
    "rallocx",
    "sdallocx",
    "dallocx",
];

/// The memory that all processes of a command share with reheap.
#[derive(Debug)]
pub struct Recording {
    memory: SharedMemory,
    place_bytes: usize,
}

/// How the hooks got into a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Preloaded,
    Injected,
    /// It has them from its parent.
    Forked,
}

/// The number of a process's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(usize);

/// What each process that maps a recording needs of address space, with or without every call. Little of it becomes
/// memory.
pub const fn bytes(with_calls: bool) -> u64 {
    (HEADER_BYTES + PLACES * place_bytes(with_calls)) as u64
}

const fn place_bytes(with_calls: bool) -> usize {
    if with_calls {
        PLACE_BYTES + SLOTS * TRACE_RING_BYTES
    } else {
        PLACE_BYTES
    }
}

impl Recording {
    /// An empty one. `every` is the mean distance between two sampled stacks, in allocated bytes; 0 for none. With a
    /// clock, every call is recorded too, in rings that must be emptied.
    ///
    /// # Errors
    /// When the system gives no such memory.
    pub fn create(every: u64, clock: Option<&Clock>) -> io::Result<Self> {
        let place_bytes = place_bytes(clock.is_some());
        let bytes = bytes(clock.is_some());
        let memory = SharedMemory::create(NAME, bytes as usize)?;
        if let Some(clock) = clock {
            Area::new(memory.words(TRACE, AREA_WORDS)).begin(clock);
            memory.half(TRACING).store(1, Ordering::Relaxed);
        }
        memory.word(EVERY).store(every, Ordering::Relaxed);
        memory.word(8).store(bytes, Ordering::Relaxed);
        memory.word(0).store(MAGIC, Ordering::Release);
        Ok(Self {
            memory,
            place_bytes,
        })
    }

    /// What each process that maps it needs of address space.
    pub fn bytes(&self) -> u64 {
        (HEADER_BYTES + PLACES * self.place_bytes) as u64
    }

    /// Whether stacks are sampled.
    pub(crate) fn takes_samples(&self) -> bool {
        self.memory.load(EVERY) > 0
    }

    /// Where the processes of a command find it, as long as this process runs.
    pub fn path(&self) -> PathBuf {
        let (pid, descriptor) = (std::process::id(), self.memory.descriptor());
        format!("/proc/{pid}/fd/{descriptor}").into()
    }

    /// Whether a process has it in its memory. What ended has nothing there any more.
    pub(crate) fn is_mapped_by(&self, pid: u32) -> bool {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        maps::parse(&maps)
            .iter()
            .any(|mapping| self.is_mapped_at(mapping))
    }

    /// Whether that is a process's mapping of it.
    pub(crate) fn is_mapped_at(&self, mapping: &Mapping) -> bool {
        let own = self.memory.file().metadata().map(|file| file.ino());
        own.is_ok_and(|own| own == mapping.inode)
            && mapping.path == Path::new(&format!("/memfd:{NAME}"))
    }

    /// Tells the hooks what time it is, since the start of the command.
    pub(crate) fn set_now(&self, since_start: Duration) {
        let ticks = since_start.as_nanos() / TICK.as_nanos();
        // 2^64 ticks are 73 million years.
        self.memory.word(NOW).store(ticks as u64, Ordering::Relaxed);
    }

    /// Tells the hooks in a program's code that nothing will show when the program limits its own system calls, so they
    /// must make none once it runs. `thread_number_at` is where its libc keeps a thread's number, in bytes from the thread
    /// pointer on, if that is known.
    pub fn be_cautious(&self, thread_number_at: Option<u64>) {
        let at = thread_number_at.unwrap_or(0);
        self.memory
            .word(THREAD_NUMBER_AT)
            .store(at, Ordering::Relaxed);
        self.memory.half(CAUTIOUS).store(1, Ordering::Relaxed);
    }

    /// Tells the hooks that nobody reads stacks any more.
    pub(crate) fn close(&self) {
        self.memory.half(CLOSED).store(1, Ordering::Relaxed);
    }

    /// Processes that found no place.
    pub(crate) fn refused(&self) -> u32 {
        self.memory.half(REFUSED).load(Ordering::Relaxed)
    }

    /// How often each program's file was started by a process with hooks, and loaded them.
    pub(crate) fn starts(&self) -> Vec<Starts> {
        let programs = (0..PROGRAMS_MAX).map(|index| PROGRAMS + index * PROGRAM_BYTES);
        programs
            .filter_map(|program| {
                let number = |index: usize| {
                    self.memory
                        .half(program + 4 * index)
                        .load(Ordering::Acquire)
                };
                (number(0) == 2).then(|| Starts {
                    program: self.text(program + 16, PROGRAM_PATH_BYTES),
                    // Counting back comes after counting, so it is never below zero.
                    started: number(1).into(),
                    loaded: number(2).into(),
                    without_variable: number(3).into(),
                })
            })
            .collect()
    }

    /// Starts of programs whose files found no place.
    pub(crate) fn programs_refused(&self) -> u32 {
        self.memory.half(PROGRAMS_REFUSED).load(Ordering::Relaxed)
    }

    fn text(&self, start: usize, bytes_max: usize) -> PathBuf {
        let mut bytes = self.memory.read(start, bytes_max);
        if let Some(end) = bytes.iter().position(|&byte| byte == 0) {
            bytes.truncate(end);
        }
        OsString::from_vec(bytes).into()
    }

    /// The places that a process has taken and filled in, in no order.
    pub(crate) fn taken(&self) -> impl Iterator<Item = Place> + '_ {
        (0..PLACES).map(Place).filter(|place| {
            let taken = self.memory.half(TAKEN + 4 * place.0);
            taken.load(Ordering::Acquire) != 0 && self.half(*place, PID) != 0
        })
    }

    /// Sorts places by when they were taken.
    pub(crate) fn in_order(&self, mut places: Vec<Place>) -> Vec<Place> {
        places.sort_by_key(|place| self.word(*place, ORDER));
        places
    }

    /// Gives the place of a process that has ended to another.
    ///
    /// # Errors
    /// When the system cannot empty it; then it stays taken.
    pub(crate) fn release(&self, place: Place) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let start = self.offset(place) as u64;
        rustix::fs::fallocate(self.memory.file(), hole, start, self.place_bytes as u64)?;
        let taken = self.memory.half(TAKEN + 4 * place.0);
        taken.store(0, Ordering::Release);
        Ok(())
    }

    fn offset(&self, place: Place) -> usize {
        HEADER_BYTES + place.0 * self.place_bytes
    }

    fn half(&self, place: Place, field: usize) -> u32 {
        let word = self.memory.half(self.offset(place) + field);
        word.load(Ordering::Acquire)
    }

    fn word(&self, place: Place, field: usize) -> u64 {
        self.memory.load(self.offset(place) + field)
    }

    /// The process's number, as it was in `/proc` for the process itself.
    pub(crate) fn pid(&self, place: Place) -> u32 {
        self.half(place, PID)
    }

    /// The process that forked it; `None` for one that was executed, or that reheap put the hooks into.
    pub(crate) fn forked_by(&self, place: Place) -> Option<u32> {
        let is_forked = self.how(place) == How::Forked;
        is_forked.then(|| self.half(place, PARENT))
    }

    pub(crate) fn how(&self, place: Place) -> How {
        match self.half(place, ACCESS) {
            0 => How::Preloaded,
            1 => How::Injected,
            _ => How::Forked,
        }
    }

    pub(crate) fn began(&self, place: Place) -> f64 {
        seconds(self.word(place, BEGAN))
    }

    /// The file that the process executes.
    pub(crate) fn program(&self, place: Place) -> PathBuf {
        self.text(self.offset(place) + PROGRAM, PATH_BYTES)
    }

    /// Whether the program calls a malloc that is in front of the hooks.
    pub(crate) fn is_bypassed(&self, place: Place) -> bool {
        self.half(place, IS_BYPASSED) == 1
    }

    /// Of a preload: the library that the program's malloc is in, if that is known.
    pub(crate) fn malloc_file(&self, place: Place) -> Option<PathBuf> {
        let file = self.text(self.offset(place) + MALLOC_FILE, PROGRAM_PATH_BYTES);
        file.is_absolute().then_some(file)
    }

    /// The threads that took a slot, in the order in which they did.
    pub(crate) fn slots(&self, place: Place) -> impl Iterator<Item = Slot<'_>> + '_ {
        let threads = (self.half(place, THREADS) as usize).min(SLOTS);
        (0..threads).filter_map(move |order| {
            let index = self.half(place, CLAIMED + 4 * order).checked_sub(1)?;
            let index = (index as usize).min(SLOTS - 1);
            let base = self.offset(place) + PLACE_HEAD_BYTES + index * SLOT_BYTES;
            let memory = &self.memory;
            Some(Slot {
                memory,
                base,
                index,
            })
        })
    }

    /// Memory in use, without what each thread has not added yet; cheap to ask for.
    pub(crate) fn roughly_live_bytes(&self, place: Place) -> u64 {
        (self.word(place, LIVE_BYTES) as i64).max(0) as u64
    }

    /// Memory in use, and when it was most.
    pub(crate) fn live(&self, place: Place) -> LiveNow {
        let mut bytes = self.word(place, LIVE_BYTES) as i64;
        let mut blocks = self.word(place, INHERITED_BLOCKS) as i64;
        let mut allocations = 0;
        let mut threads = 0;
        for slot in self.slots(place) {
            bytes = bytes.wrapping_add(slot.pending_bytes());
            let allocated = slot.allocations();
            allocations = allocated.wrapping_add(allocations);
            let more = allocated.wrapping_sub(slot.frees()) as i64;
            blocks = blocks.wrapping_add(more);
            threads += 1;
        }
        LiveNow {
            live: Live {
                blocks: blocks.max(0) as u64,
                bytes: bytes.max(0) as u64,
            },
            allocations,
            threads,
            peak_bytes: (self.word(place, PEAK_BYTES) as i64).max(0) as u64,
            peak_blocks: (self.word(place, PEAK_BLOCKS) as i64).max(0) as u64,
            peak_seconds: seconds(self.word(place, PEAK_AT)),
            inherited: Live {
                blocks: self.word(place, INHERITED_BLOCKS),
                bytes: self.word(place, INHERITED_BYTES),
            },
        }
    }

    pub(crate) fn lost(&self, place: Place) -> Lost {
        Lost {
            calls: self.word(place, LOST_CALLS),
            blocks: self.word(place, LOST_BLOCKS),
            stacks: self.word(place, LOST_STACKS),
        }
    }

    /// Where the hooks' tables of blocks are in the process, as far as they are in use: address and bytes.
    pub(crate) fn tables(&self, place: Place) -> (u64, u64) {
        let chunks = self.word(place, CHUNKS).min(CHUNKS_MAX);
        (self.word(place, TABLES), chunks * CHUNK_BYTES)
    }

    /// Where the directory of these tables is in the process.
    pub(crate) fn directory(&self, place: Place) -> u64 {
        self.word(place, DIRECTORY)
    }

    /// About how much of the recording the process has in its own memory.
    pub(crate) fn shared_bytes(&self, place: Place) -> u64 {
        let threads = u64::from(self.half(place, THREADS));
        let ring = self.word(place, RING_HEAD).min(RING_BYTES as u64);
        threads * SLOT_BYTES as u64 + ring + 5 * 4096
    }

    /// What `/proc/self/maps` said when the process took its first sample; empty before that.
    pub(crate) fn maps(&self, place: Place) -> Vec<u8> {
        let bytes = (self.word(place, MAPS_BYTES) as usize).saturating_sub(1);
        self.memory
            .read(self.offset(place) + MAPS, bytes.min(MAPS_BYTES_MAX))
    }

    /// Takes the samples that were written until now.
    pub(crate) fn take_samples(&self, place: Place) -> Vec<Sample> {
        let mut samples = Vec::new();
        let ring = self.offset(place) + PLACE_HEAD_BYTES + SLOTS * SLOT_BYTES;
        let tail = self.memory.word(self.offset(place) + RING_TAIL);
        let mut at = tail.load(Ordering::Relaxed);
        // A program can write as fast as this reads, and the clock must go on.
        let head = self.word(place, RING_HEAD);
        // A process could write nonsense: what lies outside the ring, or between two words, or has no length, ends the
        // reading.
        while at < head && at.is_multiple_of(8) && samples.len() < SAMPLES_AT_A_TIME {
            let start = (at % RING_BYTES as u64) as usize;
            let head = self.memory.load(ring + start);
            let (kind, bytes) = (head as u32, (head >> 32) as usize);
            let fits = bytes >= 8 && bytes.is_multiple_of(8) && bytes <= RING_BYTES - start;
            if kind == 0 || !fits {
                break;
            }
            let record = self.memory.take(ring + start, bytes);
            samples.extend(Sample::parse(kind, &record));
            at = at.wrapping_add(bytes as u64);
            tail.store(at, Ordering::Release);
        }
        samples
    }

    /// What the threads of all processes share when every call is recorded.
    pub(crate) fn trace(&self) -> Area<'_> {
        Area::new(self.memory.words(TRACE, AREA_WORDS))
    }

    /// The ring of each thread of a process, with the thread's number.
    pub(crate) fn trace_rings(&self, place: Place) -> impl Iterator<Item = (u32, Ring<'_>)> + '_ {
        let rings = self.offset(place) + PLACE_BYTES;
        self.slots(place).map(move |slot| {
            let start = rings + slot.index * TRACE_RING_BYTES;
            let ring = Ring::new(self.memory.words(start, RING_WORDS));
            (slot.index as u32, ring)
        })
    }

    /// What all threads of a process did together.
    pub(crate) fn counts(&self, place: Place) -> Counts {
        let mut sum = vec![0_u64; WORDS];
        for slot in self.slots(place) {
            for (sum, word) in sum.iter_mut().zip(slot.words()) {
                *sum = sum.wrapping_add(word);
            }
        }
        slot::counts(&sum)
    }

    /// What each thread did, busiest first.
    pub(crate) fn threads(&self, place: Place) -> Vec<Thread> {
        let mut threads: Vec<Thread> = self.slots(place).map(|slot| slot.thread()).collect();
        threads.sort_by_key(|thread| {
            let calls = thread.allocated.blocks.wrapping_add(thread.freed.blocks);
            std::cmp::Reverse((calls, thread.tid))
        });
        threads
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 * TICK.as_secs_f64()
}

/// Memory in use at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveNow {
    pub(crate) live: Live,
    pub(crate) allocations: u64,
    pub(crate) threads: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) peak_blocks: u64,
    pub(crate) peak_seconds: f64,
    /// What a forked child has from its parent.
    pub(crate) inherited: Live,
}

/// A record in a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sample {
    /// A block was allocated.
    Allocated {
        block: u64,
        size: u64,
        /// The mean distance between two sampled stacks at that time, in allocated bytes.
        every: u64,
        registers: [u64; 3],
        stack: Vec<u8>,
    },
    /// A block that was sampled is gone.
    Freed { block: u64 },
}

impl Sample {
    pub(crate) fn is_stack(&self) -> bool {
        matches!(self, Self::Allocated { .. })
    }

    /// `struct ring_record` in `hooks/sample.c`.
    fn parse(kind: u32, record: &[u8]) -> Option<Self> {
        let (words, _) = record.as_chunks::<8>();
        let word = |index: usize| words.get(index).map(|word| u64::from_ne_bytes(*word));
        let block = word(2)?;
        match kind {
            1 => {
                let stack = record.get(72..)?;
                let stack = stack.get(..word(7)? as usize).unwrap_or(stack);
                Some(Self::Allocated {
                    block,
                    size: word(3)?,
                    every: word(8)?,
                    registers: [word(4)?, word(5)?, word(6)?],
                    stack: stack.to_vec(),
                })
            }
            2 => Some(Self::Freed { block }),
            _ => None,
        }
    }
}

const _: () = assert!(TRACE_RING_BYTES == 8 * RING_WORDS);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A recording of one process, with these words at those distances from the beginning of its place.
    fn recording(words: &[(usize, u64)]) -> Recording {
        let recording = Recording::create(1, None).expect("memory can be shared");
        let memory = &recording.memory;
        memory.half(TAKEN).store(1, Ordering::Relaxed);
        memory.half(HEADER_BYTES + PID).store(1, Ordering::Relaxed);
        for &(at, value) in words {
            memory
                .word(HEADER_BYTES + at)
                .store(value, Ordering::Relaxed);
        }
        recording
    }

    fn look_at_everything(recording: &Recording) {
        for place in recording.taken() {
            recording.program(place);
            recording.malloc_file(place);
            recording.forked_by(place);
            recording.live(place);
            recording.lost(place);
            recording.tables(place);
            recording.directory(place);
            recording.maps(place);
            recording.counts(place);
            recording.threads(place);
            recording.shared_bytes(place);
            recording.take_samples(place);
        }
        recording.starts();
    }

    #[test]
    fn a_ring_that_makes_no_sense_gives_no_samples() {
        const RING: usize = PLACE_HEAD_BYTES + SLOTS * SLOT_BYTES;
        let freed = |bytes: u64| bytes << 32 | 2;
        for (head, tail, first) in [
            (24, 1, freed(24)),
            (u64::MAX, u64::MAX - 3, freed(24)),
            (24, 0, freed(7)),
            (24, 0, freed(RING_BYTES as u64 + 8)),
            (24, 0, 0),
        ] {
            let recording = recording(&[(RING_HEAD, head), (RING_TAIL, tail), (RING, first)]);
            assert_eq!(recording.take_samples(Place(0)), []);
        }
        let whole = recording(&[(RING_HEAD, 24), (RING, freed(24)), (RING + 16, 7)]);
        assert_eq!(whole.take_samples(Place(0)), [Sample::Freed { block: 7 }]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_words_are_read(
            head in prop::collection::vec(any::<u64>(), 64),
            slots in prop::collection::vec((0..2 * SLOT_BYTES / 8, any::<u64>()), 0..500),
            ring in prop::collection::vec((0..1000_usize, any::<u64>()), 0..100),
        ) {
            let of_head = head.into_iter().enumerate().map(|(at, word)| (8 * at, word));
            let of_slots = slots.into_iter().map(|(at, word)| (PLACE_HEAD_BYTES + 8 * at, word));
            let of_ring = ring.into_iter().map(|(at, word)| (PLACE_BYTES - RING_BYTES + 8 * at, word));
            let words: Vec<_> = of_head.chain(of_slots).chain(of_ring).collect();
            look_at_everything(&recording(&words));
        }
    }
}
