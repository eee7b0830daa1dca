use super::*;
use crate::findings::Findings;
use crate::simulated::{Simulated, lose_runs, results};

fn variants(seconds: f64) -> [(&'static str, Role, f64, f64); 3] {
    [
        ("base", Role::Baseline, seconds, 1e6),
        ("copy", Role::BaselineCopy, seconds, 1e6),
        ("a", Role::Candidate, seconds, 1e6),
    ]
}

fn warned_on(results: &Results) -> Vec<Warning> {
    Findings::of(results, &results.benchmarks[0]).warnings
}

fn warned(benchmark: &Benchmark) -> Vec<Warning> {
    warned_on(&results(vec![benchmark.clone()]))
}

/// What is said and advised, where there is one warning.
fn said(warnings: &[Warning], rounds: Option<usize>) -> String {
    let [warning] = warnings else {
        panic!("{warnings:?}");
    };
    let settings = Settings {
        rounds,
        ..results(Vec::new()).settings
    };
    format!("{warning}. {}", warning.advice(&settings))
}

#[test]
fn a_quiet_machine_gets_no_warning() {
    let quiet = Simulated::quiet(20, 2).run(&variants(1.0));
    assert_eq!(warned(&quiet), []);
}

#[test]
fn most_runs_have_to_leave_something_running() {
    let mut daemon = Simulated::quiet(20, 2).run(&variants(1.0));
    let leave = |daemon: &mut Benchmark, runs: usize| {
        for run in &mut daemon.variants[0].runs[..runs] {
            run.left_running = true;
        }
    };
    leave(&mut daemon, 10);
    assert_eq!(warned(&daemon), []);
    leave(&mut daemon, 20);
    let said = said(&warned(&daemon), Some(20));
    assert!(
        said.starts_with("base left programs running in 20 of 20 runs"),
        "{said}"
    );
}

#[test]
fn a_peak_that_is_less_than_the_average_is_that_of_one_process() {
    let mut several = Simulated::quiet(20, 2).run(&variants(1.0));
    for run in &mut several.variants[2].runs {
        run.cost.mean_rss_bytes = Some(2_500_000);
    }
    let said = said(&warned(&several), Some(20));
    assert!(
        said.starts_with(
            "a has several processes at a time, and its peak memory is that of the largest"
        ),
        "{said}"
    );
}

#[test]
fn a_baseline_that_differs_from_itself_is_told() {
    let mut variants = variants(1.0);
    variants[1].2 = 1.1;
    let said = said(&warned(&Simulated::quiet(20, 2).run(&variants)), Some(20));
    assert!(
        said.starts_with("the baseline differs from itself by 9.1 % (p < 0.0001)"),
        "{said}"
    );
    assert!(said.contains("more rounds than `--rounds 20`"), "{said}");
}

#[test]
fn a_shared_machine_is_told_by_what_the_runs_show() {
    let mut benchmark = Simulated::quiet(20, 2).run(&variants(1.0));
    for run in benchmark
        .variants
        .iter_mut()
        .flat_map(|variant| &mut variant.runs)
    {
        run.cost.user_seconds = run.cost.wall_seconds / 2.0;
        run.cost.involuntary_context_switches = 80;
    }
    let said = said(&warned(&benchmark), None);
    assert!(
        said.contains("a second. Wall time shows them too: it is 2.00 times CPU time"),
        "{said}"
    );
}

#[test]
fn a_slow_first_round_is_seen_in_all_variants() {
    let mut benchmark = Simulated::quiet(20, 2).run(&variants(1.0));
    for variant in &mut benchmark.variants {
        variant.runs[0].cost.wall_seconds *= 1.3;
    }
    let warnings = warned(&benchmark);
    assert!(
        warnings.iter().any(|warning| matches!(
            warning,
            Warning::FirstRoundSlower { ratio } if (1.2..1.4).contains(ratio)
        )),
        "{warnings:?}"
    );
}

#[test]
fn a_drift_is_told_with_its_size() {
    let drifting = Simulated {
        drift: 0.002,
        ..Simulated::quiet(40, 2)
    };
    let said = said(&warned(&drifting.run(&variants(1.0))), None);
    assert!(said.starts_with("runs became "), "{said}");
    assert!(
        said.contains(" slower over 40 rounds") && said.contains("hot"),
        "{said}"
    );
}

#[test]
fn a_command_of_two_milliseconds_is_too_short() {
    let said = said(
        &warned(&Simulated::quiet(20, 2).run(&variants(0.002))),
        None,
    );
    assert!(said.contains(" ms, of which starting a process"), "{said}");
}

#[test]
fn load_is_measured_against_the_processors() {
    let benchmark = Simulated::quiet(20, 2).run(&variants(1.0));
    let mut results = results(vec![benchmark]);
    results.machine.load_average = Some(1.5);
    results.machine.processors = 8;
    assert_eq!(warned_on(&results), []);
    results.machine.processors = 2;
    let said = said(&warned_on(&results), None);
    assert!(said.contains("load 1.5 on 2 processors"), "{said}");
}

#[test]
fn the_time_that_is_named_for_more_rounds_is_more_than_what_was_given() {
    let few = |took_seconds| Warning::FewRounds {
        rounds: 5,
        needed: 6,
        took_seconds,
    };
    let settings = results(Vec::new()).settings;
    let given = settings.budget_seconds;
    for took in [1.0, given / 3.0, given, 3.0 * given] {
        let flag = few(Some(took)).flag_for_more(&settings).unwrap();
        let seconds: f64 = flag.strip_prefix("--budget ").unwrap().parse().unwrap();
        assert!(seconds > given, "{flag} after {took} of {given} s");
    }
    let flag = few(None).flag_for_more(&settings);
    assert_eq!(flag.as_deref(), Some("--rounds 6"));
}

#[test]
fn rounds_that_cannot_show_anything_are_told_how_many_it_takes() {
    let mut benchmark = Simulated::quiet(3, 2).run(&variants(1.0));
    benchmark.ended = Ending::Budget;
    let few = Warning::FewRounds {
        rounds: 3,
        needed: 4,
        took_seconds: Some(9.0),
    };
    let warned = &warned(&benchmark)[0];
    assert!(
        matches!(
            warned,
            Warning::FewRounds {
                rounds: 3,
                needed: 4,
                took_seconds: Some(_)
            }
        ),
        "{warned:?}"
    );
    assert!(
        few.to_string()
            .contains("not enough data: 3 rounds fitted into 9.00 s, 4 are needed")
    );
}

#[test]
fn failures_other_output_and_missing_metrics_are_counted_by_variant() {
    let mut benchmark = Simulated::quiet(10, 2).run(&variants(1.0));
    let runs = &mut benchmark.variants[2].runs;
    runs[3].stdout_sha256 = "other".into();
    runs[4].metrics.clear();
    runs[5].metrics.clear();
    lose_runs(&mut benchmark.variants[2], 7..8);
    let said: Vec<String> = warned(&benchmark).iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "a: 1 of 10 runs printed other output than the baseline",
            "a: crashed in 1 of 10 runs (SIGSEGV)",
            "a: 2 of 8 runs did not print `throughput`",
        ]
    );
}

