//! What a benchmark shows of one quantity: how the variants compare with the baseline, and what may be claimed.
//!
//! A ratio is always `variant / baseline`, so below 1 the variant has less: it is faster, smaller. The baseline runs
//! twice in each round, and both runs are baseline. Ratios are taken within rounds, because what slows a whole round
//! down cancels out. Estimate, interval and p value are those of [`reheap_stats::aligned`], of logarithms.
//!
//! A difference is claimed if p, after Holm's correction over the candidates, is below [`SIGNIFICANCE`], and for no
//! other reason. So of all benchmarks whose candidates do not differ in a quantity, at most 5 % claim that they do. Each
//! quantity is tested by itself. The tests in `calibration.rs` look at this with real noise.

pub use crate::failures::{Failures, ended};
use crate::results::{Benchmark, Direction, Quantity, Role, Settings, Variant};
use reheap_stats::aligned::{AlignedRanks, Round};
use reheap_stats::interval::{CONFIDENCE, Estimate, Interval};
use reheap_stats::{Sample, ranks};
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A difference is claimed if its p value, after Holm's correction, is below this.
pub const SIGNIFICANCE: f64 = 0.05;

/// Ratios in this range are as good as equal: [`Verdict::Equal`] if the whole interval lies in it.
const AS_GOOD_AS_EQUAL: RangeInclusive<f64> = 0.98..=1.02;

/// What a benchmark shows of one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// The quantity.
    pub quantity: Quantity,
    /// In which direction it is better.
    pub direction: Direction,
    /// How the baseline's second run of each round compares with its first; none without a second one. It is not
    /// corrected by Holm and claims nothing: a small p says that the measurement itself is in doubt.
    pub twins: Option<Comparison>,
    /// One row for each variant, in the benchmark's order.
    pub rows: Vec<Row>,
}

/// A variant's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The variant's name.
    pub variant: String,
    /// What it is there for.
    pub role: Role,
    /// Its figures by themselves, the baseline's with those of its copy; none if no run counts or has the quantity.
    pub summary: Option<Summary>,
    /// How it compares with the baseline; only candidates have one, and only if a round has a figure of both.
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

/// A variant compared with the baseline, within rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The rounds in which runs of both count.
    pub rounds: usize,
    /// `variant / baseline`; none if a figure is zero or below.
    pub ratio: Option<Estimate>,
    /// The chance of figures as one-sided as these without a difference.
    pub p: f64,
    /// `p` after Holm's correction over the candidates.
    pub p_adjusted: f64,
    /// What may be said.
    pub verdict: Verdict,
}

impl Comparison {
    /// The verdict for a choice: a difference that is claimed and yet below 2 % is no reason for or against a variant.
    pub fn verdict_for_a_choice(&self) -> Verdict {
        match self.ratio {
            Some(ratio) if self.verdict.is_claimed() && AS_GOOD_AS_EQUAL.contains(&ratio.value) => {
                Verdict::Equal
            }
            _ => self.verdict,
        }
    }
}

/// What may be said of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Claimed: it is better than the baseline.
    Better,
    /// Claimed: it is worse than the baseline.
    Worse,
    /// The interval does not hold 1, and yet it may be chance, because there are several candidates.
    Suspected,
    /// The whole interval lies within 2 % of the baseline, and no difference is claimed.
    Equal,
    /// Nothing: neither a difference nor equality can be told from noise.
    Open,
}

impl Verdict {
    /// Whether a difference is claimed.
    pub fn is_claimed(self) -> bool {
        matches!(self, Verdict::Better | Verdict::Worse)
    }
}

