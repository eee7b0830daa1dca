//! The limits that a figure has to keep, as users type them: `wall>+2%`, `throughput<-5%`, `peak-rss>500MiB`.
//!
//! A limit says what is not accepted, with the sign that the change has: `wall>+2%` reads "fail if wall grew by more
//! than 2 %". There is no `>=`, because no measured value is exactly anything. A value has no sign, and zero needs no
//! unit. A figure that is a share is a value in percent too: `allocator>10%` is a value, and `allocator>+10%` a change.
//!
//! The grammar is the same for the quantities of benchmarks and for the figures of profiles: [`Measurable`] is what they
//! differ in.

use crate::figures;
use crate::results::Quantity;
use std::fmt;
use std::str::FromStr;

/// Names that are less alike than this are not suggested.
const ALIKE: f64 = 0.8;

/// What is not accepted of a quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold<Q = Quantity> {
    /// The quantity.
    pub quantity: Q,
    /// On which side of the bound it fails.
    pub side: Side,
    /// The bound.
    pub bound: Bound,
}

/// What a threshold can be about.
pub trait Measurable: Sized {
    /// What messages call it.
    const NOUN: &'static str;
    /// A threshold, for messages.
    const EXAMPLE: &'static str;

    /// The one that users call so.
    ///
    /// # Errors
    /// When there is none: the names that may have been meant, in words.
    fn named(name: &str) -> Result<Self, String>;

    /// The name that users type.
    fn name(&self) -> &str;

    /// What it is measured in.
    fn unit(&self) -> Unit;

    /// A value of it, with its unit.
    fn value_in_words(&self, value: f64) -> String;

    /// Whether a value can be below zero.
    fn may_be_negative(&self) -> bool {
        false
    }

    /// The name that was probably meant, if this one was made up by a program and a unit does not fit it.
    fn nearest(&self) -> Option<&'static str> {
        None
    }
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// How often something happened, or a figure of the program's own.
    Count,
    /// Memory.
    Bytes,
    /// Time.
    Seconds,
    /// A part of one.
    Share,
}

impl Unit {
    /// Each unit that users may type, and how large it is.
    fn all(self) -> &'static [(&'static str, f64)] {
        match self {
            Unit::Count => &[("", 1.0)],
            Unit::Bytes => &[
                ("B", 1.0),
                ("KiB", 1024.0),
                ("MiB", 1_048_576.0),
                ("GiB", 1_073_741_824.0),
            ],
            Unit::Seconds => &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6)],
            Unit::Share => &[("%", 0.01)],
        }
    }

    fn usual(self) -> &'static str {
        match self {
            Unit::Bytes => "MiB",
            _ => self.all()[0].0,
        }
    }

    /// The unit that was probably meant: `M` and `mb` are MiB.
    fn like(self, typed: &str) -> &'static str {
        let first = |unit: &str| unit.chars().next().map(|first| first.to_ascii_lowercase());
        let mut units = self.all().iter().map(|(unit, _)| *unit);
        units
            .find(|unit| first(unit) == first(typed))
            .unwrap_or(self.usual())
    }

    fn list(self) -> String {
        if self == Unit::Count {
            return "a number alone".to_owned();
        }
        let units: Vec<&str> = self.all().iter().map(|(unit, _)| *unit).collect();
        units.join(", ")
    }
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
    /// Without `>` or `<`, or without a name before it.
    #[error("it has no {noun} with `>` or `<` behind it, as in `{example}`")]
    NoComparison {
        /// What is missing.
        noun: &'static str,
        /// A threshold.
        example: &'static str,
    },
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
    #[error("`{name}` is not measured in `{unit}`: use {units}, as in `{instead}`")]
    OtherUnit {
        /// As typed.
        unit: String,
        /// The name of the quantity.
        name: String,
        /// What it is measured in.
        units: String,
        /// What to write instead.
        instead: String,
    },
    /// Nothing has this name.
    #[error("there is no {noun} `{typed}`; {suggestion}")]
    Unknown {
        /// What there is none of.
        noun: &'static str,
        /// As typed.
        typed: String,
        /// What may have been meant.
        suggestion: String,
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
    most_alike(name, NAMES.into_iter().chain(metrics))
}

