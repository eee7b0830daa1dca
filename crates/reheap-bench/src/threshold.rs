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

impl Side {
    fn sign(self) -> char {
        match self {
            Side::Above => '>',
            Side::Below => '<',
        }
    }

    /// The sign of a change on this side.
    fn sign_of_change(self) -> char {
        match self {
            Side::Above => '+',
            Side::Below => '-',
        }
    }

    fn change(self) -> &'static str {
        match self {
            Side::Above => "growth",
            Side::Below => "a decrease",
        }
    }
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
    /// `>=`, which says nothing else of a measured value.
    #[error("leave out the `=`, because no measured value is exactly anything: `{instead}`")]
    OrEqual {
        /// What to write instead.
        instead: String,
    },
    /// Several in one text.
    #[error("it is more than one: give each a `--fail-if` of its own")]
    Several,
    /// The bound is no number.
    #[error("`{0}` is not a number with a unit, as in `+2%`, `500MiB` or `1.5s`")]
    NotANumber(String),
    /// `>-2%` or `<+2%`: it would fail without any change.
    #[error("`{0}` would fail without any change: write `>+N%` or `<-N%`")]
    FailsWithoutChange(String),
    /// `<-100%` or `<0s`: no measured value is below zero.
    #[error("it can never be violated, because nothing falls below zero")]
    NeverViolated,
    /// A percentage without a sign.
    #[error("`{typed}` has no sign: write `{instead}` for {change}")]
    NoSign {
        /// As typed.
        typed: String,
        /// What to write instead.
        instead: String,
        /// What it means.
        change: &'static str,
    },
    /// A number alone, which may be meant as a change or as a value.
    #[error("`{typed}` has no unit: write {instead}")]
    NoUnit {
        /// As typed.
        typed: String,
        /// What to write instead.
        instead: Instead,
    },
    /// A value with a sign, which only a percentage has.
    #[error("`{typed}` has a sign: write {instead}")]
    SignedValue {
        /// As typed.
        typed: String,
        /// What to write instead.
        instead: Instead,
    },
    /// A unit that the quantity is not measured in.
    #[error("`{quantity}` is not measured in `{unit}`: use {units}, as in `{instead}`")]
    OtherUnit {
        /// As typed.
        unit: String,
        /// The quantity.
        quantity: String,
        /// What it is measured in.
        units: String,
        /// What to write instead.
        instead: String,
    },
    /// A figure of the program's own, which is a number alone.
    #[error("`{0}` is a figure of the program's own, which has no unit")]
    UnitOfMetric(String),
    /// Almost the name of a quantity, and with its unit.
    #[error("there is no quantity `{typed}`; did you mean `{nearest}`?")]
    UnknownQuantity {
        /// As typed.
        typed: String,
        /// What may have been meant.
        nearest: &'static str,
    },
}

/// What a threshold may have been meant to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instead {
    /// With a percentage, and what that means; none if no change is as large.
    relative: Option<(String, &'static str)>,
    /// With a value.
    value: String,
}

impl Instead {
    fn first(self) -> String {
        self.relative.map_or(self.value, |(relative, _)| relative)
    }
}

impl fmt::Display for Instead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((relative, change)) = &self.relative {
            write!(f, "`{relative}` for {change}, or ")?;
        }
        write!(f, "`{}` for a value", self.value)
    }
}

/// The quantity or metric that was most likely meant by a name that is neither.
pub fn nearest<'a>(name: &str, metrics: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let alike = |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), candidate);
    let costs = NAMES.into_iter().chain(metrics);
    let alike = costs
        .map(|candidate| (alike(candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8);
    alike
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

/// The names of [`Quantity::COSTS`].
const NAMES: [&str; Quantity::COSTS.len()] = [
    "wall",
    "cpu",
    "user",
    "system",
    "peak-rss",
    "mean-rss",
    "minor-faults",
    "instructions",
];

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Threshold, ThresholdError> {
        let place = text.find(['>', '<']).ok_or(ThresholdError::NoComparison)?;
        let (name, bound) = (text[..place].trim(), text[place + 1..].trim());
        let sign = &text[place..=place];
        if name.ends_with('=') || bound.starts_with('=') {
            let (name, bound) = (name.trim_end_matches('='), bound.trim_start_matches('='));
            let plain = format!("{}{sign}{}", name.trim_end(), bound.trim_start());
            return Err(match plain.parse::<Threshold>() {
                Err(ThresholdError::NoSign { instead, .. }) => ThresholdError::OrEqual { instead },
                Err(ThresholdError::NoUnit { instead, .. }) => ThresholdError::OrEqual {
                    instead: instead.first(),
                },
                Err(other) => other,
                Ok(_) => ThresholdError::OrEqual { instead: plain },
            });
        }
        if name.is_empty() {
            return Err(ThresholdError::NoComparison);
        }
        if bound.contains(['>', '<']) {
            return Err(ThresholdError::Several);
        }
        let typed = Typed {
            quantity: Quantity::named(name),
            side: match sign {
                ">" => Side::Above,
                _ => Side::Below,
            },
            bound,
        };
        let bound = match bound.strip_suffix('%') {
            Some(percent) => typed.ratio(percent)?,
            None => typed.value()?,
        };
        Ok(Threshold {
            quantity: typed.quantity,
            side: typed.side,
            bound,
        })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = self.side.sign();
        let bound = match self.bound {
            Bound::Ratio(ratio) if ratio < 1.0 => format!("-{}", figures::percent(1.0 - ratio)),
            Bound::Ratio(ratio) => format!("+{}", figures::percent(ratio - 1.0)),
            Bound::Value(value) => figures::value(&self.quantity, value),
        };
        write!(f, "{} {side} {bound}", self.quantity.name())
    }
}

/// A threshold of which the bound is still to be read.
struct Typed<'a> {
    quantity: Quantity,
    side: Side,
    bound: &'a str,
}

