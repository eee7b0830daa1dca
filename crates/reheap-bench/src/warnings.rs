//! What makes a benchmark less trustworthy than it looks, with what was measured and what helps.
//!
//! A warning never changes a figure. What it says is in `words`.

#[cfg(test)]
mod tests;
mod words;

use crate::analysis::{Analysis, Failures, Row, figures};
use crate::outlook::{enough_seconds, rounds_needed};
use crate::results::{
    Benchmark, Ending, Outcome, OutputCheck, Quantity, Results, Role, Settings, Variant,
};
use crate::sharing::Sharing;
use crate::unreached::Missed;
use reheap_stats::{Sample, ranks};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A run that is shorter is mostly the start of a process, which takes about a millisecond and varies as much as that.
const SHORT_SECONDS: f64 = 0.005;

/// How unlikely it has to be by chance that the baseline's two runs of each round differ as much as they do.
const TWINS_P: f64 = 0.01;

/// How much slower the first round has to be than the others.
const SLOW_FIRST_ROUND: f64 = 1.05;

/// How unlikely a drift has to be by chance, and how large it has to be from the first round to the last.
const DRIFT_P: f64 = 0.01;
const DRIFT_SIZE: f64 = 0.02;

/// Among fewer runs the spread is too uncertain to call any of them an outlier.
const RUNS_FOR_OUTLIERS: usize = 10;

/// How many times the largest process's peak a command may have on average: a shell in front of a program adds a little.
const SHARE_OF_ONE: f64 = 1.2;

/// The share of the processors that may be busy with something else.
const BUSY_SHARE: f64 = 0.25;

/// Something that a reader of a benchmark has to know.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// The baseline differs from itself, which is the same program twice.
    TwinsDiffer {
        /// By which ratio; none of figures that are zero.
        ratio: Option<f64>,
        /// The chance of it.
        p: f64,
    },
    /// Other programs took the processor.
    Shared(Sharing),
    /// The first round took longer than all others.
    FirstRoundSlower {
        /// How many times as long as the others in the middle.
        ratio: f64,
    },
    /// The command ends so soon that its start is most of it.
    TooShort {
        /// The baseline's median.
        wall_seconds: f64,
    },
    /// Runs became slower or faster in the course of the benchmark.
    Drift {
        /// By how much each round; below zero if faster.
        per_round: f64,
        /// The rounds.
        rounds: usize,
        /// The chance of it without a drift.
        p: f64,
    },
    /// The machine had something else to do when it began.
    OtherLoad {
        /// The one-minute load average.
        load_average: f64,
        /// The processors that there were for it.
        processors: usize,
    },
    /// Some runs of a variant are outliers: their times are far from the others.
    Outliers {
        /// The variant.
        variant: String,
        /// How many runs.
        count: usize,
        /// Of how many.
        runs: usize,
    },
    /// A command has several processes at a time, and its peak memory is that of one of them.
    PeakOfOne {
        /// The variant.
        variant: String,
    },
    /// A command goes on in the background after its end, so not all of it was measured.
    LeftRunning {
        /// The variant.
        variant: String,
        /// How many runs left something.
        count: usize,
        /// Of how many.
        runs: usize,
    },
    /// With so few rounds no difference can be told from chance, however large it is.
    FewRounds {
        /// The rounds.
        rounds: usize,
        /// How many it takes with so many candidates.
        needed: usize,
        /// The time that allowed no more, in seconds; none if this number of rounds was asked for.
        took_seconds: Option<f64>,
    },
    /// A figure is in no output at all.
    MetricNeverFound {
        /// The metric.
        metric: String,
    },
    /// A figure is missing in some runs.
    MetricMissing {
        /// The variant.
        variant: String,
        /// The metric.
        metric: String,
        /// The runs without it.
        missing: usize,
        /// Of how many.
        runs: usize,
    },
    /// A variant crashed, took too long or ended otherwise than the baseline.
    Failed {
        /// The variant.
        variant: String,
        /// How often, and how.
        failures: Failures,
    },
    /// A variant printed other output than the baseline, which always prints the same.
    OutputDiffers {
        /// The variant.
        variant: String,
        /// The runs with other output.
        count: usize,
        /// Of how many.
        runs: usize,
    },
    /// The baseline itself does not always print the same.
    OutputVaries {
        /// How many different outputs.
        outputs: usize,
        /// In how many runs of it, those of its copy among them.
        runs: usize,
    },
    /// A program of the command did not get a variant's allocator.
    Unreached(Missed),
    /// No run of the baseline counts.
    NoBaseline {
        /// The baseline.
        variant: String,
    },
    /// What the baseline does, and so all others are held to, looks like a failure.
    ExpectedFailure {
        /// The exit code.
        code: i32,
    },
}

