//! Two files of results, measured at different times: what changed, and whether that breaks a threshold.
//!
//! Between two sessions times drift: the same program took twice the time a day later. So a variant's times and metrics
//! are taken relative to the baseline, round by round, if both files have the same one: the same name, arguments and
//! program. What is compared then are the ratios of the old rounds and those of the new ones. Without such a baseline the
//! figures themselves are compared, and [`Reference::None`] says that the session may be all there is to a change. Memory,
//! page faults and instructions do not drift, so they are always compared by themselves, those of the baseline too.
//!
//! The rounds of two files are not paired. Estimate and interval are those of [`ranks::shift_between`], of logarithms,
//! and the test is that of Mann and Whitney ([`ranks::rank_sum`]), corrected by Holm over all that is compared in a
//! quantity.

mod change;

pub use change::{Change, Check};

use crate::analysis::{Failures, Verdict, figures, rounds_with};
use crate::figures::{bytes, noun};
use crate::findings::Findings;
use crate::results::{Benchmark, Outcome, Quantity, Results, Role, Variant};
use crate::threshold::Threshold;
use crate::verdict;
use reheap_stats::interval::Estimate;
use reheap_stats::{Sample, ranks};
use std::collections::BTreeSet;
use std::fmt;

/// What two files have in common, and what changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// In what the machines differ: two files of different machines show the machines and not the programs.
    pub machines: Vec<MachineDifference>,
    /// What the variants of each benchmark that both have are compared with.
    pub references: Vec<(String, Reference)>,
    /// What both have: each baseline and candidate in each quantity.
    pub changes: Vec<Change>,
    /// What only the old file has.
    pub missing: Vec<Missing>,
    /// What only the new file has, by name.
    pub added: Vec<String>,
}

/// What the figures of a benchmark are relative to.
#[derive(Clone, Debug, PartialEq)]
pub enum Reference {
    /// The baseline of both files.
    Baseline {
        /// Its name.
        variant: String,
        /// How its own wall time changed, which is the machine's doing; none without figures.
        drift: Option<f64>,
    },
    /// Nothing: the files have no baseline in common.
    None,
}

/// Something that is not the same on both machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDifference {
    /// What: `processor`.
    pub property: &'static str,
    /// Of the old file.
    pub old: String,
    /// Of the new one.
    pub new: String,
}

/// Something of the old file that the new one does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A benchmark.
    Benchmark(String),
    /// The way in which the baseline used to end.
    Outcome {
        /// The benchmark.
        benchmark: String,
        /// How it ended in the old file.
        old: Outcome,
        /// How it ends in the new one.
        new: Outcome,
    },
    /// A variant of a benchmark.
    Variant {
        /// The benchmark.
        benchmark: String,
        /// The variant.
        variant: String,
    },
    /// A variant's figures: no run that counts has any.
    Figures {
        /// The benchmark.
        benchmark: String,
        /// The variant.
        variant: String,
        /// The quantity.
        quantity: Quantity,
        /// The new runs that failed.
        failures: Failures,
    },
}

/// Compares two files in these quantities.
pub fn compare(old: &Results, new: &Results, quantities: &[Quantity]) -> Changes {
    let mut changes = Changes {
        machines: machine_differences(old, new),
        ..Changes::default()
    };
    for before in &old.benchmarks {
        match new.benchmarks.iter().find(|after| is_same(before, after)) {
            Some(after) => {
                let (old, new) = (Findings::of(old, before), Findings::of(new, after));
                changes.add_benchmark(&old, &new, quantities);
            }
            None => changes.missing.push(Missing::Benchmark(title(before))),
        }
    }
    let is_added = |after: &&Benchmark| !old.benchmarks.iter().any(|before| is_same(before, after));
    let added = new.benchmarks.iter().filter(is_added).map(title);
    changes.added.extend(added);
    for quantity in quantities {
        changes.judge(quantity);
    }
    changes
}

