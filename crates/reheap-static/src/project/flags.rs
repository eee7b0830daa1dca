//! Splits a command line of `cargo reheap` into reheap's flags, Cargo's flags, and the words after them.
//!
//! reheap passes Cargo's flags on unchanged. It understands only a few of them. But to find those, and the first word
//! that is not a flag, it must know which flags have a value: `--bin --no-run` is two flags, and `--bin no-run` is one.

use std::ffi::OsString;
use std::ops::Range;

/// Moves the flags of reheap's command to the front and puts `--` after them, so that every other flag is Cargo's.
pub fn separate(command: &clap::Command, arguments: &[OsString]) -> Vec<OsString> {
    let (mut own, mut cargo) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if text == "--" {
            cargo.push(argument.clone());
            cargo.extend(rest.by_ref().cloned());
        } else if text == "-h" || text == "--help" {
            own.push(argument.clone());
        } else if let Some((flag, value)) = own_flag(command, &text) {
            own.push(argument.clone());
            let values = flag.get_num_args().unwrap_or_default();
            let next = rest.peek().map(|next| next.to_string_lossy());
            let is_value = |next: &str| next == "-" || !next.starts_with('-');
            let takes_next = values.min_values() > 0
                || (values.max_values() > 0 && next.is_some_and(|next| is_value(&next)));
            if value.is_none() && takes_next {
                own.extend(rest.next().cloned());
            }
        } else {
            cargo.push(argument.clone());
        }
    }
    own.push("--".into());
    own.extend(cargo);
    own
}

/// The flag that an argument is, with the value in the same argument.
fn own_flag<'a>(command: &'a clap::Command, text: &str) -> Option<(&'a clap::Arg, Option<String>)> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let flag = command.get_arguments().find(|a| a.get_long() == Some(name));
        return flag.map(|flag| (flag, value));
    }
    let mut characters = text.strip_prefix('-')?.chars();
    let short = characters.next()?;
    let value = Some(characters.as_str().to_owned()).filter(|value| !value.is_empty());
    let flag = command
        .get_arguments()
        .find(|a| a.get_short() == Some(short));
    flag.map(|flag| (flag, value))
}

/// Cargo's flags that use the next word as their value, some of them only if it is no flag (`cargo build --help` and
/// those of `check`, `clippy`, `install`, `run`, `rustc` and `test`).
const LONG_WITH_VALUE: [&str; 29] = [
    "--artifact-dir",
    "--bench",
    "--bin",
    "--branch",
    "--color",
    "--config",
    "--crate-type",
    "--example",
    "--exclude",
    "--features",
    "--git",
    "--index",
    "--jobs",
    "--lockfile-path",
    "--manifest-path",
    "--message-format",
    "--package",
    "--path",
    "--print",
    "--profile",
    "--registry",
    "--rev",
    "--root",
    "--tag",
    "--target",
    "--target-dir",
    "--test",
    "--vers",
    "--version",
];
const SHORT_WITH_VALUE: &str = "CFZjp";

/// The words of a command of Cargo.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags(Vec<OsString>);

/// A flag or another word, and where it is.
struct Found {
    /// The flag with its dashes; `None` for a word that is no flag.
    flag: Option<String>,
    value: Option<String>,
    words: Range<usize>,
}

impl Flags {
    pub(crate) fn new(words: &[OsString]) -> Self {
        Self(words.to_vec())
    }

    pub(crate) fn words(&self) -> &[OsString] {
        &self.0
    }

    pub(crate) fn push(&mut self, word: &str) {
        self.0.push(word.into());
    }

    /// Whether one of these spellings of a flag is there.
    pub(crate) fn has(&self, spellings: &[&str]) -> bool {
        let is_one = |flag: &String| spellings.contains(&flag.as_str());
        self.found()
            .iter()
            .any(|f| f.flag.as_ref().is_some_and(is_one))
    }

    /// The values of a flag.
    pub(crate) fn values(&self, flag: &str) -> Vec<String> {
        let found = self.found().into_iter();
        found
            .filter(|found| found.flag.as_deref() == Some(flag))
            .filter_map(|found| found.value)
            .collect()
    }

    /// Removes every `--flag value` and `--flag=value`, and gives the values.
    pub(crate) fn take_values(&mut self, flag: &str) -> Vec<String> {
        let values = self.values(flag);
        for found in self.found().into_iter().rev() {
            if found.flag.as_deref() == Some(flag) && found.value.is_some() {
                self.0.drain(found.words);
            }
        }
        values
    }

    /// Removes and returns everything from this word on.
    pub(crate) fn split_off(&mut self, at: usize) -> Vec<OsString> {
        self.0.split_off(at)
    }

    /// Where `--` is, or the end.
    pub(crate) fn double_dash(&self) -> usize {
        let position = self.0.iter().position(|word| word == "--");
        position.unwrap_or(self.0.len())
    }

