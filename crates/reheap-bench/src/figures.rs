//! Figures as people read them, the same in every report and message: `12.3 ms`, `50.1 MiB`, `18 % less wall time`.
//!
//! A change is said as "less" or "more" of the quantity and never as "faster": "18 % faster" means 18 % less time to
//! some and 18 % more speed, which is 15 % less time, to others.

use crate::analysis::Verdict;
use crate::results::Quantity;
use reheap_stats::interval::CONFIDENCE;
use reheap_stats::interval::Estimate;

/// Above this ratio "3.4 times the wall time" is easier to grasp than "240 % more".
const SAID_IN_TIMES: f64 = 2.0;
/// From this share on, as much less and as much more are not the same any more: 1.5 times is 50 % more, and 33 % less.
const LARGE_SHARE: f64 = 0.2;

/// A number with three significant digits, without an exponent: `0.0123`, `12.3`, `1235`.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    // 9.996 has become 10.00, which is one digit too many.
    let digits = text.trim_start_matches(['-', '0', '.']);
    let has_one_more = digits.chars().filter(char::is_ascii_digit).count() > 3;
    if has_one_more && decimals > 0 {
        format!("{value:.*}", decimals - 1)
    } else {
        text
    }
}

/// A time: `5.65 s`, `12.3 ms`, `45.0 µs`, `120 ns`.
pub fn seconds(value: f64) -> String {
    scaled(
        value,
        &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
    )
}

/// An amount of memory: `1.20 GiB`, `50.1 MiB`, `4.00 KiB`, `17 B`.
pub fn bytes(value: f64) -> String {
    const KIB: f64 = 1024.0;
    if value.abs() < KIB {
        return format!("{value:.0} B");
    }
    let units = ["EiB", "PiB", "TiB", "GiB", "MiB", "KiB"];
    let units: Vec<_> = (1..=6)
        .rev()
        .map(|power| KIB.powi(power))
        .zip(units)
        .collect();
    scaled(value, &units)
}

/// A share: `18 %`, `3.1 %`, `0.25 %`, `0 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    // What rounds to two digits before the point has none after it: 9.96 becomes 10 and not 10.0. Nearly all is not all.
    let decimals = match percent.abs() {
        nearly if (99.5..100.0).contains(&nearly) => {
            (1.0 - (100.0 - nearly).log10().floor()) as usize
        }
        below if below < 0.005 => return "0 %".into(),
        below if below < 0.995 => 2,
        below if below < 9.95 => 1,
        _ => 0,
    };
    format!("{percent:.decimals$} %")
}

/// A p value as people read it: `p < 0.0001`, `p = 0.003`, `p = 0.24`.
pub fn p(p: f64) -> String {
    match p {
        p if p < 0.0001 => "p < 0.0001".to_owned(),
        p if p < 0.001 => format!("p = {p:.4}"),
        p if p < 0.095 => format!("p = {p:.3}"),
        p => format!("p = {p:.2}"),
    }
}

/// How large a difference would have been seen, in a sentence.
pub fn would_have_been_visible(visible: f64) -> String {
    let most = 1.0 + visible;
    let size = match visible {
        small if small < LARGE_SHARE => percent(small),
        _ => format!("{} less or {}", percent(1.0 - 1.0 / most), more(most)),
    };
    format!("differences above about {size} would have been visible")
}

fn more(ratio: f64) -> String {
    if is_said_in_times(ratio) {
        format!("{} times as much", number(ratio))
    } else {
        format!("{} more", percent(ratio - 1.0))
    }
}

/// A ratio to the baseline with what may be said of it: `0.784 ↓` is claimed, `? 0.910` lies outside of chance by itself,
/// `= 1.003` is as good as equal, and of `~ 0.970` nothing is known.
pub fn judged(verdict: Verdict, ratio: f64, digits: &str) -> String {
    match verdict {
        Verdict::Better | Verdict::Worse if ratio < 1.0 => format!("{digits} ↓"),
        Verdict::Better | Verdict::Worse => format!("{digits} ↑"),
        Verdict::Suspected => format!("? {digits}"),
        Verdict::Equal => format!("= {digits}"),
        Verdict::Open => format!("~ {digits}"),
    }
}

