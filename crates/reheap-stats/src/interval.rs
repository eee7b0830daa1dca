//! How far a median may be trusted: bootstrap intervals without drawing a resample.
//!
//! The bootstrap asks how the median would vary if the runs were drawn again, with replacement, from the runs that
//! there are. For a median this needs no dice: the chance of each possible median of a resample has a closed form
//! (Maritz and Jarrett, "A note on estimating the variance of the sample median", 1978, for an odd number of values).
//! So there is no seed and no number of resamples to choose; it is what an infinite number of them would show.
//!
//! From that distribution the interval is taken by BCa, the bias-corrected and accelerated method of Efron, "Better
//! bootstrap confidence intervals" (1987). The bias correction counts half of the medians that equal the observed one.
//! The acceleration is usually estimated by the jackknife, which fails for a median: leaving one value out moves it
//! only between its neighbours. It is not needed either. Efron's formula is the skewness of the influence function, and
//! that of a median takes two opposite values for half of the values each, so the acceleration is exactly 0.
//!
//! Such intervals are too narrow for few values: for nine they would hold the true median in 82 of 100 cases instead of
//! 95. Therefore they are expanded as Hesterberg, "What teachers should know about the bootstrap" (2014),
//! does: Student's t for the normal distribution, and a factor `sqrt(n / (n - 1))`. With that they hold 93 to 98 %, and
//! for many values nothing changes.

use crate::Sample;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::beta_reg;
use statrs::function::gamma::ln_gamma;

/// The confidence that is aimed at.
pub const CONFIDENCE: f64 = 0.95;

/// With fewer values than this not even their whole range holds the true median with [`CONFIDENCE`].
pub const VALUES_FOR_CONFIDENCE: usize = 6;

/// Medians of resamples that are less likely than this are left out, so that large samples stay cheap.
const NEGLIGIBLE: f64 = 1e-12;

/// A range in which the true value lies, with some confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How often such an interval holds the true value: [`CONFIDENCE`], or less where there were too few values.
    pub confidence: f64,
}

impl Interval {
    /// Whether a value lies in it; the ends do.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The distance from one end to the other.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }

    /// The interval of the exponential, for one that was computed of logarithms.
    #[must_use]
    pub fn exp(self) -> Interval {
        Interval {
            low: self.low.exp(),
            high: self.high.exp(),
            ..self
        }
    }
}

/// A figure and how far it may be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Where the true one lies.
    pub interval: Interval,
}

impl Estimate {
    /// The estimate of what is computed from each value, if that keeps their order.
    #[must_use]
    pub fn map(self, of: impl Fn(f64) -> f64) -> Estimate {
        let Interval {
            low,
            high,
            confidence,
        } = self.interval;
        Estimate {
            value: of(self.value),
            interval: Interval {
                low: of(low),
                high: of(high),
                confidence,
            },
        }
    }

