//! Runs the variants of a benchmark in rounds, until there are enough.
//!
//! Only what was seen is kept; what it means is computed from the results later. A variant that crashes does not stop
//! the others, because "it crashes" is a result. A program that cannot be started is a mistake, and ends it.
//!
//! Without a number of rounds, the time is what is given: [`crate::outlook`] says how much fits into it, and
//! [`crate::race`] which variants need no further rounds.

use crate::analysis::{Analysis, Failures, analyse};
use crate::failures::is_an_end;
use crate::findings::main_quantity;
use crate::memory_limit::{MemoryLimit, NoMemoryLimit};
use crate::metrics::Metric;
use crate::outlook::{Forecast, Outlook, TooLittleTime};
use crate::race;
use crate::results::{
    Activity, AllocatorVersion, Benchmark, Ending, LeftOut, Outcome, Role, Run, Settings, Variant,
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
    /// What is run; the first is the baseline, and one with [`Role::BaselineCopy`] is its second run of each round.
    pub variants: Vec<PlannedVariant>,
    /// As [`Benchmark::left_out`].
    pub left_out: Vec<LeftOut>,
    /// What the variants are asked for, if they are servers. Its output differs from run to run, so
    /// [`Settings::output`] has to be [`crate::results::OutputCheck::Ignored`].
    pub load: Option<Load>,
    /// How many rounds, and how long.
    pub settings: Settings,
}

impl Plan {
    /// Whether there are others like it, with other values or another memory limit, to find out how far it works. That
    /// it does not work in one of them is a result.
    fn is_one_of_many(&self) -> bool {
        self.memory_limit_bytes.is_some() || !self.parameters.is_empty()
    }
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
    /// Its run before, if there was one: then it needs no warm-up.
    pub first_run: Option<FirstRun>,
}

/// The run of a variant before the rounds, which is not measured.
#[derive(Clone, Debug)]
pub struct FirstRun {
    /// How long it took, with the start of a server.
    pub took: Duration,
    /// What came of it.
    pub finished: Finished,
}

