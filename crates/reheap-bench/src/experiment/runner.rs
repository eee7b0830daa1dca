//! Runs one variant of a plan once, and tells whoever looks on.

use crate::experiment::plan::{FirstRun, Plan};
use crate::experiment::watch::{Progress, Stage, Watch};
use crate::memory_limit::{MemoryLimit, NoMemoryLimit};
use crate::outlook::TooLittleTime;
use crate::run::{Launcher, Limits, RunError};
use crate::server::{ServeError, serve};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

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
    /// What would be timed are failures, because something that the first run left behind is in the way.
    #[error(
        "the command works only once: its first run succeeded, and those after it ended with exit code {0}"
    )]
    WorksOnce(i32),
    /// The time is not enough to compare anything.
    #[error("{0}")]
    TooLittleTime(TooLittleTime),
}

impl From<ServeError> for MeasureError {
    fn from(error: ServeError) -> MeasureError {
        match error {
            ServeError::Run(error) => MeasureError::Run(error),
            other => MeasureError::Serve(other),
        }
    }
}

/// What all runs of a benchmark have in common.
pub(super) struct Runner<'a> {
    pub(super) plan: &'a Plan,
    pub(super) watch: &'a mut dyn Watch,
    launcher: &'a Launcher,
    limits: Limits<'a>,
    began: Instant,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        launcher: &'a Launcher,
        plan: &'a Plan,
        memory: Option<&'a MemoryLimit>,
        interrupted: &'a AtomicBool,
        watch: &'a mut dyn Watch,
    ) -> Runner<'a> {
        let seconds = plan.settings.time_limit_seconds;
        Runner {
            plan,
            watch,
            launcher,
            limits: Limits {
                time: seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
                memory,
                interrupted: Some(interrupted),
            },
            began: Instant::now(),
        }
    }

    /// Since the beginning of the benchmark.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How far it is when a run of this variant begins.
    pub(super) fn progress(&self, variant: usize, stage: Stage) -> Progress<'a> {
        Progress {
            variant: &self.plan.variants[variant].name,
            stage,
            elapsed: self.elapsed(),
        }
    }

    /// Runs a variant, which is ended after the time limit or after this time.
    pub(super) fn run(
        &mut self,
        variant: usize,
        stage: Stage,
        most: Option<Duration>,
    ) -> Result<(Progress<'a>, FirstRun), MeasureError> {
        let began = Instant::now();
        let progress = self.progress(variant, stage);
        self.watch.run_begins(&progress);
        let command = &self.plan.variants[variant].command;
        let metrics = &self.plan.metrics;
        let limits = Limits {
            time: self.limits.time.into_iter().chain(most).min(),
            ..self.limits
        };
        let finished = match &self.plan.load {
            None => self.launcher.run(command, &limits, metrics)?,
            Some(load) => {
                let mut on_wait = |waiting| self.watch.waits_for_server(load, waiting);
                let served = serve(self.launcher, command, load, &limits, metrics, &mut on_wait);
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
        let took = began.elapsed();
        Ok((progress, FirstRun { took, finished }))
    }
}
