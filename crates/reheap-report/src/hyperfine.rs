//! What hyperfine's `--export-json` writes, for the scripts that read it.
//!
//! hyperfine 2.0 changed the format: version 1 has one list of times for each command, version 2 (`schema_version: 2`)
//! has an object with units for each run. Most scripts still read the former; none can read both from one object,
//! because `parameters` has the same name and another shape. So both are here, and the caller chooses.
//!
//! Facts: `src/benchmark/benchmark_result.rs` of hyperfine 1.20.0; `src/export/json.rs`, `src/benchmark/measurement.rs`
//! and `CHANGELOG.md` of hyperfine 2.0.0. hyperfine names a command by its command line or by `--command-name`; here
//! the name is the variant's. It writes no exit code for a command that a signal ended.

use crate::escape::shell;
use crate::view::views;
use reheap_bench::analysis::Failures;
use reheap_bench::overview::Overview;
use reheap_bench::results::{Benchmark, Outcome, Quantity, Results, Run, Variant};
use reheap_bench::stats::Sample;
use serde::Serialize;
use std::collections::BTreeMap;

/// Which of hyperfine's formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HyperfineFormat {
    /// That of hyperfine 1.x.
    One,
    /// That of hyperfine 2.0.
    Two,
}

/// All variants with their runs as hyperfine writes them.
///
/// Variants without a run are left out, because hyperfine has a mean for each. Runs that failed are left out too, as in all
/// figures, unless there are no others: hyperfine has no way to tell them apart in its means.
pub fn hyperfine_json(overview: &Overview<'_>, format: HyperfineFormat) -> String {
    let text = match format {
        HyperfineFormat::One => serde_json::to_string_pretty(&FirstFormat {
            results: measured(overview)
                .map(|measured| FirstResult::of(&measured))
                .collect(),
        }),
        HyperfineFormat::Two => serde_json::to_string_pretty(&SecondFormat {
            schema_version: 2,
            metadata: Metadata::of(overview.files),
            primary_metric: "time_wall_clock",
            results: measured(overview)
                .map(|measured| SecondResult::of(&measured))
                .collect(),
        }),
    };
    let mut text = text.expect("all keys are strings");
    text.push('\n');
    text
}

/// A variant that was run at least once.
struct Measured<'a> {
    name: String,
    benchmark: &'a Benchmark,
    variant: &'a Variant,
    runs: Vec<&'a Run>,
}

fn measured<'a>(overview: &'a Overview<'a>) -> impl Iterator<Item = Measured<'a>> {
    views(overview).into_iter().flat_map(|view| {
        let (benchmark, of) = (view.findings.benchmark, view.qualified);
        let variants = benchmark.variants.iter().zip(&view.findings.failures);
        let run = variants.filter(|(variant, _)| !variant.runs.is_empty());
        run.map(move |(variant, failures)| Measured {
            name: match &of {
                Some(of) => format!("{}, {of}", variant.name),
                None => variant.name.clone(),
            },
            benchmark,
            variant,
            runs: counting(variant, failures),
        })
    })
}

fn counting<'a>(variant: &'a Variant, failures: &Failures) -> Vec<&'a Run> {
    let runs = || variant.runs.iter();
    let counting: Vec<&Run> = runs()
        .filter(|run| !failures.rounds.contains(&run.round))
        .collect();
    if counting.is_empty() {
        runs().collect()
    } else {
        counting
    }
}

#[derive(Serialize)]
struct FirstFormat<'a> {
    results: Vec<FirstResult<'a>>,
}

#[derive(Serialize)]
struct FirstResult<'a> {
    command: String,
    mean: f64,
    stddev: Option<f64>,
    median: f64,
    user: f64,
    system: f64,
    min: f64,
    max: f64,
    times: Vec<f64>,
    memory_usage_byte: Vec<u64>,
    exit_codes: Vec<Option<i32>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: &'a BTreeMap<String, String>,
}

impl<'a> FirstResult<'a> {
    fn of(measured: &Measured<'a>) -> FirstResult<'a> {
        let runs = &measured.runs;
        let times = values(runs, &Quantity::Wall);
        let summary = Summary::of(&times, "second");
        FirstResult {
            command: measured.name.clone(),
            mean: summary.mean,
            stddev: summary.stddev,
            median: summary.median,
            user: mean(&values(runs, &Quantity::User)),
            system: mean(&values(runs, &Quantity::System)),
            min: summary.min,
            max: summary.max,
            times,
            memory_usage_byte: runs.iter().map(|run| run.cost.peak_rss_bytes).collect(),
            exit_codes: runs.iter().map(|run| exit_code(run)).collect(),
            parameters: &measured.benchmark.parameters,
        }
    }
}

#[derive(Serialize)]
struct SecondFormat<'a> {
    schema_version: u32,
    metadata: Metadata<'a>,
    primary_metric: &'static str,
    results: Vec<SecondResult<'a>>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    /// Whose format it is; that it was reheap that measured has no place.
    hyperfine_version: &'static str,
    start_time: Option<&'a str>,
    platform: Platform<'a>,
}

