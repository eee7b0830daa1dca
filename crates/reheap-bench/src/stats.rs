//! Numbers with a spread, from runs. Pure: no input, no output, no clock.
//!
//! Medians, because the runs of a program on a busy machine have a long tail on one side, which a mean follows.

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

    /// The median of the distances from the median: a spread that a few outliers do not move. It is not scaled to
    /// resemble a standard deviation.
    pub fn median_absolute_deviation(&self) -> f64 {
        let median = self.median();
        let mut distances: Vec<f64> = self.0.iter().map(|value| (value - median).abs()).collect();
        distances.sort_unstable_by(f64::total_cmp);
        Sample(distances).median()
    }
}

/// The ratios `numerator / denominator`, round by round: what disturbed a whole round cancels out.
///
/// None if the two have different numbers of rounds, or if a ratio is not finite.
pub fn paired_ratios(numerator: &[f64], denominator: &[f64]) -> Option<Sample> {
    paired(numerator, denominator, |numerator, denominator| {
        numerator / denominator
    })
}

/// The differences `minuend - subtrahend`, round by round: what one adds to the other, whatever both take together.
///
/// None if the two have different numbers of rounds, or if a difference is not finite.
pub fn paired_differences(minuend: &[f64], subtrahend: &[f64]) -> Option<Sample> {
    paired(minuend, subtrahend, |minuend, subtrahend| {
        minuend - subtrahend
    })
}

fn paired(left: &[f64], right: &[f64], compare: impl Fn(f64, f64) -> f64) -> Option<Sample> {
    if left.len() != right.len() {
        return None;
    }
    Sample::new(
        left.iter()
            .zip(right)
            .map(|(&left, &right)| compare(left, right)),
    )
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
    fn ratios_are_paired_by_round_before_the_median_is_taken() {
        // Round 2 was disturbed and took four times as long for both: the ratio of the medians would be 1.5.
        let ratios = paired_ratios(&[2.0, 8.0, 3.0], &[1.0, 4.0, 2.0]).unwrap();
        assert_eq!(ratios.median(), 2.0);
    }

    #[test]
    fn differences_are_paired_by_round_too() {
        let differences = paired_differences(&[2.0, 9.0, 3.0], &[1.0, 8.0, 1.5]).unwrap();
        assert_eq!((differences.median(), differences.max()), (1.0, 1.5));
        assert_eq!(paired_differences(&[1.0], &[]), None);
    }

    #[test]
    fn ratios_need_the_same_rounds_on_both_sides_and_no_zero_below() {
        assert_eq!(paired_ratios(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(paired_ratios(&[1.0], &[0.0]), None);
        assert_eq!(paired_ratios(&[], &[]), None);
    }
}