/// Looks on, to tell a person how far it is. All are called between runs, so they may take their time.
pub trait Watch {
    /// A run is about to begin.
    fn run_begins(&mut self, progress: &Progress<'_>);

    /// Each variant ran once, and the rounds begin, with so many candidates.
    fn rounds_begin(&mut self, forecast: &Forecast, candidates: usize) {
        let _ = (forecast, candidates);
    }

    /// How it stands; called between rounds, at most twice a second.
    fn standing(&mut self, standing: &Standing<'_>) {
        let _ = standing;
    }

    /// A variant was left out, or leaves.
    fn left(&mut self, variant: &str, reason: &str) {
        let _ = (variant, reason);
    }

    /// It has ended, in whatever way.
    fn run_ended(&mut self, progress: &Progress<'_>, finished: &Finished) {
        let _ = (progress, finished);
    }

    /// A server needs some seconds to get ready.
    fn waits_for_server(&mut self, load: &Load) {
        let _ = load;
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

/// How the variants compare so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing<'a> {
    /// The rounds so far.
    pub rounds: usize,
    /// The candidate with the best ratio, and the ratio.
    pub leader: Option<(&'a str, f64)>,
    /// How large a difference would be seen.
    pub visible: Option<f64>,
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
    /// The time is not enough to compare anything.
    #[error("{0}")]
    TooLittleTime(TooLittleTime),
}

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
/// set, or if the time is not enough for one candidate.
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
        last_looked: Duration::ZERO,
        latest: vec![Some(Duration::ZERO); plan.variants.len()],
        first_runs: Vec::new(),
        told: 0,
        benchmark: without_runs(plan),
    };
    measuring.benchmark.ended = match measuring.all() {
        Err(MeasureError::Run(RunError::Interrupted)) => Ending::Interrupted,
        other => other?,
    };
    Ok(measuring.finished())
}

impl From<ServeError> for MeasureError {
    fn from(error: ServeError) -> MeasureError {
        match error {
            ServeError::Run(error) => MeasureError::Run(error),
            other => MeasureError::Serve(other),
        }
    }
}

/// How often it is looked at how the variants stand.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Without a number of rounds, a run may take what is left of the time, and so many times as long as the one before.
const TIMES_OF_A_RUN: u32 = 10;

struct Measuring<'a> {
    launcher: &'a Launcher,
    plan: &'a Plan,
    limits: Limits<'a>,
    watch: &'a mut dyn Watch,
    began: Instant,
    last_looked: Duration,
    /// How long the latest run of each variant took; none for those that do not run any more.
    latest: Vec<Option<Duration>>,
    /// The variants that ran once, and what came of it.
    first_runs: Vec<(Progress<'a>, usize, Finished)>,
    /// Of how many of these the failures were told.
    told: usize,
    benchmark: Benchmark,
}

impl<'a> Measuring<'a> {
    fn all(&mut self) -> Result<Ending, MeasureError> {
        let forecast = match self.plan.settings.rounds {
            Some(rounds) => self.warm_up_all(rounds)?,
            None => self.warm_up_what_fits()?,
        };
        if !self.anything_works() {
            self.keep_first_runs();
            return Ok(Ending::Rounds);
        }
        let running = self.latest.iter().zip(&self.plan.variants);
        let candidates =
            running.filter(|(latest, it)| latest.is_some() && it.role == Role::Candidate);
        self.watch.rounds_begin(&forecast, candidates.count());
        let mut orders = rounds::orders(self.plan.variants.len(), self.plan.settings.seed);
        let mut schedule = Schedule::new(&self.plan.settings);
        for round in 0.. {
            let (elapsed, next) = (self.began.elapsed(), self.latest.iter().flatten().sum());
            if let Some(ending) = schedule.ending(round, elapsed, next, || self.is_precise()) {
                return Ok(ending);
            }
            let order = orders.next().expect("there is no end to the orders");
            self.round(round, &order)?;
            let is_raced = self.plan.settings.rounds.is_none();
            if is_raced && race::is_look(&self.benchmark, round + 1) && self.race(round + 1) {
                return Ok(Ending::Decided);
            }
            self.look(round + 1);
        }
        unreachable!("rounds end by the schedule")
    }

    /// Runs each variant once, whatever that takes.
    fn warm_up_all(&mut self, rounds: usize) -> Result<Forecast, MeasureError> {
        for variant in self.places(|role| role != Role::BaselineCopy) {
            self.warm_up(variant)?;
        }
        let baseline = self.latest[0];
        for copy in self.places(|role| role == Role::BaselineCopy) {
            self.latest[copy] = baseline;
        }
        Ok(Forecast {
            round: self.latest.iter().flatten().sum(),
            rounds,
        })
    }

    /// Runs the baseline once, and as many candidates as can have the rounds that they need.
    fn warm_up_what_fits(&mut self) -> Result<Forecast, MeasureError> {
        let baseline = self.first_run_of_baseline()?;
        for copy in self.places(|role| role == Role::BaselineCopy) {
            self.latest[copy] = Some(baseline);
        }
        let mut outlook = Outlook::new(self.plan.settings.budget(), baseline);
        let candidates = self.places(|role| role == Role::Candidate);
        let mut running: Vec<usize> = Vec::new();
        for &place in &candidates {
            let is_made = self.plan.variants[place].first_run.is_some();
            let elapsed = self.began.elapsed();
            if !outlook.has_room(elapsed, is_made) {
                let reason = outlook.too_little_time(candidates.len(), elapsed).reason();
                self.leave_out(place, reason);
                continue;
            }
            let Some(first_run) = self.first_run(place, &mut outlook)? else {
                continue;
            };
            outlook.add(Some(first_run));
            running.push(place);
            while let Some(one) = outlook.one_too_many(self.began.elapsed()) {
                let reason = match outlook.leave_out(one) {
                    Some(too_slow) => too_slow.to_string(),
                    None => outlook.too_little_time(candidates.len(), elapsed).reason(),
                };
                self.leave_out(running.remove(one), reason);
            }
        }
        let elapsed = self.began.elapsed();
        if running.is_empty() && !candidates.is_empty() {
            let refusal = outlook.too_little_time(candidates.len(), elapsed);
            return Err(MeasureError::TooLittleTime(refusal));
        }
        Ok(outlook.forecast(elapsed))
    }

