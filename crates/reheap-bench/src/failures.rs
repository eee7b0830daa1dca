//! Runs that do not count, and how that is said: `crashed in 3 of 10 runs (SIGSEGV)`.

use crate::figures;
use crate::results::{Benchmark, Outcome, OutputCheck, Variant, signal_name};
use std::collections::BTreeSet;
use std::fmt;

/// Runs that do not count, because they ended or printed otherwise than the baseline does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// All runs of the variant.
    pub runs: usize,
    /// Those that ended otherwise, by how they ended.
    pub outcomes: Vec<(Outcome, usize)>,
    /// Those that ended as expected, but printed something else.
    pub other_output: usize,
    /// The rounds of all these runs.
    pub rounds: BTreeSet<usize>,
}

impl Failures {
    /// How many runs do not count.
    pub fn count(&self) -> usize {
        self.other_output + self.outcomes.iter().map(|outcome| outcome.1).sum::<usize>()
    }

    /// Of each variant, in the benchmark's order.
    pub fn of_all(benchmark: &Benchmark, output: OutputCheck) -> Vec<Failures> {
        let variants = benchmark.variants.iter();
        variants
            .map(|variant| Failures::of(benchmark, variant, output))
            .collect()
    }

    /// Of a variant's runs.
    pub fn of(benchmark: &Benchmark, variant: &Variant, output: OutputCheck) -> Failures {
        let expected = benchmark.expected_outcome();
        let mut failures = Failures {
            runs: variant.runs.len(),
            ..Failures::default()
        };
        for run in benchmark.failures(variant, output) {
            failures.rounds.insert(run.round);
            if run.outcome == expected {
                failures.other_output += 1;
                continue;
            }
            let mut known = failures.outcomes.iter_mut();
            match known.find(|(outcome, _)| *outcome == run.outcome) {
                Some((_, count)) => *count += 1,
                None => failures.outcomes.push((run.outcome, 1)),
            }
        }
        failures
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_all = |count: usize| format!("in {count} of {}", figures::count(self.runs, "run"));
        let outcomes = self.outcomes.iter();
        let mut kinds: Vec<String> = outcomes
            .map(|&(outcome, count)| {
                let count = of_all(count);
                match outcome {
                    Outcome::Signalled(signal) => format!("crashed {count} ({})", named(signal)),
                    other => format!("{} {count}", ended(other)),
                }
            })
            .collect();
        if self.other_output > 0 {
            kinds.push(format!(
                "printed something else {}",
                of_all(self.other_output)
            ));
        }
        if kinds.is_empty() {
            write!(f, "failed {}", of_all(0))
        } else {
            f.write_str(&kinds.join(", "))
        }
    }
}

/// Whether a program ended as it was made to, be it with an exit code that says no. With 126 and 127 a shell, and what
/// starts programs as a shell does, says that there was none to start (POSIX, "Exit Status for Commands"). Of a load
/// ([`Benchmark::served`]), only success is such an end.
pub(crate) fn is_an_end(outcome: Outcome, served: bool) -> bool {
    match outcome {
        Outcome::Exited(code) if served => code == 0,
        Outcome::Exited(code) => !matches!(code, 126 | 127),
        _ => false,
    }
}

/// How all variants ended, if none of them works: that of the first.
pub fn nothing_works(benchmark: &Benchmark) -> Option<Outcome> {
    let mut outcomes = benchmark.variants.iter().flat_map(|variant| &variant.runs);
    let first = outcomes.next()?.outcome;
    let works = |outcome| is_an_end(outcome, benchmark.served);
    let works = works(first) || outcomes.any(|run| works(run.outcome));
    (!works).then_some(first)
}

/// How a run ended, to follow its subject: `crashed (SIGSEGV)`.
pub fn ended(outcome: Outcome) -> String {
    match outcome {
        Outcome::Exited(code) => format!("ended with exit code {code}"),
        Outcome::Signalled(signal) => format!("crashed ({})", named(signal)),
        Outcome::TimedOut => "took too long".to_owned(),
        Outcome::OutOfMemory => "was out of memory".to_owned(),
    }
}

fn named(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_is_said_in_its_own_words() {
        let failures = Failures {
            runs: 10,
            outcomes: vec![
                (Outcome::Signalled(11), 3),
                (Outcome::Signalled(40), 1),
                (Outcome::Exited(7), 1),
                (Outcome::TimedOut, 1),
                (Outcome::OutOfMemory, 1),
            ],
            other_output: 1,
            ..Failures::default()
        };
        let expected = [
            "crashed in 3 of 10 runs (SIGSEGV)",
            "crashed in 1 of 10 runs (signal 40)",
            "ended with exit code 7 in 1 of 10 runs",
            "took too long in 1 of 10 runs",
            "was out of memory in 1 of 10 runs",
            "printed something else in 1 of 10 runs",
        ];
        assert_eq!(failures.to_string(), expected.join(", "));
    }
}