impl Changes {
    /// Every threshold against every change of its quantity: which threshold, which change, and what came of it.
    pub fn check<'a>(
        &'a self,
        thresholds: &'a [Threshold],
    ) -> impl Iterator<Item = (&'a Threshold, &'a Change, Check)> {
        thresholds.iter().flat_map(move |threshold| {
            let of_quantity = |change: &&Change| change.quantity == threshold.quantity;
            let changes = self.changes.iter().filter(of_quantity);
            changes.map(move |change| (threshold, change, change.check(threshold)))
        })
    }

    fn add_benchmark(&mut self, old: &Findings<'_>, new: &Findings<'_>, quantities: &[Quantity]) {
        let benchmark = title(old.benchmark);
        if let (Some(before), Some(after)) =
            (old.benchmark.usual_outcome(), new.benchmark.usual_outcome())
            && before != after
        {
            self.missing.push(Missing::Outcome {
                benchmark: benchmark.clone(),
                old: before,
                new: after,
            });
        }
        let is_relative = has_same_baseline(old.benchmark, new.benchmark);
        for (before, variant) in old.benchmark.variants.iter().enumerate() {
            if variant.role == Role::BaselineCopy {
                continue;
            }
            let mut variants = new.benchmark.variants.iter();
            let Some(after) = variants.position(|after| after.name == variant.name) else {
                self.missing.push(Missing::Variant {
                    benchmark: benchmark.clone(),
                    variant: variant.name.clone(),
                });
                continue;
            };
            for quantity in quantities {
                self.add((old, before), (new, after), quantity, is_relative);
            }
        }
        self.references
            .push((benchmark, reference(old, new, is_relative)));
    }

    fn add(
        &mut self,
        (old, before): (&Findings<'_>, usize),
        (new, after): (&Findings<'_>, usize),
        quantity: &Quantity,
        is_relative: bool,
    ) {
        // What the old file does not have cannot have changed.
        let Some(old_figures) = sample(old, before, quantity) else {
            return;
        };
        let variant = &old.benchmark.variants[before].name;
        let Some(new_figures) = sample(new, after, quantity) else {
            self.missing.push(Missing::Figures {
                benchmark: title(old.benchmark),
                variant: variant.clone(),
                quantity: quantity.clone(),
                failures: new.failures[after].clone(),
            });
            return;
        };
        let is_relative = is_relative && drifts(quantity);
        let is_reference = is_relative && old.benchmark.variants[before].role == Role::Baseline;
        let of_baseline = is_relative && !is_reference;
        let logarithms = |findings, place| logarithms(findings, place, quantity, of_baseline);
        let logarithms = logarithms(old, before).zip(logarithms(new, after));
        let (ratio, p) = match &logarithms {
            Some((old, new)) => (
                Some(ranks::shift_between(old, new).exp()),
                ranks::rank_sum(old, new),
            ),
            None => (
                relative_shift(&old_figures, &new_figures),
                ranks::rank_sum(&old_figures, &new_figures),
            ),
        };
        let is_ratio_of_ratios = of_baseline && logarithms.is_some();
        self.changes.push(Change {
            benchmark: title(old.benchmark),
            variant: variant.clone(),
            is_reference,
            relative_to: is_ratio_of_ratios.then(|| verdict::baseline(old).to_owned()),
            quantity: quantity.clone(),
            direction: new.benchmark.direction(quantity),
            ratio,
            old: Estimate::of_median(&old_figures),
            new: Estimate::of_median(&new_figures),
            p,
            p_adjusted: p,
            verdict: Verdict::Open,
        });
    }

    fn judge(&mut self, quantity: &Quantity) {
        let of_quantity =
            |change: &&mut Change| change.quantity == *quantity && !change.is_reference;
        let mut changes: Vec<&mut Change> = self.changes.iter_mut().filter(of_quantity).collect();
        let p_values: Vec<f64> = changes.iter().map(|change| change.p).collect();
        for (change, p) in changes.iter_mut().zip(ranks::holm(&p_values)) {
            change.p_adjusted = p;
            change.verdict = change.judge();
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Benchmark(benchmark) => write!(f, "{benchmark}: was not measured again"),
            Missing::Outcome {
                benchmark,
                old,
                new,
            } => write!(f, "{benchmark}: ended with {old} and ends with {new} now"),
            Missing::Variant { benchmark, variant } => {
                write!(f, "{benchmark}, {variant}: was not measured again")
            }
            Missing::Figures {
                benchmark,
                variant,
                quantity,
                failures,
            } => {
                let noun = noun(quantity);
                write!(f, "{benchmark}, {variant}: has no {noun} any more")?;
                match failures.count() {
                    0 => Ok(()),
                    _ => write!(f, " ({failures})"),
                }
            }
        }
    }
}

impl fmt::Display for MachineDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MachineDifference { property, old, new } = self;
        write!(f, "the {property} differs: {old}, and {new} now")
    }
}

