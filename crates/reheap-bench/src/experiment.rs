//! Runs the variants of a benchmark in rounds, until there are enough.
//!
//! Only what was seen is kept; what it means is computed from the results later. A variant that crashes does not stop
//! the others, because "it crashes" is a result. A program that cannot be started is a mistake, and ends it.
//!
//! Without a number of rounds, the time is what is given: [`crate::outlook`] says how much fits into it, and
//! [`crate::race`] which variants need no further rounds.
//!
//! Each of these knows only those before it: `plan` and `watch`, `runner` for one run, `first_runs`, and the rounds here.

mod first_runs;
mod plan;
mod runner;
mod watch;

pub use plan::{FirstRun, Plan, PlannedVariant};
pub use runner::MeasureError;
pub use watch::{Progress, Stage, Standing, Watch};

use crate::analysis::{Analysis, Failures, analyse};
use crate::findings::main_quantity;
use crate::memory_limit::MemoryLimit;
use crate::outlook::ExpectedEnd;
use crate::race;
use crate::results::{Benchmark, Ending, Outcome, Role, Run};
use crate::rounds::{self, Schedule};
use crate::run::{Finished, Launcher, RunError};
use first_runs::FirstRuns;
use runner::Runner;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Measures all variants: once each without keeping it, unless that was done before, and then in rounds in which each
/// runs once, in a newly shuffled order.
///
/// Without [`Settings::rounds`], rounds go on until the intervals are as narrow as [`Settings::precision`], until no
/// candidate is left, or until another round would overrun the time. Variants that do not fit into the time are left
/// out. If no variant works, the first runs are all there is. When `interrupted` is set, the run that is under way is
/// ended, and those before it are returned.
///
/// # Errors
/// If a command cannot be started, if the baseline is a server that does not get ready, if the memory limit cannot be
/// set, if the time is not enough for one candidate, or if the baseline succeeds only once.
pub fn measure(
    launcher: &Launcher,
    plan: &Plan,
    interrupted: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Benchmark, MeasureError> {
    let memory = plan
        .memory_limit_bytes
        .map(MemoryLimit::prepare)
        .transpose()?;
    let mut measuring = Measuring {
        runner: Runner::new(launcher, plan, memory.as_ref(), interrupted, watch),
        plan,
        last_looked: Duration::ZERO,
        latest: Vec::new(),
        baseline_worked: false,
        benchmark: plan.without_runs(),
    };
    measuring.benchmark.ended = match measuring.all() {
        Err(MeasureError::Run(RunError::Interrupted)) => Ending::Interrupted,
        other => other?,
    };
    Ok(measuring.finished())
}

/// How often it is looked at how the variants stand.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Without a number of rounds, a run may take as long as the whole time, and so many times as long as the one before. What
/// takes longer has failed; one that is only cut off at the end of the time would not have.
const TIMES_OF_A_RUN: u32 = 10;

struct Measuring<'a> {
    runner: Runner<'a>,
    plan: &'a Plan,
    last_looked: Duration,
    /// How long the latest run of each variant took; none for those that do not run any more.
    latest: Vec<Option<Duration>>,
    /// Whether the first run of the baseline succeeded.
    baseline_worked: bool,
    benchmark: Benchmark,
}