impl Warning {
    /// The flag that gives a search enough data for a claim, where there was too little.
    pub fn flag_for_more(&self, settings: &Settings) -> Option<String> {
        let Warning::FewRounds {
            rounds,
            needed,
            took_seconds,
        } = self
        else {
            return None;
        };
        let Some(took) = took_seconds else {
            return Some(format!("--rounds {needed}"));
        };
        // Twice as much as the rounds need, because the other step of a search needs some too.
        let all = 2.0 * took * *needed as f64 / *rounds as f64;
        let all = Duration::try_from_secs_f64(all).unwrap_or_default();
        let seconds = enough_seconds(all.max(settings.budget()));
        Some(format!("--budget {seconds}"))
    }
}

/// What warnings are read off.
pub(crate) struct Evidence<'a> {
    pub(crate) results: &'a Results,
    pub(crate) benchmark: &'a Benchmark,
    pub(crate) failures: &'a [Failures],
    /// What it shows of wall time, and of what it is about.
    pub(crate) wall: Option<&'a Analysis>,
    pub(crate) main: Option<&'a Analysis>,
    pub(crate) sharing: Option<Sharing>,
}

/// All warnings about a benchmark, the gravest first: where only one is shown, it is that one.
pub(crate) fn warnings(evidence: &Evidence<'_>) -> Vec<Warning> {
    let Evidence {
        results,
        benchmark,
        failures,
        wall,
        main,
        sharing,
    } = *evidence;
    let mut all = Vec::new();
    all.extend(no_baseline(benchmark, failures));
    let varies = output_varies(benchmark, results.settings.output);
    for (variant, failures) in benchmark.variants.iter().zip(failures) {
        all.extend(failed(&variant.name, failures, varies.is_some()));
    }
    all.extend(varies);
    all.extend(expected_failure(benchmark));
    all.extend(Missed::all(benchmark).into_iter().map(Warning::Unreached));
    all.extend(left_running(benchmark));
    all.extend(metrics_missing(benchmark, failures));
    all.extend(few_rounds(benchmark, &results.settings));
    all.extend(main.and_then(twins_differ));
    all.extend(sharing.map(Warning::Shared));
    all.extend(wall.and_then(too_short));
    let rounds = relative_rounds(benchmark, failures);
    all.extend(peak_of_one(benchmark, failures));
    all.extend(drift(&rounds));
    all.extend(other_load(results));
    all.extend(first_round_slower(&rounds));
    all.extend(wall.into_iter().flat_map(outliers));
    all
}

fn other_load(results: &Results) -> Option<Warning> {
    let (load_average, processors) = (results.machine.load_average?, results.machine.processors);
    (load_average > BUSY_SHARE * processors as f64).then_some(Warning::OtherLoad {
        load_average,
        processors,
    })
}

