//! The limits that a change has to keep, as users type them: `wall>+2%`, `throughput<-5%`, `peak-rss>500MiB`.
//!
//! A limit says what is not accepted, with the sign that the change has: `wall>+2%` reads "fail if wall grew by more
//! than 2 %". There is no `>=`, because no measured value is exactly anything.

use crate::figures;
use crate::results::Quantity;
use std::fmt;
use std::str::FromStr;

/// What is not accepted of a quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The quantity.
    pub quantity: Quantity,
    /// On which side of the bound it fails.
    pub side: Side,
    /// The bound.
    pub bound: Bound,
}

/// A side of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `>`: more than the bound fails.
    Above,
    /// `<`: less than the bound fails.
    Below,
}

/// What a quantity is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The ratio `new / old`: 1.02 for `+2%`.
    Ratio(f64),
    /// A value, in seconds or bytes where the quantity is a time or a size.
    Value(f64),
}

/// Why a text is no threshold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// Without `>` or `<`, or without a quantity before it.
    #[error("it has no quantity with `>` or `<` behind it, as in `wall>+2%`")]
    NoComparison,
    /// The bound is no number.
    #[error("`{0}` is not a number with a unit, as in `+2%`, `500MiB` or `1.5s`")]
    NotANumber(String),
    /// `>-2%` or `<+2%`: it would fail without any change.
    #[error("`{0}` would fail without any change: write `>+N%` or `<-N%`")]
    FailsWithoutChange(String),
    /// A percentage without a sign.
    #[error("`{0}` has no sign: write `+{0}` for growth, `-{0}` for a decrease")]
    NoSign(String),
    /// A unit that the quantity is not measured in.
    #[error("`{quantity}` is not measured in `{unit}`")]
    OtherUnit {
        /// As typed.
        unit: String,
        /// The quantity.
        quantity: String,
    },
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Threshold, ThresholdError> {
        let place = text.find(['>', '<']).ok_or(ThresholdError::NoComparison)?;
        let (name, bound) = (text[..place].trim(), text[place + 1..].trim());
        if name.is_empty() {
            return Err(ThresholdError::NoComparison);
        }
        let quantity = Quantity::named(name);
        let side = match text.as_bytes()[place] {
            b'>' => Side::Above,
            _ => Side::Below,
        };
        let bound = match bound.strip_suffix('%') {
            Some(percent) => ratio(bound, percent, side)?,
            None => value(bound, &quantity)?,
        };
        Ok(Threshold {
            quantity,
            side,
            bound,
        })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.side {
            Side::Above => '>',
            Side::Below => '<',
        };
        let bound = match self.bound {
            Bound::Ratio(ratio) if ratio < 1.0 => format!("-{}", figures::percent(1.0 - ratio)),
            Bound::Ratio(ratio) => format!("+{}", figures::percent(ratio - 1.0)),
            Bound::Value(value) => figures::value(&self.quantity, value),
        };
        write!(f, "{} {side} {bound}", self.quantity.name())
    }
}

fn ratio(typed: &str, percent: &str, side: Side) -> Result<Bound, ThresholdError> {
    let share: f64 = number(percent, typed)? / 100.0;
    match (percent.trim_start().as_bytes().first(), side) {
        (Some(b'+'), Side::Above) | (Some(b'-'), Side::Below) => Ok(Bound::Ratio(1.0 + share)),
        (Some(b'+' | b'-'), _) => Err(ThresholdError::FailsWithoutChange(typed.to_owned())),
        _ => Err(ThresholdError::NoSign(typed.to_owned())),
    }
}

fn value(typed: &str, quantity: &Quantity) -> Result<Bound, ThresholdError> {
    let end = typed
        .find(|c: char| c.is_alphabetic())
        .unwrap_or(typed.len());
    let (digits, unit) = (typed[..end].trim(), &typed[end..]);
    let value = number(digits, typed)?;
    let units: &[(&str, f64)] = match quantity {
        Quantity::Wall | Quantity::Cpu | Quantity::User | Quantity::System => {
            &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6)]
        }
        Quantity::PeakRss | Quantity::MeanRss => &[
            ("B", 1.0),
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
        ],
        Quantity::MinorFaults | Quantity::Instructions | Quantity::Metric(_) => &[("", 1.0)],
    };
    let known = units.iter().find(|(name, _)| *name == unit);
    let (_, size) = known.ok_or_else(|| ThresholdError::OtherUnit {
        unit: unit.to_owned(),
        quantity: quantity.name().to_owned(),
    })?;
    Ok(Bound::Value(value * size))
}

fn number(digits: &str, typed: &str) -> Result<f64, ThresholdError> {
    let parsed: Option<f64> = digits
        .trim()
        .parse()
        .ok()
        .filter(|value: &f64| value.is_finite());
    parsed.ok_or_else(|| ThresholdError::NotANumber(typed.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn parsed(text: &str) -> Threshold {
        text.parse().unwrap()
    }

    #[track_caller]
    fn refused(text: &str) -> String {
        text.parse::<Threshold>().unwrap_err().to_string()
    }

    #[test]
    fn a_threshold_is_read_as_it_is_spoken() {
        let cases = [
            ("wall>+2%", Quantity::Wall, Side::Above, Bound::Ratio(1.02)),
            (
                " cpu > +0.5 % ",
                Quantity::Cpu,
                Side::Above,
                Bound::Ratio(1.005),
            ),
            (
                "rps<-10%",
                Quantity::Metric("rps".into()),
                Side::Below,
                Bound::Ratio(0.9),
            ),
            (
                "peak-rss>500MiB",
                Quantity::PeakRss,
                Side::Above,
                Bound::Value(524_288_000.0),
            ),
            ("wall>1.5s", Quantity::Wall, Side::Above, Bound::Value(1.5)),
            (
                "user>250 ms",
                Quantity::User,
                Side::Above,
                Bound::Value(0.25),
            ),
            (
                "rps<1000",
                Quantity::Metric("rps".into()),
                Side::Below,
                Bound::Value(1000.0),
            ),
        ];
        for (text, quantity, side, bound) in cases {
            let expected = Threshold {
                quantity,
                side,
                bound,
            };
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn it_is_shown_as_it_is_typed() {
        let shown =
            ["wall>+2%", "rps<-10%", "peak-rss>500MiB"].map(|text| parsed(text).to_string());
        assert_eq!(
            shown,
            ["wall > +2.0 %", "rps < -10 %", "peak-rss > 500 MiB"]
        );
    }

    #[test]
    fn what_is_no_threshold_is_refused_with_the_part_that_is_wrong() {
        assert!(refused("wall").starts_with("it has no quantity"));
        assert!(refused(">+2%").starts_with("it has no quantity"));
        assert!(refused("wall>+x%").starts_with("`+x%` is not a number"));
        assert!(refused("wall>2%").contains("write `+2%` for growth"));
        assert!(refused("wall>-2%").contains("would fail without any change"));
        assert!(refused("wall>2").contains("`wall` is not measured in ``"));
        assert!(refused("wall>2MiB").contains("`wall` is not measured in `MiB`"));
        assert!(refused("wall>nan").contains("is not a number"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,20}", tail in "[<>][+-]?[0-9.]{0,4}[%A-Za-zµ]{0,3}") {
            let _ = text.parse::<Threshold>();
            let _ = format!("{text}{tail}").parse::<Threshold>();
        }
    }
}
