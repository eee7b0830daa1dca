//! A heap budget, as users type it: `peak>100MiB`, `calls>+5%`, `live_at_end>0`, `allocator>10%`.
//!
//! It is a threshold as benchmarks have them ([`reheap_bench::threshold`]), on a figure of a profile. A change is held
//! against an earlier profile.

use crate::profile::figure::{FIGURES, Figure};
use crate::profile::whole::Whole;
use reheap_bench::threshold::{Bound, Measurable, Side, Unit, most_alike};
use reheap_profile::profile::Profile;

/// What is not accepted of a figure.
pub type Threshold = reheap_bench::threshold::Threshold<&'static Figure>;

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

/// How a profile violates a threshold, in words; none if it is kept.
///
/// # Errors
/// If the figure was not observed, or if it is about a change and there is no earlier profile.
pub fn violation(
    threshold: &Threshold,
    old: Option<&Profile>,
    new: &Profile,
) -> Result<Option<String>, Unchecked> {
    let figure = threshold.quantity;
    let value = |profile: &Profile| {
        let value = figure.of(&Whole::of(profile));
        value.ok_or(Unchecked::NotObserved(figure.noun))
    };
    let new = value(new)?;
    let (bound, before) = match threshold.bound {
        Bound::Value(bound) => (bound, String::new()),
        Bound::Ratio(ratio) => {
            let old = old.ok_or_else(|| Unchecked::NoOldProfile(threshold.to_string()))?;
            let old = value(old)?;
            (old * ratio, format!(", before {}", figure.said(old)))
        }
    };
    let is_violated = match threshold.side {
        Side::Above => new > bound,
        Side::Below => new < bound,
    };
    Ok(is_violated.then(|| format!("{threshold}: {}: {}{before}", figure.noun, figure.said(new))))
}

impl Measurable for &'static Figure {
    const NOUN: &'static str = "figure";
    const EXAMPLE: &'static str = "peak>100MiB";

    fn named(name: &str) -> Result<Self, String> {
        let names = || FIGURES.iter().map(|figure| figure.name);
        Figure::named(name).ok_or_else(|| match most_alike(name, names()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        })
    }

    fn name(&self) -> &str {
        self.name
    }

    fn unit(&self) -> Unit {
        self.unit
    }

    fn value_in_words(&self, value: f64) -> String {
        self.said(value)
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
            (
                "peak>=1MiB",
                "leave out the `=`, because no measured value is exactly anything: `peak>1MiB`",
            ),
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
                "`x` is not a number with a unit, as in `+2%`, `500MiB` or `1.5s`",
            ),
            (
                "calls>-5%",
                "`-5%` would fail without any change: write `>+N%` or `<-N%`",
            ),
            ("calls>5%", "`5%` has no sign: write `calls>+5%` for growth"),
            (
                "peak>+5MiB",
                "`+5MiB` has a sign: write `peak>+5%` for growth, or `peak>5MiB` for a value",
            ),
            (
                "peak>100",
                "`100` has no unit: write `peak>+100%` for growth, or `peak>100MiB` for a value",
            ),
            (
                "peak>100mb",
                "`peak` is not measured in `mb`: use B, KiB, MiB, GiB, as in `peak>100MiB`",
            ),
            (
                "calls>5k",
                "`calls` is not measured in `k`: use a number alone, as in `calls>5`",
            ),
            (
                "allocator>5",
                "`5` has no unit: write `allocator>+5%` for growth, or `allocator>5%` for a value",
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