/// A variant's figures.
fn sample(findings: &Findings<'_>, variant: usize, quantity: &Quantity) -> Option<Sample> {
    let (measured, failures) = (
        &findings.benchmark.variants[variant],
        &findings.failures[variant],
    );
    Sample::new(figures(measured, quantity, failures).into_values())
}

/// The logarithms of a variant's figures, or of their ratios to the baseline's of the same round; none if there are
/// zeros, or nothing to compare with.
fn logarithms(
    findings: &Findings<'_>,
    variant: usize,
    quantity: &Quantity,
    is_relative: bool,
) -> Option<Sample> {
    let (benchmark, failures) = (findings.benchmark, &findings.failures);
    if !is_relative {
        let own = figures(&benchmark.variants[variant], quantity, &failures[variant]);
        return Sample::new(own.into_values().map(f64::ln));
    }
    let rounds = rounds_with(benchmark, quantity, failures, variant)?;
    Sample::new(rounds.iter().map(|round| round.logarithms().excess()))
}

/// Whether a quantity changes with the session, also if the program does not.
fn drifts(quantity: &Quantity) -> bool {
    match quantity {
        Quantity::Wall
        | Quantity::Cpu
        | Quantity::User
        | Quantity::System
        | Quantity::Metric(_) => true,
        Quantity::PeakRss | Quantity::MeanRss | Quantity::MinorFaults | Quantity::Instructions => {
            false
        }
    }
}

/// How far new figures lie from old ones, as a ratio to the old median; none if that is not above zero. For figures of
/// which some are zero.
fn relative_shift(old: &Sample, new: &Sample) -> Option<Estimate> {
    let usual = old.median();
    let by = ranks::shift_between(old, new);
    (usual > 0.0).then(|| by.map(|difference| 1.0 + difference / usual))
}

/// Whether candidates of both can be taken relative to the same program: the baseline is called the same, has the same
/// arguments, and its files have the same contents, or, in older results, the executable the same size.
fn has_same_baseline(old: &Benchmark, new: &Benchmark) -> bool {
    let candidates = |benchmark: &Benchmark| -> BTreeSet<String> {
        let variants = benchmark.variants.iter();
        let candidates = variants.filter(|variant| variant.role == Role::Candidate);
        candidates.map(|variant| variant.name.clone()).collect()
    };
    if candidates(old).is_disjoint(&candidates(new)) {
        return false;
    }
    let (Some(old), Some(new)) = (old.baseline(), new.baseline()) else {
        return false;
    };
    let arguments = |variant: &Variant| variant.command.iter().skip(1).cloned().collect::<Vec<_>>();
    old.name == new.name
        && arguments(old) == arguments(new)
        && old.executable_bytes == new.executable_bytes
        && (old.files_sha256.is_none()
            || new.files_sha256.is_none()
            || old.files_sha256 == new.files_sha256)
}

/// What the figures are relative to, and how that changed by itself.
fn reference(old: &Findings<'_>, new: &Findings<'_>, is_relative: bool) -> Reference {
    let Some(baseline) = old.benchmark.baseline().filter(|_| is_relative) else {
        return Reference::None;
    };
    let wall = |findings: &Findings<'_>| {
        let rows = &findings.analysis(&Quantity::Wall)?.rows;
        rows.iter().find(|row| row.role == Role::Baseline)?.median()
    };
    let drift = wall(new).zip(wall(old)).map(|(new, old)| new / old);
    Reference::Baseline {
        variant: baseline.name.clone(),
        drift,
    }
}

/// Whether both measured the same thing.
fn is_same(old: &Benchmark, new: &Benchmark) -> bool {
    old.name == new.name
        && old.parameters == new.parameters
        && old.memory_limit_bytes == new.memory_limit_bytes
}

/// What a benchmark is called: its name, and what sets it apart from others of that name.
pub fn title(benchmark: &Benchmark) -> String {
    let parameters = benchmark.parameters.iter();
    let mut apart: Vec<String> = parameters
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if let Some(limit) = benchmark.memory_limit_bytes {
        apart.push(format!("{} of memory", bytes(limit as f64)));
    }
    if apart.is_empty() {
        benchmark.name.clone()
    } else {
        format!("{} ({})", benchmark.name, apart.join(", "))
    }
}

