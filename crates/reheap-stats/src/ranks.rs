//! Whether a difference is more than chance: tests on ranks.
//!
//! Ranks, because a test on the values themselves (Student's t) believes in a normal distribution, and one run that the
//! machine disturbed makes it blind. The distributions are exact for as many values as usual benchmarks have, ties and
//! zeros included: peak memory comes in pages and CPU time in ticks, so ties are the rule, and the usual normal
//! approximation claims too much for few tied values.

use crate::Sample;
use crate::interval::{CONFIDENCE, Estimate, Interval};
use statrs::distribution::{ContinuousCDF, Normal};

/// Up to so many values the distribution under chance is computed exactly, above it is taken to be normal.
const EXACT_UP_TO: usize = 50;

/// The test of Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than the
/// other" (1947), also known as Wilcoxon's rank-sum test: for values that are not paired.
///
/// Exact for all ways of dealing the ranks to the two samples, ties included; the approximation has the corrections for
/// ties and for continuity.
pub fn rank_sum(left: &Sample, right: &Sample) -> f64 {
    let all = [left.values(), right.values()].concat();
    let doubled = doubled_ranks(&all);
    let observed: usize = doubled[..left.count()].iter().sum();
    if all.len() <= EXACT_UP_TO {
        return two_sided(&subset_sums_of(&doubled, left.count()), observed);
    }
    let (n, m) = (left.count() as f64, right.count() as f64);
    let mean = n * (n + m + 1.0);
    let deviations = doubled
        .iter()
        .map(|&rank| (rank as f64 - (n + m + 1.0)).powi(2));
    let variance = n * m * deviations.sum::<f64>() / ((n + m) * (n + m - 1.0));
    two_sided_normal(observed as f64, mean, variance)
}

/// By how much the values on the right exceed those on the left, that are not paired with them: the median of all
/// differences between one of each, and the interval that [`rank_sum`] does not reject (Hodges and Lehmann, "Estimates
/// of location based on rank tests", 1963).
///
/// With too few values for [`CONFIDENCE`], the interval is the range of all differences, and says with its confidence
/// what that is worth.
pub fn shift_between(left: &Sample, right: &Sample) -> Estimate {
    let (left, right) = (&thinned(left), &thinned(right));
    let pairs = left
        .values()
        .iter()
        .flat_map(|left| right.values().iter().map(move |right| right - left));
    let differences = Sample::new(pairs).expect("differences of finite values");
    let (n, m) = (left.count(), right.count());
    let (outside, confidence) = match outside(n, m) {
        Some(outside) => (outside, CONFIDENCE),
        None => (0, 1.0 - 2.0 / binomial(n + m, n.min(m)).max(2.0)),
    };
    let (mut low, mut high) = (
        differences.values()[outside],
        differences.values()[n * m - 1 - outside],
    );
    // With ties the distribution is another one, and what the test says of no difference at all is what counts.
    if confidence >= CONFIDENCE {
        let is_rejected = rank_sum(left, right) < 1.0 - CONFIDENCE;
        let values = || differences.values().iter().copied();
        match (is_rejected, differences.median() > 0.0) {
            (false, _) => (low, high) = (low.min(0.0), high.max(0.0)),
            (true, true) => low = low.max(values().find(|&value| value > 0.0).unwrap_or(low)),
            (true, false) => high = high.min(values().rfind(|&value| value < 0.0).unwrap_or(high)),
        }
    }
    Estimate {
        value: differences.median(),
        interval: Interval {
            low,
            high,
            confidence,
        },
    }
}

/// A sample of so many values at most, evenly spaced in rank.
fn thinned(sample: &Sample) -> Sample {
    let step = sample.count().div_ceil(VALUES_FOR_PAIRS);
    let values = sample.values().iter().copied().step_by(step);
    Sample::new(values).expect("some values of a sample")
}

/// How many of the differences, from either end, lie outside the interval; none if there are too few for one.
fn outside(n: usize, m: usize) -> Option<usize> {
    if n + m > EXACT_UP_TO {
        let (mean, all) = ((n * m) as f64 / 2.0, (n + m + 1) as f64);
        let score = Normal::standard().inverse_cdf(1.0 - (1.0 - CONFIDENCE) / 2.0);
        return Some((mean - score * (mean * all / 6.0).sqrt()).floor().max(0.0) as usize);
    }
    // Ranks from 1; without ties the least sum is n (n + 1) / 2, and the sum above it counts pairs.
    let ranks: Vec<usize> = (1..=n + m).collect();
    let chances = subset_sums_of(&ranks, n);
    let least = n * (n + 1) / 2;
    let mut below = 0.0;
    let rejected = chances[least..].iter().take_while(|&&chance| {
        below += chance;
        below <= (1.0 - CONFIDENCE) / 2.0
    });
    rejected.count().checked_sub(1)
}