fn few_rounds(benchmark: &Benchmark, settings: &Settings) -> Option<Warning> {
    let variants = benchmark.variants.iter();
    let candidates = variants
        .filter(|variant| variant.role == Role::Candidate)
        .count();
    let needed = rounds_needed(candidates);
    let rounds = benchmark.baseline()?.runs.len();
    let runs = benchmark.variants.iter().flat_map(|variant| &variant.runs);
    let took = runs
        .map(|run| run.started_seconds + run.cost.wall_seconds)
        .fold(0.0, f64::max);
    (candidates > 0 && 0 < rounds && rounds < needed).then_some(Warning::FewRounds {
        rounds,
        needed,
        took_seconds: (settings.rounds.is_none() && benchmark.ended == Ending::Budget)
            .then_some(took),
    })
}

fn too_short(wall: &Analysis) -> Option<Warning> {
    let baseline = wall.rows.iter().find(|row| row.role == Role::Baseline)?;
    let wall_seconds = baseline.summary.as_ref()?.median.value;
    (wall_seconds < SHORT_SECONDS).then_some(Warning::TooShort { wall_seconds })
}

/// A helper that is just about to end is seen now and then, so most runs have to leave something.
fn left_running(benchmark: &Benchmark) -> Option<Warning> {
    let counts = benchmark.variants.iter().map(|variant| {
        let left = variant.runs.iter().filter(|run| run.left_running).count();
        (variant, left)
    });
    let mut most = counts.filter(|(variant, left)| 2 * left > variant.runs.len());
    most.next().map(|(variant, count)| Warning::LeftRunning {
        variant: variant.name.clone(),
        count,
        runs: variant.runs.len(),
    })
}

/// The kernel knows the peak of each process, and reheap has that of the largest.
fn peak_of_one(benchmark: &Benchmark, failures: &[Failures]) -> Option<Warning> {
    let share = |place: usize| {
        let (variant, failures) = (&benchmark.variants[place], &failures[place]);
        let [average, peak] = [Quantity::MeanRss, Quantity::PeakRss].map(|quantity| {
            let figures = figures(variant, &quantity, failures);
            Some(Sample::new(figures.into_values())?.median())
        });
        Some((average? / peak?, variant.name.clone()))
    };
    let shares = (0..benchmark.variants.len()).filter_map(share);
    let (share, variant) = shares.max_by(|left, right| left.0.total_cmp(&right.0))?;
    (share > SHARE_OF_ONE).then_some(Warning::PeakOfOne { variant })
}

fn twins_differ(main: &Analysis) -> Option<Warning> {
    let twins = main.twins?;
    (twins.p < TWINS_P).then_some(Warning::TwinsDiffer {
        ratio: twins.ratio.map(|ratio| ratio.value),
        p: twins.p,
    })
}

fn first_round_slower(rounds: &[f64]) -> Option<Warning> {
    let (first, others) = rounds.split_first()?;
    let others = Sample::new(others.iter().copied())?;
    let ratio = first / others.median();
    let stands_out = others.count() >= 3 && ratio > SLOW_FIRST_ROUND && *first > others.max();
    stands_out.then_some(Warning::FirstRoundSlower { ratio })
}

fn drift(rounds: &[f64]) -> Option<Warning> {
    let trend = ranks::trend(rounds)?;
    let all = trend.slope.abs() * rounds.len() as f64;
    (trend.p < DRIFT_P && all > DRIFT_SIZE).then_some(Warning::Drift {
        per_round: trend.slope,
        rounds: rounds.len(),
        p: trend.p,
    })
}

/// Where the baseline's own output varies, other output of a variant says nothing about it.
fn failed(variant: &str, failures: &Failures, output_varies: bool) -> Vec<Warning> {
    let mut all = Vec::new();
    if failures.other_output > 0 && !output_varies {
        all.push(Warning::OutputDiffers {
            variant: variant.to_owned(),
            count: failures.other_output,
            runs: failures.runs,
        });
    }
    if !failures.outcomes.is_empty() {
        all.push(Warning::Failed {
            variant: variant.to_owned(),
            failures: Failures {
                other_output: 0,
                ..failures.clone()
            },
        });
    }
    all
}

