//! Says what is under way, so that nobody has to guess whether something still moves.
//!
//! On a terminal a bar shows it, and the time in its words goes on. A log keeps each line, so there is one every two
//! seconds in the first minutes, and later a line when a sixtieth of the time has passed: an hour takes some 300 lines.
//! What the line before said already is not said again. A thread does that, because a command may run for minutes and reheap waits for it.

use crate::ui;
use indicatif::{ProgressBar, ProgressStyle};
use reheap_bench::outlook::duration;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_secs(2);
const PARTS_OF_THE_TIME: u32 = 60;
/// How often the words of a bar are renewed, which show seconds.
const PAUSE_OF_BAR: Duration = Duration::from_secs(1);

/// When this process first said what is under way.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// When a line is due after the latest one, in a log that began then.
fn next_line(began: Instant, latest: Instant) -> Instant {
    latest + PAUSE.max((latest - began) / PARTS_OF_THE_TIME)
}

/// How long it is until the next line. Much that is short may take long together, so that counts from the latest line
/// of the process and not from the beginning of a pulse.
fn until_next_line() -> Duration {
    let began = *BEGAN;
    let latest = ui::latest().map_or(began, |latest| latest.max(began));
    next_line(began, latest).saturating_duration_since(Instant::now())
}

/// What is under way, and since when.
type Words = Box<dyn Fn() -> String + Send>;

/// Says what is under way until it is dropped.
pub struct Pulse {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// The bar on a terminal. Without one, there are lines.
    bar: Option<ProgressBar>,
    /// What is going on; `None` when it has ended.
    under_way: Mutex<Option<Words>>,
    ended: Condvar,
}

impl Pulse {
    /// Says these words from now on: in this bar, or in lines where it is hidden.
    pub fn start(bar: &ProgressBar, words: impl Fn() -> String + Send + 'static) -> Pulse {
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
        LazyLock::force(&BEGAN);
        // Under a low limit of data or processes there is no room for a thread, and the log has no such lines.
        pulse.thread = thread::Builder::new().spawn(move || shared.beat()).ok();
        pulse
    }

    /// Says other words from now on.
    pub fn now(&self, words: impl Fn() -> String + Send + 'static) {
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
        let mut said = LastWords::default();
        while let Some(words) = &*under_way {
            let pause = match &self.bar {
                Some(bar) => {
                    bar.set_message(words());
                    PAUSE_OF_BAR
                }
                None => match until_next_line() {
                    Duration::ZERO => {
                        if let Some(words) = said.news(words()) {
                            ui::note(words);
                        }
                        PAUSE
                    }
                    wait => wait,
                },
            };
            let waited = self.ended.wait_timeout(under_way, pause);
            under_way = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What a log said last.
#[derive(Default)]
struct LastWords(String);

impl LastWords {
    /// The words, unless they say the same: minutes go by that the words do not count.
    fn news(&mut self, words: String) -> Option<&str> {
        let is_new = words != self.0;
        self.0 = words;
        is_new.then_some(&*self.0)
    }
}

/// Does something that may take long, and shows since when: a spinner on a terminal, elsewhere a line at once and then
/// those of a [`Pulse`].
pub fn while_showing<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if spinner().is_hidden() {
        ui::note(what);
    }
    while_spinning(what, work)
}

/// Shows what is going on while work is done that is mostly over before a person waits for a sign: elsewhere than on a
/// terminal, no line comes at once.
pub fn while_spinning<T>(what: &str, work: impl FnOnce() -> T) -> T {
    while_telling(what, |_| work())
}

/// Shows what is going on while work is done that says in between what it is at.
pub fn while_telling<T>(what: &str, work: impl FnOnce(&Pulse) -> T) -> T {
    let spinner = spinner();
    if !spinner.is_hidden() {
        spinner.enable_steady_tick(TICK);
    }
    let pulse = Pulse::start(&spinner, so_far(what, Instant::now()));
    let result = work(&pulse);
    drop(pulse); // it would draw the spinner again
    spinner.finish_and_clear();
    result
}

/// How often a bar or a spinner moves.
pub const TICK: Duration = Duration::from_millis(100);

/// A spinner with a message. It is hidden where there is no terminal, and on one that cannot move its cursor.
fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    ProgressBar::new_spinner().with_style(style.expect("the template has only known keys"))
}

/// The words for something that began then.
pub fn so_far(what: &str, began: Instant) -> impl Fn() -> String + Send + use<> {
    let what = what.to_owned();
    move || match began.elapsed() {
        short if short < Duration::from_secs(1) => what.clone(),
        long => format!("{what}, {} so far", duration(long)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_says_nothing_twice_in_succession() {
        let began = Instant::now();
        let words = |seconds| {
            let since = began.checked_sub(Duration::from_secs(seconds));
            so_far("building", since.expect("the machine runs for longer"))()
        };
        let mut said = LastWords::default();
        let lines: Vec<String> = [10, 12, 125, 127, 129, 130]
            .into_iter()
            .filter_map(|seconds| said.news(words(seconds)).map(str::to_owned))
            .collect();
        assert_eq!(
            lines,
            [
                "building, 10 s so far",
                "building, 12 s so far",
                "building, 2 minutes so far"
            ]
        );
    }

    #[test]
    fn a_log_of_an_hour_has_some_hundred_lines_and_none_is_missed_in_the_first_minutes() {
        let began = Instant::now();
        let mut latest = began;
        let mut count = 0;
        while latest - began < Duration::from_secs(3600) {
            let next = next_line(began, latest);
            let is_early = latest - began <= Duration::from_secs(120);
            assert!(!is_early || next - latest == PAUSE);
            latest = next;
            count += 1;
        }
        assert!((200..400).contains(&count), "{count}");
    }
}
