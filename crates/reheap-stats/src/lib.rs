//! Numbers with a spread, from runs. Pure: no input, no output, no clock.
//!
//! Medians, because the runs of a program on a busy machine have a long tail on one side, which a mean follows.
//! [`interval`] says how far a median may be trusted, [`ranks`] whether a difference is more than chance, and neither
//! assumes a normal distribution: run times have none. No estimate draws random numbers: where a bootstrap would draw
//! resamples, the distribution of the median of a resample is computed, so the same runs always give the same report.
//!
//! It is a crate of its own so that tests get it optimized without all of `reheap-bench`, which would compile for longer
//! than its tests run.

pub mod aligned;
pub mod interval;
pub mod random;
pub mod ranks;

/// At least one finite value, sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// A sample of these values; none if there is no value or one that is not finite.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Option<Sample> {
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        values.sort_unstable_by(f64::total_cmp);
        Some(Sample(values))
    }

    /// How many values there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// The value in the middle, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        if self.0.len() % 2 == 1 {
            self.0[middle]
        } else {
            (self.0[middle - 1] + self.0[middle]) / 2.0
        }
    }

    /// The values, from the smallest to the largest.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// The value below which this share of the values lies, between neighbours by linear interpolation: definition 7
    /// of Hyndman and Fan, "Sample quantiles in statistical packages" (1996), which R and NumPy use too.
    pub fn quantile(&self, share: f64) -> f64 {
        let place = share.clamp(0.0, 1.0) * (self.0.len() - 1) as f64;
        let (below, above) = (
            self.0[place.floor() as usize],
            self.0[place.ceil() as usize],
        );
        below + (above - below) * place.fract()
    }

    /// The median of the distances from the median: a spread that a few outliers do not move. It is not scaled to
    /// resemble a standard deviation.
    pub fn median_absolute_deviation(&self) -> f64 {
        let median = self.median();
        let mut distances: Vec<f64> = self.0.iter().map(|value| (value - median).abs()).collect();
        distances.sort_unstable_by(f64::total_cmp);
        Sample(distances).median()
    }

    /// The values that lie so far off that something else happened in their runs. They are to be reported, never
    /// dropped: they are part of what a user of the program sees.
    ///
    /// By the modified z-score `0.6745 (x - median) / MAD` above 3.5 of Iglewicz and Hoaglin, "How to Detect and Handle
    /// Outliers" (1993). None where more than half of the values are equal, because then it has no scale.
    pub fn outliers(&self) -> impl Iterator<Item = f64> {
        let (median, deviation) = (self.median(), self.median_absolute_deviation());
        self.0.iter().copied().filter(move |value| {
            deviation > 0.0 && 0.6745 * (value - median).abs() / deviation > 3.5
        })
    }
}

/// The geometric mean: the one mean of ratios that does not depend on what is divided by what (Fleming and Wallace,
/// "How not to lie with statistics: the correct way to summarize benchmark results", 1986).
///
/// None if there is no value, or one that is not above zero.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = ratios.into_iter().map(f64::ln).collect();
    let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
    mean.is_finite().then(|| mean.exp())
}

/// The differences `minuend - subtrahend`, round by round: what one adds to the other, whatever both take together.
///
/// None if the two have different numbers of rounds, or if a difference is not finite.
pub fn paired_differences(minuend: &[f64], subtrahend: &[f64]) -> Option<Sample> {
    if minuend.len() != subtrahend.len() {
        return None;
    }
    let rounds = minuend.iter().zip(subtrahend);
    Sample::new(rounds.map(|(minuend, subtrahend)| minuend - subtrahend))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    #[test]
    fn the_median_of_an_even_number_of_values_is_the_mean_of_the_middle_two() {
        assert_eq!(sample(&[4.0, 1.0, 3.0, 2.0]).median(), 2.5);
        assert_eq!(sample(&[3.0, 1.0, 2.0]).median(), 2.0);
    }

    #[test]
    fn the_deviation_is_that_of_the_published_example() {
        // The example of R's `mad` with constant 1 and of its article on Wikipedia.
        assert_eq!(
            sample(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]).median_absolute_deviation(),
            1.0
        );
    }

    #[test]
    fn quantiles_are_those_of_r() {
        // R: quantile(c(1, 2, 4, 8, 16, 32), c(0, .1, .25, .5, .9, 1))
        let powers = sample(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        let quantiles = [0.0, 0.1, 0.25, 0.5, 0.9, 1.0].map(|share| powers.quantile(share));
        assert_eq!(quantiles, [1.0, 1.5, 2.5, 6.0, 24.0, 32.0]);
    }

    #[test]
    fn only_what_lies_far_off_is_an_outlier() {
        let walls = sample(&[10.0, 10.1, 9.9, 10.2, 9.8, 10.3, 14.0]);
        assert_eq!(walls.outliers().collect::<Vec<_>>(), [14.0]);
        assert_eq!(sample(&[1.0, 1.0, 1.0, 9.0]).outliers().count(), 0);
    }

    #[test]
    fn the_geometric_mean_of_inverse_ratios_is_the_inverse() {
        let ratios = [0.5, 2.0, 4.0];
        let mean = geometric_mean(ratios).unwrap();
        assert!((mean - 4f64.cbrt()).abs() < 1e-12);
        assert!((geometric_mean(ratios.map(f64::recip)).unwrap() * mean - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
        assert_eq!(geometric_mean([1.0, 0.0]), None);
    }

    #[test]
    fn one_value_is_its_own_median_without_deviation() {
        let one = sample(&[7.0]);
        assert_eq!(
            (one.count(), one.min(), one.median(), one.max()),
            (1, 7.0, 7.0, 7.0)
        );
        assert_eq!(one.median_absolute_deviation(), 0.0);
    }

    #[test]
    fn no_value_and_no_number_make_no_sample() {
        assert_eq!(Sample::new([]), None);
        assert_eq!(Sample::new([1.0, f64::NAN]), None);
        assert_eq!(Sample::new([1.0, f64::INFINITY]), None);
    }

    #[test]
    fn differences_are_paired_by_round() {
        let differences = paired_differences(&[2.0, 9.0, 3.0], &[1.0, 8.0, 1.5]).unwrap();
        assert_eq!((differences.median(), differences.max()), (1.0, 1.5));
        assert_eq!(paired_differences(&[1.0], &[]), None);
    }
}