/// The name that is most like this one, if any is much like it.
pub fn most_alike<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    names
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > ALIKE)
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

impl Measurable for Quantity {
    const NOUN: &'static str = "quantity";
    const EXAMPLE: &'static str = "wall>+2%";

    fn named(name: &str) -> Result<Self, String> {
        Ok(Quantity::named(name))
    }

    fn name(&self) -> &str {
        self.name()
    }

    fn unit(&self) -> Unit {
        match self {
            Quantity::Wall | Quantity::Cpu | Quantity::User | Quantity::System => Unit::Seconds,
            Quantity::PeakRss | Quantity::MeanRss => Unit::Bytes,
            Quantity::MinorFaults | Quantity::Instructions | Quantity::Metric(_) => Unit::Count,
        }
    }

    fn value_in_words(&self, value: f64) -> String {
        figures::value(self, value)
    }

    fn may_be_negative(&self) -> bool {
        matches!(self, Quantity::Metric(_))
    }

    fn nearest(&self) -> Option<&'static str> {
        match self {
            Quantity::Metric(name) => most_alike(name, NAMES),
            _ => None,
        }
    }
}

impl<Q: Measurable> FromStr for Threshold<Q> {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Self, ThresholdError> {
        let no_comparison = ThresholdError::NoComparison {
            noun: Q::NOUN,
            example: Q::EXAMPLE,
        };
        let Some(place) = text.find(['>', '<']) else {
            return Err(no_comparison);
        };
        let (name, bound) = (text[..place].trim(), text[place + 1..].trim());
        let side = match &text[place..=place] {
            ">" => Side::Above,
            _ => Side::Below,
        };
        if name.ends_with('=') || bound.starts_with('=') {
            let (name, bound) = (name.trim_end_matches('='), bound.trim_start_matches('='));
            let (name, bound) = (name.trim_end(), bound.trim_start());
            return Err(without_equal::<Q>(format!("{name}{}{bound}", side.sign())));
        }
        if name.is_empty() {
            return Err(no_comparison);
        }
        if bound.contains(['>', '<']) {
            return Err(ThresholdError::Several);
        }
        let quantity = Q::named(name).map_err(|suggestion| unknown::<Q>(name, suggestion))?;
        let typed = Typed {
            quantity,
            side,
            bound,
        };
        Ok(Threshold {
            bound: typed.read()?,
            quantity: typed.quantity,
            side,
        })
    }
}

impl<Q> Threshold<Q> {
    /// Whether it is about a change, for which there must be something earlier.
    pub fn is_change(&self) -> bool {
        matches!(self.bound, Bound::Ratio(_))
    }
}

/// What to say of a threshold with `=`, without which it is `plain`.
fn without_equal<Q: Measurable>(plain: String) -> ThresholdError {
    let instead = match plain.parse::<Threshold<Q>>() {
        Ok(_) => plain,
        Err(ThresholdError::NoSign { instead, .. }) => instead,
        Err(ThresholdError::NoUnit { instead, .. }) => instead.first(),
        Err(other) => return other,
    };
    ThresholdError::OrEqual { instead }
}

fn unknown<Q: Measurable>(typed: &str, suggestion: String) -> ThresholdError {
    ThresholdError::Unknown {
        noun: Q::NOUN,
        typed: typed.to_owned(),
        suggestion,
    }
}

impl<Q: Measurable> fmt::Display for Threshold<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = self.side.sign();
        let bound = match self.bound {
            Bound::Ratio(ratio) if ratio < 1.0 => format!("-{}", figures::percent(1.0 - ratio)),
            Bound::Ratio(ratio) => format!("+{}", figures::percent(ratio - 1.0)),
            Bound::Value(value) => self.quantity.value_in_words(value),
        };
        write!(f, "{} {side} {bound}", self.quantity.name())
    }
}

/// A threshold of which the bound is still to be read.
struct Typed<'a, Q> {
    quantity: Q,
    side: Side,
    bound: &'a str,
}

