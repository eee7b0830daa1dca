//! The recorder's side of the memory that hooks/trace.h describes.
//!
//! The program can write anything into that memory, also while it is read. So it is words that are loaded one by one,
//! and a ring that makes no sense is given up.
//!
//! Two words order everything. The thread writes an event and then releases `head`; the recorder acquires `head` and then
//! reads the event. The recorder releases `tail` when it has read; the thread acquires `tail` before it writes there
//! again. The test `no_order_of_steps_loses_or_tears_a_call` goes through all orders of a small ring in loom, with the
//! orderings of `trace_call` and `trace_wait`, and fails when any of the four is weaker. One thing is not in that model: a
//! thread that gives its ring up. It does so only if four rounds of emptying left `tail` as it was, so the ring makes no
//! sense any more. `reheap-profile/tests/it/trace_hooks.rs` tests real threads with the hooks themselves.

use crate::RawEvent;
use crate::sys::counter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many calls of a thread wait for the recorder; `REHEAP_TRACE_EVENTS`.
pub const RING_EVENTS: usize = 4096;
/// The words of `struct reheap_trace`.
pub const AREA_WORDS: usize = 16;
/// The words of `struct reheap_trace_ring`.
pub const RING_WORDS: usize = RING_HEADER_WORDS + RING_EVENTS * EVENT_WORDS;

const RING_HEADER_WORDS: usize = 16;
const EVENT_WORDS: usize = 4;
const HEAD: usize = 0;
const LOST: usize = 2;
const WAITS: usize = 3;
const TAIL: usize = 8;

const CLOCK_AND_STATE: usize = 0;
const BEGAN: usize = 1;
const PATIENCE: usize = 2;
const GIVEN_UP: usize = 3;
const HEARTBEAT: usize = 8;

/// A thread would need years for so many.
const LOST_MAX: u64 = 1 << 48;

/// After so long without a recorder that moves, the program goes on without it.
const PATIENCE_DEFAULT: Duration = Duration::from_secs(5);

/// What all threads of a process share: `struct reheap_trace`.
#[derive(Debug, Clone, Copy)]
pub struct Area<'a>(&'a [AtomicU64]);

/// Whether calls are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// They are.
    On,
    /// They are no longer: a thread waited in vain for the recorder.
    Abandoned,
    /// They are not, because the recorder said so.
    Off,
}

impl<'a> Area<'a> {
    /// Takes the first [`AREA_WORDS`] of some memory.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self(&words[..AREA_WORDS])
    }

    /// Sets it up, before any thread gets a ring.
    pub fn begin(&self, clock: &Clock) {
        self.begin_with_patience(clock, PATIENCE_DEFAULT);
    }

    /// Sets it up as [`Self::begin`] does; `patience` is the time without a heartbeat after which threads no longer wait.
    pub fn begin_with_patience(&self, clock: &Clock, patience: Duration) {
        self.0[BEGAN].store(clock.began, Ordering::Relaxed);
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        self.0[PATIENCE].store(patience, Ordering::Relaxed);
        let kind = u64::from(clock.kind == ClockKind::Counter);
        self.0[CLOCK_AND_STATE].store(kind, Ordering::Release);
    }

    /// To be called at least twice a second while anything is recorded, each time before all rings are emptied.
    pub fn beat(&self) {
        // A thread that sees this sees what was taken out before.
        self.0[HEARTBEAT].fetch_add(1, Ordering::Release);
    }

    /// How many rings were given up by their threads, because nobody took calls out; the recorder may not even see these.
    pub fn given_up(&self) -> u64 {
        self.0[GIVEN_UP].load(Ordering::Relaxed)
    }

    /// No further call is recorded, and no thread waits.
    pub fn end(&self) {
        let clock = self.0[CLOCK_AND_STATE].load(Ordering::Relaxed) & 0xffff_ffff;
        self.0[CLOCK_AND_STATE].store(2 << 32 | clock, Ordering::Release);
    }

    /// Whether calls are recorded.
    pub fn state(&self) -> State {
        match self.0[CLOCK_AND_STATE].load(Ordering::Acquire) >> 32 {
            0 => State::On,
            1 => State::Abandoned,
            _ => State::Off,
        }
    }
}

