//! What a benchmark shows of one quantity: how the variants compare with the baseline, and whether that is more than
//! chance.
//!
//! A ratio is always `variant / baseline`, so below 1 the variant has less: it is faster, smaller. Ratios are taken
//! round by round and averaged as logarithms, because what slows a whole round down cancels out, and because swapping
//! variant and baseline then gives exactly the inverse.
//!
//! A difference is claimed only if three things say so:
//!
//! 1. the 95 % interval of the median ratio ([`crate::stats::interval`]) has nothing in common with the noise floor,
//!    which is the interval of a second copy of the baseline, widened to 1;
//! 2. Wilcoxon's signed-rank test ([`crate::stats::ranks`]) finds it unlikely to be chance, with p below 0.05;
//! 3. it still does after Holm's correction over all candidates, because of twenty equal variants one always looks
//!    good.
//!
//! The test alone keeps false claims below 5 %; the noise floor keeps out the differences that are real but no property
//! of the variant, such as where its code happens to lie in memory. Together they are stricter than 5 %: in a
//! simulation at the end of this file, almost none of 400 benchmarks of equal variants claim a difference. The price is
//! more rounds: with 1 % of noise, ten rounds find a difference of 3 % in four of five benchmarks, twenty in all.

pub use crate::failures::{Failures, ended};
use crate::results::{Benchmark, Direction, OutputCheck, Quantity, Role, Variant};
use crate::stats::interval::{self, Estimate, Interval};
use crate::stats::{Sample, ranks};
use std::collections::BTreeMap;

/// The largest p value, after Holm's correction, with which a difference is claimed.
pub const SIGNIFICANCE: f64 = 0.05;

/// What a benchmark shows of one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// The quantity.
    pub quantity: Quantity,
    /// In which direction it is better.
    pub direction: Direction,
    /// What a second copy of the baseline seems to differ by; none if there was no copy, or it has no figures.
    pub noise: Option<Noise>,
    /// One row for each variant, in the benchmark's order.
    pub rows: Vec<Row>,
}

/// The noise floor: differences that lie in it are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Of ratios; holds 1. None where ratios are undefined.
    pub ratio: Option<Interval>,
    /// Of differences; holds 0.
    pub difference: Interval,
}

/// A variant's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The variant's name.
    pub variant: String,
    /// What it is there for.
    pub role: Role,
    /// Its figures by themselves; none if no run counts or has the quantity.
    pub summary: Option<Summary>,
    /// How it compares with the baseline; none for the baseline itself, and where no round has a figure of both.
    pub comparison: Option<Comparison>,
}

/// The figures of the runs that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The figures.
    pub sample: Sample,
    /// Their median.
    pub median: Estimate,
}

/// A variant compared with the baseline, paired by round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The rounds in which runs of both count.
    pub pairs: usize,
    /// The median of `variant / baseline`; none if a figure is zero or below.
    pub ratio: Option<Estimate>,
    /// The median of `variant - baseline`.
    pub difference: Estimate,
    /// The chance of such figures without a difference, by Wilcoxon's signed-rank test.
    pub p: f64,
    /// The same after Holm's correction over the candidates. The noise floor is no claim that competes, so its own
    /// stays as it is.
    pub p_adjusted: f64,
    /// What may be claimed.
    pub verdict: Verdict,
}

/// What may be claimed of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is better than the baseline.
    Better,
    /// It is worse than the baseline.
    Worse,
    /// Nothing: what there may be of a difference does not leave the noise.
    Indistinguishable,
}

