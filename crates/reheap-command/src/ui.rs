//! Prints what people see on standard error, errors and notes, and data.

use crate::exit;
use anyhow::Context as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// An error with a hint, an exit code, or both.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// The system gives no thread for that purpose.
    pub fn no_thread(purpose: &str, error: &io::Error) -> Failure {
        let text = format!("cannot start a thread that {purpose}: {error}");
        Failure::failed(text).hint(
            "a limit leaves no room for it: of processes, which counts threads (`ulimit -u`, or the container's), or of \
             memory (`ulimit -v`, `ulimit -d`)",
        )
    }

    /// A failure because something did not work.
    pub fn failed(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            code: exit::FAILED,
        }
    }

    /// The user asked for something that cannot be.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            code: exit::WRONG_USAGE,
            ..Self::failed(message)
        }
    }

    /// Sets another exit code.
    pub fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// What to do about it, with the command to type.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What else to do about it.
    pub fn or(mut self, another: &str) -> Self {
        self.hint = Some(match self.hint {
            Some(hint) => format!("{hint}\n      or {another}"),
            None => another.to_owned(),
        });
        self
    }
}

/// Prints an error in the one way that errors are printed, and gives the exit code for it.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let failure = failure_in(error);
    let mut text = shortened(&format!("reheap: {error:#}\n"));
    if let Some(hint) = hint_of(error) {
        text.push_str(&format!("\nhint: {hint}\n"));
    }
    to_stderr(&text);
    ExitCode::from(failure.map_or(exit::FAILED, |f| f.code))
}

fn failure_in(error: &anyhow::Error) -> Option<&Failure> {
    let mut causes = error.chain();
    causes.find_map(|cause| cause.downcast_ref::<Failure>())
}

/// What to do about an error.
pub fn hint_of(error: &anyhow::Error) -> Option<&str> {
    failure_in(error)?.hint.as_deref()
}

/// An error without its middle, if that is long. A compiler or a linker may have said megabytes: what failed is at the
/// beginning of it, and why is at the end.
fn shortened(text: &str) -> String {
    const FRONT_BYTES: usize = 4_000;
    const END_BYTES: usize = 8_000;
    if text.len() <= 2 * (FRONT_BYTES + END_BYTES) {
        return text.to_owned();
    }
    let front = &text[..text.floor_char_boundary(FRONT_BYTES)];
    let end = &text[text.ceil_char_boundary(text.len() - END_BYTES)..];
    let left_out = text.len() - front.len() - end.len();
    format!("{front}\n[… {left_out} bytes left out …]\n{end}")
}

/// Prints a line that is neither data nor an error.
pub fn note(text: &str) {
    to_stderr(&format!("reheap: {text}\n"));
}

static LATEST: Mutex<Option<Instant>> = Mutex::new(None);

/// When something was printed last, if anything was.
pub(crate) fn latest() -> Option<Instant> {
    *LATEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Messages may have several lines; no name or foreign output in them moves the cursor or changes colours.
fn to_stderr(text: &str) {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    // If standard error is closed, there is nobody left to tell.
    let _ = std::io::stderr().write_all(lines.join("\n").as_bytes());
    *LATEST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

/// A path or other text for one line. Made visible is what moves the cursor of a terminal and more: control characters,
/// and those that turn the direction of writing.
pub fn printable(text: impl AsRef<Path>) -> String {
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
pub fn beside(text: &str) {
    // If standard error is closed, there is nobody left to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Prints what another program says on standard error, without its middle if that is long.
pub fn passed_on(text: &str) {
    beside(&shortened(text));
}

/// Prints data.
///
/// # Errors
/// Those of writing; a closed pipe counts as done, because the reader has what it wanted.
pub fn data(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_error_keeps_its_beginning_and_its_end() {
        let text = format!("cannot link: {}undefined: é", "é".repeat(1_000_000));
        let short = shortened(&text);
        assert!(short.len() < 20_000);
        assert!(short.starts_with("cannot link: é") && short.ends_with("undefined: é"));
        assert!(short.contains("bytes left out"));
        assert_eq!(shortened("cannot link"), "cannot link");
    }

    #[test]
    fn control_characters_of_a_hostile_name_do_not_reach_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\n\u{9b}"), "a\\u{1b}[2Jb\\n\\u{9b}");
        assert_eq!(printable("é\u{202e}"), "é\\u{202e}");
    }
}
