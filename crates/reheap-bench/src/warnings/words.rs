//! What a warning says, and what it advises. Advice knows which options were used, so nobody is told to do what he did.

use crate::figures::{count, number, p, percent, seconds};
use crate::results::Settings;
use crate::warnings::Warning;
use std::fmt;

impl Warning {
    /// What helps, as a sentence; knows what was asked for.
    pub fn advice(&self, settings: &Settings) -> String {
        let more_rounds = match settings.rounds {
            Some(rounds) => format!("ask for more rounds than `--rounds {rounds}`"),
            None => "ask for more rounds with `--rounds`".to_owned(),
        };
        match self {
            Warning::TwinsDiffer { .. } => format!(
                "Something else than the program decides its time, such as what ran before it. Differences of this size \
                 mean nothing; {more_rounds}."
            ),
            Warning::Shared(sharing) => {
                let times = number(sharing.wall_over_cpu);
                format!(
                    "Wall time shows them too: it is {times} times CPU time. So CPU time leads here. End them for \
                     figures of wall time."
                )
            }
            Warning::FirstRoundSlower { .. } => {
                "The machine had to warm up. If the command reads files for the first time, run it once before you measure.".into()
            }
            Warning::TooShort { .. } => "Give the command more work, enough for a tenth of a second.".into(),
            Warning::Drift { per_round, .. } => {
                let cause = if *per_round > 0.0 { "the processor became hot, or the command leaves files behind that slow the next run down" } else { "another program on the machine ended" };
                format!("Ratios are paired by round, so the drift barely changes them. The likely cause: {cause}.")
            }
            Warning::OtherLoad { .. } => "Measure again when the machine has nothing else to do.".into(),
            Warning::Outliers { .. } => {
                "Outliers are kept and barely move the median. Another program probably ran at that time."
                    .into()
            }
            Warning::LeftRunning { .. } => {
                "What a program does in the background is not measured. Use an option that keeps it in the foreground; \
                 a server is measured with `--ready-port` and `--load`."
                    .into()
            }
            Warning::PeakOfOne { .. } => {
                "The average memory counts all of them: see `--verbose`.".into()
            }
            Warning::FewRounds { needed, .. } => {
                format!("Use `--rounds {needed}` or more, or a command that takes less time.")
            }
            Warning::MetricMissing { metric, .. } => {
                format!("Check that the command prints `{metric}` in every run. Its figures leave out runs without it.")
            }
            Warning::Failed { .. } => {
                "All figures leave these runs out. Run the variant by itself to see its messages.".into()
            }
            Warning::OutputVaries { .. } => {
                "All figures leave out runs whose output differs from that of most runs. If the output may differ, use \
                 `--ignore-output`."
                    .into()
            }
            Warning::NoBaseline { .. } => {
                "reheap compares the others with the first variant. Choose one that works, or fix this one.".into()
            }
            Warning::Unreached(missed) => missed.advice(),
            Warning::ExpectedFailure { .. } => {
                "If that code means a failure, reheap measured the failure. Run the command by itself to see its messages."
                    .into()
            }
            Warning::MetricNeverFound { .. } => {
                "Try the expression on what the command prints: `COMMAND 2>&1 | grep -E REGEX`.".into()
            }
            Warning::OutputDiffers { .. } => {
                "Look at the difference first: it may be a hidden crash. If the output may differ, use \
                 `--ignore-output`."
                    .into()
            }
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::TwinsDiffer { ratio, p: chance } => {
                let by = ratio.map_or_else(String::new, |ratio| {
                    format!(" by {}", percent((ratio - 1.0).abs()))
                });
                write!(f, "the baseline differs from itself{by} ({})", p(*chance))
            }
            Warning::Shared(sharing) => write!(
                f,
                "other programs took the processor {} times a second",
                number(sharing.switches_per_second)
            ),
            Warning::FirstRoundSlower { ratio } => {
                write!(
                    f,
                    "the first round took {} longer than the others",
                    percent(ratio - 1.0)
                )
            }
            Warning::TooShort { wall_seconds } => {
                let wall = seconds(*wall_seconds);
                write!(
                    f,
                    "the command takes {wall}, of which starting a process is a large part"
                )
            }
            Warning::Drift {
                per_round,
                rounds,
                p: chance,
            } => {
                let word = if *per_round > 0.0 { "slower" } else { "faster" };
                let all = percent(per_round.abs() * *rounds as f64);
                write!(
                    f,
                    "runs became {all} {word} over {rounds} rounds ({})",
                    p(*chance)
                )
            }
            Warning::OtherLoad {
                load_average,
                processors,
            } => write!(
                f,
                "the machine was busy when it began: load {load_average:.1} on {}",
                count(*processors, "processor")
            ),
            Warning::Outliers {
                variant,
                count,
                runs,
            } => {
                let are = if *count == 1 {
                    "is an outlier"
                } else {
                    "are outliers"
                };
                write!(f, "{variant}: {count} of {runs} runs {are}")
            }
            Warning::LeftRunning {
                variant,
                count,
                runs,
            } => write!(
                f,
                "{variant} left programs running in {count} of {runs} runs, and reheap ended them"
            ),
            Warning::PeakOfOne { variant } => write!(
                f,
                "{variant} has several processes at a time, and its peak memory is that of the largest"
            ),
            Warning::FewRounds {
                rounds,
                needed,
                took_seconds,
            } => {
                let rounds = count(*rounds, "round");
                match took_seconds {
                    Some(time) => {
                        let time = seconds(*time);
                        write!(
                            f,
                            "not enough data: {rounds} fitted into {time}, {needed} are needed"
                        )
                    }
                    None => write!(f, "not enough data: {rounds}, and {needed} are needed"),
                }
            }
            Warning::MetricMissing {
                variant,
                metric,
                missing,
                runs,
            } => {
                write!(
                    f,
                    "{variant}: {missing} of {runs} runs did not print `{metric}`"
                )
            }
            Warning::Failed { variant, failures } => write!(f, "{variant}: {failures}"),
            Warning::OutputVaries { outputs, runs } => write!(
                f,
                "the command does not always print the same: {outputs} different outputs in {runs} runs of the baseline"
            ),
            Warning::NoBaseline { variant } => write!(
                f,
                "there is nothing to compare with: no run of `{variant}`, the baseline, counts"
            ),
            Warning::Unreached(missed) => missed.fmt(f),
            Warning::ExpectedFailure { code } => {
                write!(f, "the command ends with exit code {code}")
            }
            Warning::MetricNeverFound { metric } => {
                write!(f, "no output matches the expression of `{metric}`")
            }
            Warning::OutputDiffers {
                variant,
                count,
                runs,
            } => {
                write!(
                    f,
                    "{variant}: {count} of {runs} runs printed other output than the baseline"
                )
            }
        }
    }
}
