//! Measures variants that are ready, writes the results, and turns them into an exit code.

use crate::bench::clock::{Clock, refusal};
use crate::bench::options::{Measuring, Server};
use crate::bench::outputs::Outputs;
use crate::bench::progress::Bar;
use crate::bench::ready::ReadyVariant;
use crate::bench::sweep::Parameters;
use crate::bench::write;
use crate::exit;
use crate::interrupt;
use crate::ui;
use reheap_bench::analysis::ended;
use reheap_bench::experiment::{self, MeasureError, Plan, PlannedVariant};
use reheap_bench::machine;
use reheap_bench::overview::Overview;
use reheap_bench::results::{
    Benchmark, Ending, FORMAT, LeftOut, Outcome, OutputCheck, Results, Role, Settings,
};
use reheap_bench::run::{CommandLine, Launcher, Limits};
use reheap_bench::server;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// How to measure, whatever the variants are; checked before reheap builds anything.
pub(crate) struct Measurement {
    pub(crate) settings: Settings,
    pub(crate) launcher: Launcher,
    pub(crate) server: Option<Server>,
    pub(crate) clock: Clock,
    measuring: Measuring,
    interrupted: Arc<AtomicBool>,
    name: String,
    started: SystemTime,
}

impl Measurement {
    /// From now on, Ctrl-C ends runs and not reheap. Reports use the name for what ran.
    pub(crate) fn new(
        measuring: Measuring,
        name: String,
        server: Option<Server>,
    ) -> anyhow::Result<Self> {
        let mut settings = measuring.settings.clone();
        if server.is_some() {
            // What a load generator prints are times and rates.
            settings.output = OutputCheck::Ignored;
        }
        Ok(Self {
            clock: Clock::new(&settings),
            settings,
            launcher: Launcher::new()?,
            server,
            measuring,
            interrupted: interrupt::on_signals()?,
            name,
            started: SystemTime::now(),
        })
    }

    /// The values of the first measurement of a sweep, with which reheap tries a variant out.
    pub(crate) fn first_parameters(&self) -> &Parameters {
        &self.measuring.sweep[0]
    }

    /// The memory limit of the first measurement.
    pub(crate) fn first_memory_limit_bytes(&self) -> Option<u64> {
        self.measuring.memory_limits_bytes[0]
    }

