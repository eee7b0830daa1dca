//! One change, and whether it keeps a threshold.
//!
//! A gate in CI must neither fail by noise nor let a real regression pass. A threshold on a change is violated if the
//! change is larger than the threshold *and* claimed. It is kept if the whole interval lies within it. Otherwise a
//! regression can be neither shown nor excluded, and it is [`Check::Unclear`].

use crate::analysis::{Verdict, verdict as verdict_of};
use crate::figures::{change_with_interval, noun, value};
use crate::results::{Direction, Quantity};
use crate::threshold::{Bound, Side, Threshold};
use reheap_stats::interval::{CONFIDENCE, Estimate, Interval};
use std::cmp::Ordering;
use std::fmt;

/// An interval whose one end is beyond a bound with 95 % may miss as often on the other side.
const ONE_SIDED: f64 = 1.0 - 2.0 * (1.0 - CONFIDENCE);

/// A variant in one quantity, old and new.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The benchmark, with its parameters.
    pub benchmark: String,
    /// The variant.
    pub variant: String,
    /// Whether the others are relative to it. Then it may be the session that changes it.
    pub is_reference: bool,
    /// The baseline that it is relative to.
    pub relative_to: Option<String>,
    /// The quantity.
    pub quantity: Quantity,
    /// In which direction it is better.
    pub direction: Direction,
    /// The median of the old runs.
    pub old: Estimate,
    /// The median of the new runs.
    pub new: Estimate,
    /// `new / old`, of what is relative to the baseline if there is one; none if the old figure is zero or below.
    pub ratio: Option<Estimate>,
    /// The chance of such figures without a change.
    pub p: f64,
    /// `p` after Holm's correction over all changes of this quantity.
    pub p_adjusted: f64,
    /// What may be claimed.
    pub verdict: Verdict,
}

/// Whether a change keeps a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// It does.
    Kept,
    /// It does not.
    Violated,
    /// It can be neither shown nor excluded: more rounds would tell.
    Unclear,
}

impl Change {
    /// Whether it keeps a threshold of its quantity; for the rule see [this module](self). A threshold on a value has only
    /// the new runs to look at.
    pub fn check(&self, threshold: &Threshold) -> Check {
        let is_beyond = |figure: f64, bound: f64| match threshold.side {
            Side::Above => figure > bound,
            Side::Below => figure < bound,
        };
        match (threshold.bound, self.ratio) {
            // Nothing shows whether the session or the program changed what the others are relative to.
            (Bound::Ratio(bound), Some(ratio)) if self.is_reference => {
                if is_beyond(ratio.value, bound) {
                    Check::Unclear
                } else {
                    Check::Kept
                }
            }
            (Bound::Ratio(bound), Some(ratio)) => {
                let is_claimed = self.verdict.is_claimed();
                check(&ratio, CONFIDENCE, is_claimed, |value| {
                    is_beyond(value, bound)
                })
            }
            // Nothing became something, which is beyond any percentage.
            (Bound::Ratio(_), None) => {
                let is_shown = self.verdict.is_claimed() && !self.is_reference;
                if !is_beyond(self.new.value, self.old.value) {
                    Check::Kept
                } else if is_shown {
                    Check::Violated
                } else {
                    Check::Unclear
                }
            }
            (Bound::Value(bound), _) => {
                let Interval { low, high, .. } = self.new.interval;
                let is_claimed = is_beyond(low, bound) && is_beyond(high, bound);
                check(&self.new, ONE_SIDED, is_claimed, |value| {
                    is_beyond(value, bound)
                })
            }
        }
    }

    /// What may be claimed, with the p value corrected.
    pub(super) fn judge(&self) -> Verdict {
        let judged = |ratio| verdict_of(&ratio, self.p, self.p_adjusted, self.direction);
        let is_more = self.new.value.total_cmp(&self.old.value);
        match (self.ratio, is_more) {
            (Some(ratio), _) => judged(ratio),
            (None, Ordering::Equal) => Verdict::Open,
            (None, Ordering::Less) => judged(in_direction(0.0)),
            (None, Ordering::Greater) => judged(in_direction(2.0)),
        }
    }

    /// The change as a threshold sees it: that on a value has only the new figure to look at.
    pub fn against(&self, threshold: &Threshold) -> String {
        match threshold.bound {
            Bound::Ratio(_) => self.to_string(),
            Bound::Value(_) => {
                let (benchmark, variant) = (&self.benchmark, &self.variant);
                let (noun, new) = (noun(&self.quantity), value(&self.quantity, self.new.value));
                format!("{benchmark}, {variant}: {noun} is {new}")
            }
        }
    }

    /// What changed, without what of: `12 % more wall time [10 %, 15 %] (was 4.10 s, is 4.60 s)`, or relative to the
    /// baseline, of which two sessions have no common figure.
    pub fn without_names(&self) -> String {
        let of = |estimate: Estimate| value(&self.quantity, estimate.value);
        let (old, new) = (of(self.old), of(self.new));
        let what = match &self.ratio {
            Some(ratio) => change_with_interval(&self.quantity, ratio),
            None => noun(&self.quantity).to_owned(),
        };
        match &self.relative_to {
            Some(baseline) => format!("{what}, relative to {baseline}"),
            None => format!("{what} (was {old}, is {new})"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (benchmark, variant) = (&self.benchmark, &self.variant);
        write!(f, "{benchmark}, {variant}: {}", self.without_names())
    }
}

/// Whether an estimate is on the right side of a bound, if its interval has the confidence that is needed.
fn check(
    estimate: &Estimate,
    needed: f64,
    is_claimed: bool,
    is_beyond: impl Fn(f64) -> bool,
) -> Check {
    let Estimate { value, interval } = estimate;
    let Interval {
        low,
        high,
        confidence,
    } = *interval;
    let is_anywhere_beyond = is_beyond(*value) || is_beyond(low) || is_beyond(high);
    if confidence >= needed && is_beyond(*value) && is_claimed {
        Check::Violated
    } else if confidence < needed || is_anywhere_beyond {
        Check::Unclear
    } else {
        Check::Kept
    }
}

/// A ratio that stands for a change without a size.
fn in_direction(value: f64) -> Estimate {
    Estimate {
        value,
        interval: Interval {
            low: value,
            high: value,
            confidence: 0.0,
        },
    }
}