impl Typed<'_> {
    fn ratio(&self, percent: &str) -> Result<Bound, ThresholdError> {
        let typed = self.bound;
        let share: f64 = number(percent, typed)? / 100.0;
        if self.side == Side::Below && share.abs() >= 1.0 && !self.may_be_negative() {
            return Err(ThresholdError::NeverViolated);
        }
        match (percent.trim_start().as_bytes().first(), self.side) {
            (Some(b'+'), Side::Above) | (Some(b'-'), Side::Below) => Ok(Bound::Ratio(1.0 + share)),
            (Some(b'+' | b'-'), _) => Err(ThresholdError::FailsWithoutChange(typed.to_owned())),
            _ => Err(ThresholdError::NoSign {
                typed: typed.to_owned(),
                instead: self.relative(percent),
                change: self.side.change(),
            }),
        }
    }

    fn value(&self) -> Result<Bound, ThresholdError> {
        let typed = self.bound;
        let end = typed
            .find(|c: char| c.is_alphabetic())
            .unwrap_or(typed.len());
        let (digits, unit) = (typed[..end].trim(), &typed[end..]);
        let value = number(digits, typed)?;
        let units = self.units();
        let unsigned = digits.trim_start_matches(['+', '-']);
        // Nobody writes a plus before a figure.
        if digits.starts_with('+') || digits.starts_with('-') && !self.may_be_negative() {
            let unit = if unit.is_empty() {
                self.usual_unit()
            } else {
                unit
            };
            return Err(ThresholdError::SignedValue {
                typed: typed.to_owned(),
                instead: self.instead(unsigned, unit),
            });
        }
        if let Some((_, size)) = units.iter().find(|(name, _)| *name == unit) {
            if self.side == Side::Below && value == 0.0 && !self.may_be_negative() {
                return Err(ThresholdError::NeverViolated);
            }
            return Ok(Bound::Value(value * size));
        }
        let quantity = self.quantity.name().to_owned();
        Err(match unit {
            "" => ThresholdError::NoUnit {
                typed: typed.to_owned(),
                instead: self.instead(digits, self.usual_unit()),
            },
            _ if matches!(self.quantity, Quantity::Metric(_)) => match nearest(&quantity, []) {
                None => ThresholdError::UnitOfMetric(quantity),
                Some(nearest) => ThresholdError::UnknownQuantity {
                    typed: quantity,
                    nearest,
                },
            },
            unit => ThresholdError::OtherUnit {
                unit: unit.to_owned(),
                quantity,
                units: match units {
                    [("", _)] => "a number alone".to_owned(),
                    units => units
                        .iter()
                        .map(|unit| unit.0)
                        .collect::<Vec<_>>()
                        .join(", "),
                },
                instead: self.with(&format!("{digits}{}", self.unit_like(unit))),
            },
        })
    }

    /// A figure of a program may be below zero; what reheap measures never is.
    fn may_be_negative(&self) -> bool {
        matches!(self.quantity, Quantity::Metric(_))
    }

    fn units(&self) -> &'static [(&'static str, f64)] {
        match self.quantity {
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
        }
    }

    fn usual_unit(&self) -> &'static str {
        match self.quantity {
            Quantity::PeakRss | Quantity::MeanRss => "MiB",
            _ => self.units()[0].0,
        }
    }

    /// The unit that was probably meant: `M` and `mb` are MiB.
    fn unit_like(&self, unit: &str) -> &'static str {
        let first = |unit: &str| unit.chars().next().map(|first| first.to_ascii_lowercase());
        let mut units = self.units().iter().map(|unit| unit.0);
        units
            .find(|known| first(known) == first(unit))
            .unwrap_or(self.usual_unit())
    }

    /// The threshold with another bound.
    fn with(&self, bound: &str) -> String {
        format!("{}{}{bound}", self.quantity.name(), self.side.sign())
    }

    fn instead(&self, number: &str, unit: &str) -> Instead {
        let relative = self.relative(number);
        let is_possible = relative.parse::<Threshold>().is_ok();
        Instead {
            relative: is_possible.then(|| (relative, self.side.change())),
            value: self.with(&format!("{number}{unit}")),
        }
    }

    fn relative(&self, number: &str) -> String {
        let sign = self.side.sign_of_change();
        self.with(&format!("{sign}{}%", number.trim()))
    }
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
        assert!(refused("wall>-2%").contains("would fail without any change"));
        assert!(refused("wall>nan").contains("is not a number"));
    }

    #[test]
    fn what_no_result_can_violate_is_refused() {
        for text in [
            "peak-rss<-500%",
            "wall < -100 %",
            "user<150%",
            "cpu<=-100%",
            "wall<0s",
            "minor-faults<0",
        ] {
            assert!(refused(text).contains("can never be violated"), "{text}");
        }
        assert_eq!(parsed("wall<-99.9%").side, Side::Below);
        // A figure of a program may be below zero.
        assert_eq!(parsed("gain<0").bound, Bound::Value(0.0));
        assert_eq!(parsed("gain<-200%").bound, Bound::Ratio(-1.0));
    }

    #[test]
    fn what_is_almost_a_threshold_is_refused_with_what_to_write_instead() {
        let cases = [
            (
                "wall>2",
                "`2` has no unit: write `wall>+2%` for growth, or `wall>2s` for a value",
            ),
            (
                "peak-rss<500",
                "`500` has no unit: write `peak-rss<500MiB` for a value",
            ),
            (
                "peak-rss<50",
                "`50` has no unit: write `peak-rss<-50%` for a decrease, or `peak-rss<50MiB` for a value",
            ),
            (
                "peak-rss<=500",
                "leave out the `=`, because no measured value is exactly anything: `peak-rss<500MiB`",
            ),
            ("wall>2%", "`2%` has no sign: write `wall>+2%` for growth"),
            (
                "rps<10 %",
                "`10 %` has no sign: write `rps<-10%` for a decrease",
            ),
            (
                "wall>+2s",
                "`+2s` has a sign: write `wall>+2%` for growth, or `wall>2s` for a value",
            ),
            (
                "wall>=2%",
                "leave out the `=`, because no measured value is exactly anything: `wall>+2%`",
            ),
            (
                "wall =< -2%",
                "leave out the `=`, because no measured value is exactly anything: `wall<-2%`",
            ),
            (
                "peak-rss>500MB",
                "`peak-rss` is not measured in `MB`: use B, KiB, MiB, GiB, as in `peak-rss>500MiB`",
            ),
            (
                "peak-rss>2g",
                "`peak-rss` is not measured in `g`: use B, KiB, MiB, GiB, as in `peak-rss>2GiB`",
            ),
            (
                "wall>2MiB",
                "`wall` is not measured in `MiB`: use s, ms, us, µs, as in `wall>2ms`",
            ),
            (
                "minor-faults>5k",
                "`minor-faults` is not measured in `k`: use a number alone, as in `minor-faults>5`",
            ),
            (
                "peakrss>5MiB",
                "there is no quantity `peakrss`; did you mean `peak-rss`?",
            ),
            (
                "rps>5MiB",
                "`rps` is a figure of the program's own, which has no unit",
            ),
            (
                "wall>+2%,cpu>+2%",
                "it is more than one: give each a `--fail-if` of its own",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(refused(text), expected, "{text}");
        }
        // A figure of a program may be below zero.
        assert_eq!(parsed("gain<-3.5").bound, Bound::Value(-3.5));
    }

    #[test]
    fn the_nearest_name_is_one_that_is_alike() {
        assert_eq!(nearest("wal", []), Some("wall"));
        assert_eq!(nearest("Wall", []), Some("wall"));
        assert_eq!(nearest("peak_rss", []), Some("peak-rss"));
        assert_eq!(nearest("throughputs", ["throughput"]), Some("throughput"));
        assert_eq!(nearest("xyz", ["throughput"]), None);
        assert_eq!(NAMES.map(Quantity::named), Quantity::COSTS);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,20}", tail in "[<>][+-]?[0-9.]{0,4}[%A-Za-zµ]{0,3}") {
            let _ = text.parse::<Threshold>();
            let _ = format!("{text}{tail}").parse::<Threshold>();
        }
    }
}