/// A word of the shared memory: an atomic integer, and in the test that of loom.
pub trait Word {
    /// Reads it.
    fn load(&self, order: Ordering) -> u64;
    /// Writes it.
    fn store(&self, value: u64, order: Ordering);
}

impl Word for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }
}

/// The calls of one thread: `struct reheap_trace_ring`.
#[derive(Debug, Clone, Copy)]
pub struct Ring<'a, W = AtomicU64>(&'a [W]);

/// A ring says that it has more calls than it can have. Those that it has are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbled;

impl<'a> Ring<'a> {
    /// Takes the first [`RING_WORDS`] of some memory.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self(&words[..RING_WORDS])
    }
}

impl<W: Word> Ring<'_, W> {
    /// How many calls have room in it.
    fn capacity(&self) -> u64 {
        ((self.0.len() - RING_HEADER_WORDS) / EVENT_WORDS) as u64
    }

    /// Takes out what is there. The clock is that of [`Area::begin`].
    ///
    /// # Errors
    /// When the program has written over the ring. The ring is empty then.
    pub fn drain(&self, clock: &Clock, into: &mut Vec<RawEvent>) -> Result<(), Garbled> {
        let head = self.0[HEAD].load(Ordering::Acquire);
        let tail = self.0[TAIL].load(Ordering::Relaxed);
        let waiting = head.wrapping_sub(tail);
        if waiting == 0 {
            return Ok(());
        }
        if waiting > self.capacity() {
            self.0[TAIL].store(head, Ordering::Release);
            return Err(Garbled);
        }
        for position in 0..waiting {
            let place = tail.wrapping_add(position) % self.capacity();
            let at = RING_HEADER_WORDS + place as usize * EVENT_WORDS;
            let word = |word: usize| self.0[at + word].load(Ordering::Relaxed);
            let time_and_function = word(0);
            into.push(RawEvent {
                nanoseconds: clock.nanoseconds(time_and_function >> 8),
                block: word(1),
                size: word(2),
                alignment: word(3),
                function: (time_and_function & 0xff) as u32,
            });
        }
        self.0[TAIL].store(head, Ordering::Release);
        Ok(())
    }

    /// Calls that could not be recorded. If the program has written over their number, there were some.
    pub fn lost(&self) -> u64 {
        let lost = self.0[LOST].load(Ordering::Relaxed);
        if lost < LOST_MAX { lost } else { 1 }
    }

    /// How often the thread had to wait for the recorder.
    pub fn waits(&self) -> u64 {
        self.0[WAITS].load(Ordering::Relaxed)
    }
}

/// The clock that all threads read, and the recorder too.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    kind: ClockKind,
    began: u64,
    /// Nanoseconds for 2^32 of its steps.
    scale: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClockKind {
    /// CLOCK_MONOTONIC by a system call: there is no vDSO without a libc.
    SystemCall,
    /// The processor's counter.
    Counter,
}

/// How long the processor's counter is compared with the system's clock. Errors of 100 ns at both ends are then 20 ppm.
const CALIBRATION: Duration = Duration::from_millis(10);

impl Clock {
    /// The processor's counter where it runs at the same rate on all cores and in all states; else the system's clock.
    pub fn of_this_machine() -> Self {
        match counter::counter() {
            Some(began) if counter::counter_is_steady() => Self::of_counter(began),
            _ => Self::of_system(),
        }
    }

    /// The system's clock: right everywhere, and slower.
    pub fn of_system() -> Self {
        Self {
            kind: ClockKind::SystemCall,
            began: counter::monotonic(),
            scale: 1 << 32,
        }
    }