#[derive(Serialize)]
struct Platform<'a> {
    os: &'static str,
    architecture: Option<&'a str>,
}

impl<'a> Metadata<'a> {
    /// There is room for one machine: the first file's.
    fn of(all: &'a [Results]) -> Metadata<'a> {
        Metadata {
            hyperfine_version: "2.0.0",
            start_time: all.first().map(|results| results.started_at.as_str()),
            platform: Platform {
                os: "Linux",
                architecture: all
                    .first()
                    .map(|results| results.machine.architecture.as_str()),
            },
        }
    }
}

#[derive(Serialize)]
struct SecondResult<'a> {
    command: String,
    name: String,
    measurements: Vec<Measurement>,
    summary: BTreeMap<&'static str, Summary>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<&'a str, Value<&'a str>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    environment: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Measurement {
    time_wall_clock: Value<f64>,
    time_cpu: Value<f64>,
    time_user: Value<f64>,
    time_system: Value<f64>,
    memory_peak_resident: Value<u64>,
    exit_code: Option<i32>,
}

#[derive(Serialize)]
struct Value<T> {
    value: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<&'static str>,
}

impl<'a> SecondResult<'a> {
    fn of(measured: &Measured<'a>) -> SecondResult<'a> {
        const SUMMARISED: [(&str, Quantity, &str); 5] = [
            ("time_wall_clock", Quantity::Wall, "second"),
            ("time_cpu", Quantity::Cpu, "second"),
            ("time_user", Quantity::User, "second"),
            ("time_system", Quantity::System, "second"),
            ("memory_peak_resident", Quantity::PeakRss, "byte"),
        ];
        let variant = measured.variant;
        let parameters = measured.benchmark.parameters.iter();
        SecondResult {
            command: shell(&variant.command),
            name: measured.name.clone(),
            measurements: measured
                .runs
                .iter()
                .map(|run| Measurement::of(run))
                .collect(),
            summary: SUMMARISED
                .iter()
                .map(|(key, quantity, unit)| {
                    (*key, Summary::of(&values(&measured.runs, quantity), unit))
                })
                .collect(),
            parameters: parameters
                .map(|(name, value)| {
                    (
                        name.as_str(),
                        Value {
                            value: value.as_str(),
                            unit: None,
                        },
                    )
                })
                .collect(),
            environment: &variant.environment,
        }
    }
}

impl Measurement {
    fn of(run: &Run) -> Measurement {
        let seconds = |value| Value {
            value,
            unit: Some("second"),
        };
        Measurement {
            time_wall_clock: seconds(run.cost.wall_seconds),
            time_cpu: seconds(run.cost.cpu_seconds()),
            time_user: seconds(run.cost.user_seconds),
            time_system: seconds(run.cost.system_seconds),
            memory_peak_resident: Value {
                value: run.cost.peak_rss_bytes,
                unit: Some("byte"),
            },
            exit_code: exit_code(run),
        }
    }
}

/// The figures that hyperfine gives; it has a mean and a standard deviation where reheap has medians.
#[derive(Serialize)]
struct Summary {
    unit: &'static str,
    count: usize,
    mean: f64,
    stddev: Option<f64>,
    median: f64,
    min: f64,
    max: f64,
}

impl Summary {
    fn of(values: &[f64], unit: &'static str) -> Summary {
        let sample =
            Sample::new(values.iter().copied()).expect("there is a run, and costs are finite");
        let mean = mean(values);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Summary {
            unit,
            count: values.len(),
            mean,
            stddev: (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt()),
            median: sample.median(),
            min: sample.min(),
            max: sample.max(),
        }
    }
}

fn values(runs: &[&Run], quantity: &Quantity) -> Vec<f64> {
    runs.iter().filter_map(|run| quantity.of(run)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn exit_code(run: &Run) -> Option<i32> {
    match run.outcome {
        Outcome::Exited(code) => Some(code),
        Outcome::Signalled(_) | Outcome::TimedOut | Outcome::OutOfMemory => None,
    }
}