    /// Ctrl-C is the cause of every error after it.
    ///
    /// # Errors
    /// If it was pressed.
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        if !self.interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(interrupt::failure("interrupted before anything was measured").into())
    }

    /// How many comparisons there are: one for each value of the sweep, under each memory limit. Each gets the same part
    /// of the time.
    pub(crate) fn comparisons(&self) -> usize {
        self.measuring.sweep.len() * self.measuring.memory_limits_bytes.len()
    }

    /// Measures the variants, the first being the baseline, with each value of the sweep and under each memory limit.
    pub(crate) fn run(
        &self,
        variants: &[ReadyVariant],
        left_out: &[LeftOut],
    ) -> anyhow::Result<Results> {
        let mut results = self.without_benchmarks();
        let Measuring {
            sweep,
            memory_limits_bytes,
            ..
        } = &self.measuring;
        for parameters in sweep {
            self.planned(variants, parameters)?; // a program that only a later one names may not be there
        }
        for parameters in sweep {
            for &memory_limit_bytes in memory_limits_bytes {
                let share = 1.0 / (self.comparisons() - results.benchmarks.len()) as f64;
                let benchmark =
                    self.benchmark(variants, left_out, parameters, memory_limit_bytes, share)?;
                let ended = benchmark.ended;
                results.benchmarks.push(benchmark);
                if ended == Ending::Interrupted {
                    return Ok(results);
                }
            }
        }
        Ok(results)
    }

    /// Runs a command once: as a server under its load, if it is one. How it ends does not matter yet. But reheap
    /// reports a run that uses up its time or crashes, so that nobody waits for the sixth allocator without knowing
    /// what happened to the first.
    ///
    /// Its time counts, and is the result.
    pub(crate) fn try_out(&self, name: &str, mut command: CommandLine) -> anyhow::Result<Duration> {
        command.input = self.measuring.input.clone();
        let limits = Limits {
            time: self.time_limit(),
            memory: None,
            interrupted: Some(&self.interrupted),
        };
        let run = || match &self.server {
            Some(server) => {
                let load = server.load(self.first_parameters(), self.time_limit())?;
                server::serve(&self.launcher, &command, &load, &limits, &[])
                    .map_err(anyhow::Error::new)
            }
            None => {
                let run = self.launcher.run(&command, &limits, &[]);
                run.map_err(anyhow::Error::new)
            }
        };
        let spinning = || ui::while_spinning(&format!("trying out {name}"), run);
        let (finished, took) = self.clock.count(spinning);
        self.go_on()?;
        let outcome = finished?.outcome;
        if !matches!(outcome, Outcome::Exited(_)) {
            ui::note(&format!("{name} {} when it was tried out", ended(outcome)));
        }
        Ok(took)
    }

    fn time_limit(&self) -> Option<Duration> {
        let seconds = self.settings.time_limit_seconds?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// The variants with the values of a sweep, and the baseline once more.
    fn planned(
        &self,
        variants: &[ReadyVariant],
        parameters: &Parameters,
    ) -> anyhow::Result<Vec<PlannedVariant>> {
        let input = self.measuring.input.as_ref();
        let is_first = parameters == self.first_parameters();
        let mut planned = Vec::new();
        for (index, variant) in variants.iter().enumerate() {
            let mut of_variant = variant.planned(parameters, input)?;
            of_variant.first_run = variant.first_run.filter(|_| is_first);
            planned.push(of_variant);
            if index == 0 {
                planned.push(variant.copy().planned(parameters, input)?);
            }
        }
        Ok(planned)
    }

    /// Measures the variants, the first being the baseline, in one setting, and in this part of the time that is left.
    pub(crate) fn benchmark(
        &self,
        variants: &[ReadyVariant],
        left_out: &[LeftOut],
        parameters: &Parameters,
        memory_limit_bytes: Option<u64>,
        share: f64,
    ) -> anyhow::Result<Benchmark> {
        let mut settings = self.settings.clone();
        if let Some(left) = self.clock.left() {
            settings.budget_seconds = left.as_secs_f64() * share;
        }
        let plan = Plan {
            name: self.name.clone(),
            parameters: parameters.clone(),
            memory_limit_bytes,
            metrics: self.measuring.metrics.clone(),
            variants: self.planned(variants, parameters)?,
            left_out: left_out.to_vec(),
            settings,
            load: match &self.server {
                Some(server) => Some(server.load(parameters, self.time_limit())?),
                None => None,
            },
        };
        let mut bar = Bar::new(&plan);
        let measure = || experiment::measure(&self.launcher, &plan, &self.interrupted, &mut bar);
        let (measured, _) = self.clock.count(measure);
        bar.finish();
        match measured {
            Err(MeasureError::TooLittleTime(time)) => Err(refusal(&time).into()),
            other => Ok(other?),
        }
    }

    /// Results without any measurement yet.
    pub(crate) fn without_benchmarks(&self) -> Results {
        Results {
            format: FORMAT,
            reheap_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: humantime::format_rfc3339_seconds(self.started).to_string(),
            typed: typed(),
            machine: machine::describe(&self.launcher),
            settings: self.settings.clone(),
            benchmarks: Vec::new(),
        }
    }
}

/// The command line of this process as a person types it.
fn typed() -> Vec<String> {
    let mut arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = arguments.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    // For `cargo reheap bench`, Cargo starts `cargo-reheap reheap bench`.
    let name = if name == "cargo-reheap" {
        "cargo"
    } else {
        name
    };
    std::iter::once(name.to_owned()).chain(arguments).collect()
}

/// Writes the results, and says with the exit code whether all variants did what the baseline does.
pub(crate) fn finish(results: &Results, outputs: &Outputs) -> anyhow::Result<ExitCode> {
    let overview = Overview::of(std::slice::from_ref(results));
    write::all(&overview, outputs)?;
    if was_interrupted(results) {
        let mut variants = results.benchmarks.iter().flat_map(|it| &it.variants);
        ui::note(match variants.any(|variant| !variant.runs.is_empty()) {
            true => "interrupted: these are the runs so far",
            false => "interrupted before the first run ended",
        });
        return Ok(ExitCode::from(interrupt::exit_code()));
    }
    let roles = [Role::Baseline, Role::BaselineCopy, Role::Candidate];
    Ok(match any_failed(&overview, &roles) {
        true => ExitCode::from(exit::COMMAND_FAILED),
        false => ExitCode::SUCCESS,
    })
}

fn was_interrupted(results: &Results) -> bool {
    let mut benchmarks = results.benchmarks.iter();
    benchmarks.any(|benchmark| benchmark.ended == Ending::Interrupted)
}

/// Whether a run of a variant in one of these roles crashed, or printed something else.
pub(crate) fn any_failed(overview: &Overview<'_>, roles: &[Role]) -> bool {
    overview.benchmarks.iter().any(|findings| {
        let mut variants = findings.benchmark.variants.iter().zip(&findings.failures);
        variants.any(|(variant, failures)| roles.contains(&variant.role) && failures.count() > 0)
    })
}
