//! What a matrix says in few bytes: reheap carries one with it, so that `recommend` can rank by it.

use crate::attacks::matrix::Matrix;
use crate::attacks::results::{Outcome, Results};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The outcome of each attack under each variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The attacks, in the order of the outcomes.
    pub attacks: Vec<String>,
    /// By name.
    pub variants: BTreeMap<String, Column>,
}

/// A variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The allocator's version; empty for a libc's own.
    pub version: String,
    /// What most runs of each attack came to: `s` stopped, `n` no effect, `c` crashed, `x` succeeded.
    pub outcomes: String,
}

impl Summary {
    /// Only what `recommend` needs of these results.
    pub fn of(results: &Results) -> Summary {
        let matrix = Matrix::of(results);
        let variants = results.variants.iter().zip(&matrix.columns);
        let column = |(variant, shares): (&crate::attacks::Variant, &Vec<_>)| {
            let version = variant
                .allocator
                .as_ref()
                .map(|allocator| allocator.version.clone());
            let letters = shares
                .iter()
                .map(|share: &crate::attacks::Share<'_>| letter(share.outcome));
            let column = Column {
                version: version.unwrap_or_default(),
                outcomes: letters.collect(),
            };
            (variant.name.clone(), column)
        };
        Summary {
            attacks: results
                .attacks
                .iter()
                .map(|attack| attack.name.clone())
                .collect(),
            variants: variants.map(column).collect(),
        }
    }

    /// How many attacks are stopped under a variant, how many succeed, and how many there are: without its options, if
    /// it was not attacked with them.
    pub fn counts(&self, variant: &str) -> Option<(usize, usize, usize)> {
        let outcomes = &self.column(variant)?.outcomes;
        let count = |outcome| outcomes.matches(letter(outcome)).count();
        let (stopped, succeeded) = (count(Outcome::Stopped), count(Outcome::Succeeded));
        Some((stopped, succeeded, self.attacks.len()))
    }

    /// What each attack came to under a variant: without its options, if it was not attacked with them.
    pub fn outcomes(&self, variant: &str) -> Option<impl Iterator<Item = (&str, Outcome)>> {
        let outcomes = self.column(variant)?.outcomes.chars().map(outcome);
        Some(self.attacks.iter().map(String::as_str).zip(outcomes))
    }

    /// The attacks that one variant stops and another does not, with what they come to under the other.
    pub fn lost(&self, from: &str, to: &str) -> Vec<(&str, Outcome)> {
        let (Some(from), Some(to)) = (self.outcomes(from), self.outcomes(to)) else {
            return Vec::new();
        };
        let is_lost = |((_, from), (_, to)): &((_, Outcome), (_, Outcome))| {
            *from == Outcome::Stopped && *to != Outcome::Stopped
        };
        from.zip(to)
            .filter(is_lost)
            .map(|(_, under)| under)
            .collect()
    }

    fn column(&self, variant: &str) -> Option<&Column> {
        let (name, _options) = variant.split_once('[').unwrap_or((variant, ""));
        let exact = self.variants.get(variant);
        exact.or_else(|| self.variants.get(name))
    }
}

fn letter(outcome: Outcome) -> char {
    match outcome {
        Outcome::Stopped => 's',
        Outcome::NoEffect => 'n',
        Outcome::Crashed => 'c',
        Outcome::Succeeded => 'x',
    }
}

fn outcome(letter: char) -> Outcome {
    match letter {
        's' => Outcome::Stopped,
        'n' => Outcome::NoEffect,
        'c' => Outcome::Crashed,
        'x' => Outcome::Succeeded,
        _ => unreachable!("`{letter}` is none of the four outcomes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_what_the_one_stops_and_the_other_does_not() {
        let column = |outcomes: &str| Column {
            version: String::new(),
            outcomes: outcomes.to_owned(),
        };
        let summary = Summary {
            attacks: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            variants: [
                ("glibc".to_owned(), column("ssxs")),
                ("glibc+fast".to_owned(), column("xnxc")),
                ("glibc+fast[guard=1]".to_owned(), column("snnn")),
            ]
            .into(),
        };
        let lost = [
            ("a", Outcome::Succeeded),
            ("b", Outcome::NoEffect),
            ("d", Outcome::Crashed),
        ];
        assert_eq!(summary.lost("glibc", "glibc+fast[delay=0]"), lost);
        assert_eq!(summary.counts("glibc"), Some((3, 1, 4)));
        assert_eq!(summary.counts("glibc+fast[delay=0]"), Some((0, 2, 4)));
        assert_eq!(summary.counts("glibc+fast[guard=1]"), Some((1, 0, 4)));
        assert_eq!(summary.counts("musl"), None);
        assert!(summary.lost("musl", "glibc").is_empty());
    }
}