    fn of_counter(began: u64) -> Self {
        let start = Instant::now();
        let mut elapsed = Duration::ZERO;
        while elapsed < CALIBRATION {
            std::thread::sleep(CALIBRATION - elapsed);
            elapsed = start.elapsed();
        }
        let steps = counter::counter().unwrap_or(began).wrapping_sub(began);
        if steps == 0 {
            return Self::of_system();
        }
        let scale = (elapsed.as_nanos() << 32) / u128::from(steps);
        Self {
            kind: ClockKind::Counter,
            began,
            scale: u64::try_from(scale).unwrap_or(u64::MAX),
        }
    }

    /// Since the beginning. What happened before and is not in its ring now happened to a block that nobody has used
    /// since: see [`super::writer`].
    pub fn now(&self) -> u64 {
        let now = match self.kind {
            ClockKind::SystemCall => counter::monotonic(),
            ClockKind::Counter => counter::counter().unwrap_or(self.began),
        };
        self.nanoseconds(now.wrapping_sub(self.began))
    }

    fn nanoseconds(&self, steps: u64) -> u64 {
        let scaled = (u128::from(steps) * u128::from(self.scale)) >> 32;
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as ModelAtomic;
    use loom::thread;
    use std::sync::Mutex;

    const EVENTS: usize = 2;
    const CALLS: u64 = 3;

    /// A word of the model. Those of events are plain in C: loom fails when `access` shows that two threads may be at one
    /// at the same time. The mutex only makes it `Sync`.
    struct ModelWord {
        value: ModelAtomic,
        access: Option<Mutex<UnsafeCell<()>>>,
    }

    impl ModelWord {
        fn new(at: usize) -> Self {
            Self {
                value: ModelAtomic::new(0),
                access: (at >= RING_HEADER_WORDS).then(|| Mutex::new(UnsafeCell::new(()))),
            }
        }
    }

    impl Word for ModelWord {
        fn load(&self, order: Ordering) -> u64 {
            if let Some(access) = &self.access {
                access.lock().unwrap().with(|_| ());
            }
            self.value.load(order)
        }

        fn store(&self, value: u64, order: Ordering) {
            if let Some(access) = &self.access {
                access.lock().unwrap().with_mut(|_| ());
            }
            self.value.store(value, order);
        }
    }

    /// What `trace_call` and `trace_wait` do in the thread, with their orderings.
    fn write_calls(words: &[ModelWord]) {
        let mut tail_seen = 0;
        for head in 0..CALLS {
            while head - tail_seen >= EVENTS as u64 {
                tail_seen = words[TAIL].load(Ordering::Acquire);
                thread::yield_now();
            }
            let at = RING_HEADER_WORDS + head as usize % EVENTS * EVENT_WORDS;
            let call = head + 1;
            for (word, value) in [call << 8, call, call, call].into_iter().enumerate() {
                words[at + word].store(value, Ordering::Relaxed);
            }
            words[HEAD].store(head + 1, Ordering::Release);
        }
    }

    #[test]
    fn no_order_of_steps_loses_or_tears_a_call() {
        loom::model(|| {
            let all = 0..RING_HEADER_WORDS + EVENTS * EVENT_WORDS;
            let words: Arc<Vec<ModelWord>> = Arc::new(all.map(ModelWord::new).collect());
            let of_thread = Arc::clone(&words);
            let thread = thread::spawn(move || write_calls(&of_thread));
            let clock = Clock {
                kind: ClockKind::SystemCall,
                began: 0,
                scale: 1 << 32,
            };
            let mut calls = Vec::new();
            while calls.len() < CALLS as usize {
                let drained = Ring(&words).drain(&clock, &mut calls);
                drained.expect("the ring makes sense");
                thread::yield_now();
            }
            thread.join().unwrap();
            for (call, expected) in calls.iter().zip(1..) {
                let words = [call.nanoseconds, call.block, call.size, call.alignment];
                assert_eq!(words, [expected; 4]);
            }
        });
    }
}