/// Compares all variants of a benchmark in one quantity, without the runs that do not count. None if no variant has a
/// figure of it; where only the baseline has none, as under a memory limit that it does not survive, the others have
/// figures and nothing to be compared with.
pub(crate) fn analyse(
    benchmark: &Benchmark,
    quantity: &Quantity,
    failures: &[Failures],
) -> Option<Analysis> {
    let variants = || benchmark.variants.iter().zip(failures);
    let (baseline, of_baseline) = variants().find(|(it, _)| it.role == Role::Baseline)?;
    let baseline = figures(baseline, quantity, of_baseline);
    let direction = benchmark.direction(quantity);
    let mut pairs: Vec<Option<Pairs>> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for (variant, failures) in variants() {
        let own = figures(variant, quantity, failures);
        pairs.push(match variant.role {
            Role::Baseline => None,
            _ => Pairs::of(&own, &baseline),
        });
        rows.push(Row {
            variant: variant.name.clone(),
            role: variant.role,
            summary: Summary::of(own.into_values()),
            comparison: None,
        });
    }
    if rows.iter().all(|row| row.summary.is_none()) {
        return None;
    }
    let noise = benchmark
        .variants
        .iter()
        .position(|variant| variant.role == Role::BaselineCopy)
        .and_then(|copy| pairs[copy].as_ref())
        .map(Pairs::noise);
    for (row, pairs) in rows.iter_mut().zip(&pairs) {
        row.comparison = pairs.as_ref().map(|pairs| pairs.compare(noise));
    }
    adjust_candidates(&mut rows);
    for comparison in rows.iter_mut().filter_map(|row| row.comparison.as_mut()) {
        comparison.verdict = comparison.judge(noise, direction);
    }
    Some(Analysis {
        quantity: quantity.clone(),
        direction,
        noise,
        rows,
    })
}

/// The widest interval of the wall-time ratios, relative to its ratio: when it is narrow enough, rounds may end.
///
/// None while it cannot be told, because there are no variants to compare or fewer rounds than an interval needs.
/// Variants of which no run counts do not keep the others waiting.
pub fn widest_interval(benchmark: &Benchmark, output: OutputCheck) -> Option<f64> {
    let wall = |variant| {
        let failures = Failures::of(benchmark, variant, output);
        figures(variant, &Quantity::Wall, &failures)
    };
    let baseline = wall(benchmark.baseline()?);
    let others = benchmark.variants.iter();
    let pairs: Vec<Pairs> = others
        .filter(|variant| variant.role != Role::Baseline)
        .filter_map(|variant| Pairs::of(&wall(variant), &baseline))
        .collect();
    let too_few = |pairs: &Pairs| pairs.differences.count() < interval::VALUES_FOR_CONFIDENCE;
    if pairs.iter().any(too_few) {
        return None;
    }
    pairs
        .iter()
        .filter_map(Pairs::ratio)
        .map(|ratio| ratio.interval.width() / ratio.value)
        .max_by(f64::total_cmp)
}

impl Row {
    /// The median of its figures, if it has any.
    pub fn median(&self) -> Option<f64> {
        Some(self.summary.as_ref()?.median.value)
    }
}

impl Analysis {
    /// A variant's median, with the sign turned where more is better.
    pub(crate) fn cost(&self, variant: usize) -> Option<f64> {
        let median = self.rows[variant].median()?;
        Some(match self.direction {
            Direction::Lower => median,
            Direction::Higher => -median,
        })
    }

    /// The comparison of a variant, by its place in the benchmark.
    pub fn comparison(&self, variant: usize) -> Option<&Comparison> {
        self.rows.get(variant)?.comparison.as_ref()
    }

    /// How far the baseline seems to differ from itself: 0.012 for a noise floor of 1.2 %. None without a copy of it,
    /// or with too few rounds to tell.
    pub fn noise_floor(&self) -> Option<f64> {
        let floor = self.noise?.ratio?;
        let reach = floor.high.max(1.0 / floor.low) - 1.0;
        (floor.confidence >= interval::CONFIDENCE).then_some(reach)
    }
}

impl Summary {
    fn of(values: impl Iterator<Item = f64>) -> Option<Summary> {
        let sample = Sample::new(values)?;
        let median = Estimate::of_median(&sample);
        Some(Summary { sample, median })
    }
}

impl Comparison {
    fn judge(&self, noise: Option<Noise>, direction: Direction) -> Verdict {
        let (estimate, floor, equal) = match (self.ratio, noise.map(|noise| noise.ratio)) {
            (Some(ratio), None) => (ratio, None, 1.0),
            (Some(ratio), Some(Some(floor))) => (ratio, Some(floor), 1.0),
            _ => (self.difference, noise.map(|noise| noise.difference), 0.0),
        };
        let apart = match floor {
            Some(floor) => estimate.interval.is_apart_from(&floor),
            None => !estimate.interval.contains(equal),
        };
        if !apart || self.p_adjusted >= SIGNIFICANCE {
            return Verdict::Indistinguishable;
        }
        match (estimate.value < equal, direction) {
            (true, Direction::Lower) | (false, Direction::Higher) => Verdict::Better,
            _ => Verdict::Worse,
        }
    }
}

