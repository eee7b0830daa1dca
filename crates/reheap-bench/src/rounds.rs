//! What runs when: rounds, in each of which every variant runs once, in a newly shuffled order.
//!
//! All runs of one variant after another would be shorter to write, but then the first variant pays for the cold page
//! cache and the last one for the warm processor. The order comes from a seed, so that a report can name it and
//! anybody can repeat it.

use crate::results::{Ending, Settings};
use reheap_stats::random::SplitMix64;
use std::time::Duration;

/// The order of the variants in each round, for any number of rounds: permutations of `0..variants`, the same for the
/// same seed.
pub fn orders(variants: usize, seed: u64) -> impl Iterator<Item = Vec<usize>> {
    let mut random = SplitMix64(seed);
    std::iter::repeat_with(move || permutation(variants, &mut random))
}

/// The first orders of [`orders`].
pub fn shuffled(variants: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    orders(variants, seed).take(rounds).collect()
}

/// Runs every variant once in each round, in the order of [`shuffled`], and returns the results by variant and then by
/// round.
///
/// # Errors
/// If a run fails: its error, and no other run is begun.
pub fn interleave<T, E>(
    variants: usize,
    rounds: usize,
    seed: u64,
    mut run: impl FnMut(Turn) -> Result<T, E>,
) -> Result<Vec<Vec<T>>, E> {
    let mut results: Vec<Vec<T>> = (0..variants).map(|_| Vec::with_capacity(rounds)).collect();
    for (round, order) in shuffled(variants, rounds, seed).into_iter().enumerate() {
        for variant in order {
            results[variant].push(run(Turn { round, variant })?);
        }
    }
    Ok(results)
}

/// Intervals of fewer rounds are narrow by chance too often to stop there.
pub const ROUNDS_BEFORE_PRECISE: usize = 10;

/// When there were enough rounds.
pub(crate) struct Schedule {
    rounds: Option<usize>,
    budget: Duration,
    next_look: usize,
}

impl Schedule {
    pub(crate) fn new(settings: &Settings) -> Schedule {
        Schedule {
            rounds: settings.rounds,
            budget: settings.budget(),
            next_look: ROUNDS_BEFORE_PRECISE,
        }
    }

    /// Why no round is begun after this many; none if one is. The next round is expected to take this long.
    ///
    /// Precision is looked at after 10 rounds, and then each time that a tenth more was run. With a look after each
    /// round from the fourth, rounds would end as soon as an interval happens to be narrow, and then it is wrong more
    /// often than it says (calibration.rs).
    pub(crate) fn ending(
        &mut self,
        rounds: usize,
        elapsed: Duration,
        next_round: Duration,
        is_precise: impl FnOnce() -> bool,
    ) -> Option<Ending> {
        if let Some(asked) = self.rounds {
            return (rounds >= asked).then_some(Ending::Rounds);
        }
        if rounds >= self.next_look {
            self.next_look = rounds + rounds.div_ceil(10);
            if is_precise() {
                return Some(Ending::Precise);
            }
        }
        (elapsed + next_round > self.budget).then_some(Ending::Budget)
    }
}

/// Which variant runs in which round, both counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The round.
    pub round: usize,
    /// The variant.
    pub variant: usize,
}

/// Fisher and Yates's shuffle in Durstenfeld's form.
pub(crate) fn permutation(length: usize, random: &mut SplitMix64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    for last in (1..length).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::OutputCheck;
    use std::collections::HashMap;
    use std::convert::Infallible;

    #[test]
    fn every_variant_runs_once_in_every_round() {
        for order in shuffled(7, 20, 1) {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6], "{order:?}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_order_and_another_seed_another() {
        assert_eq!(shuffled(7, 20, 1), shuffled(7, 20, 1));
        assert_ne!(shuffled(7, 20, 1), shuffled(7, 20, 2));
    }

    #[test]
    fn all_orders_are_about_equally_frequent() {
        let mut counts = HashMap::new();
        for order in shuffled(3, 6000, 3) {
            *counts.entry(order).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(
            counts.values().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn results_are_sorted_by_variant_and_round_whatever_the_order_was() {
        let results = interleave(3, 2, 5, Ok::<_, Infallible>).unwrap();
        let expected = |variant| [0, 1].map(|round| Turn { round, variant }).to_vec();
        assert_eq!(results, [expected(0), expected(1), expected(2)]);
    }

    #[test]
    fn the_first_failure_ends_the_rounds() {
        let mut runs = 0;
        let outcome = interleave(4, 4, 0, |turn| {
            runs += 1;
            if turn.round == 1 {
                Err("crashed")
            } else {
                Ok(())
            }
        });
        assert_eq!((outcome, runs), (Err("crashed"), 5));
    }

    fn settings(rounds: Option<usize>, budget_seconds: f64) -> Settings {
        Settings {
            seed: 1,
            rounds,
            budget_seconds,
            precision: 0.02,
            time_limit_seconds: None,
            output: OutputCheck::Same,
        }
    }

    /// How many rounds there are if each takes a second, and why they end.
    fn rounds_and_ending(settings: &Settings, precise: bool) -> (usize, Ending) {
        let mut schedule = Schedule::new(settings);
        let ending = |rounds: usize| {
            let elapsed = Duration::from_secs(rounds as u64);
            schedule.ending(rounds, elapsed, Duration::from_secs(1), || precise)
        };
        (0..1000)
            .zip((0..1000).map(ending))
            .find_map(|(rounds, ending)| Some((rounds, ending?)))
            .unwrap()
    }

    #[test]
    fn as_many_rounds_are_run_as_were_asked_for_whatever_they_take() {
        let asked = settings(Some(7), 1.0);
        assert_eq!(rounds_and_ending(&asked, true), (7, Ending::Rounds));
    }

    #[test]
    fn no_round_begins_that_would_overrun_the_budget() {
        let budget = settings(None, 10.4);
        assert_eq!(rounds_and_ending(&budget, false), (10, Ending::Budget));
    }

    #[test]
    fn precise_results_end_the_rounds_but_not_before_the_tenth() {
        let long = settings(None, 1e6);
        assert_eq!(rounds_and_ending(&long, true), (10, Ending::Precise));
    }

    #[test]
    fn precision_is_looked_at_more_rarely_the_more_rounds_there_were() {
        let mut schedule = Schedule::new(&settings(None, 1e6));
        let mut looks = Vec::new();
        for rounds in 0..40 {
            let ending = schedule.ending(rounds, Duration::ZERO, Duration::ZERO, || {
                looks.push(rounds);
                false
            });
            assert_eq!(ending, None);
        }
        assert_eq!(looks, [10, 11, 13, 15, 17, 19, 21, 24, 27, 30, 33, 37]);
    }
}