    /// The median of a sample.
    pub fn of_median(sample: &Sample) -> Estimate {
        Estimate {
            value: sample.median(),
            interval: of_median(sample),
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

/// The interval of a sample's median.
///
/// With fewer than [`VALUES_FOR_CONFIDENCE`] values it is their whole range, and says with its confidence what that is
/// worth: all values lie on one side of the true median in `2^(1-n)` of all cases, so five values give 93.75 %, four
/// 87.5 %, three 75 %, and one gives nothing.
pub fn of_median(sample: &Sample) -> Interval {
    let confidence = confidence(sample.count());
    if sample.count() < VALUES_FOR_CONFIDENCE {
        return Interval {
            low: sample.min(),
            high: sample.max(),
            confidence,
        };
    }
    let medians = Medians::of(sample);
    let (lower, upper) = medians.bca_shares(sample.median(), expanded_score(sample.count()));
    Interval {
        low: medians.quantile(lower),
        high: medians.quantile(upper),
        confidence,
    }
}

/// What the interval of the median of so many values can be worth at most.
fn confidence(count: usize) -> f64 {
    (1.0 - 0.5f64.powi(count as i32 - 1)).min(CONFIDENCE)
}

/// The normal score of the lower end that Hesterberg's expansion asks for, below zero.
fn expanded_score(count: usize) -> f64 {
    let n = count as f64;
    let student = StudentsT::new(0.0, 1.0, n - 1.0).expect("more than one value");
    (n / (n - 1.0)).sqrt() * student.inverse_cdf((1.0 - CONFIDENCE) / 2.0)
}

/// The shares of the bootstrap distribution at which a BCa interval ends, given the share that lies below the observed
/// value: Efron (1987), with an acceleration of 0.
fn shares(share_below: f64, score: f64) -> (f64, f64) {
    let normal = Normal::standard();
    // A sum of chances may exceed 1 by rounding.
    let bias = normal.inverse_cdf(share_below.clamp(0.0, 1.0));
    (
        normal.cdf(2.0 * bias + score),
        normal.cdf(2.0 * bias - score),
    )
}

/// All medians that a resample can have, in increasing order, with their chances.
struct Medians(Vec<(f64, f64)>);

impl Medians {
    fn of(sample: &Sample) -> Medians {
        let mut medians = if sample.count() % 2 == 1 {
            medians_of_odd(sample.values())
        } else {
            medians_of_even(sample.values())
        };
        medians.retain(|&(_, chance)| chance > NEGLIGIBLE);
        medians.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        Medians(medians)
    }

    /// The smallest median that this share of all resamples does not exceed.
    fn quantile(&self, share: f64) -> f64 {
        let mut sum = 0.0;
        for &(median, chance) in &self.0 {
            sum += chance;
            if sum >= share {
                return median;
            }
        }
        self.0[self.0.len() - 1].0
    }

    fn bca_shares(&self, observed: f64, score: f64) -> (f64, f64) {
        let range = self.0[self.0.len() - 1].0 - self.0[0].0;
        let below = self.0.iter().map(|&(median, chance)| {
            if (median - observed).abs() <= 1e-12 * range {
                chance / 2.0
            } else if median < observed {
                chance
            } else {
                0.0
            }
        });
        shares(below.sum(), score)
    }
}

/// The chances that the median of a resample is the `i`th value. It is at most that if more than half of the values
/// drawn are, which is a binomial tail.
fn medians_of_odd(values: &[f64]) -> Vec<(f64, f64)> {
    let up_to = chances_up_to(values.len(), values.len().div_ceil(2));
    let chances = up_to.windows(2).map(|pair| pair[1] - pair[0]);
    values.iter().copied().zip(chances).collect()
}

/// The chances that the two values in the middle of a resample are the `i`th and the `j`th. For `i < j` half of the
/// values drawn are the `i`th at most, though not all of them the `i-1`th at most, and the other half the `j`th at
/// least.
fn medians_of_even(values: &[f64]) -> Vec<(f64, f64)> {
    let (count, half) = (values.len(), values.len() / 2);
    let n = count as f64;
    // How likely it is that one half of the values drawn lies among so many, with half of the ways to choose that half.
    // By logarithms, because the number of ways exceeds what a floating-point number holds.
    let ln_ways = ln_gamma(n + 1.0) - 2.0 * ln_gamma(half as f64 + 1.0);
    let within: Vec<f64> = (0..=count)
        .map(|among| (ln_ways / 2.0 + half as f64 * (among as f64 / n).ln()).exp())
        .collect();
    let step = |rank: usize| within[rank] - within[rank - 1];
    let lower_up_to = chances_up_to(count, half);
    let mut medians = Vec::new();
    for i in 1..=count {
        let lower_is_i = lower_up_to[i] - lower_up_to[i - 1];
        medians.push((values[i - 1], lower_is_i - step(i) * within[count - i]));
        for j in i + 1..=count {
            let chance = step(i) * step(count - j + 1);
            // It falls with each `j`.
            if chance <= NEGLIGIBLE {
                break;
            }
            medians.push((f64::midpoint(values[i - 1], values[j - 1]), chance));
        }
    }
    medians
}

/// The chances that the value with this rank in a resample is among the lowest 0, 1, 2, … of the sample: a binomial
/// tail, by the incomplete beta function.
fn chances_up_to(count: usize, rank: usize) -> Vec<f64> {
    let (below, above) = (rank as f64, (count - rank + 1) as f64);
    (0..=count)
        .map(|among| match among {
            0 => 0.0,
            _ if among == count => 1.0,
            _ => beta_reg(below, above, among as f64 / count as f64),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use proptest::prelude::*;

    const TWELVE: [f64; 12] = [1.0, 1.5, 2.2, 2.3, 3.1, 4.0, 4.4, 5.9, 7.5, 9.1, 12.0, 20.0];

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    /// A BCa interval without Hesterberg's expansion, as other programs compute it.
    fn unexpanded(values: &[f64]) -> (f64, f64) {
        let sample = sample(values);
        let medians = Medians::of(&sample);
        let (lower, upper) = medians.bca_shares(sample.median(), -1.959_963_984_540_054);
        (medians.quantile(lower), medians.quantile(upper))
    }

    #[test]
    fn the_interval_is_that_of_scipy_with_very_many_resamples() {
        // scipy.stats.bootstrap((x,), np.median, method='BCa', n_resamples=200000); for an odd number of values
        // method='percentile', because SciPy's jackknife of a median is not to be believed there.
        assert_eq!(unexpanded(&TWELVE), (2.25, 8.3));
        assert_eq!(unexpanded(&TWELVE[..11]), (2.2, 7.5));
        // method='percentile': with these ties 'BCa' is NaN, because the jackknife finds no variance.
        let ties = [3.0, 3.0, 3.0, 3.1, 3.2, 3.2, 3.3, 3.5, 3.5, 4.0];
        assert_eq!(unexpanded(&ties), (3.0, 3.5));
    }

    #[test]
    fn few_values_get_a_wider_interval_as_hesterberg_advises() {
        // scipy.stats.bootstrap with confidence_level=1-2*norm.cdf(t.ppf(.025,11)*sqrt(12/11)).
        let interval = of_median(&sample(&TWELVE));
        assert_eq!((interval.low, interval.high), (2.2, 9.1));
        assert_eq!(interval.confidence, 0.95);
    }

    #[test]
    fn values_without_a_spread_have_an_interval_without_a_width() {
        for count in [1, 2, 5, 6, 7, 30, 31, 200] {
            let interval = of_median(&sample(&vec![3.0; count]));
            assert_eq!((interval.low, interval.high), (3.0, 3.0), "{count}");
        }
    }

    #[test]
    fn the_distribution_is_what_resampling_shows() {
        let mut random = SplitMix64(7);
        for values in [&TWELVE[..], &TWELVE[..11], &TWELVE[..6], &TWELVE[..7]] {
            let exact = Medians::of(&sample(values));
            let total: f64 = exact.0.iter().map(|median| median.1).sum();
            assert!((total - 1.0).abs() < 1e-9, "{total}");
            let mut drawn: Vec<f64> = (0..20_000)
                .map(|_| {
                    let resample = (0..values.len())
                        .map(|_| values[random.below(values.len() as u64) as usize]);
                    Sample::new(resample).unwrap().median()
                })
                .collect();
            drawn.sort_unstable_by(f64::total_cmp);
            for bound in [1.6, 2.2, 2.75, 3.1, 3.9, 5.0, 7.0] {
                let seen = drawn.partition_point(|&median| median <= bound) as f64 / 20_000.0;
                let medians = exact.0.iter().filter(|median| median.0 <= bound);
                let expected: f64 = medians.map(|median| median.1).sum();
                assert!((seen - expected).abs() < 0.015, "{seen} {expected}");
            }
        }
    }

    #[test]
    fn few_values_say_what_their_range_is_worth() {
        let worth = |count: usize| of_median(&sample(&TWELVE[..count]));
        assert_eq!(worth(1).confidence, 0.0);
        assert_eq!(worth(3).confidence, 0.75);
        assert_eq!((worth(3).low, worth(3).high), (1.0, 2.2));
        assert_eq!(worth(4).confidence, 0.875);
        assert_eq!(worth(5).confidence, 0.9375);
        assert_eq!(worth(6).confidence, 0.95);
    }

    #[test]
    fn a_large_sample_is_no_harder() {
        let mut random = SplitMix64(3);
        let mut uniform = || random.next_number() as f64 / u64::MAX as f64;
        for count in [2001, 2002] {
            let interval = of_median(&Sample::new((0..count).map(|_| uniform())).unwrap());
            // The median of n uniform values has a standard deviation of 1 / (2 sqrt n) = 0.0112.
            assert!(interval.contains(0.5), "{interval:?}");
            assert!((0.03..0.06).contains(&interval.width()), "{interval:?}");
        }
    }

    #[test]
    fn the_interval_holds_the_true_median_as_often_as_it_says() {
        let mut random = SplitMix64(11);
        // A long tail on one side, as run times have: the exponential of the square root of an exponential variable.
        let mut tailed = || {
            let uniform = (random.next_number() >> 11) as f64 / (1u64 << 53) as f64;
            (-(1.0 - uniform).ln()).sqrt().exp()
        };
        let truth = 2f64.ln().sqrt().exp();
        for count in [3, 4, 5, 6, 7, 8, 9, 10, 15, 30] {
            let trials = 2000;
            let held = (0..trials)
                .map(|_| of_median(&Sample::new((0..count).map(|_| tailed())).unwrap()))
                .filter(|interval| interval.contains(truth))
                .count();
            let (held, promised) = (held as f64 / f64::from(trials), confidence(count));
            assert!(held > promised - 0.03, "{count}: {held} < {promised}");
        }
    }

    proptest! {
        #[test]
        fn an_interval_lies_in_the_range_and_holds_the_median(
            values in prop::collection::vec(-1e6f64..1e6, 1..60),
        ) {
            let sample = sample(&values);
            let interval = of_median(&sample);
            prop_assert!(sample.min() <= interval.low && interval.high <= sample.max());
            prop_assert!(interval.contains(sample.median()), "{interval:?}");
        }

        #[test]
        fn turning_the_values_round_turns_the_interval_round(
            values in prop::collection::vec(-1000i32..1000, 6..40),
        ) {
            let turned = sample(&values.iter().map(|&value| -f64::from(value)).collect::<Vec<_>>());
            let turned = of_median(&turned);
            let straight = sample(&values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>());
            let straight = of_median(&straight);
            prop_assert_eq!((-turned.high, -turned.low), (straight.low, straight.high));
        }
    }
}