    /// The first run of the baseline, which is ended when the time is used up.
    fn first_run_of_baseline(&mut self) -> Result<Duration, MeasureError> {
        let usual = self.limits.time;
        let budget = self.plan.settings.budget();
        self.limits.time = Some(usual.map_or(budget, |usual| usual.min(budget)));
        let took = self.warm_up(0);
        self.limits.time = usual;
        took
    }

    /// The first run of a candidate; none if it took so long that it was ended, and the candidate is left out.
    fn first_run(
        &mut self,
        place: usize,
        outlook: &mut Outlook,
    ) -> Result<Option<Duration>, MeasureError> {
        let most = outlook.longest_first_run();
        let usual = self.limits.time;
        self.limits.time = Some(usual.map_or(most, |usual| usual.min(most)));
        let took = self.warm_up(place);
        self.limits.time = usual;
        let took = took?;
        if took >= most {
            let too_slow = outlook.too_slow(took);
            self.leave_out(place, too_slow.to_string());
            return Ok(None);
        }
        Ok(Some(took))
    }

    /// How long the first run took, which is made now if it was not made before.
    fn warm_up(&mut self, variant: usize) -> Result<Duration, MeasureError> {
        let (progress, finished) = match &self.plan.variants[variant].first_run {
            Some(FirstRun { took, finished }) => {
                self.latest[variant] = Some(*took);
                (
                    self.progress(variant, variant, Stage::WarmUp),
                    finished.clone(),
                )
            }
            None => self.run(variant, variant, Stage::WarmUp)?,
        };
        // Whoever waits for a command that takes too long wants to know that it is not the first one.
        let is_told = finished.outcome == Outcome::TimedOut;
        self.first_runs.push((progress, variant, finished));
        if is_told || self.anything_works() {
            self.tell_first_runs();
        }
        Ok(self.latest[variant].unwrap_or_default())
    }

    fn anything_works(&self) -> bool {
        let mut first_runs = self.first_runs.iter();
        first_runs.any(|(_, _, finished)| is_an_end(finished.outcome))
    }

    /// Tells of the first runs of which nobody was told. As long as all crash, one message says it for all.
    fn tell_first_runs(&mut self) {
        for (progress, _, finished) in &self.first_runs[self.told..] {
            self.watch.run_ended(progress, finished);
        }
        self.told = self.first_runs.len();
    }

    /// If no variant works, the first runs are the results: more of them would show nothing else.
    fn keep_first_runs(&mut self) {
        if let (0, Some((progress, _, finished))) = (self.told, self.first_runs.first()) {
            self.watch.run_ended(progress, finished);
        }
        for (progress, variant, finished) in std::mem::take(&mut self.first_runs) {
            let began = progress.elapsed.as_secs_f64();
            self.keep(variant, 0, progress.position, began, finished);
        }
    }

    fn leave_out(&mut self, place: usize, reason: String) {
        let name = self.plan.variants[place].name.clone();
        self.watch.left(&name, &reason);
        self.latest[place] = None;
        self.benchmark.left_out.push(LeftOut { name, reason });
    }

    fn places(&self, of: impl Fn(Role) -> bool) -> Vec<usize> {
        let variants = self.plan.variants.iter().enumerate();
        variants
            .filter(|(_, variant)| of(variant.role))
            .map(|(place, _)| place)
            .collect()
    }

    fn round(&mut self, round: usize, order: &[usize]) -> Result<(), MeasureError> {
        let running: Vec<usize> = order
            .iter()
            .copied()
            .filter(|&variant| self.latest[variant].is_some())
            .collect();
        for (position, variant) in running.into_iter().enumerate() {
            let started_seconds = self.began.elapsed().as_secs_f64();
            let usual = self.limits.time;
            self.limits.time = self.limit_of_run(variant);
            let finished = self.run(variant, position, Stage::Round(round));
            self.limits.time = usual;
            let (progress, finished) = finished?;
            self.watch.run_ended(&progress, &finished);
            self.keep(variant, round, position, started_seconds, finished);
        }
        Ok(())
    }

