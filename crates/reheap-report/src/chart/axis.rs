//! Where a value lies on an axis, and which values are written beside it.
//!
//! An axis begins at zero unless all values are close together: then the differences would vanish. Values that span
//! more than a factor of [`LOGARITHMIC_FROM`] get a logarithmic axis, because stock musl is at times ninety times
//! slower, and all others would fall together in one place.

/// From which factor between the largest and the smallest value on an axis is logarithmic.
const LOGARITHMIC_FROM: f64 = 20.0;
/// How much of the largest value the values have to span for the axis to begin at zero.
const ZERO_FROM: f64 = 0.3;
/// What is left free at both ends, as a part of the span.
const MARGIN: f64 = 0.06;

/// What an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Time, in seconds.
    Seconds,
    /// Memory, in bytes.
    Bytes,
    /// A difference, as a part of one.
    Percent,
    /// Something that the program counts.
    Plain,
}

/// A part of the number line, laid out from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    spacing: Spacing,
    /// What is written beside it.
    pub(crate) ticks: Vec<Tick>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spacing {
    Linear,
    Logarithmic,
}

/// A value beside an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// Where, from 0 to 1.
    pub(crate) at: f64,
    /// What is written there.
    pub(crate) label: String,
}

impl Axis {
    /// An axis on which all the values are seen, with about as many ticks as wanted.
    pub(crate) fn of(values: impl Iterator<Item = f64>, unit: Unit, wanted: usize) -> Axis {
        Axis::from_zero_if(ZERO_FROM, values, unit, wanted)
    }

    /// An axis that is as close to the values as can be, where places matter and not lengths.
    pub(crate) fn close(values: impl Iterator<Item = f64>, unit: Unit, wanted: usize) -> Axis {
        Axis::from_zero_if(f64::INFINITY, values, unit, wanted)
    }

    fn from_zero_if(
        zero_from: f64,
        values: impl Iterator<Item = f64>,
        unit: Unit,
        wanted: usize,
    ) -> Axis {
        let (mut low, mut high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if low > 0.0 && high / low >= LOGARITHMIC_FROM {
            return Axis::logarithmic(low / 1.3, high * 1.3, unit);
        }
        if low >= 0.0 && high - low >= zero_from * high {
            low = 0.0;
        }
        let span = if high > low {
            high - low
        } else {
            high.abs().max(1e-9) * 0.1
        };
        let margin = span * MARGIN;
        Axis::linear(
            if low == 0.0 { 0.0 } else { low - margin },
            high + margin,
            unit,
            wanted,
        )
    }

    /// An axis over exactly this range.
    pub(crate) fn linear(low: f64, high: f64, unit: Unit, wanted: usize) -> Axis {
        let scale = Scale::of(low.abs().max(high.abs()), unit);
        let step = round_step((high - low) / scale.factor / wanted.max(1) as f64);
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let (first, last) = (
            (low / scale.factor / step).ceil() as i64,
            (high / scale.factor / step).floor() as i64,
        );
        let mut axis = Axis {
            low,
            high,
            spacing: Spacing::Linear,
            ticks: Vec::new(),
        };
        axis.ticks = (first..=last)
            .map(|index| {
                let value = index as f64 * step;
                Tick {
                    at: axis.at(value * scale.factor),
                    label: scale.label(value, decimals),
                }
            })
            .collect();
        axis
    }

    /// An axis on which equal factors are equally far apart.
    pub(crate) fn logarithmic(low: f64, high: f64, unit: Unit) -> Axis {
        let mut axis = Axis {
            low,
            high,
            spacing: Spacing::Logarithmic,
            ticks: Vec::new(),
        };
        let decades = (high / low).log10();
        let leading: &[f64] = match decades {
            d if d > 3.0 => &[1.0],
            d if d > 1.6 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let reference = Scale::of(low, unit).factor;
        let from = (low / reference).log10().floor() as i32;
        let to = (high / reference).log10().ceil() as i32;
        axis.ticks = (from..=to)
            .flat_map(|exponent| {
                leading
                    .iter()
                    .map(move |digit| digit * 10f64.powi(exponent))
            })
            .map(|value| value * reference)
            .filter(|value| (low..=high).contains(value))
            .map(|value| {
                let scale = Scale::of(value, unit);
                let scaled = value / scale.factor;
                let decimals = (-scaled.log10().floor()).max(0.0) as usize;
                Tick {
                    at: axis.at(value),
                    label: scale.label(scaled, decimals),
                }
            })
            .collect();
        axis
    }

    /// Where a value lies: 0 at the low end, 1 at the high one.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let at = match self.spacing {
            Spacing::Linear => (value - self.low) / (self.high - self.low),
            Spacing::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        at.clamp(0.0, 1.0)
    }

    /// What a reader has to know about it, if anything.
    pub(crate) fn caution(&self) -> Option<&'static str> {
        match self.spacing {
            Spacing::Logarithmic => Some("logarithmic scale"),
            Spacing::Linear if self.low > 0.0 => Some("the axis does not begin at 0"),
            Spacing::Linear => None,
        }
    }
}

