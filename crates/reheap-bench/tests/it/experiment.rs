//! Whole benchmarks, of real commands.

use reheap_bench::experiment::{
    MeasureError, Plan, PlannedVariant, Progress, Stage, Watch, measure,
};
use reheap_bench::failures::nothing_works;
use reheap_bench::memory_limit::MemoryLimit;
use reheap_bench::metrics::Metric;
use reheap_bench::outlook::Share;
use reheap_bench::results::{
    Activity, Benchmark, Direction, Ending, Left, LeftBecause, Outcome, OutputCheck, Role, Settings,
};
use reheap_bench::run::{CommandLine, Finished, Launcher, RunError};
use reheap_bench::server::{Load, ReadySign, ServeError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn variant(name: &str, role: Role, script: &str) -> PlannedVariant {
    PlannedVariant {
        name: name.to_owned(),
        role,
        allocator: None,
        tuning: BTreeMap::new(),
        command: CommandLine {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            ..CommandLine::default()
        },
        executable_bytes: None,
        files_sha256: None,
        activity: Activity::NothingClaimed,
        unreached: Vec::new(),
        first_run: None,
    }
}

fn plan(rounds: Option<usize>, variants: Vec<PlannedVariant>) -> Plan {
    Plan {
        name: "test".to_owned(),
        parameters: BTreeMap::new(),
        memory_limit_bytes: None,
        share: Share {
            given: Duration::from_secs(60),
            part: 1.0,
        },
        metrics: Vec::new(),
        variants,
        left_out: Vec::new(),
        load: None,
        settings: Settings {
            seed: 7,
            rounds,
            budget_seconds: 0.0,
            precision: 0.02,
            time_limit_seconds: None,
            output: OutputCheck::Same,
        },
    }
}

/// Notes what happens, and presses Ctrl-C in one round if it is told to.
#[derive(Default)]
struct Notes<'a> {
    begun: Vec<(String, Stage)>,
    ended: Vec<(String, Stage, Outcome)>,
    interrupt: Option<(usize, &'a AtomicBool)>,
}

impl Watch for Notes<'_> {
    fn run_begins(&mut self, progress: &Progress<'_>) {
        self.begun
            .push((progress.variant.to_owned(), progress.stage));
        if let Some((round, interrupted)) = self.interrupt
            && progress.stage == Stage::Round(round)
        {
            interrupted.store(true, Ordering::Relaxed);
        }
    }

    fn run_ended(&mut self, progress: &Progress<'_>, finished: &Finished) {
        let note = (
            progress.variant.to_owned(),
            progress.stage,
            finished.outcome,
        );
        self.ended.push(note);
    }
}

fn measured(plan: &Plan) -> Benchmark {
    let launcher = Launcher::new().unwrap();
    let interrupted = AtomicBool::new(false);
    measure(&launcher, plan, &interrupted, &mut Notes::default()).unwrap()
}

fn outcomes(benchmark: &Benchmark, variant: usize) -> Vec<Outcome> {
    let runs = benchmark.variants[variant].runs.iter();
    runs.map(|run| run.outcome).collect()
}

#[test]
fn every_variant_runs_once_to_warm_up_and_once_in_each_round() {
    let variants = vec![
        variant("one", Role::Baseline, "echo hello"),
        variant("two", Role::BaselineCopy, "echo hello"),
        variant("three", Role::Candidate, "echo hello"),
    ];
    let plan = plan(Some(4), variants);
    let mut notes = Notes::default();
    let launcher = Launcher::new().unwrap();
    let benchmark = measure(&launcher, &plan, &AtomicBool::new(false), &mut notes).unwrap();

    assert_eq!(benchmark.ended, Ending::Rounds);
    let warm_ups = notes
        .begun
        .iter()
        .filter(|(_, stage)| *stage == Stage::WarmUp);
    // The copy of the baseline is the same program.
    assert_eq!(warm_ups.count(), 2);
    assert_eq!((notes.begun.len(), notes.ended.len()), (14, 14));
    for (variant, planned) in benchmark.variants.iter().zip(&plan.variants) {
        assert_eq!((&variant.name, variant.role), (&planned.name, planned.role));
        assert_eq!(variant.command, ["/bin/sh", "-c", "echo hello"]);
        let rounds: Vec<usize> = variant.runs.iter().map(|run| run.round).collect();
        assert_eq!(rounds, [0, 1, 2, 3]);
        assert!(variant.runs.iter().all(|run| run.stdout_bytes == 6));
    }
    // The places are those in which the runs began.
    let runs = benchmark.variants.iter().flat_map(|variant| &variant.runs);
    let mut runs: Vec<_> = runs.collect();
    runs.sort_by(|a, b| a.started_seconds.total_cmp(&b.started_seconds));
    let places: Vec<_> = runs.iter().map(|run| (run.round, run.position)).collect();
    let expected: Vec<_> = (0..12).map(|number| (number / 3, number % 3)).collect();
    assert_eq!(places, expected);
}

