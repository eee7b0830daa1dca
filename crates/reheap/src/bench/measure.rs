//! From variants that are ready to results, and from results to an exit code.

use crate::bench::interrupt;
use crate::bench::options::{MeasuringArguments, Outputs, Server};
use crate::bench::progress::Bar;
use crate::bench::ready::Ready;
use crate::bench::write;
use crate::ui::{self, Failure};
use reheap_bench::analysis::Failures;
use reheap_bench::experiment::{self, MeasureError, Plan};
use reheap_bench::machine;
use reheap_bench::metrics::Metric;
use reheap_bench::results::{Benchmark, Ending, FORMAT, LeftOut, Results, Settings};
use reheap_bench::run::{CommandLine, Launcher, Limits};
use reheap_bench::server;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

/// Exit code for a variant that crashed, or printed something else than the baseline.
const VARIANT_FAILED: u8 = 4;
/// Exit code after Ctrl-C, as shells give it.
const INTERRUPTED: u8 = 130;

/// How to measure whatever variants there are; checked, before anything is built.
pub(crate) struct Comparison {
    pub(crate) settings: Settings,
    pub(crate) launcher: Launcher,
    pub(crate) interrupted: Arc<AtomicBool>,
    pub(crate) input: Option<PathBuf>,
    pub(crate) server: Option<Server>,
    name: String,
    sweep: Vec<BTreeMap<String, String>>,
    memory_limits_bytes: Vec<Option<u64>>,
    metrics: Vec<Metric>,
    started: SystemTime,
}

impl Comparison {
    /// Checks the arguments. The name tells in reports what was run.
    pub(crate) fn new(
        arguments: &MeasuringArguments,
        name: String,
        server: Option<Server>,
    ) -> anyhow::Result<Self> {
        let limits = arguments.memory_limit.iter().copied().map(Some);
        let mut memory_limits_bytes: Vec<Option<u64>> = limits.collect();
        if memory_limits_bytes.is_empty() {
            memory_limits_bytes.push(None);
        }
        Ok(Self {
            settings: arguments.settings()?,
            launcher: Launcher::new()?,
            interrupted: interrupt::on_signals()?,
            input: arguments.input()?,
            server,
            name,
            sweep: arguments.sweep()?,
            memory_limits_bytes,
            metrics: arguments.metrics()?,
            started: SystemTime::now(),
        })
    }

    /// The values of the first comparison of a sweep: what a variant is tried out with.
    pub(crate) fn first_parameters(&self) -> &BTreeMap<String, String> {
        &self.sweep[0]
    }

    /// Measures the variants, the first being the baseline, with each value of the sweep and under each memory limit.
    pub(crate) fn run(&self, variants: &[Ready], left_out: &[LeftOut]) -> anyhow::Result<Results> {
        let mut results = self.without_benchmarks();
        for parameters in &self.sweep {
            for &memory_limit_bytes in &self.memory_limits_bytes {
                let settings = self.settings.clone();
                let benchmark =
                    self.benchmark(variants, left_out, parameters, memory_limit_bytes, settings)?;
                let ended = benchmark.ended;
                results.benchmarks.push(benchmark);
                if ended == Ending::Interrupted {
                    return Ok(results);
                }
            }
        }
        Ok(results)
    }

    /// Whether more than one comparison was asked for.
    pub(crate) fn is_sweep(&self) -> bool {
        self.sweep.len() * self.memory_limits_bytes.len() > 1
    }

    /// Runs a command once, without looking at how it ends: as a server under its load, if it is one.
    pub(crate) fn try_out(&self, mut command: CommandLine) -> anyhow::Result<()> {
        command.input = self.input.clone();
        let limits = Limits {
            time: self
                .settings
                .time_limit_seconds
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            memory: None,
            interrupted: Some(&self.interrupted),
        };
        match &self.server {
            Some(server) => {
                let load = server.load(self.first_parameters())?;
                server::serve(&self.launcher, &command, &load, &limits, &[])?;
            }
            None => {
                self.launcher.run(&command, &limits, &[])?;
            }
        }
        Ok(())
    }

    /// Measures the variants, the first being the baseline, in one setting.
    pub(crate) fn benchmark(
        &self,
        variants: &[Ready],
        left_out: &[LeftOut],
        parameters: &BTreeMap<String, String>,
        memory_limit_bytes: Option<u64>,
        settings: Settings,
    ) -> anyhow::Result<Benchmark> {
        let mut planned = Vec::new();
        for (index, variant) in variants.iter().enumerate() {
            planned.push(variant.planned(parameters, self.input.as_ref())?);
            if index == 0 {
                planned.push(variant.copy().planned(parameters, self.input.as_ref())?);
            }
        }
        let plan = Plan {
            name: self.name.clone(),
            parameters: parameters.clone(),
            memory_limit_bytes,
            metrics: self.metrics.clone(),
            variants: planned,
            left_out: left_out.to_vec(),
            settings,
            load: match &self.server {
                Some(server) => Some(server.load(parameters)?),
                None => None,
            },
        };
        let mut bar = Bar::new(&plan);
        let measured = experiment::measure(&self.launcher, &plan, &self.interrupted, &mut bar);
        bar.finish();
        measured.map_err(|error| match error {
            MeasureError::NoMemoryLimit(reason) => {
                Failure::failed(format!("cannot measure under a memory limit: {reason}")).into()
            }
            other => anyhow::Error::new(other),
        })
    }

    /// A file of results that has none yet.
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
    // Cargo starts `cargo-reheap reheap bench` for what a person typed as `cargo reheap bench`.
    let name = if name == "cargo-reheap" {
        "cargo"
    } else {
        name
    };
    std::iter::once(name.to_owned()).chain(arguments).collect()
}

/// Writes the results, and says with the exit code whether all variants did what the baseline does.
pub(crate) fn finish(results: Results, outputs: &Outputs) -> anyhow::Result<ExitCode> {
    let interrupted = results
        .benchmarks
        .iter()
        .any(|benchmark| benchmark.ended == Ending::Interrupted);
    let failed = results.benchmarks.iter().any(|benchmark| {
        let output = results.settings.output;
        let mut variants = benchmark.variants.iter();
        variants.any(|variant| Failures::of(benchmark, variant, output).count() > 0)
    });
    write::all(std::slice::from_ref(&results), outputs)?;
    Ok(if interrupted {
        ui::note("interrupted: these are the runs so far");
        ExitCode::from(INTERRUPTED)
    } else if failed {
        ExitCode::from(VARIANT_FAILED)
    } else {
        ExitCode::SUCCESS
    })
}
