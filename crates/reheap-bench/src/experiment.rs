//! Runs the variants of a benchmark in rounds, until there are enough.
//!
//! Only what was seen is kept; what it means is computed from the results later. A variant that crashes does not stop
//! the others, because "it crashes" is a result. A program that cannot be started is a mistake, and ends it.

use crate::analysis::widest_interval;
use crate::memory_limit::{MemoryLimit, NoMemoryLimit};
use crate::metrics::Metric;
use crate::results::{
    Activity, AllocatorVersion, Benchmark, Ending, LeftOut, Role, Run, Settings, Variant,
};
use crate::rounds::{self, Schedule};
use crate::run::{CommandLine, Finished, Launcher, Limits, RunError};
use crate::server::{Load, ServeError, serve};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// As [`Benchmark::name`].
    pub name: String,
    /// As [`Benchmark::parameters`].
    pub parameters: BTreeMap<String, String>,
    /// How much memory each run may use.
    pub memory_limit_bytes: Option<u64>,
    /// What is read from the output.
    pub metrics: Vec<Metric>,
    /// What is run; the first is the baseline. The noise floor needs a variant with [`Role::BaselineCopy`].
    pub variants: Vec<PlannedVariant>,
    /// As [`Benchmark::left_out`].
    pub left_out: Vec<LeftOut>,
    /// What the variants are asked for, if they are servers. Its output differs from run to run, so
    /// [`Settings::output`] has to be [`crate::results::OutputCheck::Ignored`].
    pub load: Option<Load>,
    /// How many rounds, and how long.
    pub settings: Settings,
}

/// A variant that is to be run. Its members are those of [`Variant`].
#[derive(Clone, Debug)]
pub struct PlannedVariant {
    /// As [`Variant::name`].
    pub name: String,
    /// As [`Variant::role`].
    pub role: Role,
    /// As [`Variant::allocator`].
    pub allocator: Option<AllocatorVersion>,
    /// As [`Variant::tuning`].
    pub tuning: BTreeMap<String, String>,
    /// What is run.
    pub command: CommandLine,
    /// As [`Variant::executable_bytes`].
    pub executable_bytes: Option<u64>,
    /// As [`Variant::activity`].
    pub activity: Activity,
}

/// Looks on, to tell a person how far it is. Both are called between runs, so they may take their time.
pub trait Watch {
    /// A run is about to begin.
    fn run_begins(&mut self, progress: &Progress<'_>);

    /// It has ended, in whatever way.
    fn run_ended(&mut self, progress: &Progress<'_>, finished: &Finished) {
        let _ = (progress, finished);
    }
}

/// How far a benchmark is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress<'a> {
    /// The variant that runs.
    pub variant: &'a str,
    /// Its place in this round, from 0.
    pub position: usize,
    /// How many variants run in a round.
    pub variants: usize,
    /// What the run is for.
    pub stage: Stage,
    /// Since the beginning of the benchmark.
    pub elapsed: Duration,
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The first run of each variant is not kept: it fills the page cache.
    WarmUp,
    /// The round, from 0.
    Round(usize),
}

/// Why a benchmark could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A command could not be started or followed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A server could not be started or asked.
    #[error(transparent)]
    Serve(ServeError),
    /// A memory limit was asked for, and none can be set.
    #[error(transparent)]
    NoMemoryLimit(#[from] NoMemoryLimit),
}

/// Measures all variants: once each without keeping it, and then in rounds in which each runs once, in a newly
/// shuffled order.
///
/// Without [`Settings::rounds`], rounds go on until the intervals are as narrow as [`Settings::precision`] or until the
/// time is used up, but there are at least three. When `interrupted` is set, the run that is under way is ended, and
/// those before it are returned.
///
/// # Errors
/// If a command cannot be started, or the memory limit cannot be set.
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
        launcher,
        plan,
        limits: Limits {
            time: plan
                .settings
                .time_limit_seconds
                .and_then(|it| Duration::try_from_secs_f64(it).ok()),
            memory: memory.as_ref(),
            interrupted: Some(interrupted),
        },
        watch,
        began: Instant::now(),
        benchmark: without_runs(plan),
    };
    measuring.benchmark.ended = match measuring.all() {
        Err(MeasureError::Run(RunError::Interrupted)) => Ending::Interrupted,
        other => other?,
    };
    Ok(measuring.benchmark)
}

