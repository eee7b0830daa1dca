//! How often what is claimed is wrong, and how often what is true is found, on real noise and on simulated noise.
//!
//! The real noise is that of `tests/data/noisy-churn.csv`: 288 shuffled rounds on a virtual machine with two processors
//! that other programs used too. Four variants of it are the same command. Each stretch of it is an experiment without
//! a difference, and a difference is planted by multiplying the times of a candidate. For more than two candidates, the
//! eight runs of two rounds become one round, in which chance decides which run is whose.

use crate::analysis::{Analysis, Failures, SIGNIFICANCE, Verdict, analyse};
use crate::race;
use crate::results::{Benchmark, OutputCheck, Quantity, Role, Run, Settings};
use crate::rounds::{Schedule, permutation};
use crate::simulated::{benchmark, finished, normal, results, uniform, variant};
use reheap_stats::aligned::{AlignedRanks, Round};
use reheap_stats::random::SplitMix64;
use std::time::Duration;

/// The variants that are the same command.
const EQUAL: [&str; 4] = ["glibc", "glibc again", "eq1", "eq2"];
/// How many experiments chance makes of one kind.
const EXPERIMENTS: usize = 2000;

/// The wall times of the equal commands, in seconds, by round.
fn noise() -> Vec<[f64; 4]> {
    let mut rounds: Vec<[f64; 4]> = Vec::new();
    for line in include_str!("../tests/data/noisy-churn.csv")
        .lines()
        .skip(1)
    {
        let fields: Vec<&str> = line.split(',').collect();
        let round: usize = fields[0].parse().unwrap();
        if round == rounds.len() {
            rounds.push([0.0; 4]);
        }
        if let Some(place) = EQUAL.iter().position(|name| *name == fields[2]) {
            rounds[round][place] = fields[3].parse().unwrap();
        }
    }
    rounds.retain(|round| !round.contains(&0.0)); // the last one was broken off
    rounds
}

/// An experiment of these times by round: the first two are the baseline's, the others those of candidates, of which
/// the first is planted.
fn experiment(rounds: &[Vec<f64>], planted: f64) -> Benchmark {
    let variants = (0..rounds[0].len()).map(|place| {
        let role = match place {
            0 => Role::Baseline,
            1 => Role::BaselineCopy,
            _ => Role::Candidate,
        };
        let factor = if place == 2 { planted } else { 1.0 };
        let times = rounds.iter().enumerate();
        let runs =
            times.map(|(round, times)| finished(round, place, 0.0, times[place] * factor, 1e6));
        variant(&place.to_string(), role, runs.collect())
    });
    benchmark(variants.collect())
}

/// Experiments with one candidate: each stretch of so many rounds, with each choice of what is the baseline.
fn stretches(rounds: usize, planted: f64) -> Vec<Benchmark> {
    let noise = noise();
    let mut experiments = Vec::new();
    for stretch in noise.windows(rounds).step_by(rounds.div_ceil(4)) {
        for [one, two, candidate] in [
            [0, 1, 2],
            [0, 1, 3],
            [0, 2, 1],
            [0, 2, 3],
            [0, 3, 1],
            [0, 3, 2],
        ]
        .into_iter()
        .chain([
            [1, 2, 0],
            [1, 2, 3],
            [1, 3, 0],
            [1, 3, 2],
            [2, 3, 0],
            [2, 3, 1],
        ]) {
            let times = stretch
                .iter()
                .map(|round| vec![round[one], round[two], round[candidate]]);
            experiments.push(experiment(&times.collect::<Vec<_>>(), planted));
        }
    }
    experiments
}

/// Experiments with up to six candidates, which begin anywhere, and in which chance decides which run is whose.
fn drawn(rounds: usize, candidates: usize, planted: f64) -> Vec<Benchmark> {
    let noise = noise();
    let pairs: Vec<&[[f64; 4]]> = noise.chunks_exact(2).collect();
    let mut random = SplitMix64((rounds * 10 + candidates) as u64);
    let mut drawn = || {
        let start = random.below((pairs.len() - rounds + 1) as u64) as usize;
        let of_round = |pair: &&[[f64; 4]]| {
            let times = pair.concat();
            let order = permutation(times.len(), &mut random);
            order
                .into_iter()
                .take(2 + candidates)
                .map(|place| times[place])
                .collect()
        };
        let times: Vec<Vec<f64>> = pairs[start..start + rounds].iter().map(of_round).collect();
        experiment(&times, planted)
    };
    (0..EXPERIMENTS).map(|_| drawn()).collect()
}

/// Whether the interval of the first candidate holds this ratio.
fn holds(benchmark: &Benchmark, truth: f64) -> bool {
    let ratio = wall(benchmark).comparison(2).unwrap().ratio;
    ratio.unwrap().interval.contains(truth)
}

