//! A heap budget, as users type it: `peak>100MiB`, `calls>+5%`, `live_at_end>0`, `allocator>10%`.
//!
//! It says what is not accepted. A change is written with its sign and is held against an earlier profile; a value is
//! written without one. Zero needs no unit. A figure that is a share is written in percent, so `allocator>10%` is a value
//! and `allocator>+10%` a change.

use crate::profile::figure::{FIGURES, Figure, Unit};
use crate::profile::whole::Whole;
use reheap_bench::figures;
pub use reheap_bench::threshold::{Bound, Side};
use reheap_profile::profile::Profile;
use std::fmt;
use std::str::FromStr;

/// Names that are less alike than this are not suggested.
const ALIKE: f64 = 0.8;

/// What is not accepted of a figure.
#[derive(Clone, Debug)]
pub struct Threshold {
    /// The figure.
    pub figure: &'static Figure,
    /// On which side of the bound it fails.
    pub side: Side,
    /// The bound.
    pub bound: Bound,
}

/// Why a text is no threshold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// Without `>` or `<`, or without a figure before it.
    #[error("it has no figure with `>` or `<` behind it, as in `peak>100MiB`")]
    NoComparison,
    /// `>=` and the like.
    #[error("leave out the `=`: `{0}`")]
    OrEqual(String),
    /// Several in one text.
    #[error("it is more than one: give each a `--fail-if` of its own")]
    Several,
    /// No figure has this name.
    #[error("there is no figure `{typed}`; {suggestion}")]
    UnknownFigure {
        /// As typed.
        typed: String,
        /// What may have been meant, or all there are.
        suggestion: String,
    },
    /// The bound is no number.
    #[error("`{0}` is not a number with a unit, as in `+5%`, `100MiB` or `1.5s`")]
    NotANumber(String),
    /// `>-2%` or `<+2%`: it would fail without any change.
    #[error("`{0}` would fail without any change: write `>+N%` or `<-N%`")]
    FailsWithoutChange(String),
    /// A percentage without a sign, of a figure that is no share.
    #[error("`{typed}` has no sign: write `{instead}` for a change against an earlier profile")]
    NoSign {
        /// As typed.
        typed: String,
        /// What to write instead.
        instead: String,
    },
    /// A value with a sign.
    #[error("`{typed}` has a sign, which only a change in percent has: write `{instead}`")]
    SignedValue {
        /// As typed.
        typed: String,
        /// What to write instead.
        instead: String,
    },
    /// Without a unit, or with one that the figure has not.
    #[error("`{figure}` is measured in {units}: write `{instead}`")]
    OtherUnit {
        /// The figure.
        figure: &'static str,
        /// What it is measured in.
        units: &'static str,
        /// What to write instead.
        instead: String,
    },
}

/// Why a threshold says nothing of a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unchecked {
    /// A change, and nothing to compare with.
    #[error("`{0}` is a change: it needs an earlier profile to compare with")]
    NoOldProfile(String),
    /// The figure is not in a profile.
    #[error("{0} was not observed")]
    NotObserved(&'static str),
}

impl Threshold {
    /// Whether it is about a change, for which an earlier profile is needed.
    pub fn is_change(&self) -> bool {
        matches!(self.bound, Bound::Ratio(_))
    }

    /// What is violated, in words; none if it is kept.
    ///
    /// # Errors
    /// If the figure was not observed, or if it is about a change and there is no earlier profile.
    pub fn violation(
        &self,
        old: Option<&Profile>,
        new: &Profile,
    ) -> Result<Option<String>, Unchecked> {
        let value = |profile: &Profile| {
            let value = self.figure.of(&Whole::of(profile));
            value.ok_or(Unchecked::NotObserved(self.figure.noun))
        };
        let unit = self.figure.unit;
        let new = value(new)?;
        let (bound, before) = match self.bound {
            Bound::Value(bound) => (bound, String::new()),
            Bound::Ratio(ratio) => {
                let old = old.ok_or_else(|| Unchecked::NoOldProfile(self.to_string()))?;
                let old = value(old)?;
                (old * ratio, format!(", before {}", unit.said(old)))
            }
        };
        let is_violated = match self.side {
            Side::Above => new > bound,
            Side::Below => new < bound,
        };
        let noun = self.figure.noun;
        Ok(is_violated.then(|| format!("{self}: {noun}: {}{before}", unit.said(new))))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = match self.bound {
            Bound::Ratio(ratio) if ratio < 1.0 => format!("-{}", figures::percent(1.0 - ratio)),
            Bound::Ratio(ratio) => format!("+{}", figures::percent(ratio - 1.0)),
            Bound::Value(value) => self.figure.unit.said(value),
        };
        write!(f, "{} {} {bound}", self.figure.name, sign(self.side))
    }
}