/// Compares all variants of a benchmark in one quantity, without the runs that do not count. None if no variant has a
/// figure of it; where only the baseline has none, as under a memory limit that it does not survive, the others have
/// figures and nothing to be compared with.
pub(crate) fn analyse(
    benchmark: &Benchmark,
    quantity: &Quantity,
    failures: &[Failures],
) -> Option<Analysis> {
    let baseline = Baseline::of(benchmark, quantity, failures)?;
    let direction = benchmark.direction(quantity);
    let mut shifts: Vec<Option<Shift>> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for (variant, failures) in benchmark.variants.iter().zip(failures) {
        let own = figures(variant, quantity, failures);
        shifts.push(match variant.role {
            Role::Candidate => Shift::of(&baseline.rounds_with(&own)),
            Role::Baseline | Role::BaselineCopy => None,
        });
        let summary = match variant.role {
            Role::Baseline => Summary::of(baseline.all()),
            Role::BaselineCopy | Role::Candidate => Summary::of(own.into_values()),
        };
        rows.push(Row {
            variant: variant.name.clone(),
            role: variant.role,
            summary,
            comparison: None,
        });
    }
    if rows.iter().all(|row| row.summary.is_none()) {
        return None;
    }
    let usual = rows
        .iter()
        .find(|row| row.role == Role::Baseline)
        .and_then(Row::median);
    let p_values: Vec<f64> = shifts.iter().flatten().map(|shift| shift.p).collect();
    let mut adjusted = ranks::holm(&p_values).into_iter();
    for (row, shift) in rows.iter_mut().zip(&shifts) {
        let Some(shift) = shift else { continue };
        let p_adjusted = adjusted.next().expect("a corrected p for each p");
        row.comparison = Some(shift.comparison(p_adjusted, direction, usual));
    }
    Some(Analysis {
        quantity: quantity.clone(),
        direction,
        twins: Shift::of(&baseline.twins())
            .map(|shift| shift.comparison(shift.p, direction, usual)),
        rows,
    })
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
        Some(self.signed(self.rows[variant].median()?))
    }

    /// A variant's ratio, with the sign turned where more is better.
    pub(crate) fn ratio_cost(&self, variant: usize) -> Option<f64> {
        Some(self.signed(self.comparison(variant)?.ratio?.value))
    }

    fn signed(&self, figure: f64) -> f64 {
        match self.direction {
            Direction::Lower => figure,
            Direction::Higher => -figure,
        }
    }

    /// The comparison of a variant, by its place in the benchmark.
    pub fn comparison(&self, variant: usize) -> Option<&Comparison> {
        self.rows.get(variant)?.comparison.as_ref()
    }

    /// The candidate with the best ratio, claimed or not, by its place, and the ratio. None if the baseline is better.
    pub(crate) fn leader(&self) -> Option<(usize, f64)> {
        let ratio = |(place, row): (usize, &Row)| Some((place, row.comparison?.ratio?.value));
        let ratios = self.rows.iter().enumerate().filter_map(ratio);
        match self.direction {
            Direction::Lower => ratios.min_by(|left, right| left.1.total_cmp(&right.1)),
            Direction::Higher => ratios.max_by(|left, right| left.1.total_cmp(&right.1)),
        }
        .filter(|&(_, ratio)| (ratio < 1.0) == (self.direction == Direction::Lower))
    }

    /// How large a difference would have been seen: 0.07 if one of 7 % would. None if nothing has an interval.
    ///
    /// A difference is claimed if it lies further from 1 than its interval reaches, which Holm's correction widens by
    /// the ratio of the normal scores. What counts is the widest interval of those candidates that stayed to the end
    /// and of which nothing is claimed: the others were seen. If something is claimed of all, it is the interval in the
    /// middle. A true difference of exactly this size is claimed in about half of all benchmarks.
    pub fn visible(&self, benchmark: &Benchmark) -> Option<f64> {
        let rows = self.rows.iter().zip(&benchmark.variants);
        let stayed = rows.filter(|(_, variant)| variant.left.is_none());
        let reaches: Vec<(bool, f64)> = stayed
            .filter_map(|(row, _)| {
                let comparison = row.comparison?;
                let interval = comparison.ratio?.interval;
                let reach = (interval.high / interval.low).ln() / 2.0;
                let is_claimed = comparison.verdict.is_claimed();
                (interval.confidence >= CONFIDENCE).then_some((is_claimed, reach))
            })
            .collect();
        let unclaimed = reaches.iter().filter(|(is_claimed, _)| !is_claimed);
        let widest = unclaimed.map(|(_, reach)| *reach).max_by(f64::total_cmp);
        let middle = || Some(Sample::new(reaches.iter().map(|(_, reach)| *reach))?.median());
        let reach = widest.or_else(middle)?;
        let candidates = self
            .rows
            .iter()
            .filter(|row| row.comparison.is_some())
            .count();
        let score = |share: f64| Normal::standard().inverse_cdf(1.0 - share / 2.0);
        let corrected = score(SIGNIFICANCE / candidates as f64) / score(SIGNIFICANCE);
        Some((reach * corrected).exp() - 1.0)
    }

    /// Whether the intervals are as narrow as was asked for, so that rounds may end.
    pub(crate) fn is_precise(&self, benchmark: &Benchmark, settings: &Settings) -> bool {
        let width = self.widest_interval(benchmark);
        width.is_some_and(|width| width < settings.precision)
    }

    /// The widest interval of those that are still measured, as a part of its ratio: when it is narrow enough, rounds
    /// may end. None while it cannot be told.
    pub(crate) fn widest_interval(&self, benchmark: &Benchmark) -> Option<f64> {
        let rows = self.rows.iter().zip(&benchmark.variants);
        let comparisons = rows
            .filter(|(_, variant)| variant.left.is_none())
            .filter_map(|(row, _)| row.comparison);
        let width = |comparison: Comparison| match comparison.ratio {
            Some(ratio) if ratio.interval.confidence >= CONFIDENCE => {
                ratio.interval.width() / ratio.value
            }
            _ => f64::INFINITY,
        };
        comparisons
            .map(width)
            .max_by(f64::total_cmp)
            .filter(|width| width.is_finite())
    }
}