impl Measuring<'_> {
    fn all(&mut self) -> Result<Ending, MeasureError> {
        let mut first_runs = FirstRuns::new(&mut self.runner);
        let made = first_runs.make();
        let participants = first_runs.participants();
        self.latest = participants.took;
        self.benchmark.left_out.extend(participants.left_out);
        made?;
        if let Some(runs) = participants.all_failed {
            for (variant, began, finished) in runs {
                self.keep(variant, 0, variant, began, finished);
            }
            return Ok(Ending::Rounds);
        }
        let candidates = self.plan.places(|role| role == Role::Candidate);
        let running = candidates
            .iter()
            .filter(|&&place| self.latest[place].is_some());
        let (end, candidates) = (self.expected_end(0, None), running.count());
        self.runner.watch.rounds_begin(&end, candidates);
        self.baseline_worked = participants.baseline_succeeded;
        self.rounds()
    }

    fn rounds(&mut self) -> Result<Ending, MeasureError> {
        let mut orders = rounds::orders(self.plan.variants.len(), self.plan.settings.seed);
        let mut schedule = Schedule::new(&self.plan.settings);
        let is_raced = self.plan.settings.rounds.is_none();
        let mut round = 0;
        loop {
            let (elapsed, next) = (self.runner.elapsed(), self.next_round());
            if let Some(ending) = schedule.ending(round, elapsed, next, || self.is_precise()) {
                return Ok(ending);
            }
            let order = orders.next().expect("there is no end to the orders");
            self.round(round, &order)?;
            if self.baseline_worked && round == 0 {
                self.refuse_what_works_once()?;
            }
            round += 1;
            if is_raced && race::is_look(&self.benchmark, round) && self.race(round) {
                return Ok(Ending::Decided);
            }
            self.look(round);
        }
    }

    fn round(&mut self, round: usize, order: &[usize]) -> Result<(), MeasureError> {
        let order = order.iter().copied();
        let running: Vec<usize> = order
            .filter(|&variant| self.latest[variant].is_some())
            .collect();
        for (position, variant) in running.into_iter().enumerate() {
            let began = self.runner.elapsed();
            let most = self.limit_of_run(variant);
            let (progress, run) = self.runner.run(variant, Stage::Round(round), most)?;
            self.latest[variant] = Some(run.took);
            self.runner.watch.run_ended(&progress, &run.finished);
            self.keep(variant, round, position, began, run.finished);
        }
        Ok(())
    }

    /// Refuses a baseline whose runs of the first round, its own and its copy's, all fail.
    fn refuse_what_works_once(&self) -> Result<(), MeasureError> {
        let variants = self.benchmark.variants.iter();
        let runs = variants
            .filter(|variant| variant.role != Role::Candidate)
            .flat_map(|variant| &variant.runs);
        let failures: Option<Vec<i32>> = runs
            .map(|run| match run.outcome {
                Outcome::Exited(code) if code != 0 => Some(code),
                _ => None,
            })
            .collect();
        match failures.as_deref() {
            Some([code, ..]) => Err(MeasureError::WorksOnce(*code)),
            _ => Ok(()),
        }
    }

    /// A run that hangs must not use up more than the time once more.
    fn limit_of_run(&self, variant: usize) -> Option<Duration> {
        let settings = &self.plan.settings;
        if settings.rounds.is_some() {
            return None;
        }
        let latest = self.latest[variant].unwrap_or_default();
        Some(settings.budget().max(latest * TIMES_OF_A_RUN))
    }

    fn keep(
        &mut self,
        variant: usize,
        round: usize,
        position: usize,
        began: Duration,
        finished: Finished,
    ) {
        self.benchmark.variants[variant].runs.push(Run {
            round,
            position,
            started_seconds: began.as_secs_f64(),
            outcome: finished.outcome,
            cost: finished.cost,
            counters: finished.counters,
            metrics: finished.metrics,
            stdout_bytes: finished.stdout.bytes,
            stdout_sha256: finished.stdout.sha256,
            left_running: finished.left_running,
        });
    }

    /// Lets those leave that need no further rounds. Whether all candidates have left.
    fn race(&mut self, rounds: usize) -> bool {
        let output = self.plan.settings.output;
        let quantity = main_quantity(&self.benchmark, &self.failures());
        for (place, left) in race::leaving(&self.benchmark, &quantity, output, rounds) {
            let variant = &mut self.benchmark.variants[place];
            variant.left = Some(left);
            self.latest[place] = None;
            self.runner.watch.left(&variant.name, &left.to_string());
        }
        let candidates = self.plan.places(|role| role == Role::Candidate);
        !candidates.is_empty() && candidates.iter().all(|&place| self.latest[place].is_none())
    }

    fn look(&mut self, rounds: usize) {
        let elapsed = self.runner.elapsed();
        if elapsed - self.last_looked < LOOK_EVERY {
            return;
        }
        self.last_looked = elapsed;
        let Some(analysis) = self.main_analysis() else {
            return;
        };
        self.runner.watch.standing(&Standing {
            rounds,
            leader: analysis
                .leader()
                .map(|(place, ratio)| (analysis.rows[place].variant.as_str(), ratio)),
            visible: analysis.visible(&self.benchmark),
            end: self.expected_end(rounds, analysis.widest_interval(&self.benchmark)),
        });
    }

    fn expected_end(&self, rounds: usize, width: Option<f64>) -> ExpectedEnd {
        let (settings, elapsed) = (&self.plan.settings, self.runner.elapsed());
        ExpectedEnd::of(settings, rounds, elapsed, self.next_round(), width)
    }

    /// How long it takes, as far as the runs before show.
    fn next_round(&self) -> Duration {
        self.latest.iter().flatten().sum()
    }

    fn is_precise(&self) -> bool {
        let analysis = self.main_analysis();
        analysis.is_some_and(|analysis| analysis.is_precise(&self.benchmark, &self.plan.settings))
    }

    fn main_analysis(&self) -> Option<Analysis> {
        let failures = self.failures();
        analyse(
            &self.benchmark,
            &main_quantity(&self.benchmark, &failures),
            &failures,
        )
    }

    fn failures(&self) -> Vec<Failures> {
        Failures::of_all(&self.benchmark, self.plan.settings.output)
    }

    /// What was measured, without what was left out.
    fn finished(self) -> Benchmark {
        let mut benchmark = self.benchmark;
        let is_left_out = |name: &str| {
            benchmark
                .left_out
                .iter()
                .any(|left_out| left_out.name == name)
        };
        let taken: Vec<bool> = benchmark
            .variants
            .iter()
            .map(|variant| !is_left_out(&variant.name))
            .collect();
        let mut taken = taken.into_iter();
        benchmark.variants.retain(|_| taken.next().unwrap_or(true));
        benchmark
    }
}