/// A value of a quantity, with its unit.
pub fn value(quantity: &Quantity, value: f64) -> String {
    match quantity {
        Quantity::Wall | Quantity::Cpu | Quantity::User | Quantity::System => seconds(value),
        Quantity::PeakRss | Quantity::MeanRss => bytes(value),
        Quantity::MinorFaults | Quantity::Instructions | Quantity::Metric(_) => number(value),
    }
}

/// What a quantity is called in a sentence.
pub fn noun(quantity: &Quantity) -> &str {
    match quantity {
        Quantity::Wall => "wall time",
        Quantity::Cpu => "CPU time",
        Quantity::User => "user time",
        Quantity::System => "system time",
        Quantity::PeakRss => "peak memory",
        Quantity::MeanRss => "average memory",
        Quantity::MinorFaults => "page faults",
        Quantity::Instructions => "instructions",
        Quantity::Metric(name) => name,
    }
}

/// A ratio to the baseline, as a change of the quantity: `18 % less wall time`, `3.40 times the peak memory`.
pub fn change(quantity: &Quantity, ratio: f64) -> String {
    change_of(noun(quantity), ratio)
}

/// How something changed that the text calls `noun`: `18 % less time`.
pub fn change_of(noun: &str, ratio: f64) -> String {
    if is_said_in_times(ratio) {
        return format!("{} times the {noun}", number(ratio));
    }
    let share = percent((ratio - 1.0).abs());
    if is_said_as_none(ratio) {
        format!("the same {noun}")
    } else if ratio < 1.0 {
        format!("{share} less {noun}")
    } else {
        format!("{share} more {noun}")
    }
}

/// Whether a change is so small that it is said as none.
pub fn is_said_as_none(ratio: f64) -> bool {
    percent((ratio - 1.0).abs()) == "0 %"
}

/// Whether a change is said as `3.40 times`, and not in percent.
pub fn is_said_in_times(ratio: f64) -> bool {
    ratio >= SAID_IN_TIMES
}

/// How a quantity changed, with the interval if there were enough rounds for one: `18 % less wall time [16 %, 20 %]`.
pub fn change_with_interval(quantity: &Quantity, ratio: &Estimate) -> String {
    match bounds(ratio) {
        Some((low, high)) => format!("{} [{low}, {high}]", change(quantity, ratio.value)),
        None => change(quantity, ratio.value),
    }
}

/// The interval of a change as it is said behind it, without units: `[16, 20]`. None if it is as narrow as the change
/// is rounded.
pub fn interval_of_change(ratio: &Estimate) -> Option<String> {
    let (low, high) = bounds(ratio)?;
    let plain = |bound: &str| bound.trim_end_matches(" %").to_owned();
    (low != high).then(|| format!("[{}, {}]", plain(&low), plain(&high)))
}

/// The bounds of a change, said as the change is; none if there were too few rounds.
fn bounds(ratio: &Estimate) -> Option<(String, String)> {
    let Estimate { value, interval } = ratio;
    let bounds = if is_said_in_times(*value) {
        (number(interval.low), number(interval.high))
    } else if *value < 1.0 {
        (percent(1.0 - interval.high), percent(1.0 - interval.low))
    } else {
        (percent(interval.low - 1.0), percent(interval.high - 1.0))
    };
    (interval.confidence >= CONFIDENCE).then_some(bounds)
}

/// Where a change lies that nobody can tell from none: `between 3 % less and 8 % more`. None if there were too few rounds.
pub fn range_of_change(ratio: &Estimate) -> Option<String> {
    let interval = ratio.interval;
    let bound = |bound: f64| {
        let share = percent((bound - 1.0).abs());
        format!("{share} {}", if bound < 1.0 { "less" } else { "more" })
    };
    let range = if is_said_in_times(interval.high) {
        let [low, high] = [interval.low, interval.high].map(number);
        format!("between {low} and {high} times as much")
    } else {
        format!(
            "between {} and {}",
            bound(interval.low),
            bound(interval.high)
        )
    };
    (interval.confidence >= CONFIDENCE).then_some(range)
}

