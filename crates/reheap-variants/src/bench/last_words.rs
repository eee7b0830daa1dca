//! Quotes what a run printed before it failed, and says what may have been the reason.

use reheap_bench::analysis::ended;
use reheap_bench::run::Finished;
use reheap_command::ui;

/// How many lines of a failed run's output reheap quotes.
const LINES: usize = 4;
/// How many characters of a foreign line.
const LINE_MAX: usize = 160;

/// Switches a terminal to a second screen, as programs do that fill the screen (xterm's control sequences, `smcup`).
const SECOND_SCREEN: &str = "\u{1b}[?1049h";

/// How a run ended and its last line, to follow a sentence within one line.
pub fn failed(finished: &Finished) -> String {
    let ended = ended(finished.outcome);
    match last_lines(finished, 1).as_str() {
        "" => format!("; the command {ended}"),
        line => format!(
            "; the command {ended}, and its last line was `{}`",
            shown(line)
        ),
    }
}

/// The last lines of a run's output, to follow a sentence: `; its last output was:`. Nothing if it printed nothing.
pub(crate) fn quoted(finished: &Finished) -> String {
    let lines = last_lines(finished, LINES);
    if lines.is_empty() {
        return String::new();
    }
    let mut text = "; its last output was:".to_owned();
    for line in lines.lines() {
        text.push_str("\n  ");
        text.push_str(&shown(line));
    }
    text
}

fn last_lines(finished: &Finished, count: usize) -> String {
    match finished.stderr.last_lines(count) {
        nothing if nothing.is_empty() => finished.stdout.last_lines(count),
        lines => lines,
    }
}

/// A foreign line, or the beginning of a long one.
pub(crate) fn shown(line: &str) -> String {
    ui::printable(line).chars().take(LINE_MAX).collect()
}

/// What the output shows to be missing, as a sentence for a hint.
pub(crate) fn hint(finished: &Finished) -> Option<&'static str> {
    let outputs = [&finished.stdout, &finished.stderr];
    let texts = outputs
        .into_iter()
        .flat_map(|output| [&output.head, &output.tail]);
    let mut texts = texts.map(|text| String::from_utf8_lossy(text).to_lowercase());
    texts.any(|text| speaks_of_terminal(&text)).then_some(
        "reheap runs commands without a terminal: use an option of the command that needs none",
    )
}

/// Whether a failed command speaks of a terminal. Programs have many sentences for it, and these two words in common.
fn speaks_of_terminal(text: &str) -> bool {
    let mut words = text.split(|character: char| !character.is_alphanumeric());
    words.any(|word| word == "terminal" || word == "tty") || text.contains(SECOND_SCREEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_need_a_terminal_are_told_from_others() {
        for text in [
            "top: failed tty get",
            "standard input is not a terminal",
            "sh: 1: cannot open /dev/tty: no such device or address",
            "\u{1b}[?1049h\u{1b}[22;0;0t",
        ] {
            assert!(speaks_of_terminal(text), "{text}");
        }
        // A serial line.
        assert!(!speaks_of_terminal("cannot open /dev/ttys0"));
    }
}