    /// Where the first word is that is neither a flag nor the value of one; else as [`Self::double_dash`].
    pub(crate) fn first_word(&self) -> usize {
        let word = self.found().into_iter().find(|f| f.flag.is_none());
        word.map_or(self.double_dash(), |found| found.words.start)
    }

    /// All flags and words in front of `--`.
    fn found(&self) -> Vec<Found> {
        let words = &self.0[..self.double_dash()];
        let text = |at: usize| words.get(at).map(|word| word.to_string_lossy());
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(word) = text(at) {
            let (flags, wants_value) = flags_of_word(&word);
            let next = text(at + 1).filter(|next| wants_value && !next.starts_with('-'));
            let end = at + 1 + usize::from(next.is_some());
            if flags.is_empty() {
                found.push(Found {
                    flag: None,
                    value: None,
                    words: at..end,
                });
            }
            found.extend(flags.into_iter().map(|(flag, value)| Found {
                flag: Some(flag),
                value: value.or_else(|| next.as_ref().map(|next| next.to_string())),
                words: at..end,
            }));
            at = end;
        }
        found
    }
}

/// The flags in a word, with a value where the word itself has it, and whether the next word is the value of the last.
fn flags_of_word(word: &str) -> (Vec<(String, Option<String>)>, bool) {
    if word.starts_with("--") {
        return match word.split_once('=') {
            Some((flag, value)) => (vec![(flag.to_owned(), Some(value.to_owned()))], false),
            None => (
                vec![(word.to_owned(), None)],
                LONG_WITH_VALUE.contains(&word),
            ),
        };
    }
    let mut flags = Vec::new();
    let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
    while let Some(letter) = letters.next() {
        let flag = format!("-{letter}");
        if !SHORT_WITH_VALUE.contains(letter) {
            flags.push((flag, None));
            continue;
        }
        let value = letters.as_str().trim_start_matches('=');
        let value = Some(value.to_owned()).filter(|value| !value.is_empty());
        let wants_value = value.is_none();
        flags.push((flag, value));
        return (flags, wants_value);
    }
    (flags, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reheap_command::choice::AllocatorArguments;

    fn strings(arguments: &[&str]) -> Vec<OsString> {
        arguments.iter().map(OsString::from).collect()
    }

    fn flags(line: &str) -> Flags {
        Flags::new(&strings(&line.split_whitespace().collect::<Vec<_>>()))
    }

    #[derive(clap::Parser)]
    struct TestArguments {
        #[command(flatten)]
        choice: AllocatorArguments,
        #[arg(long, num_args = 0..=1)]
        json: Option<String>,
        #[arg(long)]
        offline_too: bool,
    }

    fn separated(arguments: &[&str]) -> Vec<OsString> {
        let mut command = <TestArguments as clap::CommandFactory>::command();
        command.build();
        separate(&command, &strings(arguments))
    }

    #[test]
    fn own_flags_are_found_anywhere_before_the_double_dash() {
        let given = [
            "--release",
            "-a",
            "jemalloc",
            "-p",
            "x",
            "--tuning=narenas=2",
            "--",
            "-a",
            "b",
        ];
        let expected = [
            "-a",
            "jemalloc",
            "--tuning=narenas=2",
            "--",
            "--release",
            "-p",
            "x",
            "--",
            "-a",
            "b",
        ];
        assert_eq!(separated(&given), strings(&expected));
    }

    #[test]
    fn a_flag_takes_the_next_argument_only_where_it_has_a_value() {
        assert_eq!(
            separated(&["--offline-too", "--json", "f.json", "-q"]),
            strings(&["--offline-too", "--json", "f.json", "--", "-q"])
        );
        assert_eq!(
            separated(&["--json", "--release", "-anew", "x"]),
            strings(&["--json", "-anew", "--", "--release", "x"])
        );
    }

    #[test]
    fn values_are_taken_in_both_spellings() {
        let mut given = flags("--target a -p x --target=b");
        assert_eq!(given.take_values("--target"), ["a", "b"]);
        assert_eq!(given.words(), strings(&["-p", "x"]));
    }

    #[test]
    fn a_flag_is_found_among_others_and_not_in_a_value() {
        for line in [
            "-q",
            "--quiet",
            "-rq",
            "-vq",
            "--bin -q",
            "-j4 -q",
            "--bin -q --",
        ] {
            assert!(flags(line).has(&["-q", "--quiet"]), "{line}");
        }
        for line in ["", "-jq", "-pq", "-- -q", "--bin quiet", "--bin=-q", "-r q"] {
            assert!(!flags(line).has(&["-q", "--quiet"]), "{line}");
        }
        assert!(flags("--bin --no-run").has(&["--no-run"]));
    }

    #[test]
    fn the_first_word_is_what_no_flag_takes() {
        for (line, expected) in [
            ("--bin app word", 2),
            ("--bin=app word", 1),
            ("-p app -j 4 -r word -x", 5),
            ("-j4 word", 1),
            ("-pq --color always -- word", 3),
            ("--release", 1),
            ("word -- -x", 0),
        ] {
            assert_eq!(flags(line).first_word(), expected, "{line}");
        }
    }
}