fn wall(benchmark: &Benchmark) -> Analysis {
    let failures = Failures::of_all(benchmark, OutputCheck::Same);
    analyse(benchmark, &Quantity::Wall, &failures).unwrap()
}

fn claims_something(benchmark: &Benchmark) -> bool {
    let analysis = wall(benchmark);
    let mut comparisons = analysis.rows.iter().filter_map(|row| row.comparison);
    comparisons.any(|comparison| comparison.verdict.is_claimed())
}

/// The share, in percent, of the experiments of which something holds.
fn share(experiments: &[Benchmark], holds: impl Fn(&Benchmark) -> bool) -> f64 {
    let count = experiments
        .iter()
        .filter(|experiment| holds(experiment))
        .count();
    100.0 * count as f64 / experiments.len() as f64
}

/// What 5 % of so many experiments can become by chance: two standard deviations more.
fn at_most(experiments: usize) -> f64 {
    5.0 + 200.0 * (0.05 * 0.95 / experiments as f64).sqrt()
}

#[test]
fn of_experiments_without_a_difference_one_in_twenty_claims_one_at_most() {
    for rounds in [5, 8, 15, 30] {
        let experiments = stretches(rounds, 1.0);
        let claimed = share(&experiments, claims_something);
        assert!(
            claimed <= at_most(experiments.len()),
            "{rounds} rounds: {claimed:.1} %"
        );
        for candidates in [1, 3, 6] {
            let claimed = share(&drawn(rounds, candidates, 1.0), claims_something);
            assert!(
                claimed <= at_most(EXPERIMENTS),
                "{rounds} rounds, {candidates} candidates: {claimed:.1} %"
            );
        }
    }
}

#[test]
fn planted_differences_are_found_as_often_as_in_the_study() {
    let is_found =
        |benchmark: &Benchmark| wall(benchmark).comparison(2).unwrap().verdict == Verdict::Worse;
    // Rounds, the difference, and what share of 100 the study found.
    let study = [
        (8, 1.10, 29.0),
        (8, 1.25, 71.0),
        (15, 1.10, 53.0),
        (30, 1.03, 18.0),
        (30, 1.10, 78.0),
    ];
    for (rounds, planted, expected) in study {
        let found = share(&stretches(rounds, planted), is_found);
        assert!(
            found >= expected - 4.0,
            "{rounds} rounds, x{planted}: {found:.1} %"
        );
    }
    // With five more candidates that show nothing, Holm's correction asks for a p of a sixth.
    let is_found_of_six = |benchmark: &Benchmark| {
        let comparison = *wall(benchmark).comparison(2).unwrap();
        comparison.p * 6.0 < SIGNIFICANCE
    };
    for (rounds, planted, expected) in [(8, 1.25, 43.0), (15, 1.25, 79.0)] {
        let found = share(&stretches(rounds, planted), is_found_of_six);
        assert!(
            found >= expected - 4.0,
            "{rounds} rounds, x{planted}: {found:.1} %"
        );
    }
}

/// The experiment as it goes if those that leave run no further rounds.
fn raced(experiment: &Benchmark) -> Benchmark {
    raced_until(experiment, |_, _| false)
}

/// The experiment as it goes if it also ends when the intervals are narrower than this part of their ratios.
fn stopped(experiment: &Benchmark, precision: f64) -> Benchmark {
    let settings = Settings {
        budget_seconds: 1e9,
        precision,
        ..results(Vec::new()).settings
    };
    let mut schedule = Schedule::new(&settings);
    raced_until(experiment, |so_far, rounds| {
        let is_precise = || wall(so_far).is_precise(so_far, &settings);
        let ending = schedule.ending(rounds, Duration::ZERO, Duration::ZERO, is_precise);
        ending.is_some()
    })
}

fn raced_until(
    experiment: &Benchmark,
    mut ends: impl FnMut(&Benchmark, usize) -> bool,
) -> Benchmark {
    let mut raced = experiment.clone();
    let all: Vec<Vec<Run>> = raced
        .variants
        .iter_mut()
        .map(|variant| std::mem::take(&mut variant.runs))
        .collect();
    for round in 0..all[0].len() {
        for (variant, runs) in raced.variants.iter_mut().zip(&all) {
            if variant.left.is_none() {
                variant.runs.push(runs[round].clone());
            }
        }
        for (place, left) in race::leaving(&raced, &Quantity::Wall, OutputCheck::Same, round + 1) {
            raced.variants[place].left = Some(left);
        }
        if ends(&raced, round + 1) {
            break;
        }
    }
    raced
}

#[test]
fn a_race_claims_no_more_than_experiments_without_one() {
    for candidates in [1, 3, 6] {
        let experiments: Vec<Benchmark> = drawn(60, candidates, 1.0).iter().map(raced).collect();
        let claimed = share(&experiments, claims_something);
        assert!(
            claimed <= at_most(experiments.len()),
            "{candidates} candidates: {claimed:.1} %"
        );
    }
}