fn sign(side: Side) -> char {
    match side {
        Side::Above => '>',
        Side::Below => '<',
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;

    fn from_str(text: &str) -> Result<Threshold, ThresholdError> {
        let place = text.find(['>', '<']).ok_or(ThresholdError::NoComparison)?;
        let (name, bound) = (text[..place].trim(), text[place + 1..].trim());
        let side = match &text[place..=place] {
            ">" => Side::Above,
            _ => Side::Below,
        };
        if name.ends_with('=') || bound.starts_with('=') {
            let (name, bound) = (name.trim_end_matches('='), bound.trim_start_matches('='));
            let plain = format!("{}{}{}", name.trim_end(), sign(side), bound.trim_start());
            return Err(ThresholdError::OrEqual(plain));
        }
        if name.is_empty() {
            return Err(ThresholdError::NoComparison);
        }
        if bound.contains(['>', '<']) {
            return Err(ThresholdError::Several);
        }
        let figure = Figure::named(name).ok_or_else(|| unknown(name))?;
        let typed = Typed {
            figure,
            side,
            bound,
        };
        Ok(Threshold {
            figure,
            side,
            bound: typed.read()?,
        })
    }
}

fn unknown(name: &str) -> ThresholdError {
    let alike = |figure: &Figure| strsim::jaro_winkler(&name.to_lowercase(), figure.name);
    let nearest = FIGURES
        .iter()
        .max_by(|one, other| alike(one).total_cmp(&alike(other)))
        .filter(|figure| alike(figure) > ALIKE);
    let suggestion = match nearest {
        Some(figure) => format!("did you mean `{}`?", figure.name),
        None => {
            let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
            format!("there are {}", names.join(", "))
        }
    };
    ThresholdError::UnknownFigure {
        typed: name.to_owned(),
        suggestion,
    }
}

/// A threshold of which the bound is still to be read.
struct Typed<'a> {
    figure: &'static Figure,
    side: Side,
    bound: &'a str,
}

