//! Figures that a command prints about itself: requests per second, a latency.
//!
//! A benchmark often knows better than the clock what it achieved, above all a load generator. What it prints is for
//! people, so the figure is named by a regular expression, as `throughput=Requests/sec: +([\d.,]+)`.

use crate::output::Source;
use crate::results::Direction;
use regex::bytes::Regex;
use std::collections::BTreeMap;

/// A figure to read from a command's output.
#[derive(Clone, Debug)]
pub struct Metric {
    /// As reports call it.
    pub name: String,
    /// Its first group is the figure; without a group, all of what it matches. It is applied to each line.
    pub pattern: Regex,
    /// In which direction it is better.
    pub direction: Direction,
}

/// Why a text describes no metric.
#[derive(Debug, thiserror::Error)]
pub enum MetricError {
    /// There is no equals sign, or nothing before it.
    #[error("`{0}` has no name: a metric is written NAME=REGEX")]
    NoName(String),
    /// The part after the equals sign is no regular expression.
    #[error("`{pattern}` is no regular expression: {reason}")]
    Pattern {
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        reason: regex::Error,
    },
}

impl Metric {
    /// Reads `NAME=REGEX`.
    ///
    /// # Errors
    /// If there is no name, or the rest is no regular expression.
    pub fn parse(text: &str, direction: Direction) -> Result<Metric, MetricError> {
        let named = text.split_once('=').map(|(name, rest)| (name.trim(), rest));
        let Some((name, pattern)) = named.filter(|(name, _)| !name.is_empty()) else {
            return Err(MetricError::NoName(text.to_owned()));
        };
        let compiled = Regex::new(pattern).map_err(|reason| MetricError::Pattern {
            pattern: pattern.to_owned(),
            reason,
        })?;
        Ok(Metric {
            name: name.to_owned(),
            pattern: compiled,
            direction,
        })
    }

    /// What the expression finds last in this line.
    pub fn find(&self, line: &[u8]) -> Option<Found> {
        let captures = self.pattern.captures_iter(line).last()?;
        let found = captures.get(1).or_else(|| captures.get(0))?;
        let text = String::from_utf8_lossy(found.as_bytes());
        Some(match number(&text) {
            Some(figure) => Found::Figure(figure),
            None => Found::NoNumber(text.into_owned()),
        })
    }
}

/// What an expression finds.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// The figure.
    Figure(f64),
    /// A text with no number in it, so the expression is not the one that was meant.
    NoNumber(String),
}

/// The last figure of each metric; standard output goes before standard error.
#[derive(Debug, Default)]
pub(crate) struct Readings {
    stdout: BTreeMap<String, f64>,
    stderr: BTreeMap<String, f64>,
    without_number: BTreeMap<String, String>,
}

impl Readings {
    pub(crate) fn read(&mut self, metrics: &[Metric], source: Source, line: &[u8]) {
        let readings = match source {
            Source::Stdout => &mut self.stdout,
            Source::Stderr => &mut self.stderr,
        };
        for metric in metrics {
            match metric.find(line) {
                None => {}
                Some(Found::Figure(value)) => {
                    readings.insert(metric.name.clone(), value);
                }
                Some(Found::NoNumber(text)) => {
                    let name = metric.name.clone();
                    self.without_number.entry(name).or_insert(text);
                }
            }
        }
    }

    /// The figures, and of the metrics that have none the first text that was found in place of a number.
    pub(crate) fn finish(mut self) -> (BTreeMap<String, f64>, BTreeMap<String, String>) {
        self.stderr.append(&mut self.stdout);
        let (figures, mut texts) = (self.stderr, self.without_number);
        texts.retain(|name, _| !figures.contains_key(name));
        (figures, texts)
    }
}