/// How many of something: `1 run`, `3 runs`, `2 processes`.
pub fn count(count: usize, noun: &str) -> String {
    let ending = match count {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

/// In the first unit of which there is at least one; units fall in size.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let last = units[units.len() - 1];
    // What would be rounded up to 1000 of a unit is one of the next.
    let fits = |size: f64| value.abs() >= size * 0.9995;
    let (size, unit) = match value {
        0.0 => units[0],
        _ => units
            .iter()
            .copied()
            .find(|&(size, _)| fits(size))
            .unwrap_or(last),
    };
    format!("{} {unit}", number(value / size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use reheap_stats::interval::Interval;

    #[test]
    fn numbers_have_three_digits() {
        let numbers = [
            0.0, 0.01234, 1.0, 9.994, 9.996, 12.34, 99.96, 123.4, 1234.5, -12.34,
        ];
        let expected = [
            "0", "0.0123", "1.00", "9.99", "10.0", "12.3", "100", "123", "1234", "-12.3",
        ];
        assert_eq!(numbers.map(number), expected);
    }

    #[test]
    fn times_and_sizes_get_the_unit_that_keeps_them_short() {
        let times = [5.65, 0.0123, 0.99996, 0.000_045, 1.2e-7, 0.0];
        assert_eq!(
            times.map(seconds),
            ["5.65 s", "12.3 ms", "1.00 s", "45.0 µs", "120 ns", "0 s"]
        );
        let sizes = [17.0, 4096.0, 52_500_000.0, 1.3e9, 1e13, -1e16, 1.8e19];
        assert_eq!(
            sizes.map(bytes),
            [
                "17 B",
                "4.00 KiB",
                "50.1 MiB",
                "1.21 GiB",
                "9.09 TiB",
                "-8.88 PiB",
                "15.6 EiB"
            ]
        );
    }

    #[test]
    fn percentages_have_two_digits() {
        let shares = [0.0, 0.000_01, 0.0025, 0.031, 0.0996, 0.183, 2.5, -0.02];
        let expected = [
            "0 %", "0 %", "0.25 %", "3.1 %", "10 %", "18 %", "250 %", "-2.0 %",
        ];
        assert_eq!(shares.map(percent), expected);
        let nearly_all = [0.994, 0.997, 0.9996, 1.0].map(percent);
        assert_eq!(nearly_all, ["99 %", "99.70 %", "99.960 %", "100 %"]);
    }

    #[test]
    fn a_large_difference_is_not_the_same_to_both_sides() {
        let said = [0.07, 0.5, 1.51].map(would_have_been_visible);
        let sizes = said.map(|text| text.replace("differences above about ", ""));
        assert_eq!(
            sizes,
            [
                "7.0 % would have been visible",
                "33 % less or 50 % more would have been visible",
                "60 % less or 2.51 times as much would have been visible",
            ]
        );
    }

    #[test]
    fn p_values_have_as_many_digits_as_matter() {
        let said = [1e-9, 0.000_43, 0.0312, 0.249, 1.0].map(p);
        let expected = [
            "p < 0.0001",
            "p = 0.0004",
            "p = 0.031",
            "p = 0.25",
            "p = 1.00",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_change_says_less_or_more_and_in_which_range() {
        let ratio = |value, low, high| Estimate {
            value,
            interval: Interval {
                low,
                high,
                confidence: 0.95,
            },
        };
        let said = |ratio| change_with_interval(&Quantity::Wall, &ratio);
        assert_eq!(
            said(ratio(0.82, 0.80, 0.84)),
            "18 % less wall time [16 %, 20 %]"
        );
        assert_eq!(
            said(ratio(1.12, 1.1, 1.15)),
            "12 % more wall time [10 %, 15 %]"
        );
        assert_eq!(
            said(ratio(1.01, 0.99, 1.03)),
            "1.0 % more wall time [-1.0 %, 3.0 %]"
        );
        assert_eq!(
            said(ratio(1.0, 0.999, 1.001)),
            "the same wall time [-0.10 %, 0.10 %]"
        );
        assert_eq!(
            said(ratio(3.4, 3.2, 3.6)),
            "3.40 times the wall time [3.20, 3.60]"
        );
    }

    proptest! {
        #[test]
        fn a_number_is_off_by_half_a_digit_at_most(value in -1e9f64..1e9) {
            let shown: f64 = number(value).parse().unwrap();
            prop_assert!((shown - value).abs() <= value.abs() * 0.0051 + 1e-12, "{value} {shown}");
        }
    }
}