/// A variant's figures and the baseline's of the same rounds, compared.
struct Pairs {
    differences: Sample,
    /// Of the ratios; none if there are figures that have no logarithm.
    logarithms: Option<Sample>,
}

impl Pairs {
    fn of(own: &BTreeMap<usize, f64>, baseline: &BTreeMap<usize, f64>) -> Option<Pairs> {
        let rounds: Vec<(f64, f64)> = own
            .iter()
            .filter_map(|(round, &figure)| Some((figure, *baseline.get(round)?)))
            .collect();
        Some(Pairs {
            differences: Sample::new(rounds.iter().map(|(own, base)| own - base))?,
            // A difference of logarithms and not the logarithm of a ratio: it changes nothing but its sign when both
            // are swapped, so ties stay ties.
            logarithms: Sample::new(rounds.iter().map(|(own, base)| own.ln() - base.ln())),
        })
    }

    fn ratio(&self) -> Option<Estimate> {
        let logarithms = self.logarithms.as_ref()?;
        Some(Estimate::of_median(logarithms).exp())
    }

    fn noise(&self) -> Noise {
        Noise {
            ratio: self.ratio().map(|ratio| ratio.interval.widened_to(1.0)),
            difference: interval::of_median(&self.differences).widened_to(0.0),
        }
    }

    /// The comparison, without the correction for there being others, and not judged yet.
    fn compare(&self, noise: Option<Noise>) -> Comparison {
        let by_ratio = noise.is_none_or(|noise| noise.ratio.is_some());
        let tested = match &self.logarithms {
            Some(logarithms) if by_ratio => logarithms,
            _ => &self.differences,
        };
        let p = ranks::signed_rank(tested.values());
        Comparison {
            pairs: self.differences.count(),
            ratio: self.ratio(),
            difference: Estimate::of_median(&self.differences),
            p,
            p_adjusted: p,
            verdict: Verdict::Indistinguishable,
        }
    }
}

fn adjust_candidates(rows: &mut [Row]) {
    let mut candidates: Vec<&mut Comparison> = rows
        .iter_mut()
        .filter(|row| row.role == Role::Candidate)
        .filter_map(|row| row.comparison.as_mut())
        .collect();
    let p_values: Vec<f64> = candidates.iter().map(|candidate| candidate.p).collect();
    for (candidate, p) in candidates.iter_mut().zip(ranks::holm(&p_values)) {
        candidate.p_adjusted = p;
    }
}

