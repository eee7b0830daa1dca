//! What a recommendation says: whether to take a variant or to keep what there is, why, and what it costs.

use crate::analysis::{Failures, ended};
use crate::figures::{bytes, change_with_interval, would_have_been_visible};
use crate::recommend::cost::Cost;
use crate::results::{Benchmark, Outcome, Quantity};
use crate::warnings::Warning;
use reheap_stats::interval::Estimate;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Little time.
    Speed,
    /// Little memory.
    Memory,
    /// Little of both.
    Balanced,
    /// An allocator that stops attacks.
    Security,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// What counts most.
    pub goal: Goal,
    /// The names of the variants that are hardened, the baseline's too if it is.
    pub hardened: BTreeSet<String>,
    /// How variants fared when they were attacked, by name, as far as that is known.
    pub attacked: BTreeMap<String, Withstood>,
}

/// How a variant fared when it was attacked in many ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withstood {
    /// Attacks that it stopped.
    pub stopped: usize,
    /// Attacks that succeeded.
    pub succeeded: usize,
    /// All attacks.
    pub of: usize,
    /// Whether it has options, and was attacked without them.
    pub is_of_untuned: bool,
}

impl fmt::Display for Withstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Withstood {
            stopped,
            succeeded,
            of,
            is_of_untuned,
        } = self;
        write!(f, "stops {stopped} of {of} attacks, {succeeded} succeed")?;
        if *is_of_untuned {
            f.write_str(" (attacked without its options)")?;
        }
        Ok(())
    }
}

/// What to use, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// What was asked for.
    pub goal: Goal,
    /// What to use.
    pub advice: Advice,
    /// Why: at least one, the one that decided first.
    pub reasons: Vec<Reason>,
    /// What it costs; nothing to keep what there is.
    pub prices: Vec<Price>,
    /// What it may or may not cost, where that is what the user has to weigh: for security.
    pub open: Vec<Cost>,
    /// Candidates that were out because runs failed.
    pub failed: Vec<(String, Failures)>,
}

/// What to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The baseline.
    Keep,
    /// The variant at this place of the benchmark.
    Take(usize),
}

/// Why something is recommended.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It is better in a quantity.
    Better {
        /// In what.
        quantity: Quantity,
        /// The ratio to the baseline.
        ratio: Estimate,
    },
    /// It is hardened against attacks on the heap.
    Hardened,
    /// How it fared when it was attacked.
    Withstands(Withstood),
    /// It got through where the baseline was ended.
    Survives(Outcome),
    /// Keep: nothing differs from the baseline by more than chance.
    Indistinguishable {
        /// How large a difference would have been seen.
        visible: Option<f64>,
    },
    /// Keep: what differs is too little to matter.
    Negligible,
    /// Keep: there were too few rounds for any difference to be more than chance.
    TooFewRounds(Warning),
    /// Keep: there are differences, and none makes another variant the better one for this goal.
    NothingBetter,
    /// Keep: the variant with the least memory is too slow.
    TooSlow {
        /// The variant.
        variant: String,
        /// The time that counts.
        quantity: Quantity,
        /// Its ratio to the baseline's.
        ratio: Estimate,
    },
    /// Keep: the baseline is hardened, and no hardened candidate costs less.
    AlreadyHardened,
    /// Keep: no candidate that works is hardened.
    NothingHardened,
    /// Keep: all candidates failed, or there were none.
    NoCandidate,
    /// Keep: the command does not always print the same, so no run shows that a candidate works.
    OutputVaries,
    /// Keep: no candidate got through either.
    NoneSurvives(Outcome),
}

/// What taking a variant costs.
#[derive(Clone, Debug, PartialEq)]
pub enum Price {
    /// It is worse in a quantity.
    Worse {
        /// In what.
        quantity: Quantity,
        /// The ratio to the baseline.
        ratio: Estimate,
    },
    /// The executable file grows by so many bytes.
    LargerExecutable(u64),
    /// The baseline was hardened, and this is not.
    LessHardened,
}

impl Recommendation {
    /// Whether more data might have led to another answer, or to the price of this one.
    pub fn lacks_data(&self) -> bool {
        let is_few = |reason: &Reason| matches!(reason, Reason::TooFewRounds(_));
        let is_undecided = |cost: &Cost| matches!(cost, Cost::Undecided { .. });
        self.reasons.iter().any(is_few) || self.open.iter().any(is_undecided)
    }

    /// The verdict in one sentence: `glibc+jemalloc: 18 % less wall time [16 %, 20 %]; costs 12 % more peak memory
    /// [11 %, 13 %]`, or `keep what you have: …`.
    pub fn sentence(&self, benchmark: &Benchmark) -> String {
        let reasons = joined(&self.reasons);
        let Advice::Take(variant) = self.advice else {
            return format!("keep what you have: {reasons}");
        };
        let mut sentence = format!("{}: {reasons}", benchmark.variants[variant].name);
        if !self.prices.is_empty() {
            sentence.push_str(&format!("; costs {}", joined(&self.prices)));
        }
        if !self.open.is_empty() {
            sentence.push_str(&format!("; {}", joined(&self.open)));
        }
        sentence
    }
}

fn joined(parts: &[impl fmt::Display]) -> String {
    let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    parts.join(", ")
}

impl Goal {
    /// All goals.
    pub const ALL: [Goal; 4] = [Goal::Speed, Goal::Memory, Goal::Balanced, Goal::Security];

    /// As users type it.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Speed => "speed",
            Goal::Memory => "memory",
            Goal::Balanced => "balanced",
            Goal::Security => "security",
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Better { quantity, ratio } => {
                f.write_str(&change_with_interval(quantity, ratio))
            }
            Reason::Hardened => f.write_str("hardened against attacks on the heap"),
            Reason::Withstands(withstood) => withstood.fmt(f),
            Reason::Survives(outcome) => {
                let how = ended(*outcome);
                write!(f, "it gets through in all runs, and the baseline {how}")
            }
            Reason::Indistinguishable { visible } => {
                f.write_str("nothing differs from it by more than chance")?;
                match visible {
                    Some(visible) => write!(f, "; {}", would_have_been_visible(*visible)),
                    None => Ok(()),
                }
            }
            Reason::Negligible => {
                f.write_str("no difference that was shown is as large as 2 %")
            }
            Reason::TooFewRounds(few) => few.fmt(f),
            Reason::NothingBetter => f.write_str("nothing was shown to be better for this goal"),
            Reason::TooSlow {
                variant,
                quantity,
                ratio,
            } => {
                let slower = change_with_interval(quantity, ratio);
                write!(f, "{variant} needs the least memory, but {slower}")
            }
            Reason::AlreadyHardened => {
                f.write_str("it is hardened, and nothing that is hardened as well costs less")
            }
            Reason::NothingHardened => f.write_str("no hardened variant works with this command"),
            Reason::NoCandidate => f.write_str("no other variant works with this command"),
            Reason::OutputVaries => f.write_str(
                "the command does not always print the same, so nothing shows that another variant works; \
                 if the output may differ, use --ignore-output",
            ),
            Reason::NoneSurvives(outcome) => {
                let how = ended(*outcome);
                write!(
                    f,
                    "the baseline {how}, and nothing else gets through in all runs"
                )
            }
        }
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Price::Worse { quantity, ratio } => f.write_str(&change_with_interval(quantity, ratio)),
            Price::LargerExecutable(more) => {
                write!(f, "{} more executable file", bytes(*more as f64))
            }
            Price::LessHardened => f.write_str("the hardening that there was"),
        }
    }
}