#[test]
fn a_variant_that_always_crashes_does_not_stop_the_others() {
    let variants = vec![
        variant("fine", Role::Baseline, "exit 0"),
        variant("crashes", Role::Candidate, "kill -ABRT $$"),
        variant("fails", Role::Candidate, "exit 3"),
    ];
    let benchmark = measured(&plan(Some(3), variants));
    assert_eq!(outcomes(&benchmark, 0), [Outcome::Exited(0); 3]);
    assert_eq!(outcomes(&benchmark, 1), [Outcome::Signalled(6); 3]);
    assert_eq!(outcomes(&benchmark, 2), [Outcome::Exited(3); 3]);
}

#[test]
fn if_no_variant_works_each_runs_once_and_the_first_is_told() {
    let variants = vec![
        variant("crashes", Role::Baseline, "kill -ABRT $$"),
        variant("crashes again", Role::BaselineCopy, "kill -ABRT $$"),
        variant("finds nothing", Role::Candidate, "no-such-command"),
    ];
    let launcher = Launcher::new().unwrap();
    let mut notes = Notes::default();
    let plan = plan(Some(9), variants);
    let benchmark = measure(&launcher, &plan, &AtomicBool::new(false), &mut notes).unwrap();
    assert_eq!(notes.begun.len(), 2);
    let told = ("crashes".to_owned(), Stage::WarmUp, Outcome::Signalled(6));
    assert_eq!(notes.ended, [told]);
    assert_eq!(outcomes(&benchmark, 0), [Outcome::Signalled(6)]);
    assert_eq!(outcomes(&benchmark, 2), [Outcome::Exited(127)]);
    assert_eq!(nothing_works(&benchmark), Some(Outcome::Signalled(6)));
}

#[test]
fn a_survivor_of_a_baseline_that_crashes_is_measured_and_all_are_told() {
    let variants = vec![
        variant("crashes", Role::Baseline, "kill -ABRT $$"),
        variant("survives", Role::Candidate, "exit 1"),
    ];
    let launcher = Launcher::new().unwrap();
    let mut notes = Notes::default();
    let plan = plan(Some(2), variants);
    let benchmark = measure(&launcher, &plan, &AtomicBool::new(false), &mut notes).unwrap();
    assert_eq!(notes.ended.len(), 6);
    assert_eq!(outcomes(&benchmark, 1), [Outcome::Exited(1); 2]);
    assert_eq!(nothing_works(&benchmark), None);
}

#[test]
fn a_server_that_gets_ready_only_as_the_baseline_is_a_result_and_else_an_error() {
    let (ready, fails) = ("echo ready; exec sleep 1000", "echo oh no >&2; exit 3");
    let measured = |baseline, candidate| {
        let variants = vec![
            variant("baseline", Role::Baseline, baseline),
            variant("candidate", Role::Candidate, candidate),
        ];
        let mut plan = plan(Some(1), variants);
        plan.load = Some(Load {
            command: variant("", Role::Baseline, "exit 0").command,
            ready: ReadySign::Line("ready".parse().unwrap()),
            ready_within: Duration::from_secs(60),
            stop_within: Duration::from_secs(10),
        });
        let launcher = Launcher::new().unwrap();
        let interrupted = AtomicBool::new(false);
        measure(&launcher, &plan, &interrupted, &mut Notes::default())
    };
    let benchmark = measured(ready, fails).unwrap();
    assert_eq!(outcomes(&benchmark, 1), [Outcome::Exited(3)]);
    let error = measured(fails, ready).unwrap_err();
    assert!(
        matches!(error, MeasureError::Serve(ServeError::NotReady { .. })),
        "{error:?}"
    );
}

