//! What a benchmark shows of a variant's costs: a difference, that there is none, or nothing yet.
//!
//! "No difference" and "too few rounds to see one" are not the same, and an allocator that was measured twice does not
//! cost nothing.

use crate::analysis::Verdict;
use crate::figures::{change_with_interval, noun, range_of_change};
use crate::findings::Findings;
use crate::results::Quantity;
use reheap_stats::interval::Estimate;
use std::fmt;

/// A cost in one quantity, compared with the baseline.
#[derive(Clone, Debug, PartialEq)]
pub enum Cost {
    /// It differs, also for the better.
    Differs {
        /// In what.
        quantity: Quantity,
        /// The ratio to the baseline.
        ratio: Estimate,
    },
    /// It is the same, as far as anybody cares.
    Same(Quantity),
    /// The rounds do not tell.
    Undecided {
        /// In what.
        quantity: Quantity,
        /// The rounds in which both were measured.
        rounds: usize,
        /// The ratio to the baseline, if there is one.
        ratio: Option<Estimate>,
    },
}

impl Cost {
    /// A variant's costs in time and peak memory, as far as it can be compared.
    pub fn of(findings: &Findings<'_>, variant: usize) -> Vec<Cost> {
        let cost = |quantity: Quantity| {
            let comparison = findings.comparison(&quantity, variant)?;
            let rounds = comparison.rounds;
            Some(
                match (comparison.verdict_for_a_choice(), comparison.ratio) {
                    (Verdict::Equal, _) => Cost::Same(quantity),
                    (Verdict::Better | Verdict::Worse, Some(ratio)) => {
                        Cost::Differs { quantity, ratio }
                    }
                    (_, ratio) => Cost::Undecided {
                        quantity,
                        rounds,
                        ratio,
                    },
                },
            )
        };
        let quantities = [findings.time(), Quantity::PeakRss];
        quantities.into_iter().filter_map(cost).collect()
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cost::Differs { quantity, ratio } => {
                f.write_str(&change_with_interval(quantity, ratio))
            }
            Cost::Same(quantity) => write!(f, "no measurable difference in {}", noun(quantity)),
            Cost::Undecided {
                quantity,
                rounds,
                ratio,
            } => {
                let rounds = crate::figures::count(*rounds, "round");
                write!(f, "{} undecided after {rounds}", noun(quantity))?;
                match ratio.as_ref().and_then(range_of_change) {
                    Some(range) => write!(f, " ({range})"),
                    None => Ok(()),
                }
            }
        }
    }
}
