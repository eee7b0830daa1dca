//! Concludes from single runs: one outcome for each attack under each variant, and sums.

use crate::attacks::entropy;
use crate::attacks::results::{Cell, Ending, Outcome, Results, Starts, Variant};

/// What the results show.
#[derive(Debug)]
pub struct Matrix<'a> {
    /// The single runs.
    pub results: &'a Results,
    /// For each variant, in their order: what each attack came to.
    pub columns: Vec<Vec<Share<'a>>>,
}

/// What most runs of an attack came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share<'a> {
    /// That outcome. Of two that are equally frequent, the worse one.
    pub outcome: Outcome,
    /// How many runs ended so.
    pub runs: u32,
    /// How many runs there were.
    pub of: u32,
    /// How often the attacker got what they wanted.
    pub successes: u32,
    /// All ways to end, the most frequent one first.
    pub endings: Vec<&'a Ending>,
}

/// Sums of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tally {
    /// Attacks that were mostly stopped.
    pub stopped: usize,
    /// Attacks that mostly ended in a crash.
    pub crashed: usize,
    /// Attacks that mostly had no effect.
    pub without_effect: usize,
    /// Attacks that mostly succeeded.
    pub succeeded: usize,
    /// Attacks that succeeded in some runs, but mostly not: whoever can try again succeeds.
    pub succeeded_sometimes: usize,
    /// Attacks in all.
    pub of: usize,
    /// The bits of the first small block's address that differ from start to start.
    pub small_bits: f64,
    /// The bits of the first large block's address that differ from start to start.
    pub large_bits: f64,
    /// How often a guess of the next block's distance would be right, if it is always the most frequent one.
    pub distance_guessed: f64,
}

impl<'a> Matrix<'a> {
    /// Draws the conclusions.
    pub fn of(results: &'a Results) -> Matrix<'a> {
        let column = |variant: &'a Variant| variant.cells.iter().map(Share::of).collect();
        Matrix {
            results,
            columns: results.variants.iter().map(column).collect(),
        }
    }

    /// The sums of each variant.
    pub fn tallies(&self) -> Vec<Tally> {
        let variants = self.results.variants.iter();
        variants
            .zip(&self.columns)
            .map(|(variant, column)| Tally::of(column, &variant.starts))
            .collect()
    }
}

impl<'a> Share<'a> {
    fn of(cell: &'a Cell) -> Share<'a> {
        let runs = |outcome: Outcome| -> u32 {
            let endings = cell.endings.iter();
            let of_it = endings.filter(|ending| ending.outcome == outcome);
            of_it.map(|ending| ending.runs).sum()
        };
        let outcomes = [
            Outcome::Stopped,
            Outcome::NoEffect,
            Outcome::Crashed,
            Outcome::Succeeded,
        ];
        let outcome = outcomes
            .into_iter()
            .max_by_key(|outcome| (runs(*outcome), *outcome))
            .expect("there are outcomes");
        let mut endings: Vec<&Ending> = cell.endings.iter().collect();
        endings.sort_by_key(|ending| (ending.outcome != outcome, std::cmp::Reverse(ending.runs)));
        Share {
            outcome,
            runs: runs(outcome),
            of: cell.endings.iter().map(|ending| ending.runs).sum(),
            successes: runs(Outcome::Succeeded),
            endings,
        }
    }

    /// Whether all runs came to the same.
    pub fn is_unanimous(&self) -> bool {
        self.runs == self.of
    }
}

impl Tally {
    fn of(column: &[Share<'_>], starts: &Starts) -> Tally {
        let count = |outcome| column.iter().filter(|cell| cell.outcome == outcome).count();
        let succeeded = count(Outcome::Succeeded);
        let ever = column.iter().filter(|share| share.successes > 0).count();
        let distances: u32 = starts.distances.values().sum();
        let most = starts.distances.values().max().copied().unwrap_or(0);
        Tally {
            stopped: count(Outcome::Stopped),
            crashed: count(Outcome::Crashed),
            without_effect: count(Outcome::NoEffect),
            succeeded,
            succeeded_sometimes: ever - succeeded,
            of: column.len(),
            small_bits: entropy::bits(&starts.small),
            large_bits: entropy::bits(&starts.large),
            distance_guessed: f64::from(most) / f64::from(distances.max(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(endings: &[(Outcome, u32)]) -> (Outcome, u32, u32) {
        let endings = endings.iter().map(|&(outcome, runs)| Ending {
            outcome,
            said: String::new(),
            runs,
        });
        let cell = Cell {
            attack: "double-free".to_owned(),
            endings: endings.collect(),
        };
        let share = Share::of(&cell);
        (share.outcome, share.runs, share.of)
    }

    #[test]
    fn a_cell_is_what_most_runs_came_to_and_the_worse_of_two_equals() {
        use Outcome::{Crashed, NoEffect, Stopped, Succeeded};
        assert_eq!(share(&[(Stopped, 21)]), (Stopped, 21, 21));
        assert_eq!(share(&[(Succeeded, 3), (Crashed, 18)]), (Crashed, 18, 21));
        assert_eq!(share(&[(Succeeded, 2), (Stopped, 2)]), (Succeeded, 2, 4));
        // The same outcome with several messages is one outcome.
        let several = [(Stopped, 8), (Stopped, 7), (NoEffect, 10)];
        assert_eq!(share(&several), (Stopped, 15, 25));
    }
}