#[test]
fn a_program_that_goes_on_in_the_background_is_noted() {
    let variants = vec![
        variant("waits", Role::Baseline, "true & wait"),
        variant("daemon", Role::Candidate, "sleep 1000 & exit 0"),
    ];
    let benchmark = measured(&plan(Some(2), variants));
    let noted = |place: usize| {
        let runs = benchmark.variants[place].runs.iter();
        runs.map(|run| run.left_running).collect::<Vec<_>>()
    };
    assert_eq!((noted(0), noted(1)), (vec![false; 2], vec![true; 2]));
}

#[test]
fn a_variant_that_takes_too_long_is_a_result_too() {
    let variants = vec![
        variant("quick", Role::Baseline, "exit 0"),
        variant("slow", Role::Candidate, "sleep 1000"),
    ];
    let mut plan = plan(Some(1), variants);
    plan.settings.time_limit_seconds = Some(0.1);
    let benchmark = measured(&plan);
    assert_eq!(outcomes(&benchmark, 1), [Outcome::TimedOut]);
}

#[test]
fn a_program_that_cannot_be_started_ends_the_benchmark() {
    let mut missing = variant("missing", Role::Candidate, "");
    missing.command.program = "/no/such/program".into();
    let plan = plan(Some(1), vec![variant("fine", Role::Baseline, ""), missing]);
    let launcher = Launcher::new().unwrap();
    let interrupted = AtomicBool::new(false);
    let error = measure(&launcher, &plan, &interrupted, &mut Notes::default()).unwrap_err();
    assert!(
        matches!(error, MeasureError::Run(RunError::Start { .. })),
        "{error:?}"
    );
}