/// The first number in a text: `1,234.5 req/s` is 1234.5. A comma groups digits and never begins decimals, as in the
/// output of nearly all programs.
fn number(text: &str) -> Option<f64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let before = text[..start].trim_end_matches('.').len();
    let start = if text[..before].ends_with(['-', '+']) {
        before - 1
    } else {
        before
    };
    let digits = text[start..].replace([',', '_'], "");
    let mut end = 0;
    for (index, character) in digits.char_indices() {
        let exponent_sign = digits[..index].ends_with(['e', 'E']);
        let fits = match character {
            '0'..='9' => true,
            '.' => !digits[..index].contains(['.', 'e', 'E']),
            'e' | 'E' => !digits[..index].contains(['e', 'E']),
            '-' | '+' => index == 0 || exponent_sign,
            _ => false,
        };
        if !fits {
            break;
        }
        end = index + character.len_utf8();
    }
    // `3e` of `3 elements` without its space, and `5.` at the end of a sentence.
    let longest = digits[..end].trim_end_matches(['e', 'E', '-', '+', '.']);
    longest.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(text: &str) -> Metric {
        Metric::parse(text, Direction::Higher).unwrap()
    }

    #[test]
    fn the_first_group_is_the_figure_or_else_the_whole_match() {
        let cases: [(_, &[u8], _); 3] = [
            (
                r"rate=Requests/sec:\s+(\S+)",
                b"Requests/sec:  1,234.5",
                1234.5,
            ),
            (r"rate=\d+ req/s", b"about 99 req/s", 99.0),
            ("rate=x=(.*)", b"x=3", 3.0),
        ];
        for (text, line, figure) in cases {
            assert_eq!(metric(text).find(line), Some(Found::Figure(figure)));
        }
        assert_eq!(metric("rate=(nothing)").find(b"else"), None);
    }

    #[test]
    fn the_last_match_of_a_line_counts() {
        let found = metric(r"rate=rate (\d+)").find(b"rate 30, rate 31, done");
        assert_eq!(found, Some(Found::Figure(31.0)));
    }

    #[test]
    fn numbers_are_found_as_programs_print_them() {
        let cases = [
            ("12", 12.0),
            ("1,234.5", 1234.5),
            ("1_000_000", 1e6),
            ("-3.25", -3.25),
            (" 17.5ms", 17.5),
            (".5", 0.5),
            ("1e-3", 0.001),
            ("2.5E+06 op/s", 2.5e6),
            ("3elements", 3.0),
            ("5.", 5.0),
            ("1.2.3", 1.2),
            ("99%", 99.0),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text), Some(expected), "{text}");
        }
        assert_eq!(number("no figure"), None);
        assert_eq!(number(""), None);
    }

    #[test]
    fn the_last_line_counts_and_standard_output_goes_before_standard_error() {
        let metrics = [metric("a=a (.*)"), metric("b=b (.*)")];
        let mut readings = Readings::default();
        readings.read(&metrics, Source::Stdout, b"a 1");
        readings.read(&metrics, Source::Stdout, b"a 2");
        readings.read(&metrics, Source::Stderr, b"a 3");
        readings.read(&metrics, Source::Stderr, b"b 4");
        let expected = [("a".to_owned(), 2.0), ("b".to_owned(), 4.0)];
        let (figures, without_number) = readings.finish();
        assert_eq!(figures, BTreeMap::from(expected));
        assert!(without_number.is_empty());
    }

    #[test]
    fn the_first_text_without_a_number_is_kept_unless_a_number_comes() {
        let metrics = [metric("a=a (.*)"), metric("b=b (.*)")];
        let mut readings = Readings::default();
        for line in ["a fast", "a faster", "b slow", "b 2", "b slow again"] {
            readings.read(&metrics, Source::Stdout, line.as_bytes());
        }
        let (figures, without_number) = readings.finish();
        assert_eq!(figures, BTreeMap::from([("b".to_owned(), 2.0)]));
        let expected = [("a".to_owned(), "fast".to_owned())];
        assert_eq!(without_number, BTreeMap::from(expected));
    }

    #[test]
    fn output_that_is_no_text_does_not_hide_a_figure() {
        let found = metric("rate=rate (.*)").find(b"\xff\xfe rate 7");
        assert_eq!(found, Some(Found::Figure(7.0)));
    }

    #[test]
    fn what_is_wrong_with_a_metric_is_said() {
        let error = |text| {
            Metric::parse(text, Direction::Lower)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("rate"),
            "`rate` has no name: a metric is written NAME=REGEX"
        );
        assert_eq!(
            error("=x"),
            "`=x` has no name: a metric is written NAME=REGEX"
        );
        assert!(error("rate=(").starts_with("`(` is no regular expression: "));
    }
}
