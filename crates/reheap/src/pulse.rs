//! Says what is under way, so that nobody has to guess whether something still moves.
//!
//! On a terminal a bar shows it, and the time in its words goes on. A log keeps each line, so there is one every two
//! seconds in the first minutes, and later a line when a sixtieth of the time has passed: an hour takes some 300 lines. A
//! thread does that, because a command may run for minutes and reheap waits for it.

use crate::ui;
use indicatif::ProgressBar;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(2);
const PARTS_OF_THE_TIME: u32 = 60;
/// How often the words of a bar are renewed, which show seconds.
const PAUSE_OF_BAR: Duration = Duration::from_secs(1);

/// The lines of this process since its first pulse. Much that is short may take long together, so the pause goes on from
/// one pulse to the next.
static LINES: LazyLock<Mutex<Lines>> = LazyLock::new(|| {
    let now = Instant::now();
    Mutex::new(Lines {
        began: now,
        latest: now,
    })
});

struct Lines {
    began: Instant,
    latest: Instant,
}

impl Lines {
    /// When the next one is due.
    fn next(&self) -> Instant {
        let elapsed = self.latest - self.began;
        self.latest + PAUSE.max(elapsed / PARTS_OF_THE_TIME)
    }
}

fn lines() -> MutexGuard<'static, Lines> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line was printed, whatever it says.
pub(crate) fn line_was_printed() {
    lines().latest = Instant::now();
}

/// What is under way, and since when.
type Words = Box<dyn Fn() -> String + Send>;

/// Says what is under way until it is dropped.
pub(crate) struct Pulse {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// None if there is no terminal, so that it has to be lines.
    bar: Option<ProgressBar>,
    /// None when it has ended.
    under_way: Mutex<Option<Words>>,
    ended: Condvar,
}

impl Pulse {
    /// Says these words from now on: in this bar, or in lines where it is hidden.
    pub(crate) fn start(bar: &ProgressBar, words: impl Fn() -> String + Send + 'static) -> Pulse {
        let shared = Arc::new(Shared {
            bar: (!bar.is_hidden()).then(|| bar.clone()),
            under_way: Mutex::new(None),
            ended: Condvar::new(),
        });
        let mut pulse = Pulse {
            shared: Arc::clone(&shared),
            thread: None,
        };
        pulse.now(words);
        LazyLock::force(&LINES);
        // Under a low limit of data or processes there is no room for a thread, and the log has no such lines.
        pulse.thread = thread::Builder::new().spawn(move || shared.beat()).ok();
        pulse
    }

    /// From now on says other words.
    pub(crate) fn now(&self, words: impl Fn() -> String + Send + 'static) {
        let mut under_way = self.shared.under_way();
        if let Some(bar) = &self.shared.bar {
            bar.set_message(words());
        }
        *under_way = Some(Box::new(words));
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
    fn under_way(&self) -> MutexGuard<'_, Option<Words>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn beat(&self) {
        let mut under_way = self.under_way();
        while let Some(words) = &*under_way {
            let pause = match &self.bar {
                Some(bar) => {
                    bar.set_message(words());
                    PAUSE_OF_BAR
                }
                None => {
                    if Instant::now() >= lines().next() {
                        ui::note(&words());
                    }
                    lines().next().saturating_duration_since(Instant::now())
                }
            };
            let waited = self.ended.wait_timeout(under_way, pause);
            under_way = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_of_an_hour_has_some_hundred_lines_and_none_is_missed_in_the_first_minutes() {
        let began = Instant::now();
        let latest = began;
        let mut lines = Lines { began, latest };
        let mut count = 0;
        while lines.latest - began < Duration::from_secs(3600) {
            let next = lines.next();
            let is_early = lines.latest - began <= Duration::from_secs(120);
            assert!(!is_early || next - lines.latest == PAUSE);
            lines.latest = next;
            count += 1;
        }
        assert!((200..400).contains(&count), "{count}");
    }
}