impl Summary {
    fn of(values: impl Iterator<Item = f64>) -> Option<Summary> {
        let sample = Sample::new(values)?;
        let median = Estimate::of_median(&sample);
        Some(Summary { sample, median })
    }
}

/// The baseline's figures by round: of its run, and of its copy's.
struct Baseline {
    own: BTreeMap<usize, f64>,
    copy: BTreeMap<usize, f64>,
}

impl Baseline {
    fn of(benchmark: &Benchmark, quantity: &Quantity, failures: &[Failures]) -> Option<Baseline> {
        let of = |role: Role| {
            let mut variants = benchmark.variants.iter().zip(failures);
            let (variant, failures) = variants.find(|(variant, _)| variant.role == role)?;
            Some(figures(variant, quantity, failures))
        };
        Some(Baseline {
            own: of(Role::Baseline)?,
            copy: of(Role::BaselineCopy).unwrap_or_default(),
        })
    }

    fn all(&self) -> impl Iterator<Item = f64> {
        self.own.values().chain(self.copy.values()).copied()
    }

    /// The rounds in which a variant has a figure, and one of the baseline's runs too.
    fn rounds_with(&self, variant: &BTreeMap<usize, f64>) -> Vec<Round> {
        let rounds = variant.iter().filter_map(|(round, &variant)| {
            let (own, copy) = (self.own.get(round), self.copy.get(round));
            let baseline = (*own.or(copy)?, own.and(copy).copied());
            Some(Round { baseline, variant })
        });
        rounds.collect()
    }

    /// The rounds in which both runs have a figure, the second in the place of a variant.
    fn twins(&self) -> Vec<Round> {
        let rounds = self.copy.iter().filter_map(|(round, &variant)| {
            let baseline = (*self.own.get(round)?, None);
            Some(Round { baseline, variant })
        });
        rounds.collect()
    }
}

/// How far a variant lies from the baseline: as a ratio, or as a difference where there are zeros.
struct Shift {
    rounds: usize,
    by: Estimate,
    is_ratio: bool,
    p: f64,
}