/// In how many ways so many of all can be chosen.
fn binomial(all: usize, chosen: usize) -> f64 {
    (0..chosen)
        .map(|i| (all - i) as f64 / (i + 1) as f64)
        .product()
}

/// Step-down adjustment of several p values, so that the chance of any false claim among them stays what it is for one:
/// Holm, "A simple sequentially rejective multiple test procedure" (1979). In the order in which they were given.
/// Unlike others it does not ask that the tests be independent, and those of variants that share a baseline are not.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&left, &right| p_values[left].total_cmp(&p_values[right]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (place, index) in order.into_iter().enumerate() {
        let remaining = (p_values.len() - place) as f64;
        largest = largest.max(p_values[index] * remaining).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

/// A trend over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// How much a value grows from one to the next: the median of all slopes between two values (Sen, "Estimates of the
    /// regression coefficient based on Kendall's tau", 1968).
    pub slope: f64,
    /// The chance of such a trend if there is none: the test of Mann (1945) and Kendall (1975), in its normal
    /// approximation with the corrections for ties and for continuity.
    pub p: f64,
}

/// All pairs are formed of so many values at most.
const VALUES_FOR_PAIRS: usize = 1000;

/// Whether values drift in the order in which they were seen. None for fewer than eight, for which the approximation
/// is poor.
pub fn trend(values: &[f64]) -> Option<Trend> {
    if values.len() < 8 {
        return None;
    }
    // All pairs of very many values would not fit into memory, and a part of them shows a trend as well.
    let step = values.len().div_ceil(VALUES_FOR_PAIRS);
    let thinned: Vec<f64> = values.iter().copied().step_by(step).collect();
    let values = thinned.as_slice();
    let n = values.len() as f64;
    let pairs =
        || (0..values.len()).flat_map(|later| (0..later).map(move |earlier| (earlier, later)));
    let slopes = pairs().map(|(i, j)| (values[j] - values[i]) / (j - i) as f64);
    let slope = Sample::new(slopes)?.median() / step as f64;
    let score: f64 = pairs()
        .map(|(i, j)| match values[j].total_cmp(&values[i]) {
            std::cmp::Ordering::Less => -1.0,
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => 1.0,
        })
        .sum();
    let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let ties: f64 = tie_sizes(values).map(|size| spread(size as f64)).sum();
    let variance = (spread(n) - ties) / 18.0;
    // The score goes in steps of 2, so half a step is 1.
    let p = two_sided_score((score.abs() - 1.0).max(0.0), variance);
    Some(Trend { slope, p })
}

/// Twice the rank of each value, from 1, tied ones sharing their mean: twice, so that it is a whole number.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&left, &right| values[left].total_cmp(&values[right]));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    for tied in order.chunk_by(|&left, &right| values[left] == values[right]) {
        let last = first + tied.len() - 1;
        for &index in tied {
            ranks[index] = (first + 1) + (last + 1);
        }
        first = last + 1;
    }
    ranks
}

/// How many values each group of equal ones has.
fn tie_sizes(values: &[f64]) -> impl Iterator<Item = usize> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let sizes: Vec<usize> = sorted
        .chunk_by(|left, right| left == right)
        .map(<[f64]>::len)
        .collect();
    sizes.into_iter()
}

/// How likely each sum is, if so many of the numbers are drawn.
fn subset_sums_of(numbers: &[usize], drawn: usize) -> Vec<f64> {
    let sums = numbers.iter().sum::<usize>() + 1;
    // ways[k][s]: in how many ways k numbers have the sum s.
    let mut ways = vec![vec![0.0; sums]; drawn + 1];
    ways[0][0] = 1.0;
    for (seen, &number) in numbers.iter().enumerate() {
        for k in (1..=drawn.min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(k);
            for (with, without) in more[0][number..].iter_mut().zip(&fewer[k - 1]) {
                *with += without;
            }
        }
    }
    let all: f64 = ways[drawn].iter().sum();
    ways[drawn].iter().map(|ways| ways / all).collect()
}

/// Twice the chance of the smaller of both tails, which hold the observed sum too.
fn two_sided(chances: &[f64], observed: usize) -> f64 {
    let lower: f64 = chances[..=observed].iter().sum();
    let upper: f64 = chances[observed..].iter().sum();
    (2.0 * lower.min(upper)).min(1.0)
}

