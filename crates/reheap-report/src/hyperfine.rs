//! What hyperfine's `--export-json` writes, for the scripts that read it.
//!
//! hyperfine 2.0 changed the format: version 1 has one list of times for each command, version 2 (`schema_version: 2`)
//! has an object with units for each run. Most scripts still read the former; none can read both from one object,
//! because `parameters` has the same name and another shape. So both are here, and the caller chooses.
//!
//! Facts: `src/benchmark/benchmark_result.rs` of hyperfine 1.20.0; `src/export/json.rs`, `src/benchmark/measurement.rs`
//! and `CHANGELOG.md` of hyperfine 2.0.0. hyperfine names a command by its command line or by `--command-name`; here the
//! name is the variant's. It writes no exit code for a command that a signal ended.

use crate::escape::shell;
use crate::names;
use reheap_bench::results::{Benchmark, Outcome, Quantity, Results, Run, Variant};
use reheap_bench::stats::Sample;
use serde::Serialize;
use serde_json::{Value, json};
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
/// Variants without a run are left out, because hyperfine has a mean for each.
pub fn hyperfine_json(all: &[Results], format: HyperfineFormat) -> String {
    let several = names::several(all);
    let mut written = Vec::new();
    for results in all {
        for benchmark in &results.benchmarks {
            for variant in benchmark
                .variants
                .iter()
                .filter(|variant| !variant.runs.is_empty())
            {
                let name = match names::qualified(results, benchmark, several) {
                    Some(of) => format!("{} ({of})", variant.name),
                    None => variant.name.clone(),
                };
                written.push(match format {
                    HyperfineFormat::One => first_format(name, benchmark, variant),
                    HyperfineFormat::Two => second_format(name, benchmark, variant),
                });
            }
        }
    }
    let document = match format {
        HyperfineFormat::One => json!({ "results": written }),
        HyperfineFormat::Two => json!({
            "schema_version": 2,
            "metadata": metadata(all),
            "primary_metric": "time_wall_clock",
            "results": written,
        }),
    };
    let mut text = serde_json::to_string_pretty(&document).expect("all keys are strings");
    text.push('\n');
    text
}

fn first_format(name: String, benchmark: &Benchmark, variant: &Variant) -> Value {
    #[derive(Serialize)]
    struct Written<'a> {
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
    let times = values(variant, &Quantity::Wall);
    let summary = Summary::of(&times);
    let written = Written {
        command: name,
        mean: summary.mean,
        stddev: summary.stddev,
        median: summary.median,
        user: mean(&values(variant, &Quantity::User)),
        system: mean(&values(variant, &Quantity::System)),
        min: summary.min,
        max: summary.max,
        times,
        memory_usage_byte: variant
            .runs
            .iter()
            .map(|run| run.cost.peak_rss_bytes)
            .collect(),
        exit_codes: variant.runs.iter().map(exit_code).collect(),
        parameters: &benchmark.parameters,
    };
    serde_json::to_value(written).expect("all keys are strings")
}

fn second_format(name: String, benchmark: &Benchmark, variant: &Variant) -> Value {
    const MEASURED: [(&str, Quantity, &str); 5] = [
        ("time_wall_clock", Quantity::Wall, "second"),
        ("time_cpu", Quantity::Cpu, "second"),
        ("time_user", Quantity::User, "second"),
        ("time_system", Quantity::System, "second"),
        ("memory_peak_resident", Quantity::PeakRss, "byte"),
    ];
    let measurements: Vec<Value> = variant
        .runs
        .iter()
        .map(|run| {
            let mut measurement: serde_json::Map<String, Value> = MEASURED
                .iter()
                .map(|(key, quantity, unit)| {
                    (
                        key.to_string(),
                        json!({ "value": quantity.of(run), "unit": unit }),
                    )
                })
                .collect();
            measurement.insert("exit_code".to_owned(), json!(exit_code(run)));
            Value::Object(measurement)
        })
        .collect();
    let summary: serde_json::Map<String, Value> = MEASURED
        .iter()
        .map(|(key, quantity, unit)| {
            let mut of = serde_json::to_value(Summary::of(&values(variant, quantity)))
                .expect("all keys are strings");
            of["unit"] = json!(unit);
            (key.to_string(), of)
        })
        .collect();
    let mut written = json!({
        "command": shell(&variant.command),
        "name": name,
        "measurements": measurements,
        "summary": summary,
    });
    if !benchmark.parameters.is_empty() {
        written["parameters"] = benchmark
            .parameters
            .iter()
            .map(|(name, value)| (name.clone(), json!({ "value": value })))
            .collect();
    }
    if !variant.environment.is_empty() {
        written["environment"] = json!(variant.environment);
    }
    written
}

/// The version that is written is that of the format, not that of reheap.
fn metadata(all: &[Results]) -> Value {
    let first = all.first();
    json!({
        "hyperfine_version": "2.0.0",
        "start_time": first.map(|results| &results.started_at),
        "platform": {
            "os": "Linux",
            "architecture": first.map(|results| &results.machine.architecture),
        },
    })
}

/// The figures that hyperfine gives; it has a mean and a standard deviation where reheap has medians.
#[derive(Serialize)]
struct Summary {
    count: usize,
    mean: f64,
    stddev: Option<f64>,
    median: f64,
    min: f64,
    max: f64,
}

impl Summary {
    fn of(values: &[f64]) -> Summary {
        let sample =
            Sample::new(values.iter().copied()).expect("there is a run, and costs are finite");
        let mean = mean(values);
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Summary {
            count: values.len(),
            mean,
            stddev: (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt()),
            median: sample.median(),
            min: sample.min(),
            max: sample.max(),
        }
    }
}

fn values(variant: &Variant, quantity: &Quantity) -> Vec<f64> {
    variant
        .runs
        .iter()
        .filter_map(|run| quantity.of(run))
        .collect()
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