impl From<ServeError> for MeasureError {
    fn from(error: ServeError) -> MeasureError {
        match error {
            ServeError::Run(error) => MeasureError::Run(error),
            other => MeasureError::Serve(other),
        }
    }
}

struct Measuring<'a> {
    launcher: &'a Launcher,
    plan: &'a Plan,
    limits: Limits<'a>,
    watch: &'a mut dyn Watch,
    began: Instant,
    benchmark: Benchmark,
}

impl Measuring<'_> {
    fn all(&mut self) -> Result<Ending, MeasureError> {
        for variant in 0..self.plan.variants.len() {
            self.run(variant, variant, Stage::WarmUp)?;
        }
        let warm_up = self.began.elapsed();
        let mut orders = rounds::orders(self.plan.variants.len(), self.plan.settings.seed);
        let mut schedule = Schedule::new(&self.plan.settings);
        for round in 0.. {
            let elapsed = self.began.elapsed();
            if let Some(ending) = schedule.ending(round, warm_up, elapsed, || self.is_precise()) {
                return Ok(ending);
            }
            let order = orders.next().expect("there is no end to the orders");
            self.round(round, &order)?;
        }
        unreachable!("rounds end by the schedule")
    }

    fn round(&mut self, round: usize, order: &[usize]) -> Result<(), MeasureError> {
        for (position, &variant) in order.iter().enumerate() {
            let started_seconds = self.began.elapsed().as_secs_f64();
            let finished = self.run(variant, position, Stage::Round(round))?;
            self.benchmark.variants[variant].runs.push(Run {
                round,
                position,
                started_seconds,
                outcome: finished.outcome,
                cost: finished.cost,
                counters: finished.counters,
                metrics: finished.metrics,
                stdout_bytes: finished.stdout.bytes,
                stdout_sha256: finished.stdout.sha256,
            });
        }
        Ok(())
    }

    fn run(
        &mut self,
        variant: usize,
        position: usize,
        stage: Stage,
    ) -> Result<Finished, MeasureError> {
        let planned = &self.plan.variants[variant];
        let progress = Progress {
            variant: &planned.name,
            position,
            variants: self.plan.variants.len(),
            stage,
            elapsed: self.began.elapsed(),
        };
        self.watch.run_begins(&progress);
        let (command, limits, metrics) = (&planned.command, &self.limits, &self.plan.metrics);
        let finished = match &self.plan.load {
            None => self.launcher.run(command, limits, metrics)?,
            Some(load) => serve(self.launcher, command, load, limits, metrics)?,
        };
        self.watch.run_ended(&progress, &finished);
        Ok(finished)
    }

    fn is_precise(&self) -> bool {
        let settings = &self.plan.settings;
        widest_interval(&self.benchmark, settings.output)
            .is_some_and(|width| width < settings.precision)
    }
}

fn without_runs(plan: &Plan) -> Benchmark {
    let variants = plan.variants.iter().map(|planned| {
        let command = &planned.command;
        let words = [command.program.as_os_str()].into_iter();
        let words = words.chain(
            command
                .arguments
                .iter()
                .map(|argument| argument.as_os_str()),
        );
        let variables = command.environment.iter();
        Variant {
            name: planned.name.clone(),
            role: planned.role,
            allocator: planned.allocator.clone(),
            tuning: planned.tuning.clone(),
            command: words.map(text).collect(),
            environment: variables
                .map(|(name, value)| (text(name), text(value)))
                .collect(),
            executable_bytes: planned.executable_bytes,
            activity: planned.activity.clone(),
            runs: Vec::new(),
        }
    });
    let metrics = plan.metrics.iter();
    Benchmark {
        name: plan.name.clone(),
        parameters: plan.parameters.clone(),
        memory_limit_bytes: plan.memory_limit_bytes,
        metrics: metrics
            .map(|metric| (metric.name.clone(), metric.direction))
            .collect(),
        variants: variants.collect(),
        left_out: plan.left_out.clone(),
        ended: Ending::Interrupted,
    }
}

fn text(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}
