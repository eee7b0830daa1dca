//! Which variant to use, for a goal, and what it costs; often the answer is to keep what there is.
//!
//! Another allocator is a change to a program that somebody has to answer for, so the burden of proof lies with it:
//! only differences that [`crate::analysis`] claims count, and of these only those of 2 % or more; and a variant of which
//! one run failed is out. What each goal means:
//!
//! - **speed**: the least wall time. Variants that cannot be told from the fastest are told apart by CPU time. Where no
//!   wall time differs, less CPU time is a reason too. Memory is named as a price and never decides.
//! - **memory**: the least peak memory, without more than [`ACCEPTED_SLOWDOWN`] of claimed slowdown.
//! - **balanced**: the least geometric mean of the ratios of wall time and of peak memory. Both weigh the same: 10 %
//!   less time for 10 % more memory is worth nothing. Of the Pareto front this is the point that lies furthest in.
//! - **security**: of the hardened variants under which the fewest attacks succeed, give or take [`TOLERATED_ATTACKS`],
//!   the one that costs least, by the same mean, even if it costs something.

mod advice;
mod contest;
mod cost;

pub use advice::{Advice, Goal, Price, Reason, Recommendation, Wish, Withstood};
pub use contest::{ACCEPTED_SLOWDOWN, TOLERATED_ATTACKS};
pub use cost::Cost;

use crate::findings::Findings;
use crate::results::Outcome;
use contest::Contest;

/// The verdict on a finished benchmark.
pub fn recommend(findings: &Findings<'_>, wish: &Wish) -> Recommendation {
    let contest = Contest::new(findings, wish);
    let (advice, reasons) = match findings.benchmark.usual_outcome() {
        Some(outcome) if !matches!(outcome, Outcome::Exited(_)) => contest.survivor(outcome),
        _ => match contest.best() {
            Some(variant) => (Advice::Take(variant), contest.merits(variant)),
            None => (Advice::Keep, vec![contest.reason_to_keep()]),
        },
    };
    Recommendation {
        goal: wish.goal,
        prices: match advice {
            Advice::Keep => Vec::new(),
            Advice::Take(variant) => contest.prices(variant),
        },
        open: match advice {
            Advice::Take(variant) if wish.goal == Goal::Security => contest.unclaimed(variant),
            _ => Vec::new(),
        },
        failed: if reasons.contains(&Reason::OutputVaries) {
            Vec::new()
        } else {
            contest.failed()
        },
        advice,
        reasons,
    }
}

/// How many variants go into the second round of a search at most.
pub const FINALISTS_MAX: usize = 2;