#[test]
fn a_command_that_never_prints_the_same_is_told_how_to_go_on() {
    let mut benchmark = Simulated::quiet(10, 2).run(&variants(1.0));
    for (place, run) in benchmark.variants[0].runs.iter_mut().enumerate() {
        run.stdout_sha256 = place.to_string();
    }
    benchmark.variants[2].runs[0].stdout_sha256 = "other".into();
    let said = said(&warned(&benchmark), None);
    // Eleven, because the copy prints what the file has for all of them.
    assert!(
        said.starts_with(
            "the command does not always print the same: 11 different outputs in 20 runs"
        ),
        "{said}"
    );
    assert!(said.contains("--ignore-output"), "{said}");
}

#[test]
fn a_baseline_that_never_gets_through_is_said_to_be_none() {
    let mut benchmark = Simulated::quiet(9, 2).run(&variants(1.0));
    lose_runs(&mut benchmark.variants[0], 0..9);
    lose_runs(&mut benchmark.variants[1], 0..9);
    let said: Vec<String> = warned(&benchmark).iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "there is nothing to compare with: no run of `base`, the baseline, counts",
            "base: crashed in 9 of 9 runs (SIGSEGV)",
            "copy: crashed in 9 of 9 runs (SIGSEGV)",
        ]
    );
}

#[test]
fn an_exit_code_that_all_share_is_no_failure_but_said() {
    let mut benchmark = Simulated::quiet(9, 2).run(&variants(1.0));
    for run in benchmark
        .variants
        .iter_mut()
        .flat_map(|variant| &mut variant.runs)
    {
        run.outcome = Outcome::Exited(1);
    }
    assert_eq!(warned(&benchmark), [Warning::ExpectedFailure { code: 1 }]);
}

#[test]
fn an_expression_that_never_matches_is_said_once() {
    let mut benchmark = Simulated::quiet(9, 2).run(&variants(1.0));
    for run in benchmark
        .variants
        .iter_mut()
        .flat_map(|variant| &mut variant.runs)
    {
        run.metrics.clear();
    }
    let said = said(&warned(&benchmark), None);
    assert!(
        said.starts_with("no output matches the expression of `throughput`"),
        "{said}"
    );
}

#[test]
fn a_run_that_was_disturbed_is_counted() {
    let mut benchmark = Simulated::quiet(20, 2).run(&variants(1.0));
    benchmark.variants[1].runs[9].cost.wall_seconds *= 2.0;
    let said = said(&warned(&benchmark), None);
    assert!(
        said.starts_with("base: 1 of 40 runs is an outlier"),
        "{said}"
    );
}