/// Twice the chance of the smaller tail by a normal distribution, for a sum of doubled ranks, whose half step is 1.
fn two_sided_normal(observed: f64, mean: f64, variance: f64) -> f64 {
    two_sided_score(((observed - mean).abs() - 1.0).max(0.0), variance)
}

fn two_sided_score(distance: f64, variance: f64) -> f64 {
    if variance <= 0.0 {
        return 1.0;
    }
    (2.0 * Normal::standard().sf(distance / variance.sqrt())).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    #[track_caller]
    fn assert_close(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-9,
            "{found} instead of {expected}"
        );
    }

    /// `count` numbers of a simple sequence, of which SciPy got the same.
    fn sequence(count: i32, step: i32, modulus: i32, shift: i32) -> Vec<f64> {
        (0..count)
            .map(|i| f64::from((i * step) % modulus + shift))
            .collect()
    }

    #[test]
    fn rank_sums_give_the_values_of_scipy() {
        // scipy.stats.mannwhitneyu(x, y, method='exact').pvalue; the example of R's wilcox.test.
        let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let y = [1.15, 0.88, 0.90, 0.74, 1.21];
        assert_close(rank_sum(&sample(&x), &sample(&y)), 0.254_412_254_412_254_4);
        // With ties: method=PermutationMethod(n_resamples=inf).
        let x = [1.0, 2.0, 2.0, 3.0, 3.0, 5.0];
        let y = [2.0, 3.0, 4.0, 5.0, 5.0, 6.0, 7.0];
        assert_close(rank_sum(&sample(&x), &sample(&y)), 0.078_088_578_088_578_1);
        // method='asymptotic', without and with ties.
        let (x, y) = (sequence(30, 37, 101, 0), sequence(30, 53, 97, 15));
        assert_close(rank_sum(&sample(&x), &sample(&y)), 0.160_111_677_410_428_98);
        let (x, y) = (sequence(30, 7, 13, 0), sequence(30, 5, 11, 3));
        assert_close(
            rank_sum(&sample(&x), &sample(&y)),
            0.025_636_802_403_375_788,
        );
    }

    #[test]
    fn a_shift_is_the_median_difference_within_critical_values() {
        // Of 50 differences, 8 lie outside on either side: the critical value of U for 10 and 5 values at 5 %.
        let x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let y = [1.15, 0.88, 0.90, 0.74, 1.21];
        let shift = shift_between(&sample(&x), &sample(&y));
        assert_close(shift.value, -0.305);
        assert_close(shift.interval.low, -0.76);
        assert_close(shift.interval.high, 0.15);
        let few = shift_between(&sample(&[1.0, 2.0]), &sample(&[5.0, 7.0]));
        assert_close(few.interval.confidence, 1.0 - 2.0 / 6.0);
        assert_eq!((few.interval.low, few.interval.high), (3.0, 6.0));
    }

    #[test]
    fn holm_adjusts_as_r_does() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert_close(found, expected);
        }
        assert_eq!(holm(&[0.7, 0.9]), [1.0, 1.0]);
        assert_eq!(holm(&[]), [0.0; 0]);
    }

    #[test]
    fn a_trend_is_that_of_the_reference() {
        // pymannkendall.original_test(v), and scipy.stats.theilslopes(v) for the slope.
        let values = [10.0, 12.0, 11.0, 13.0, 13.0, 14.0, 12.0, 15.0, 17.0, 16.0];
        let trend = trend(&values).unwrap();
        assert_close(trend.slope, 2.0 / 3.0);
        assert_close(trend.p, 0.003_909_876_320_511_874);
    }

    #[test]
    fn equal_values_have_no_trend() {
        assert_eq!(trend(&[3.0; 9]), Some(Trend { slope: 0.0, p: 1.0 }));
        assert_eq!(trend(&[1.0; 7]), None);
    }

    proptest! {
        #[test]
        fn a_test_does_not_care_which_side_is_which(
            left in prop::collection::vec(-9i8..9, 1..30),
            right in prop::collection::vec(-9i8..9, 1..30),
        ) {
            let floats = |values: &[i8]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
            let (left, right) = (sample(&floats(&left)), sample(&floats(&right)));
            prop_assert!((rank_sum(&left, &right) - rank_sum(&right, &left)).abs() < 1e-9);
        }

        #[test]
        fn adjusting_makes_no_p_value_smaller_and_keeps_their_order(
            p_values in prop::collection::vec(0.0f64..=1.0, 0..12),
        ) {
            let adjusted = holm(&p_values);
            for (i, p) in p_values.iter().enumerate() {
                prop_assert!((*p..=1.0).contains(&adjusted[i]));
                for (j, q) in p_values.iter().enumerate() {
                    prop_assert!(p > q || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