impl Shift {
    fn of(rounds: &[Round]) -> Option<Shift> {
        let logarithms: Vec<Round> = rounds.iter().map(Round::logarithms).collect();
        let (ranks, is_ratio) = match AlignedRanks::of_logarithms(&logarithms) {
            Some(ranks) => (ranks, true),
            None => (AlignedRanks::of_figures(rounds)?, false),
        };
        let by = ranks.shift();
        Some(Shift {
            rounds: rounds.len(),
            by: if is_ratio { by.exp() } else { by },
            is_ratio,
            p: ranks.p(),
        })
    }

    fn comparison(&self, p_adjusted: f64, direction: Direction, usual: Option<f64>) -> Comparison {
        Comparison {
            rounds: self.rounds,
            ratio: self.is_ratio.then_some(self.by),
            p: self.p,
            p_adjusted,
            verdict: self.verdict(p_adjusted, direction, usual.unwrap_or(0.0)),
        }
    }

    fn verdict(&self, p_adjusted: f64, direction: Direction, usual: f64) -> Verdict {
        if self.is_ratio {
            return verdict(&self.by, self.p, p_adjusted, direction);
        }
        // As a ratio to what the baseline usually has: there is no other way to say what is as good as equal.
        let as_ratio = |difference: f64| match usual {
            0.0 => 1.0 + difference.signum() * f64::from(difference != 0.0),
            usual => 1.0 + difference / usual.abs(),
        };
        verdict(&self.by.map(as_ratio), self.p, p_adjusted, direction)
    }
}

/// What may be said of a ratio.
pub(crate) fn verdict(ratio: &Estimate, p: f64, p_adjusted: f64, direction: Direction) -> Verdict {
    if p_adjusted < SIGNIFICANCE {
        return match (ratio.value < 1.0, direction) {
            (true, Direction::Lower) | (false, Direction::Higher) => Verdict::Better,
            _ => Verdict::Worse,
        };
    }
    let Interval {
        low,
        high,
        confidence,
    } = ratio.interval;
    let is_equal = confidence >= CONFIDENCE
        && AS_GOOD_AS_EQUAL.contains(&low)
        && AS_GOOD_AS_EQUAL.contains(&high);
    match (is_equal, p < SIGNIFICANCE) {
        (true, _) => Verdict::Equal,
        (false, true) => Verdict::Suspected,
        (false, false) => Verdict::Open,
    }
}