/// The unit that makes values of a size short to write.
struct Scale {
    factor: f64,
    suffix: &'static str,
}

impl Scale {
    fn of(largest: f64, unit: Unit) -> Scale {
        let choices: &[(f64, &str)] = match unit {
            Unit::Seconds => &[(1.0, " s"), (1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns")],
            Unit::Bytes => &[
                (1024.0 * 1024.0 * 1024.0, " GiB"),
                (1024.0 * 1024.0, " MiB"),
                (1024.0, " KiB"),
                (1.0, " B"),
            ],
            Unit::Percent => &[(0.01, " %")],
            Unit::Plain => &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")],
        };
        let &(factor, suffix) = choices
            .iter()
            .find(|(factor, _)| largest >= *factor)
            .unwrap_or(&choices[choices.len() - 1]);
        Scale { factor, suffix }
    }

    fn label(&self, scaled: f64, decimals: usize) -> String {
        if scaled == 0.0 {
            return "0".to_owned();
        }
        format!("{scaled:.decimals$}{}", self.suffix)
    }
}

/// The next of 1, 2, 5, 10, 20, … that is not smaller.
fn round_step(at_least: f64) -> f64 {
    let magnitude = 10f64.powf(at_least.log10().floor());
    let digit = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|digit| digit * magnitude >= at_least * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * magnitude
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], unit: Unit) -> Vec<String> {
        let axis = Axis::of(values.iter().copied(), unit, 5);
        axis.ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn values_that_differ_much_are_seen_from_zero() {
        assert_eq!(labels(&[5.6, 10.5], Unit::Seconds), ["0", "5 s", "10 s"]);
    }

    #[test]
    fn values_that_differ_little_are_seen_closely() {
        let axis = Axis::of([5.50, 5.65].into_iter(), Unit::Seconds, 5);
        assert_eq!(axis.caution(), Some("the axis does not begin at 0"));
        assert!(axis.at(5.65) - axis.at(5.50) > 0.8);
    }

    #[test]
    fn memory_is_counted_in_powers_of_two() {
        let mib = 1024.0 * 1024.0;
        assert_eq!(
            labels(&[40.0 * mib, 190.0 * mib], Unit::Bytes),
            ["0", "50 MiB", "100 MiB", "150 MiB", "200 MiB"]
        );
    }

    #[test]
    fn what_is_ninety_times_slower_gets_a_logarithmic_axis() {
        assert_eq!(
            labels(&[0.1, 9.0], Unit::Seconds),
            ["100 ms", "300 ms", "1 s", "3 s", "10 s"]
        );
    }

    #[test]
    fn one_value_alone_still_has_an_axis() {
        for value in [0.0, 1.0, 3e-6, 1e12] {
            let axis = Axis::of([value].into_iter(), Unit::Plain, 5);
            assert!(!axis.ticks.is_empty(), "{value}: {axis:?}");
            assert!(axis.at(value).is_finite());
        }
    }

    #[test]
    fn no_value_at_all_still_has_an_axis() {
        assert!(!labels(&[], Unit::Seconds).is_empty());
    }
}