impl Typed<'_> {
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
        let unsigned = digits.trim_start_matches(['+', '-']);
        match (unit, digits.as_bytes().first(), self.side) {
            ("%", Some(b'+'), Side::Above) | ("%", Some(b'-'), Side::Below) => {
                Ok(Bound::Ratio(1.0 + value / 100.0))
            }
            ("%", Some(b'+' | b'-'), _) => {
                Err(ThresholdError::FailsWithoutChange(typed.to_owned()))
            }
            ("%", ..) if self.figure.unit != Unit::Share => Err(ThresholdError::NoSign {
                typed: typed.to_owned(),
                instead: self.with(&format!("{}{unsigned}%", self.sign_of_change())),
            }),
            (unit, Some(b'+' | b'-'), _) => Err(ThresholdError::SignedValue {
                typed: typed.to_owned(),
                instead: self.with(&format!("{unsigned}{unit}")),
            }),
            (unit, ..) => self.value(value, unit),
        }
    }

    /// A value in the figure's unit; zero is zero of anything.
    fn value(&self, value: f64, unit: &str) -> Result<Bound, ThresholdError> {
        if unit.is_empty() && value == 0.0 {
            return Ok(Bound::Value(0.0));
        }
        let units = self.units();
        if let Some((_, size)) = units.iter().find(|(name, _)| *name == unit) {
            return Ok(Bound::Value(value * size));
        }
        let first = |unit: &str| unit.chars().next().map(|first| first.to_ascii_lowercase());
        let meant = units
            .iter()
            .find(|(name, _)| first(name) == first(unit))
            .map_or(self.usual_unit(), |(name, _)| name);
        Err(ThresholdError::OtherUnit {
            figure: self.figure.name,
            units: match self.figure.unit {
                Unit::Count => "numbers without a unit",
                Unit::Bytes => "B, KiB, MiB or GiB",
                Unit::Seconds => "s, ms or us",
                Unit::Share => "%",
            },
            instead: self.with(&format!("{value}{meant}")),
        })
    }

    fn units(&self) -> &'static [(&'static str, f64)] {
        match self.figure.unit {
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

    fn usual_unit(&self) -> &'static str {
        match self.figure.unit {
            Unit::Bytes => "MiB",
            _ => self.units()[0].0,
        }
    }

    fn sign_of_change(&self) -> char {
        match self.side {
            Side::Above => '+',
            Side::Below => '-',
        }
    }

    /// The threshold with another bound.
    fn with(&self, bound: &str) -> String {
        format!("{}{}{bound}", self.figure.name, sign(self.side))
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

    #[test]
    fn a_threshold_is_read_as_it_is_spoken() {
        let cases = [
            ("peak>100MiB", "peak > 100 MiB"),
            (" calls > +5 % ", "calls > +5.0 %"),
            ("live_at_end>0", "live_at_end > 0 B"),
            ("live-at-end>0", "live_at_end > 0 B"),
            ("allocator>10%", "allocator > 10 %"),
            ("allocator>+10%", "allocator > +10 %"),
            ("temporaries>1000", "temporaries > 1,000"),
            ("waited>1.5ms", "waited > 1.50 ms"),
            ("peak<-5%", "peak < -5.0 %"),
        ];
        for (text, shown) in cases {
            assert_eq!(parsed(text).to_string(), shown, "{text}");
        }
        assert!(parsed("calls>+5%").is_change() && !parsed("allocator>5%").is_change());
    }

    #[test]
    fn what_is_almost_a_threshold_is_refused_with_what_to_write_instead() {
        let cases = [
            (
                "peak",
                "it has no figure with `>` or `<` behind it, as in `peak>100MiB`",
            ),
            ("peak>=1MiB", "leave out the `=`: `peak>1MiB`"),
            (
                "peak>1MiB,calls>5",
                "it is more than one: give each a `--fail-if` of its own",
            ),
            (
                "peek>1MiB",
                "there is no figure `peek`; did you mean `peak`?",
            ),
            (
                "peak>x",
                "`x` is not a number with a unit, as in `+5%`, `100MiB` or `1.5s`",
            ),
            (
                "calls>-5%",
                "`-5%` would fail without any change: write `>+N%` or `<-N%`",
            ),
            (
                "calls>5%",
                "`5%` has no sign: write `calls>+5%` for a change against an earlier profile",
            ),
            (
                "peak>+5MiB",
                "`+5MiB` has a sign, which only a change in percent has: write `peak>5MiB`",
            ),
            (
                "peak>100",
                "`peak` is measured in B, KiB, MiB or GiB: write `peak>100MiB`",
            ),
            (
                "peak>100mb",
                "`peak` is measured in B, KiB, MiB or GiB: write `peak>100MiB`",
            ),
            (
                "calls>5k",
                "`calls` is measured in numbers without a unit: write `calls>5`",
            ),
            (
                "allocator>5",
                "`allocator` is measured in %: write `allocator>5%`",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Threshold>().unwrap_err().to_string(), expected);
        }
        let unknown = "xyz>1".parse::<Threshold>().unwrap_err().to_string();
        assert!(
            unknown.starts_with("there is no figure `xyz`; there are calls, "),
            "{unknown}"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,20}", tail in "[<>][+-]?[0-9.]{0,4} ?[%A-Za-zµ]{0,3}") {
            let _ = text.parse::<Threshold>();
            let _ = format!("{text}{tail}").parse::<Threshold>();
            if let Ok(threshold) = format!("peak{tail}").parse::<Threshold>() {
                let _ = threshold.to_string();
            }
        }
    }
}