/// The figures of a variant and of the baseline, of each round in which both have one. None without a baseline.
pub(crate) fn rounds_with(
    benchmark: &Benchmark,
    quantity: &Quantity,
    failures: &[Failures],
    variant: usize,
) -> Option<Vec<Round>> {
    let baseline = Baseline::of(benchmark, quantity, failures)?;
    let own = figures(&benchmark.variants[variant], quantity, &failures[variant]);
    Some(baseline.rounds_with(&own))
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
    use crate::results::OutputCheck;
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

    #[test]
    fn a_ratio_below_one_is_less() {
        let benchmark = walls(Simulated::quiet(20, 1), &[0.5]);
        let comparison = wall(&benchmark).rows[2].comparison.unwrap();
        let ratio = comparison.ratio.unwrap();
        assert!((ratio.value - 0.5).abs() < 0.02, "{ratio:?}");
        assert_eq!(comparison.verdict, Verdict::Better);
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
        assert_eq!(row.comparison.unwrap().rounds, 16);
        assert_eq!(row.summary.as_ref().unwrap().sample.count(), 16);
        let failures = |output| Failures::of(&benchmark, &benchmark.variants[2], output);
        assert_eq!(
            failures(OutputCheck::Same).to_string(),
            "crashed in 3 of 20 runs (SIGSEGV), printed something else in 1 of 20 runs"
        );
        assert_eq!(failures(OutputCheck::Ignored).count(), 3);
    }

    #[test]
    fn a_quantity_that_no_run_has_is_not_analysed() {
        let benchmark = walls(Simulated::quiet(6, 3), &[1.0]);
        assert_eq!(analysed(&benchmark, &Quantity::MeanRss), None);
    }

    #[test]
    fn both_runs_of_the_baseline_are_baseline() {
        let mut benchmark = walls(Simulated::quiet(12, 5), &[0.9]);
        lose_runs(&mut benchmark.variants[0], 0..12);
        // The copy alone is enough to compare with.
        let analysis = wall(&benchmark);
        assert_eq!(verdicts(&analysis), [Verdict::Better]);
        assert_eq!(
            analysis.rows[0].summary.as_ref().unwrap().sample.count(),
            12
        );
        let analysis = wall(&walls(Simulated::quiet(12, 5), &[0.9]));
        assert_eq!(
            analysis.rows[0].summary.as_ref().unwrap().sample.count(),
            24
        );
    }

    #[test]
    fn a_variant_that_always_crashes_has_no_figures() {
        let mut benchmark = walls(Simulated::quiet(20, 3), &[0.8, 0.9]);
        lose_runs(&mut benchmark.variants[2], 0..20);
        let analysis = wall(&benchmark);
        let row = &analysis.rows[2];
        assert_eq!((&row.summary, row.comparison), (&None, None));
        assert!(analysis.widest_interval(&benchmark).is_some());
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
        assert_eq!(analysis.comparison(2).unwrap().ratio, None);
        assert_eq!(verdicts(&analysis), [Verdict::Worse, Verdict::Equal]);
    }

    #[test]
    fn what_can_be_claimed_depends_on_rounds_and_candidates() {
        let with = |rounds, candidates: &[f64]| {
            verdicts(&wall(&walls(Simulated::quiet(rounds, 3), candidates)))
        };
        assert_eq!(with(3, &[0.2]), [Verdict::Open]);
        assert_eq!(with(4, &[0.2]), [Verdict::Better]);
        assert_eq!(with(4, &[0.2, 0.2]), [Verdict::Better; 2]);
        assert_eq!(with(4, &[0.2, 0.2, 0.2]), [Verdict::Suspected; 3]);
        assert_eq!(with(5, &[0.2; 6]), [Verdict::Better; 6]);
    }

    #[test]
    fn four_states_say_what_is_known() {
        let quiet = |seconds| verdicts(&wall(&walls(Simulated::quiet(40, 3), &[seconds])))[0];
        assert_eq!(quiet(0.95), Verdict::Better);
        assert_eq!(quiet(1.05), Verdict::Worse);
        assert_eq!(quiet(1.0), Verdict::Equal);
        let noise = 0.2;
        let noisy = Simulated {
            noise,
            ..Simulated::quiet(8, 3)
        };
        assert_eq!(verdicts(&wall(&walls(noisy, &[1.0]))), [Verdict::Open]);
    }

    #[test]
    fn the_twins_tell_whether_the_measurement_is_in_doubt() {
        let twins = |copy| {
            let variants = [
                ("base", Role::Baseline, 1.0, MIB),
                ("copy", Role::BaselineCopy, copy, MIB),
            ];
            wall(&Simulated::quiet(20, 3).run(&variants)).twins.unwrap()
        };
        assert!(twins(1.0).p > 0.05);
        assert!(twins(1.05).p < 0.001);
    }

    #[test]
    fn more_rounds_make_smaller_differences_visible() {
        let visible = |rounds| {
            let benchmark = walls(Simulated::quiet(rounds, 3), &[1.0]);
            let analysis = wall(&benchmark);
            (
                analysis.visible(&benchmark),
                analysis.widest_interval(&benchmark),
            )
        };
        assert_eq!(visible(3), (None, None));
        let (few, many) = (visible(10), visible(100));
        assert!(many.0 < few.0 && many.1 < few.1, "{few:?} {many:?}");
        assert!(many.0.unwrap() < 0.005, "{many:?}");
    }
}