#[test]
fn what_is_far_worse_leaves_a_race_early() {
    let experiments: Vec<Benchmark> = drawn(60, 3, 4.0).iter().map(raced).collect();
    let left_early = share(&experiments, |benchmark| {
        benchmark.variants[2].runs.len() <= 7
    });
    assert!(left_early > 95.0, "{left_early:.1} %");
}

/// Noise of runs that other programs disturb, that have two speeds, or that drift.
#[derive(Clone, Copy, Debug)]
enum Shape {
    HeavyTails,
    TwoSpeeds,
    Drift,
}

impl Shape {
    /// The logarithms of a round's times, in the shuffled order of the runs: the baseline's two, and the variant's.
    fn draw(self, round: usize, random: &mut SplitMix64) -> [f64; 3] {
        let mut times = [0.0; 3];
        for (place, run) in permutation(3, random).into_iter().enumerate() {
            times[run] = self.draw_run(3 * round + place, random);
        }
        times
    }

    fn draw_run(self, runs_before: usize, random: &mut SplitMix64) -> f64 {
        match self {
            // A normal number divided by the root of an exponential one has tails like Student's t with 2 degrees.
            Shape::HeavyTails => 0.02 * normal(random) / (-uniform(random).ln()).sqrt(),
            Shape::TwoSpeeds if uniform(random) < 0.3 => 0.47 + 0.05 * normal(random),
            Shape::TwoSpeeds => 0.05 * normal(random),
            Shape::Drift => 0.03 * runs_before as f64 + 0.05 * normal(random),
        }
    }
}

#[test]
fn intervals_hold_the_truth() {
    let truth = 0.9f64.ln();
    for shape in [Shape::HeavyTails, Shape::TwoSpeeds, Shape::Drift] {
        for rounds in [5, 10, 30] {
            let mut random = SplitMix64(rounds as u64);
            let mut holds = || {
                let mut round = |round| {
                    let [first, second, variant] = shape.draw(round, &mut random);
                    Round {
                        baseline: (first, Some(second)),
                        variant: variant + truth,
                    }
                };
                let rounds: Vec<Round> = (0..rounds).map(&mut round).collect();
                AlignedRanks::of_logarithms(&rounds)
                    .unwrap()
                    .shift()
                    .interval
                    .contains(truth)
            };
            let held = (0..EXPERIMENTS).filter(|_| holds()).count();
            assert!(
                held >= EXPERIMENTS * 93 / 100,
                "{shape:?}, {rounds} rounds: {held} of {EXPERIMENTS}"
            );
        }
    }
}

/// These experiments, ended when they are this precise. A good part of them must end for that, or they show nothing.
fn stopped_early(experiments: &[Benchmark], precision: f64) -> Vec<Benchmark> {
    let rounds = experiments[0].variants[0].runs.len();
    let stopped: Vec<Benchmark> = experiments
        .iter()
        .map(|experiment| stopped(experiment, precision))
        .collect();
    let early = share(&stopped, |benchmark| {
        benchmark.variants[0].runs.len() < rounds
    });
    assert!(early > 40.0, "only {early:.1} % end early");
    stopped
}

/// Rounds that end when the intervals are narrow could end when they are narrow by chance, and wrong.
#[test]
fn what_ends_because_it_is_precise_claims_no_more_than_what_goes_on() {
    // Candidates, rounds, precision, and how many experiments: it takes many to tell this from a look after each round.
    for (candidates, rounds, precision, count) in [
        (1, 25, 0.25, EXPERIMENTS),
        (3, 40, 0.15, 500),
        (6, 40, 0.15, 500),
    ] {
        let experiments = &drawn(rounds, candidates, 1.0)[..count];
        let stopped = stopped_early(experiments, precision);
        let claimed = share(&stopped, claims_something);
        let held = share(&stopped, |benchmark| holds(benchmark, 1.0));
        assert!(
            claimed <= at_most(count) && held >= 93.0,
            "{candidates} candidates: {claimed:.1} % claim something, {held:.1} % hold the truth"
        );
    }
}

#[test]
fn intervals_hold_the_truth_where_rounds_end_because_they_are_narrow() {
    for (shape, precision) in [
        (Shape::HeavyTails, 0.03),
        (Shape::TwoSpeeds, 0.3),
        (Shape::Drift, 0.06),
    ] {
        let mut random = SplitMix64(11);
        let mut drawn = || {
            let times = |round| shape.draw(round, &mut random).map(f64::exp).to_vec();
            experiment(&(0..40).map(times).collect::<Vec<_>>(), 0.9)
        };
        let experiments: Vec<Benchmark> = (0..EXPERIMENTS).map(|_| drawn()).collect();
        let stopped = stopped_early(&experiments, precision);
        let held = share(&stopped, |benchmark| holds(benchmark, 0.9));
        assert!(held >= 93.0, "{shape:?}: {held:.1} % hold the truth");
    }
}