/// The variants that go into the second round of a search, where their tuning is tried: the best two of different
/// allocators, by their places in the benchmark. Few rounds claim little, so the figures decide; but what is claimed to
/// be worse is out.
pub fn finalists(findings: &Findings<'_>, wish: &Wish) -> Vec<usize> {
    let contest = Contest::new(findings, wish);
    let is_wanted = |variant: usize| match wish.goal {
        Goal::Security => contest.is_hardened(variant),
        _ => !contest.is_claimed_worse(variant),
    };
    let is_unsafe =
        |variant: usize| wish.goal == Goal::Security && !contest.is_among_safest(variant);
    let mut ranked: Vec<(f64, usize)> = contest
        .eligible()
        .filter(|&variant| is_wanted(variant))
        .filter_map(|variant| Some((contest.figure(variant)?, variant)))
        .collect();
    ranked.sort_by(|left, right| left.0.total_cmp(&right.0));
    ranked.sort_by_key(|&(_, variant)| is_unsafe(variant));
    let allocator = |variant: usize| findings.benchmark.variants[variant].allocator.as_ref();
    let mut finalists: Vec<usize> = Vec::new();
    for (_, variant) in ranked {
        let is_another = |chosen: &usize| match (allocator(*chosen), allocator(variant)) {
            (Some(chosen), Some(other)) => chosen.name != other.name,
            _ => true,
        };
        if finalists.len() < FINALISTS_MAX && finalists.iter().all(is_another) {
            finalists.push(variant);
        }
    }
    finalists
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{AllocatorVersion, Benchmark, Quantity, Role};
    use crate::simulated::{Simulated, lose_runs, results};
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const MIB: f64 = 1024.0 * 1024.0;

    /// A baseline of a second and 100 MiB, its copy, and candidates with seconds and MiB.
    fn measured(candidates: &[(&'static str, f64, f64)]) -> Benchmark {
        let mut variants = vec![
            ("base", Role::Baseline, 1.0, 100.0 * MIB),
            ("copy", Role::BaselineCopy, 1.0, 100.0 * MIB),
        ];
        let candidates = candidates.iter();
        variants
            .extend(candidates.map(|&(name, wall, mib)| (name, Role::Candidate, wall, mib * MIB)));
        Simulated::quiet(20, 6).run(&variants)
    }

    fn wish(goal: Goal) -> Wish {
        Wish {
            goal,
            hardened: BTreeSet::from(["hard".to_owned(), "harder".to_owned()]),
            attacked: BTreeMap::new(),
        }
    }

    fn verdict(benchmark: &Benchmark, goal: Goal) -> (String, Recommendation) {
        let results = results(vec![benchmark.clone()]);
        let recommendation = recommend(&Findings::of(&results, benchmark), &wish(goal));
        let name = match recommendation.advice {
            Advice::Keep => "keep".to_owned(),
            Advice::Take(variant) => benchmark.variants[variant].name.clone(),
        };
        (name, recommendation)
    }

    fn names(benchmark: &Benchmark, goal: Goal) -> Vec<&str> {
        let results = results(vec![benchmark.clone()]);
        let finalists = finalists(&Findings::of(&results, benchmark), &wish(goal));
        finalists
            .into_iter()
            .map(|variant| benchmark.variants[variant].name.as_str())
            .collect()
    }

    #[test]
    fn each_goal_has_its_own_answer() {
        let benchmark = measured(&[
            ("fast", 0.7, 250.0),
            ("balanced", 0.75, 70.0),
            ("small", 1.0, 60.0),
            ("slow", 1.8, 50.0),
            ("hard", 1.1, 110.0),
            ("harder", 1.4, 180.0),
        ]);
        let answers = Goal::ALL.map(|goal| verdict(&benchmark, goal).0);
        assert_eq!(answers, ["fast", "small", "balanced", "hard"]);
    }

    #[test]
    fn speed_names_its_price_in_memory() {
        let benchmark = measured(&[("fast", 0.82, 112.0)]);
        let (_, recommendation) = verdict(&benchmark, Goal::Speed);
        let sentence = recommendation.sentence(&benchmark);
        assert!(
            sentence.starts_with("fast: 18 % less wall time ["),
            "{sentence}"
        );
        assert!(
            sentence.contains("; costs 12 % more peak memory ["),
            "{sentence}"
        );
    }

    #[test]
    fn too_few_rounds_are_said_to_be_the_reason() {
        let variants = [
            ("base", Role::Baseline, 1.0, 100.0 * MIB),
            ("copy", Role::BaselineCopy, 1.0, 100.0 * MIB),
            ("fast", Role::Candidate, 0.5, 100.0 * MIB),
        ];
        let benchmark = Simulated::quiet(3, 5).run(&variants);
        let (name, recommendation) = verdict(&benchmark, Goal::Speed);
        assert_eq!(name, "keep");
        assert_eq!(
            recommendation.sentence(&benchmark),
            "keep what you have: not enough data: 3 rounds, and 4 are needed"
        );
    }

    #[test]
    fn what_cannot_be_told_apart_is_kept() {
        let benchmark = measured(&[("a", 1.0, 100.0), ("b", 1.001, 100.0)]);
        for goal in [Goal::Speed, Goal::Memory, Goal::Balanced] {
            let (name, recommendation) = verdict(&benchmark, goal);
            assert_eq!(name, "keep");
            assert!(
                matches!(
                    recommendation.reasons[..],
                    [Reason::Indistinguishable { visible: Some(_) }]
                ),
                "{recommendation:?}"
            );
            let sentence = recommendation.sentence(&benchmark);
            assert!(
                sentence.starts_with("keep what you have: nothing differs from it"),
                "{sentence}"
            );
        }
    }

    #[test]
    fn what_differs_too_little_to_matter_is_not_called_chance() {
        let benchmark = measured(&[("a", 0.985, 100.0)]);
        let (name, recommendation) = verdict(&benchmark, Goal::Speed);
        assert_eq!(
            (name.as_str(), &recommendation.reasons[..]),
            ("keep", &[Reason::Negligible][..])
        );
    }

    #[test]
    fn a_variant_that_failed_once_is_out_and_named() {
        let mut benchmark = measured(&[("fast", 0.5, 100.0), ("safe", 0.8, 100.0)]);
        lose_runs(&mut benchmark.variants[2], 7..8);
        let (name, recommendation) = verdict(&benchmark, Goal::Speed);
        assert_eq!(name, "safe");
        assert_eq!(recommendation.failed.len(), 1);
        assert_eq!(recommendation.failed[0].0, "fast");
    }

    #[test]
    fn variants_as_fast_as_each_other_are_told_apart_by_cpu_time() {
        let mut benchmark = measured(&[("a", 0.8, 100.0), ("b", 0.8, 100.0)]);
        for (place, share) in [(2, 0.95), (3, 0.6)] {
            for run in &mut benchmark.variants[place].runs {
                run.cost.user_seconds = run.cost.wall_seconds * share;
            }
        }
        assert_eq!(verdict(&benchmark, Goal::Speed).0, "b");
    }

    #[test]
    fn the_smallest_is_not_recommended_for_memory_if_it_is_slow() {
        let benchmark = measured(&[("small", 1.3, 50.0)]);
        let (name, recommendation) = verdict(&benchmark, Goal::Memory);
        let sentence = recommendation.sentence(&benchmark);
        assert_eq!(name, "keep");
        assert!(
            sentence.contains("small needs the least memory, but 30 % more wall time ["),
            "{sentence}"
        );
    }

    #[test]
    fn a_hardened_baseline_is_kept_unless_another_hardened_one_costs_less() {
        let mut benchmark = measured(&[("hard", 1.2, 120.0), ("fast", 0.7, 100.0)]);
        assert_eq!(verdict(&benchmark, Goal::Security).0, "hard");
        benchmark.variants[0].name = "harder".into();
        let (name, recommendation) = verdict(&benchmark, Goal::Security);
        assert_eq!(
            (name.as_str(), &recommendation.reasons[..]),
            ("keep", &[Reason::AlreadyHardened][..])
        );
        let (_, recommendation) = verdict(&benchmark, Goal::Speed);
        assert_eq!(recommendation.prices, [Price::LessHardened]);
    }

    #[test]
    fn for_security_the_one_that_withstands_most_is_taken_unless_a_cheaper_one_is_about_as_good() {
        let benchmark = measured(&[("hard", 1.1, 110.0), ("harder", 1.4, 180.0)]);
        let results = results(vec![benchmark.clone()]);
        let findings = Findings::of(&results, &benchmark);
        let taken = |successes: &[(&str, usize)]| {
            let withstood = |&(name, succeeded): &(&str, usize)| {
                let withstood = Withstood {
                    stopped: 20,
                    succeeded,
                    of: 34,
                    is_of_untuned: false,
                };
                (name.to_owned(), withstood)
            };
            let wish = Wish {
                attacked: successes.iter().map(withstood).collect(),
                ..wish(Goal::Security)
            };
            let recommendation = recommend(&findings, &wish);
            let finalists = finalists(&findings, &wish);
            let first = benchmark.variants[finalists[0]].name.clone();
            (recommendation.sentence(&benchmark), first)
        };
        let (sentence, first) = taken(&[("hard", 12), ("harder", 6)]);
        assert!(
            sentence.starts_with("harder: stops 20 of 34 attacks, 6 succeed; costs "),
            "{sentence}"
        );
        assert_eq!(first, "harder");
        // Two more successes are not worth twice the price.
        assert_eq!(taken(&[("hard", 8), ("harder", 6)]).1, "hard");
        // Nothing is known of one that was never attacked.
        assert!(taken(&[("harder", 30)]).0.starts_with("harder: "));
    }

    #[test]
    fn a_cost_that_nobody_could_see_is_not_called_none() {
        let variants = [
            ("base", Role::Baseline, 1.0, 100.0 * MIB),
            ("copy", Role::BaselineCopy, 1.0, 100.0 * MIB),
            ("hard", Role::Candidate, 1.5, 100.0 * MIB),
        ];
        let few = Simulated::quiet(2, 5).run(&variants);
        assert_eq!(
            verdict(&few, Goal::Security).1.sentence(&few),
            "hard: hardened against attacks on the heap; \
             wall time undecided after 2 rounds, peak memory undecided after 2 rounds"
        );
        // With more rounds, but more noise than difference, it is known between which bounds.
        let mut noisy = Simulated::quiet(12, 5).run(&variants);
        for (round, run) in noisy.variants[2].runs.iter_mut().enumerate() {
            run.cost.wall_seconds = if round % 2 == 0 { 0.8 } else { 1.25 };
        }
        let said = verdict(&noisy, Goal::Security).1.sentence(&noisy);
        let range = said
            .split("wall time undecided after 12 rounds (between ")
            .last()
            .unwrap()
            .split_once(')')
            .unwrap()
            .0;
        let (low, high) = range.split_once(" and ").unwrap();
        assert!(
            low.ends_with(" % less") && high.ends_with(" % more"),
            "{said}"
        );
        // Only what was measured to be the same is called so.
        let same = measured(&[("hard", 1.0, 100.0)]);
        assert_eq!(
            verdict(&same, Goal::Security).1.sentence(&same),
            "hard: hardened against attacks on the heap; \
             no measurable difference in wall time, no measurable difference in peak memory"
        );
    }

    #[test]
    fn the_costs_of_a_variant_are_those_that_the_sentence_names() {
        let benchmark = measured(&[("hard", 1.5, 150.0)]);
        let results = results(vec![benchmark.clone()]);
        let costs = Cost::of(&Findings::of(&results, &benchmark), 2);
        let (_, recommendation) = verdict(&benchmark, Goal::Security);
        let sentence = recommendation.sentence(&benchmark);
        assert_eq!(costs.len(), 2);
        for cost in costs {
            assert!(sentence.contains(&cost.to_string()), "{cost}: {sentence}");
        }
    }

    #[test]
    fn without_a_hardened_candidate_there_is_nothing_to_take_for_security() {
        let benchmark = measured(&[("fast", 0.7, 100.0)]);
        let (name, recommendation) = verdict(&benchmark, Goal::Security);
        assert_eq!(
            (name.as_str(), &recommendation.reasons[..]),
            ("keep", &[Reason::NothingHardened][..])
        );
        let nothing = measured(&[]);
        assert_eq!(
            verdict(&nothing, Goal::Speed).1.reasons,
            [Reason::NoCandidate]
        );
    }

    #[test]
    fn what_survives_a_memory_limit_is_taken_although_the_baseline_has_no_figures() {
        let mut benchmark = measured(&[
            ("big", 0.9, 110.0),
            ("small", 1.1, 70.0),
            ("least", 1.2, 60.0),
        ]);
        for place in 0..3 {
            for run in &mut benchmark.variants[place].runs {
                run.outcome = Outcome::OutOfMemory;
            }
        }
        assert_eq!(verdict(&benchmark, Goal::Speed).0, "small");
        let (name, recommendation) = verdict(&benchmark, Goal::Memory);
        assert_eq!(name, "least");
        let sentence = recommendation.sentence(&benchmark);
        assert!(
            sentence.contains("the baseline was out of memory"),
            "{sentence}"
        );
        benchmark.variants.truncate(3);
        assert_eq!(
            verdict(&benchmark, Goal::Speed).1.reasons,
            [Reason::NoneSurvives(Outcome::OutOfMemory)]
        );
    }

    #[test]
    fn a_larger_executable_is_a_price() {
        let mut benchmark = measured(&[("fast", 0.7, 100.0)]);
        benchmark.variants[0].executable_bytes = Some(1_000_000);
        benchmark.variants[2].executable_bytes = Some(1_000_000 + 400 * 1024);
        let (_, recommendation) = verdict(&benchmark, Goal::Speed);
        assert!(
            recommendation
                .sentence(&benchmark)
                .ends_with("costs 400 KiB more executable file")
        );
    }

    #[test]
    fn the_best_two_allocators_go_on() {
        let mut benchmark = measured(&[
            ("je", 0.8, 90.0),
            ("je tuned", 0.79, 90.0),
            ("mi", 0.85, 120.0),
            ("slow", 1.5, 50.0),
            ("hard", 1.2, 130.0),
        ]);
        for (place, allocator) in [(2, "je"), (3, "je"), (4, "mi")] {
            benchmark.variants[place].allocator = Some(AllocatorVersion {
                name: allocator.into(),
                version: String::new(),
            });
        }
        let speed = names(&benchmark, Goal::Speed);
        assert!(speed[0].starts_with("je") && speed[1] == "mi", "{speed:?}");
        assert_eq!(names(&benchmark, Goal::Memory).len(), 1);
        assert_eq!(names(&benchmark, Goal::Security), ["hard"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn what_is_taken_for_speed_is_claimed_to_save_time(
            seed in any::<u64>(),
            walls in prop::collection::vec(0.9f64..1.1, 1..4),
        ) {
            let names = ["a", "b", "c"];
            let mut variants = vec![
                ("base", Role::Baseline, 1.0, MIB),
                ("copy", Role::BaselineCopy, 1.0, MIB),
            ];
            variants.extend(names.iter().zip(&walls).map(|(&name, &wall)| (name, Role::Candidate, wall, MIB)));
            let benchmark = Simulated::quiet(12, seed).run(&variants);
            let (_, recommendation) = verdict(&benchmark, Goal::Speed);
            prop_assert!(!recommendation.reasons.is_empty());
            if let Advice::Take(variant) = recommendation.advice {
                let is_time = |reason: &Reason| matches!(
                    reason,
                    Reason::Better { quantity: Quantity::Wall | Quantity::Cpu, ratio } if ratio.value < 1.0
                );
                prop_assert!(is_time(&recommendation.reasons[0]), "{recommendation:?}");
                prop_assert!(variant >= 2);
            }
        }
    }
}