/// A variant's figures by round, of the runs that count.
pub(crate) fn figures(
    variant: &Variant,
    quantity: &Quantity,
    failures: &Failures,
) -> BTreeMap<usize, f64> {
    let runs = variant.runs.iter();
    runs.filter(|run| !failures.rounds.contains(&run.round))
        .filter_map(|run| Some((run.round, quantity.of(run)?)))
        .filter(|(_, figure)| figure.is_finite())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Simulated, lose_runs};

    const MIB: f64 = 1024.0 * 1024.0;

    /// A baseline, its copy, and candidates with these seconds instead of 1.
    fn walls(machine: Simulated, candidates: &[f64]) -> Benchmark {
        let names = ["a", "b", "c", "d", "e", "f"];
        let mut variants = vec![
            ("base", Role::Baseline, 1.0, 50.0 * MIB),
            ("copy", Role::BaselineCopy, 1.0, 50.0 * MIB),
        ];
        variants.extend(
            candidates
                .iter()
                .zip(names)
                .map(|(&seconds, name)| (name, Role::Candidate, seconds, 50.0 * MIB)),
        );
        machine.run(&variants)
    }

    fn analysed(benchmark: &Benchmark, quantity: &Quantity) -> Option<Analysis> {
        let failures = Failures::of_all(benchmark, OutputCheck::Same);
        analyse(benchmark, quantity, &failures)
    }

    fn wall(benchmark: &Benchmark) -> Analysis {
        analysed(benchmark, &Quantity::Wall).unwrap()
    }

    fn verdicts(analysis: &Analysis) -> Vec<Verdict> {
        let candidates = analysis
            .rows
            .iter()
            .filter(|row| row.role == Role::Candidate);
        candidates
            .map(|row| row.comparison.unwrap().verdict)
            .collect()
    }

    /// Machines that are quiet, have a long tail, drift, and all at once with three times the noise.
    fn machine(rounds: usize, seed: u64) -> Simulated {
        let quiet = Simulated::quiet(rounds, seed);
        let (drift, disturbed) = (0.0005, 0.15);
        match seed % 4 {
            0 => quiet,
            1 => Simulated { disturbed, ..quiet },
            2 => Simulated { drift, ..quiet },
            _ => Simulated {
                drift,
                disturbed,
                noise: 0.03,
                ..quiet
            },
        }
    }

    #[test]
    fn a_ratio_below_one_is_less() {
        let benchmark = walls(Simulated::quiet(20, 1), &[0.5]);
        let comparison = wall(&benchmark).rows[2].comparison.unwrap();
        let ratio = comparison.ratio.unwrap();
        assert!((ratio.value - 0.5).abs() < 0.02, "{ratio:?}");
        assert!((comparison.difference.value + 0.5).abs() < 0.05);
        assert_eq!(comparison.verdict, Verdict::Better);
    }

    #[test]
    fn swapping_variant_and_baseline_gives_the_inverse() {
        let forth = walls(Simulated::quiet(20, 4), &[0.9]);
        let mut back = forth.clone();
        back.variants[0].role = Role::Candidate;
        back.variants[2].role = Role::Baseline;
        let forth = wall(&forth).rows[2].comparison.unwrap();
        let back = wall(&back).rows[0].comparison.unwrap();
        let (there, ratio) = (back.ratio.unwrap(), forth.ratio.unwrap());
        assert!((there.value * ratio.value - 1.0).abs() < 1e-12);
        assert!((there.interval.high * ratio.interval.low - 1.0).abs() < 1e-12);
        assert_eq!(back.p, forth.p);
    }

    #[test]
    fn where_more_is_better_more_is_better() {
        let benchmark = walls(Simulated::quiet(20, 2), &[0.8, 1.2]);
        let throughput = Quantity::Metric("throughput".into());
        let analysis = analysed(&benchmark, &throughput).unwrap();
        let ratio = analysis.comparison(2).unwrap().ratio.unwrap();
        assert!(ratio.value > 1.2, "{ratio:?}");
        assert_eq!(verdicts(&analysis), [Verdict::Better, Verdict::Worse]);
    }

    #[test]
    fn rounds_in_which_one_of_both_failed_count_for_neither_and_are_told() {
        let mut benchmark = walls(Simulated::quiet(20, 3), &[0.8]);
        lose_runs(&mut benchmark.variants[2], 0..3);
        lose_runs(&mut benchmark.variants[0], 2..5);
        benchmark.variants[2].runs[19].stdout_sha256 = "other".into();
        let analysis = wall(&benchmark);
        let row = &analysis.rows[2];
        assert_eq!(row.comparison.unwrap().pairs, 14);
        assert_eq!(row.summary.as_ref().unwrap().sample.count(), 16);
        let failures = |output| Failures::of(&benchmark, &benchmark.variants[2], output);
        assert_eq!(
            failures(OutputCheck::Same).to_string(),
            "crashed in 3 of 20 runs (SIGSEGV), printed something else in 1 of 20 runs"
        );
        assert_eq!(failures(OutputCheck::Ignored).count(), 3);
    }

    #[test]
    fn a_variant_that_always_crashes_has_no_figures_and_keeps_nobody_waiting() {
        let mut benchmark = walls(Simulated::quiet(20, 3), &[0.8, 0.9]);
        lose_runs(&mut benchmark.variants[2], 0..20);
        let analysis = wall(&benchmark);
        assert_eq!(
            (&analysis.rows[2].summary, analysis.rows[2].comparison),
            (&None, None)
        );
        assert!(widest_interval(&benchmark, OutputCheck::Same).is_some());
    }

    #[test]
    fn zeros_are_compared_by_difference() {
        let mut benchmark = walls(Simulated::quiet(12, 3), &[1.0, 1.0]);
        for (variant, seconds) in [(0, 0.0), (1, 0.0), (2, 0.01), (3, 0.0)] {
            for run in &mut benchmark.variants[variant].runs {
                run.cost.system_seconds = seconds;
            }
        }
        let analysis = analysed(&benchmark, &Quantity::System).unwrap();
        let slower = analysis.rows[2].comparison.unwrap();
        assert_eq!((slower.ratio, slower.difference.value), (None, 0.01));
        assert_eq!(
            verdicts(&analysis),
            [Verdict::Worse, Verdict::Indistinguishable]
        );
    }

    #[test]
    fn a_quantity_that_no_run_has_is_not_analysed() {
        let benchmark = walls(Simulated::quiet(6, 3), &[1.0]);
        assert_eq!(analysed(&benchmark, &Quantity::MeanRss), None);
    }

    #[test]
    fn five_rounds_claim_nothing_however_large_the_difference() {
        let benchmark = walls(Simulated::quiet(5, 3), &[0.2]);
        assert_eq!(verdicts(&wall(&benchmark)), [Verdict::Indistinguishable]);
        let benchmark = walls(Simulated::quiet(6, 3), &[0.2]);
        assert_eq!(verdicts(&wall(&benchmark)), [Verdict::Better]);
    }

    #[test]
    fn without_a_copy_the_interval_has_to_leave_one() {
        let mut benchmark = walls(Simulated::quiet(20, 3), &[0.9]);
        benchmark.variants.remove(1);
        let analysis = wall(&benchmark);
        assert_eq!(analysis.noise, None);
        assert_eq!(verdicts(&analysis), [Verdict::Better]);
    }

    #[test]
    fn a_difference_within_that_of_the_copy_is_none() {
        // The copy of the baseline is 5 % slower, as if its code lay badly in memory; so 4 % are nothing.
        let benchmark = Simulated::quiet(30, 3).run(&[
            ("base", Role::Baseline, 1.0, MIB),
            ("copy", Role::BaselineCopy, 1.05, MIB),
            ("a", Role::Candidate, 1.04, MIB),
        ]);
        let comparison = wall(&benchmark).rows[2].comparison.unwrap();
        assert!(comparison.p_adjusted < SIGNIFICANCE);
        assert_eq!(comparison.verdict, Verdict::Indistinguishable);
    }

    #[test]
    fn the_widest_interval_narrows_with_the_rounds() {
        let width = |rounds| {
            widest_interval(
                &walls(Simulated::quiet(rounds, 3), &[1.0]),
                OutputCheck::Same,
            )
        };
        assert_eq!(width(5), None);
        assert!(width(100).unwrap() < width(10).unwrap());
        assert!(width(100).unwrap() < 0.01);
    }

    #[test]
    fn of_four_hundred_benchmarks_of_equal_variants_at_most_one_in_twenty_claims_a_difference() {
        for rounds in [10, 30] {
            let claims = (0..400)
                .map(|seed| wall(&walls(machine(rounds, seed), &[1.0; 4])))
                .filter(|analysis| {
                    verdicts(analysis)
                        .iter()
                        .any(|verdict| *verdict != Verdict::Indistinguishable)
                })
                .count();
            assert!(claims <= 20, "{rounds} rounds: {claims} of 400");
        }
    }

    #[test]
    fn three_percent_are_found_in_thirty_rounds_with_one_percent_of_noise() {
        let found = (0..400)
            .filter(|seed| seed % 4 != 3)
            .map(|seed| wall(&walls(machine(30, seed), &[0.97, 1.0, 1.03, 1.0])))
            .filter(|analysis| {
                let verdicts = verdicts(analysis);
                verdicts[0] == Verdict::Better && verdicts[2] == Verdict::Worse
            })
            .count();
        assert!(found >= 285, "{found} of 300");
    }
}
