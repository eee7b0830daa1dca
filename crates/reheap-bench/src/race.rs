//! Which variants need no further rounds, because it is clear that they are worse.
//!
//! The time that they would take goes to the close ones. All run five rounds, or as many as a claim needs. Then a
//! variant leaves if it was far worse in each round, and at a few later rounds if it is worse beyond doubt. Repeated
//! looks at p values find something by chance in the end. So p has to be far below what a claim needs, and there are few
//! looks, as Haybittle (1971) and Peto et al. (1976) did in clinical trials. On equal variants with real noise, 5 of 100
//! benchmarks claim a difference in time, as without a race (calibration.rs).
//!
//! Only what is worse leaves. What is better stays, because it is what the figures are wanted of.

use crate::analysis::{Failures, rounds_with};
use crate::outlook::rounds_needed;
use crate::results::{Benchmark, Direction, Left, LeftBecause, OutputCheck, Quantity, Role};
use reheap_stats::Sample;
use reheap_stats::aligned::{AlignedRanks, Round};

/// So many rounds at least are run with all variants.
const ROUNDS_FOR_ALL: usize = 5;
/// A variant leaves if even its smallest ratio to the baseline is above this.
const FAR_WORSE: f64 = 1.5;
/// After these rounds p is looked at.
const LOOKS: [usize; 8] = [7, 10, 14, 20, 28, 40, 56, 80];
/// A variant leaves if p is below this, and its ratio above the other.
const BEYOND_DOUBT: f64 = 0.001;
const WORTH_LEAVING: f64 = 1.1;

/// Whether it is looked after so many rounds which candidates leave.
pub(crate) fn is_look(benchmark: &Benchmark, rounds: usize) -> bool {
    let first_look = first_look(benchmark);
    rounds == first_look || is_later_look(first_look, rounds)
}

fn first_look(benchmark: &Benchmark) -> usize {
    let variants = benchmark.variants.iter();
    let candidates = variants.filter(|variant| variant.role == Role::Candidate);
    ROUNDS_FOR_ALL.max(rounds_needed(candidates.count()))
}

fn is_later_look(first_look: usize, rounds: usize) -> bool {
    rounds > first_look && LOOKS.contains(&rounds)
}

/// The candidates that leave at a look, by their places, and why. The quantity is what the benchmark is about.
pub(crate) fn leaving(
    benchmark: &Benchmark,
    quantity: &Quantity,
    output: OutputCheck,
    rounds: usize,
) -> Vec<(usize, Left)> {
    if !is_look(benchmark, rounds) {
        return Vec::new();
    }
    let is_later_look = is_later_look(first_look(benchmark), rounds);
    let failures = Failures::of_all(benchmark, output);
    let is_running = |place: &usize| {
        let variant = &benchmark.variants[*place];
        variant.role == Role::Candidate && variant.left.is_none() && !variant.runs.is_empty()
    };
    let because = |place: usize| {
        if failures[place].count() == failures[place].runs {
            return Some(LeftBecause::Failed);
        }
        let figures = rounds_with(benchmark, quantity, &failures, place)?;
        let logarithms: Vec<Round> = figures.iter().map(Round::logarithms).collect();
        let ranks = AlignedRanks::of_logarithms(&logarithms)?;
        let badness = Badness::of(&logarithms, benchmark.direction(quantity))?;
        if badness.least > FAR_WORSE {
            return Some(LeftBecause::FarWorse);
        }
        let is_worse = is_later_look && badness.usual > WORTH_LEAVING && ranks.p() < BEYOND_DOUBT;
        is_worse.then_some(LeftBecause::Worse)
    };
    let running = (0..benchmark.variants.len()).filter(is_running);
    running
        .filter_map(|place| {
            let because = because(place)?;
            Some((place, Left { rounds, because }))
        })
        .collect()
}

/// How many times worse than the baseline a variant was: in its best round, and in the middle.
struct Badness {
    least: f64,
    usual: f64,
}

impl Badness {
    fn of(logarithms: &[Round], direction: Direction) -> Option<Badness> {
        let sign = match direction {
            Direction::Lower => 1.0,
            Direction::Higher => -1.0,
        };
        let differences = logarithms.iter().flat_map(Round::differences);
        let sample = Sample::new(differences.map(|difference| sign * difference))?;
        Some(Badness {
            least: sample.min().exp(),
            usual: sample.median().exp(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Simulated, lose_runs};

    fn race(rounds: usize, noise: f64, seconds: &[f64]) -> Benchmark {
        let mut variants = vec![
            ("base", Role::Baseline, 1.0, 1e6),
            ("copy", Role::BaselineCopy, 1.0, 1e6),
        ];
        variants.extend(
            seconds
                .iter()
                .map(|&seconds| ("candidate", Role::Candidate, seconds, 1e6)),
        );
        Simulated {
            noise,
            ..Simulated::quiet(rounds, 3)
        }
        .run(&variants)
    }

    fn left(
        benchmark: &Benchmark,
        quantity: &Quantity,
        rounds: usize,
    ) -> Vec<(usize, LeftBecause)> {
        let left = leaving(benchmark, quantity, OutputCheck::Same, rounds);
        left.into_iter()
            .map(|(place, left)| (place, left.because))
            .collect()
    }

    #[test]
    fn what_is_far_worse_in_each_round_leaves_after_the_fifth() {
        let benchmark = race(5, 0.01, &[0.5, 1.3, 4.0]);
        assert_eq!(
            left(&benchmark, &Quantity::Wall, 5),
            [(4, LeftBecause::FarWorse)]
        );
        assert_eq!(left(&race(4, 0.01, &[4.0]), &Quantity::Wall, 4), []);
    }

    #[test]
    fn nothing_leaves_before_a_claim_is_possible() {
        let seven = [3.0; 7];
        assert_eq!(left(&race(5, 0.01, &seven), &Quantity::Wall, 5), []);
        assert_eq!(left(&race(6, 0.01, &seven), &Quantity::Wall, 6).len(), 7);
    }

    #[test]
    fn what_is_worse_beyond_doubt_leaves_at_a_look() {
        let benchmark = race(10, 0.01, &[0.5, 1.05, 1.3]);
        assert_eq!(
            left(&benchmark, &Quantity::Wall, 10),
            [(4, LeftBecause::Worse)]
        );
        assert_eq!(left(&benchmark, &Quantity::Wall, 9), []);
    }

    #[test]
    fn where_more_is_better_less_leaves() {
        let throughput = Quantity::Metric("throughput".into());
        let benchmark = race(5, 0.01, &[0.25, 4.0]);
        assert_eq!(
            left(&benchmark, &throughput, 5),
            [(3, LeftBecause::FarWorse)]
        );
    }

    #[test]
    fn what_never_works_leaves_and_nothing_leaves_twice() {
        let mut benchmark = race(5, 0.01, &[0.9, 1.0]);
        lose_runs(&mut benchmark.variants[2], 0..5);
        assert_eq!(
            left(&benchmark, &Quantity::Wall, 5),
            [(2, LeftBecause::Failed)]
        );
        benchmark.variants[2].left = Some(Left {
            rounds: 5,
            because: LeftBecause::Failed,
        });
        assert_eq!(left(&benchmark, &Quantity::Wall, 5), []);
    }
}