    /// A run that hangs must not use up much more than the time.
    fn limit_of_run(&self, variant: usize) -> Option<Duration> {
        let usual = self.limits.time;
        if self.plan.settings.rounds.is_some() {
            return usual;
        }
        let left = self
            .plan
            .settings
            .budget()
            .saturating_sub(self.began.elapsed());
        let latest = self.latest[variant].unwrap_or_default();
        let most = left.max(latest * TIMES_OF_A_RUN);
        Some(usual.map_or(most, |usual| usual.min(most)))
    }

    fn keep(
        &mut self,
        variant: usize,
        round: usize,
        position: usize,
        started_seconds: f64,
        finished: Finished,
    ) {
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

    fn progress(&self, variant: usize, position: usize, stage: Stage) -> Progress<'a> {
        Progress {
            variant: &self.plan.variants[variant].name,
            position,
            variants: self.latest.iter().flatten().count(),
            stage,
            elapsed: self.began.elapsed(),
        }
    }

    fn run(
        &mut self,
        variant: usize,
        position: usize,
        stage: Stage,
    ) -> Result<(Progress<'a>, Finished), MeasureError> {
        let began = Instant::now();
        let progress = self.progress(variant, position, stage);
        self.watch.run_begins(&progress);
        let command = &self.plan.variants[variant].command;
        let (limits, metrics) = (&self.limits, &self.plan.metrics);
        let finished = match &self.plan.load {
            None => self.launcher.run(command, limits, metrics)?,
            Some(load) => {
                let mut on_wait = || self.watch.waits_for_server(load);
                let served = serve(self.launcher, command, load, limits, metrics, &mut on_wait);
                match served {
                    // The first one shows whether the command line is right. Of the others it is a result.
                    Err(ServeError::NotReady { finished, .. })
                        if (variant, stage) != (0, Stage::WarmUp) || self.plan.is_one_of_many() =>
                    {
                        *finished
                    }
                    served => served?,
                }
            }
        };
        self.latest[variant] = Some(began.elapsed());
        Ok((progress, finished))
    }

    /// Lets those leave that need no further rounds. Whether all candidates have left.
    fn race(&mut self, rounds: usize) -> bool {
        let output = self.plan.settings.output;
        let quantity = main_quantity(&self.benchmark, &self.failures());
        for (place, left) in race::leaving(&self.benchmark, &quantity, output, rounds) {
            let variant = &mut self.benchmark.variants[place];
            variant.left = Some(left);
            self.latest[place] = None;
            self.watch.left(&variant.name, &left.to_string());
        }
        let candidates = self.places(|role| role == Role::Candidate);
        !candidates.is_empty() && candidates.iter().all(|&place| self.latest[place].is_none())
    }

    fn look(&mut self, rounds: usize) {
        let elapsed = self.began.elapsed();
        if elapsed - self.last_looked < LOOK_EVERY {
            return;
        }
        self.last_looked = elapsed;
        let Some(analysis) = self.main_analysis() else {
            return;
        };
        self.watch.standing(&Standing {
            rounds,
            leader: analysis
                .leader()
                .map(|(place, ratio)| (analysis.rows[place].variant.as_str(), ratio)),
            visible: analysis.visible(&self.benchmark),
        });
    }

    fn is_precise(&self) -> bool {
        let width = self
            .main_analysis()
            .and_then(|it| it.widest_interval(&self.benchmark));
        width.is_some_and(|width| width < self.plan.settings.precision)
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
        let is_left_out = |name: &str| benchmark.left_out.iter().any(|it| it.name == name);
        let taken: Vec<bool> = benchmark
            .variants
            .iter()
            .map(|it| !is_left_out(&it.name))
            .collect();
        let mut taken = taken.into_iter();
        benchmark.variants.retain(|_| taken.next().unwrap_or(true));
        benchmark
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
            left: None,
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