fn output_varies(benchmark: &Benchmark, output: OutputCheck) -> Option<Warning> {
    let expected = benchmark.expected_outcome();
    let is_baseline =
        |variant: &&Variant| matches!(variant.role, Role::Baseline | Role::BaselineCopy);
    let runs = benchmark
        .variants
        .iter()
        .filter(is_baseline)
        .flat_map(|variant| &variant.runs);
    let printed: Vec<&str> = runs
        .filter(|run| run.outcome == expected)
        .map(|run| run.stdout_sha256.as_str())
        .collect();
    let outputs = printed.iter().collect::<BTreeSet<_>>().len();
    (output == OutputCheck::Same && outputs > 1).then_some(Warning::OutputVaries {
        outputs,
        runs: printed.len(),
    })
}

fn no_baseline(benchmark: &Benchmark, failures: &[Failures]) -> Option<Warning> {
    let mut variants = benchmark.variants.iter().zip(failures);
    let (baseline, failures) = variants.find(|(variant, _)| variant.role == Role::Baseline)?;
    (failures.runs > 0 && failures.count() == failures.runs).then(|| Warning::NoBaseline {
        variant: baseline.name.clone(),
    })
}

fn expected_failure(benchmark: &Benchmark) -> Option<Warning> {
    match benchmark.expected_outcome() {
        Outcome::Exited(code) if code != 0 => Some(Warning::ExpectedFailure { code }),
        _ => None,
    }
}

fn outliers(wall: &Analysis) -> Vec<Warning> {
    let of_row = |row: &Row| {
        let sample = &row.summary.as_ref()?.sample;
        let count = sample.outliers().count();
        (count > 0 && sample.count() >= RUNS_FOR_OUTLIERS).then(|| Warning::Outliers {
            variant: row.variant.clone(),
            count,
            runs: sample.count(),
        })
    };
    // The baseline's row has the runs of its copy too.
    let rows = wall
        .rows
        .iter()
        .filter(|row| row.role != Role::BaselineCopy);
    rows.filter_map(of_row).collect()
}

/// A run that failed has the right to print nothing, so only those that count are looked at.
fn metrics_missing(benchmark: &Benchmark, failures: &[Failures]) -> Vec<Warning> {
    let mut all = Vec::new();
    for metric in benchmark.metrics.keys() {
        let quantity = Quantity::Metric(metric.clone());
        let variants = || {
            let variants = benchmark.variants.iter().zip(failures);
            variants.map(|(variant, failures)| {
                let of = |quantity| figures(variant, quantity, failures).len();
                (&variant.name, of(&quantity), of(&Quantity::Wall))
            })
        };
        if variants().all(|(_, found, _)| found == 0) {
            let metric = metric.clone();
            let any_counts = variants().any(|(_, _, runs)| runs > 0);
            all.extend(any_counts.then_some(Warning::MetricNeverFound { metric }));
            continue;
        }
        let incomplete = variants().filter(|(_, found, runs)| found < runs);
        all.extend(
            incomplete.map(|(variant, found, runs)| Warning::MetricMissing {
                variant: variant.clone(),
                metric: metric.clone(),
                missing: runs - found,
                runs,
            }),
        );
    }
    all
}

/// How long each round took, relative to a usual one: the median over the variants, each relative to its own median, so
/// that it is the machine that is seen and not a variant.
fn relative_rounds(benchmark: &Benchmark, failures: &[Failures]) -> Vec<f64> {
    let mut by_round: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (variant, failures) in benchmark.variants.iter().zip(failures) {
        let walls = figures(variant, &Quantity::Wall, failures);
        let Some(sample) = Sample::new(walls.values().copied()) else {
            continue;
        };
        for (round, wall) in walls {
            by_round
                .entry(round)
                .or_default()
                .push(wall / sample.median());
        }
    }
    by_round
        .into_values()
        .filter_map(|ratios| Some(Sample::new(ratios)?.median()))
        .collect()
}
