//! Says in a log what is under way, so that nobody has to guess whether something still moves.
//!
//! On a terminal a spinner does that. A log keeps each line, so there is one every two seconds in the first minutes, and
//! later a line when a sixtieth of the time has passed: an hour takes some 300 lines. A thread writes them, because a
//! command may run for minutes and reheap waits for it.

use crate::ui;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(2);
const PARTS_OF_THE_TIME: u32 = 60;

/// How long nothing is said after this time.
fn pause(elapsed: Duration) -> Duration {
    PAUSE.max(elapsed / PARTS_OF_THE_TIME)
}

/// What is under way, from how long it has been so.
type Words = Box<dyn Fn(Duration) -> String + Send>;

/// Lines in a log until it is dropped.
pub(crate) struct Pulse {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// None when it has ended.
    under_way: Mutex<Option<(Instant, Words)>>,
    ended: Condvar,
}

impl Pulse {
    /// Says these words from now on.
    pub(crate) fn start(words: impl Fn(Duration) -> String + Send + 'static) -> Pulse {
        let shared = Arc::new(Shared {
            under_way: Mutex::new(Some((Instant::now(), Box::new(words)))),
            ended: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        // Under a low limit of data or processes there is no room for a thread, and the log has no such lines.
        let thread = thread::Builder::new().spawn(move || of_thread.beat());
        Pulse {
            shared,
            thread: thread.ok(),
        }
    }

    /// From now on says other words.
    pub(crate) fn now(&self, words: impl Fn(Duration) -> String + Send + 'static) {
        *self.shared.under_way() = Some((Instant::now(), Box::new(words)));
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        *self.shared.under_way() = None;
        self.shared.ended.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // if it panicked, it has said so
        }
    }
}

impl Shared {
    fn under_way(&self) -> MutexGuard<'_, Option<(Instant, Words)>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn beat(&self) {
        let began = Instant::now();
        let mut due = began + PAUSE;
        let mut under_way = self.under_way();
        while let Some((since, words)) = &*under_way {
            let now = Instant::now();
            if now >= due {
                ui::note(&words(since.elapsed()));
                due = now + pause(began.elapsed());
            }
            let waited = self.ended.wait_timeout(under_way, due - now);
            under_way = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_an_hour_has_some_hundred_lines_and_none_is_missed_in_the_first_minutes() {
        let mut elapsed = Duration::ZERO;
        let mut lines = 0;
        while elapsed < Duration::from_secs(3600) {
            assert!(elapsed > Duration::from_secs(120) || pause(elapsed) == PAUSE);
            elapsed += pause(elapsed);
            lines += 1;
        }
        assert!((200..400).contains(&lines), "{lines}");
    }
}
