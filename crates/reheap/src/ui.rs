//! Prints what people see on standard error: errors, notes and progress.

use crate::exit;
use crate::pulse::Pulse;
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use reheap_bench::outlook::duration;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// An error with a hint, an exit code, or both.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// Something did not work.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            code: exit::FAILED,
        }
    }

    /// The user asked for something that cannot be.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            code: exit::WRONG_USAGE,
            ..Self::failed(message)
        }
    }

    /// Another exit code.
    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// What to do about it, with the command to type.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Prints an error in the one way that errors are printed, and gives the exit code for it.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let failure = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Failure>());
    let mut text = format!("reheap: {error:#}\n");
    if let Some(hint) = failure.and_then(|f| f.hint.as_ref()) {
        text.push_str(&format!("\nhint: {hint}\n"));
    }
    to_stderr(&text);
    ExitCode::from(failure.map_or(exit::FAILED, |f| f.code))
}

/// Prints a line that is neither data nor an error.
pub(crate) fn note(text: &str) {
    to_stderr(&format!("reheap: {text}\n"));
}

/// Messages may have several lines; no name or foreign output in them moves the cursor or changes colours.
fn to_stderr(text: &str) {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    // If standard error is closed, there is nobody left to tell.
    let _ = std::io::stderr().write_all(lines.join("\n").as_bytes());
}

/// A path or other text for one line. Made visible is what moves the cursor of a terminal and more: control characters,
/// and those that turn the direction of writing.
pub(crate) fn printable(text: impl AsRef<Path>) -> String {
    let mut printable = String::new();
    for character in text.as_ref().to_string_lossy().chars() {
        let turns = matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if character.is_control() || turns {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Prints a report beside what a command printed, which has standard output for itself.
pub(crate) fn beside(text: &str) {
    // If standard error is closed, there is nobody left to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Prints data.
///
/// # Errors
/// Those of writing; a closed pipe counts as done, because the reader has what it wanted.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

/// Does something that may take long, and shows since when: a spinner on a terminal, a line elsewhere.
pub(crate) fn while_showing<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        note(what);
    }
    while_spinning(what, work)
}

/// Does something that may take some seconds, and shows it: on a terminal at once, elsewhere by a line now and then, as
/// soon as it takes longer than a person waits for a sign.
pub(crate) fn while_spinning<T>(what: &str, work: impl FnOnce() -> T) -> T {
    while_telling(what, |_| work())
}

/// The same for work that says in between what it is at.
pub(crate) fn while_telling<T>(what: &str, work: impl FnOnce(&Telling) -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return while_printing(what, work);
    }
    let spinner = ProgressBar::new_spinner()
        .with_style(
            ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
                .expect("the template has only known keys"),
        )
        .with_message(what.to_owned());
    spinner.enable_steady_tick(Duration::from_millis(100));
    let result = work(&Telling::OnTerminal(spinner.clone()));
    spinner.finish_and_clear();
    result
}

/// What something that takes long is at.
pub(crate) enum Telling {
    OnTerminal(ProgressBar),
    InLines(Mutex<String>),
}

impl Telling {
    /// From now on it is at this.
    pub(crate) fn now(&self, what: &str) {
        match self {
            Telling::OnTerminal(spinner) => spinner.set_message(what.to_owned()),
            Telling::InLines(shown) => {
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = what.to_owned();
            }
        }
    }
}

fn while_printing<T>(what: &str, work: impl FnOnce(&Telling) -> T) -> T {
    let telling = &Telling::InLines(Mutex::new(what.to_owned()));
    let (work_is_done, done) = channel::<()>();
    thread::scope(|scope| {
        let print = move || {
            let began = Instant::now();
            let mut pace = Pace::default();
            while done.recv_timeout(pace.left(began.elapsed())) == Err(RecvTimeoutError::Timeout) {
                let elapsed = began.elapsed();
                if let (true, Telling::InLines(shown)) = (pace.is_due(elapsed), telling) {
                    let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                    note(&format!("{shown}, {} s so far", elapsed.as_secs()));
                }
            }
        };
        // Under a low limit of processes there is no room for a thread. The work matters more than the lines.
        let _ = thread::Builder::new().spawn_scoped(scope, print);
        let _work_is_done = work_is_done; // dropped with the work, which ends the thread, even in a panic
        work(telling)
    })
}

/// When to print a line where nothing moves: after two seconds, then after twice as long, and at least every ten
/// seconds.
pub(crate) struct Pace {
    next: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let next = Duration::from_secs(2);
        Self { next }
    }
}

impl Pace {
    /// Whether a line is due after so long. If it is, it counts as printed.
    pub(crate) fn is_due(&mut self, elapsed: Duration) -> bool {
        const AT_LEAST_EVERY: Duration = Duration::from_secs(10);
        let is_due = elapsed >= self.next;
        if is_due {
            self.next = elapsed + elapsed.min(AT_LEAST_EVERY);
        }
        is_due
    }

    /// How long it is until the next line.
    fn left(&self, elapsed: Duration) -> Duration {
        self.next.saturating_sub(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_hostile_name_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{9b}"), "a\\u{1b}[2Jb\\n\\u{9b}");
        assert_eq!(printable("é\u{202e}"), "é\\u{202e}");
    }

    #[test]
    fn lines_come_after_two_seconds_and_then_less_and_less_often() {
        let mut pace = Pace::default();
        let second = Duration::from_secs(1);
        let due: Vec<u32> = (0..=40).filter(|&n| pace.is_due(second * n)).collect();
        assert_eq!(due, [2, 4, 8, 16, 26, 36]);
    }
}