#[test]
fn what_was_measured_before_an_interruption_is_kept() {
    let interrupted = AtomicBool::new(false);
    let mut notes = Notes {
        interrupt: Some((2, &interrupted)),
        ..Notes::default()
    };
    let variants = vec![
        variant("one", Role::Baseline, "echo hello"),
        variant("two", Role::Candidate, "echo hello"),
    ];
    let launcher = Launcher::new().unwrap();
    let benchmark = measure(
        &launcher,
        &plan(Some(9), variants),
        &interrupted,
        &mut notes,
    )
    .unwrap();
    assert_eq!(benchmark.ended, Ending::Interrupted);
    let counts = benchmark.variants.iter().map(|variant| variant.runs.len());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn rounds_end_when_the_time_is_used_up_or_the_intervals_are_narrow() {
    // A variant that is better does not leave. Of two that are the same, one may seem worse on a busy machine.
    let counts = "i=0; while test $i -lt 3000; do i=$((i+1)); done";
    let variants = || {
        vec![
            variant("one", Role::Baseline, counts),
            variant("two", Role::Candidate, "exit 0"),
        ]
    };
    let mut short = plan(None, variants());
    short.settings.budget_seconds = 0.5;
    short.settings.precision = 1e-9;
    assert_eq!(measured(&short).ended, Ending::Budget);

    let mut precise = plan(None, variants());
    precise.settings.budget_seconds = 1e6;
    precise.settings.precision = 1e6;
    let benchmark = measured(&precise);
    assert_eq!(benchmark.ended, Ending::Precise);
    assert_eq!(benchmark.variants[0].runs.len(), 10);
}

#[test]
fn a_run_that_is_still_going_when_the_time_is_used_up_has_not_failed() {
    let directory = tempfile::tempdir().unwrap();
    let once = directory.path().join("once");
    let late = SystemTime::now() + Duration::from_secs(4);
    let late = late.duration_since(UNIX_EPOCH).unwrap().as_nanos();
    // A second before the end it begins to take two.
    let script = format!(
        "test $(date +%s%N) -lt {late} || test -e {0} || {{ touch {0}; sleep 2; }}",
        once.display()
    );
    let mut plan = plan(
        None,
        vec![
            variant("one", Role::Baseline, &script),
            variant("two", Role::Candidate, &script),
        ],
    );
    plan.settings.budget_seconds = 5.0;
    plan.settings.precision = 1e-9;
    let benchmark = measured(&plan);
    assert_eq!(benchmark.ended, Ending::Budget);
    assert!(once.exists());
    let all = (0..2).flat_map(|place| outcomes(&benchmark, place));
    assert!(all.into_iter().all(|outcome| outcome == Outcome::Exited(0)));
}

#[test]
fn a_candidate_that_is_far_worse_leaves_after_five_rounds() {
    let variants = vec![
        variant("one", Role::Baseline, "exit 0"),
        variant("two", Role::BaselineCopy, "exit 0"),
        variant("slow", Role::Candidate, "sleep 0.05"),
    ];
    let mut plan = plan(None, variants);
    plan.settings.budget_seconds = 1e6;
    let benchmark = measured(&plan);
    assert_eq!(benchmark.ended, Ending::Decided);
    let left = Left {
        rounds: 5,
        because: LeftBecause::FarWorse,
    };
    assert_eq!(benchmark.variants[2].left, Some(left));
    assert_eq!(benchmark.variants[2].runs.len(), 5);
}

#[test]
fn a_candidate_that_would_use_up_the_time_is_left_out() {
    let variants = vec![
        variant("one", Role::Baseline, "exit 0"),
        variant("endless", Role::Candidate, "sleep 1000"),
        variant("fine", Role::Candidate, "exit 0"),
    ];
    let mut plan = plan(None, variants);
    plan.settings.budget_seconds = 2.0;
    let benchmark = measured(&plan);
    let names: Vec<&str> = benchmark
        .variants
        .iter()
        .map(|variant| variant.name.as_str())
        .collect();
    assert_eq!(names, ["one", "fine"]);
    let [left_out] = benchmark.left_out.as_slice() else {
        panic!("{:?}", benchmark.left_out);
    };
    assert!(
        left_out.reason.starts_with("too slow for the time"),
        "{left_out:?}"
    );
}

#[test]
fn a_time_that_allows_no_claim_is_refused() {
    let variants = vec![
        variant("one", Role::Baseline, "exit 0"),
        variant("two", Role::Candidate, "exit 0"),
    ];
    let plan = plan(None, variants);
    let launcher = Launcher::new().unwrap();
    let interrupted = AtomicBool::new(false);
    let error = measure(&launcher, &plan, &interrupted, &mut Notes::default()).unwrap_err();
    assert!(
        error.to_string().contains("4 rounds of 2 variants take"),
        "{error}"
    );
}

#[test]
fn metrics_are_kept_with_their_direction() {
    let script = "echo rate $((40 + 2))";
    let mut plan = plan(Some(1), vec![variant("one", Role::Baseline, script)]);
    plan.metrics = vec![Metric::parse("rate=rate (.*)", Direction::Higher).unwrap()];
    let benchmark = measured(&plan);
    assert_eq!(benchmark.metrics["rate"], Direction::Higher);
    assert_eq!(benchmark.variants[0].runs[0].metrics["rate"], 42.0);
}

#[test]
fn all_runs_have_the_memory_limit_where_one_can_be_set() {
    let can_be_set = MemoryLimit::prepare(64 << 20).is_ok();
    let touches = "dd if=/dev/zero of=/dev/null count=1 bs=256M";
    let mut plan = plan(
        Some(2),
        vec![
            variant("large", Role::Baseline, &format!("exec {touches}")),
            variant("small", Role::Candidate, "exit 0"),
        ],
    );
    plan.memory_limit_bytes = Some(64 << 20);
    let launcher = Launcher::new().unwrap();
    match measure(
        &launcher,
        &plan,
        &AtomicBool::new(false),
        &mut Notes::default(),
    ) {
        Ok(benchmark) => {
            assert!(can_be_set);
            assert_eq!(benchmark.memory_limit_bytes, Some(64 << 20));
            assert_eq!(outcomes(&benchmark, 0), [Outcome::OutOfMemory; 2]);
            assert_eq!(outcomes(&benchmark, 1), [Outcome::Exited(0); 2]);
        }
        Err(MeasureError::NoMemoryLimit(reason)) => assert!(!can_be_set, "{reason}"),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn servers_are_measured_in_rounds_too() {
    let serves = "echo ready; exec sleep 1000";
    let mut plan = plan(Some(2), vec![variant("server", Role::Baseline, serves)]);
    plan.load = Some(Load {
        command: variant("", Role::Baseline, "echo rate 5").command,
        ready: ReadySign::Line("ready".parse().unwrap()),
        ready_within: Duration::from_secs(60),
        stop_within: Duration::from_secs(10),
    });
    plan.metrics = vec![Metric::parse("rate=rate (.*)", Direction::Higher).unwrap()];
    let benchmark = measured(&plan);
    assert_eq!(outcomes(&benchmark, 0), [Outcome::Exited(0); 2]);
    let runs = benchmark.variants[0].runs.iter();
    assert!(runs.map(|run| run.metrics["rate"]).eq([5.0, 5.0]));
}
