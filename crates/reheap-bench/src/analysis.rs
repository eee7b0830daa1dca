//! What a benchmark shows of one quantity: how the variants compare with the baseline, and whether that is more than
//! chance.
//!
//! A ratio is always `variant / baseline`, so below 1 the variant has less: it is faster, smaller. Ratios are taken round
//! by round and averaged as logarithms, because what slows a whole round down cancels out, and because swapping variant
//! and baseline then gives exactly the inverse.
//!
//! A difference is claimed only if three things say so:
//!
//! 1. the 95 % interval of the median ratio ([`crate::stats::interval`]) has nothing in common with the noise floor, which
//!    is the interval of a second copy of the baseline, widened to 1;
//! 2. Wilcoxon's signed-rank test ([`crate::stats::ranks`]) finds it unlikely to be chance, with p below 0.05;
//! 3. it still does after Holm's correction over all candidates, because of twenty equal variants one always looks good.
//!
//! The test alone keeps false claims below 5 %; the noise floor keeps out the differences that are real but no property
//! of the variant, such as where its code happens to lie in memory. A simulation at the end of this file holds both to it.

use crate::results::{Benchmark, Direction, Outcome, OutputCheck, Quantity, Role, Variant};
use crate::stats::interval::{self, Interval};
use crate::stats::{Sample, ranks};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

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
    /// The runs that do not count.
    pub failures: Failures,
    /// Its figures by themselves; none if no run counts or has the quantity.
    pub summary: Option<Summary>,
    /// How it compares with the baseline; none for the baseline itself, and where no round has a figure of both.
    pub comparison: Option<Comparison>,
}

/// Runs that do not count, because they ended or printed otherwise than the baseline does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// All runs of the variant.
    pub runs: usize,
    /// Those that ended otherwise, by how they ended.
    pub outcomes: Vec<(Outcome, usize)>,
    /// Those that ended as expected, but printed something else.
    pub other_output: usize,
}

/// The figures of the runs that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The figures.
    pub sample: Sample,
    /// Their median.
    pub median: Estimate,
}

/// A figure and how far it may be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Where the true one lies.
    pub interval: Interval,
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
    /// The same after Holm's correction over the candidates. The noise floor and the limit are no claims that compete, so
    /// theirs stays as it is.
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

impl Failures {
    /// How many runs do not count.
    pub fn count(&self) -> usize {
        self.other_output + self.outcomes.iter().map(|outcome| outcome.1).sum::<usize>()
    }

    /// Of a variant's runs.
    pub fn of(benchmark: &Benchmark, variant: &Variant, output: OutputCheck) -> Failures {
        let expected = benchmark.expected_outcome();
        let mut failures = Failures {
            runs: variant.runs.len(),
            ..Failures::default()
        };
        for run in benchmark.failures(variant, output) {
            let known = failures.outcomes.iter_mut();
            if Some(run.outcome) == expected {
                failures.other_output += 1;
            } else if let Some(seen) = { known }.find(|seen| seen.0 == run.outcome) {
                seen.1 += 1;
            } else {
                failures.outcomes.push((run.outcome, 1));
            }
        }
        failures
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, runs) = (self.count(), self.runs);
        write!(f, "{count} of {runs} runs failed")?;
        let outcomes = self.outcomes.iter();
        let mut kinds: Vec<String> = outcomes
            .map(|(outcome, count)| format!("{count} with {outcome}"))
            .collect();
        if self.other_output > 0 {
            kinds.push(format!("{} with other output", self.other_output));
        }
        if kinds.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", kinds.join(", "))
    }
}

impl Estimate {
    /// The median of a sample.
    pub fn of_median(sample: &Sample) -> Estimate {
        Estimate {
            value: sample.median(),
            interval: interval::of_median(sample),
        }
    }

    /// The same for `baseline / variant`: of a ratio of times it says how many times as fast the variant is.
    #[must_use]
    pub fn inverse(self) -> Estimate {
        Estimate {
            value: 1.0 / self.value,
            interval: Interval {
                low: 1.0 / self.interval.high,
                high: 1.0 / self.interval.low,
                ..self.interval
            },
        }
    }

    /// The exponential, for an estimate of a logarithm.
    #[must_use]
    pub fn exp(self) -> Estimate {
        Estimate {
            value: self.value.exp(),
            interval: self.interval.exp(),
        }
    }
}

/// Compares all variants of a benchmark in one quantity. None if the baseline has no figure of it.
pub fn analyse(
    benchmark: &Benchmark,
    quantity: &Quantity,
    output: OutputCheck,
) -> Option<Analysis> {
    let baseline = figures(benchmark, benchmark.baseline()?, quantity, output);
    if baseline.is_empty() {
        return None;
    }
    let direction = benchmark.direction(quantity);
    let mut pairs: Vec<Option<Pairs>> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for variant in &benchmark.variants {
        let own = figures(benchmark, variant, quantity, output);
        pairs.push(match variant.role {
            Role::Baseline => None,
            _ => Pairs::of(&own, &baseline),
        });
        rows.push(Row {
            variant: variant.name.clone(),
            role: variant.role,
            failures: Failures::of(benchmark, variant, output),
            summary: Summary::of(own.into_values()),
            comparison: None,
        });
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
    let analysis = analyse(benchmark, &Quantity::Wall, output)?;
    let comparisons: Vec<Comparison> = analysis
        .rows
        .iter()
        .filter_map(|row| row.comparison)
        .collect();
    let too_few = |comparison: &Comparison| comparison.pairs < interval::VALUES_FOR_CONFIDENCE;
    if comparisons.iter().any(too_few) {
        return None;
    }
    comparisons
        .iter()
        .filter_map(|comparison| comparison.ratio)
        .map(|ratio| ratio.interval.width() / ratio.value)
        .max_by(f64::total_cmp)
}

impl Analysis {
    /// The comparison of a variant, by its place in the benchmark.
    pub fn comparison(&self, variant: usize) -> Option<&Comparison> {
        self.rows.get(variant)?.comparison.as_ref()
    }

    /// The median ratio to the baseline of a variant, by its place in the benchmark; 1 for the baseline.
    pub fn ratio(&self, variant: usize) -> Option<f64> {
        let row = self.rows.get(variant)?;
        match row.role {
            Role::Baseline => Some(1.0),
            _ => Some(row.comparison?.ratio?.value),
        }
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
    /// How many times as fast as the baseline, or as small: the inverse of the ratio.
    pub fn times_as_good(&self) -> Option<Estimate> {
        self.ratio.map(Estimate::inverse)
    }

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
fn figures(
    benchmark: &Benchmark,
    variant: &Variant,
    quantity: &Quantity,
    output: OutputCheck,
) -> BTreeMap<usize, f64> {
    let failed: BTreeSet<usize> = benchmark
        .failures(variant, output)
        .map(|run| run.round)
        .collect();
    let counting = variant
        .runs
        .iter()
        .filter(|run| !failed.contains(&run.round));
    counting
        .filter_map(|run| Some((run.round, quantity.of(run)?)))
        .filter(|(_, figure)| figure.is_finite())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Simulated;

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

    fn wall(benchmark: &Benchmark) -> Analysis {
        analyse(benchmark, &Quantity::Wall, OutputCheck::Same).unwrap()
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