/// The name does not count: in CI each run has another host name on the same kind of machine.
fn machine_differences(old: &Results, new: &Results) -> Vec<MachineDifference> {
    let (old, new) = (&old.machine, &new.machine);
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
    let properties = [
        (
            "architecture",
            old.architecture.clone(),
            new.architecture.clone(),
        ),
        ("processor", old.processor.clone(), new.processor.clone()),
        (
            "number of processors",
            old.processors.to_string(),
            new.processors.to_string(),
        ),
        (
            "memory",
            bytes(old.memory_bytes as f64),
            bytes(new.memory_bytes as f64),
        ),
        ("kernel", old.kernel.clone(), new.kernel.clone()),
        ("libc", known(&old.libc), known(&new.libc)),
        (
            "use of huge pages",
            known(&old.huge_pages),
            known(&new.huge_pages),
        ),
        (
            "frequency governor",
            known(&old.governor),
            known(&new.governor),
        ),
    ];
    properties
        .into_iter()
        .filter(|(_, old, new)| old != new)
        .map(|(property, old, new)| MachineDifference { property, old, new })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Simulated, lose_runs, results};

    const QUANTITIES: [Quantity; 2] = [Quantity::Wall, Quantity::PeakRss];

    /// A file with one benchmark, whose candidate takes so long.
    fn file(rounds: usize, seed: u64, seconds: f64) -> Results {
        results(vec![Simulated::quiet(rounds, seed).run(&[
            ("base", Role::Baseline, 1.0, 50e6),
            ("copy", Role::BaselineCopy, 1.0, 50e6),
            ("a", Role::Candidate, seconds, 40e6),
        ])])
    }

    fn checks(old: &Results, new: &Results, threshold: &str) -> Vec<Check> {
        let thresholds: [Threshold; 1] = [threshold.parse().unwrap()];
        let changes = compare(old, new, &[thresholds[0].quantity.clone()]);
        changes
            .check(&thresholds)
            .map(|(_, _, check)| check)
            .collect()
    }

    /// This file as if it had been measured while the machine was so many times slower.
    fn in_a_slower_session(mut file: Results, times: f64) -> Results {
        for run in file.benchmarks[0]
            .variants
            .iter_mut()
            .flat_map(|variant| &mut variant.runs)
        {
            run.cost.wall_seconds *= times;
        }
        file
    }

    fn with_another_baseline(mut file: Results) -> Results {
        for variant in &mut file.benchmarks[0].variants[..2] {
            variant.executable_bytes = Some(4096);
        }
        file
    }

    fn seen(changes: &Changes) -> Vec<(&str, &str, Verdict)> {
        let changes = changes.changes.iter().filter(|change| !change.is_reference);
        changes
            .map(|change| {
                (
                    change.variant.as_str(),
                    change.quantity.name(),
                    change.verdict,
                )
            })
            .collect()
    }

    #[test]
    fn what_is_relative_to_the_baseline_does_not_see_the_session() {
        let (old, new) = (file(20, 1, 1.0), in_a_slower_session(file(20, 4, 1.2), 2.0));
        let changes = compare(&old, &new, &QUANTITIES);
        assert_eq!(
            seen(&changes),
            [
                ("base", "peak-rss", Verdict::Equal),
                ("a", "wall", Verdict::Worse),
                ("a", "peak-rss", Verdict::Equal)
            ]
        );
        let of_candidate = changes.changes.iter().find(|change| change.variant == "a");
        let ratio = of_candidate.unwrap().ratio.unwrap();
        assert!(ratio.interval.contains(1.2), "{ratio:?}");
        let [(_, Reference::Baseline { variant, drift })] = changes.references.as_slice() else {
            panic!("{:?}", changes.references);
        };
        assert_eq!(variant, "base");
        assert!((1.9..2.1).contains(&drift.unwrap()), "{drift:?}");
    }

    #[test]
    fn without_a_common_baseline_the_figures_themselves_are_compared() {
        let (old, new) = (file(20, 1, 1.0), with_another_baseline(file(20, 2, 1.2)));
        let changes = compare(&old, &new, &[Quantity::Wall]);
        assert_eq!(changes.references[0].1, Reference::None);
        assert_eq!(seen(&changes)[1], ("a", "wall", Verdict::Worse));
        assert_eq!(seen(&changes)[0].0, "base");
    }

    #[test]
    fn another_program_of_the_same_size_is_no_common_baseline() {
        let (mut old, mut new) = (file(20, 1, 1.0), file(20, 2, 1.0));
        old.benchmarks[0].variants[0].files_sha256 = Some("one".into());
        let reference = |new: &Results| compare(&old, new, &[]).references[0].1.clone();
        assert!(matches!(reference(&new), Reference::Baseline { .. }));
        new.benchmarks[0].variants[0].files_sha256 = Some("two".into());
        assert_eq!(reference(&new), Reference::None);
    }

    #[test]
    fn memory_that_all_variants_need_more_of_breaks_a_gate() {
        let (old, mut new) = (file(20, 1, 1.0), file(20, 2, 1.0));
        let variants = &mut new.benchmarks[0].variants;
        for run in variants.iter_mut().flat_map(|variant| &mut variant.runs) {
            run.cost.peak_rss_bytes *= 2;
        }
        let violated = [Check::Violated, Check::Violated];
        assert_eq!(checks(&old, &new, "peak-rss>+10%"), violated);
        assert_eq!(checks(&new, &old, "peak-rss>+10%"), [Check::Kept; 2]);
    }

    #[test]
    fn a_figure_of_zero_hides_no_change() {
        let with = |mut file: Results, figures: [f64; 2]| {
            let variant = &mut file.benchmarks[0].variants[2];
            for run in &mut variant.runs {
                let figure = figures[usize::from(run.round > 0)] + run.round as f64;
                run.metrics.insert("throughput".into(), figure);
            }
            file
        };
        let of = |seed, figures| with(file(20, seed, 1.0), figures);
        let (old, new) = (of(1, [1000.0; 2]), of(2, [0.0, 500.0]));
        let seen = |old, new| checks(old, new, "throughput<-5%")[1];
        assert_eq!(seen(&old, &new), Check::Violated);
        assert_eq!(seen(&new, &old), Check::Kept);
        // From nothing, all is more than any percentage.
        let mut nothing = file(20, 3, 1.0);
        for run in &mut nothing.benchmarks[0].variants[2].runs {
            run.metrics.insert("throughput".into(), 0.0);
        }
        let more = |old, new| checks(old, new, "throughput>+5%")[1];
        assert_eq!(more(&nothing, &old), Check::Violated);
        assert_eq!(more(&nothing, &nothing), Check::Kept);
        assert_eq!(more(&old, &nothing), Check::Kept);
    }

    #[test]
    fn a_threshold_is_violated_by_more_than_it_and_kept_by_less() {
        let (old, slower) = (file(30, 1, 1.0), file(30, 2, 1.1));
        assert_eq!(
            checks(&old, &slower, "wall>+5%"),
            [Check::Kept, Check::Violated]
        );
        assert_eq!(checks(&old, &slower, "wall>+20%"), [Check::Kept; 2]);
        assert_eq!(checks(&slower, &old, "wall>+5%"), [Check::Kept; 2]);
        assert_eq!(
            checks(&old, &slower, "throughput<-5%"),
            [Check::Kept, Check::Violated]
        );
    }

    #[test]
    fn what_can_be_neither_shown_nor_excluded_is_unclear() {
        let noisy = |seed| {
            let machine = Simulated {
                noise: 0.1,
                ..Simulated::quiet(8, seed)
            };
            results(vec![machine.run(&[
                ("base", Role::Baseline, 1.0, 50e6),
                ("copy", Role::BaselineCopy, 1.0, 50e6),
                ("a", Role::Candidate, 1.0, 40e6),
            ])])
        };
        assert_eq!(checks(&noisy(1), &noisy(2), "wall>+2%")[1], Check::Unclear);
        assert_eq!(checks(&noisy(1), &noisy(2), "wall>+200%")[1], Check::Kept);
    }

    #[test]
    fn too_few_rounds_are_unclear_and_no_silent_pass() {
        let (old, slower) = (file(3, 1, 1.0), file(3, 2, 1.3));
        assert_eq!(checks(&old, &slower, "wall>+5%")[1], Check::Unclear);
    }

    #[test]
    fn a_value_is_held_against_the_new_runs_alone() {
        let (old, new) = (file(20, 1, 1.0), file(20, 2, 1.0));
        assert_eq!(
            checks(&old, &new, "peak-rss>45MiB"),
            [Check::Violated, Check::Kept]
        );
        assert_eq!(
            checks(&old, &new, "peak-rss>1GiB"),
            [Check::Kept, Check::Kept]
        );
        // One side only needs no interval of 95 %.
        let five = file(5, 2, 1.0);
        let violated = [Check::Violated, Check::Kept];
        assert_eq!(checks(&old, &five, "peak-rss>45MiB"), violated);
        let four = checks(&old, &file(4, 2, 1.0), "peak-rss>45MiB");
        assert_eq!(four, [Check::Unclear; 2]);
    }

    #[test]
    fn a_gate_fails_by_noise_in_at_most_one_of_twenty_comparisons() {
        let failed = (0..200)
            .filter(|seed| {
                let machine = |seed| Simulated {
                    disturbed: 0.1,
                    noise: 0.01,
                    ..Simulated::quiet(15, seed)
                };
                let variants = ["a", "b", "c"].map(|name| (name, Role::Candidate, 1.0, 1e6));
                let base = [
                    ("base", Role::Baseline, 1.0, 1e6),
                    ("copy", Role::BaselineCopy, 1.0, 1e6),
                ];
                let file =
                    |seed| results(vec![machine(seed).run(&[&base[..], &variants].concat())]);
                checks(&file(*seed), &file(seed + 1000), "wall>+1%").contains(&Check::Violated)
            })
            .count();
        assert!(failed <= 10, "{failed} of 200");
    }

    #[test]
    fn a_regression_of_five_percent_does_not_pass_a_gate_of_two() {
        let found = (0..100)
            .filter(|seed| {
                let (old, new) = (file(20, *seed, 1.0), file(20, seed + 1000, 1.05));
                checks(&old, &new, "wall>+2%")[1] != Check::Kept
            })
            .count();
        assert!(found >= 95, "{found} of 100");
    }

    #[test]
    fn what_is_missing_in_the_new_file_is_told() {
        let mut old = file(10, 1, 1.0);
        let mut other = old.benchmarks[0].clone();
        other.parameters.insert("threads".into(), "4".into());
        old.benchmarks.push(other);
        let mut new = file(10, 2, 1.0);
        lose_runs(&mut new.benchmarks[0].variants[2], 0..10);
        new.benchmarks[0].variants[2].runs.truncate(10);
        let mut third = new.benchmarks[0].clone();
        third.memory_limit_bytes = Some(1 << 30);
        new.benchmarks.push(third);
        let changes = compare(&old, &new, &[Quantity::Wall]);
        let missing: Vec<String> = changes.missing.iter().map(ToString::to_string).collect();
        assert_eq!(
            missing,
            [
                "simulated, a: has no wall time any more (crashed in 10 of 10 runs (SIGSEGV))",
                "simulated (threads=4): was not measured again",
            ]
        );
        assert_eq!(changes.added, ["simulated (1.00 GiB of memory)"]);
    }

    #[test]
    fn a_baseline_that_crashes_now_is_told_though_all_others_crash_too() {
        let (old, mut new) = (file(10, 1, 1.0), file(10, 2, 1.0));
        for variant in &mut new.benchmarks[0].variants {
            lose_runs(variant, 0..10);
        }
        let changes = compare(&old, &new, &[Quantity::Wall]);
        let missing: Vec<String> = changes.missing.iter().map(ToString::to_string).collect();
        assert_eq!(
            missing,
            [
                "simulated: ended with exit code 0 and ends with signal 11 now",
                "simulated, base: has no wall time any more (crashed in 10 of 10 runs (SIGSEGV))",
                "simulated, a: has no wall time any more (crashed in 10 of 10 runs (SIGSEGV))",
            ]
        );
    }

    #[test]
    fn another_machine_is_told_by_what_differs() {
        let (old, mut new) = (file(10, 1, 1.0), file(10, 2, 1.0));
        new.machine.name = "another-runner".into();
        assert_eq!(compare(&old, &new, &[]).machines, []);
        new.machine.processors = 64;
        let differences = compare(&old, &new, &[]).machines;
        assert_eq!(
            differences[0].to_string(),
            "the number of processors differs: 4, and 64 now"
        );
    }
}