impl<Q: Measurable> Typed<'_, Q> {
    fn read(&self) -> Result<Bound, ThresholdError> {
        let typed = self.bound;
        let end = typed
            .find(|c: char| c.is_alphabetic() || c == '%')
            .unwrap_or(typed.len());
        let (digits, unit) = (typed[..end].trim(), typed[end..].trim());
        let value = digits
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
            .ok_or_else(|| ThresholdError::NotANumber(typed.to_owned()))?;
        let is_signed = digits.starts_with(['+', '-']);
        if unit == "%" && (is_signed || self.quantity.unit() != Unit::Share) {
            self.change(digits, value / 100.0)
        } else {
            self.value(digits, value, unit)
        }
    }

    fn change(&self, digits: &str, share: f64) -> Result<Bound, ThresholdError> {
        let typed = self.bound;
        if share.abs() >= 1.0 && self.ends_at_zero() {
            return Err(ThresholdError::NeverViolated);
        }
        match (digits.as_bytes().first(), self.side) {
            (Some(b'+'), Side::Above) | (Some(b'-'), Side::Below) => Ok(Bound::Ratio(1.0 + share)),
            (Some(b'+' | b'-'), _) => Err(ThresholdError::FailsWithoutChange(typed.to_owned())),
            _ => Err(ThresholdError::NoSign {
                typed: typed.to_owned(),
                instead: self.relative(digits),
                change: self.side.change(),
            }),
        }
    }

    fn value(&self, digits: &str, value: f64, unit: &str) -> Result<Bound, ThresholdError> {
        let typed = self.bound;
        let units = self.quantity.unit();
        // Nobody writes a plus before a figure.
        if digits.starts_with('+') || digits.starts_with('-') && !self.quantity.may_be_negative() {
            let unit = if unit.is_empty() { units.usual() } else { unit };
            return Err(ThresholdError::SignedValue {
                typed: typed.to_owned(),
                instead: self.instead(digits.trim_start_matches(['+', '-']), unit),
            });
        }
        let is_zero = unit.is_empty() && value == 0.0;
        let known = units.all().iter().find(|(known, _)| *known == unit);
        if let Some(size) = known.map(|(_, size)| *size).or(is_zero.then_some(1.0)) {
            if value == 0.0 && self.ends_at_zero() {
                return Err(ThresholdError::NeverViolated);
            }
            return Ok(Bound::Value(value * size));
        }
        if unit.is_empty() {
            return Err(ThresholdError::NoUnit {
                typed: typed.to_owned(),
                instead: self.instead(digits, units.usual()),
            });
        }
        let name = self.quantity.name();
        if let Some(nearest) = self.quantity.nearest() {
            return Err(unknown::<Q>(name, format!("did you mean `{nearest}`?")));
        }
        Err(ThresholdError::OtherUnit {
            unit: unit.to_owned(),
            name: name.to_owned(),
            units: units.list(),
            instead: self.with(&format!("{digits}{}", units.like(unit))),
        })
    }

    /// Whether no value is small enough to be on this side of zero.
    fn ends_at_zero(&self) -> bool {
        self.side == Side::Below && !self.quantity.may_be_negative()
    }

    /// The threshold with another bound.
    fn with(&self, bound: &str) -> String {
        format!("{}{}{bound}", self.quantity.name(), self.side.sign())
    }

    fn instead(&self, number: &str, unit: &str) -> Instead {
        let relative = self.relative(number);
        let is_possible = relative.parse::<Threshold<Q>>().is_ok();
        Instead {
            relative: is_possible.then(|| (relative, self.side.change())),
            value: self.with(&format!("{number}{unit}")),
        }
    }

    fn relative(&self, number: &str) -> String {
        let sign = self.side.sign_of_change();
        self.with(&format!("{sign}{number}%"))
    }
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
                "`rps` is not measured in `MiB`: use a number alone, as in `rps>5`",
            ),
            (
                "wall>+2%,cpu>+2%",
                "it is more than one: give each a `--fail-if` of its own",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(refused(text), expected, "{text}");
        }
        assert_eq!(parsed("wall>0").bound, Bound::Value(0.0));
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
