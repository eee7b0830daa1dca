//! What hyperfine 1.x's `--export-json` writes, for the scripts that read it.
//!
//! hyperfine 2.0 has another format, with units. Most scripts read the older one.
//!
//! Facts: `src/benchmark/benchmark_result.rs` of hyperfine 1.20.0. hyperfine names a command by its command line or by
//! `--command-name`; here the name is the variant's. It writes no exit code for a command that a signal ended.

use crate::view::views;
use reheap_bench::analysis::Failures;
use reheap_bench::overview::Overview;
use reheap_bench::results::{Benchmark, Outcome, Quantity, Run, Variant};
use reheap_stats::Sample;
use serde::Serialize;
use std::collections::BTreeMap;

/// All variants with their runs as hyperfine writes them.
///
/// Variants without a run are left out, because hyperfine has a mean for each. Runs that failed are left out too, as in all
/// figures, unless there are no others: hyperfine has no way to tell them apart in its means.
pub fn hyperfine_json(overview: &Overview<'_>) -> String {
    let results = measured(overview).map(|measured| Entry::of(&measured));
    let written = Written {
        results: results.collect(),
    };
    let mut text = serde_json::to_string_pretty(&written).expect("all keys are strings");
    text.push('\n');
    text
}

/// A variant that was run at least once.
struct Measured<'a> {
    name: String,
    benchmark: &'a Benchmark,
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
struct Written<'a> {
    results: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
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

impl<'a> Entry<'a> {
    /// hyperfine has a mean and a standard deviation where reheap has medians.
    fn of(measured: &Measured<'a>) -> Entry<'a> {
        let runs = &measured.runs;
        let times = values(runs, &Quantity::Wall);
        let sample =
            Sample::new(times.iter().copied()).expect("there is a run, and costs are finite");
        let mean_time = mean(&times);
        let squares: f64 = times.iter().map(|time| (time - mean_time).powi(2)).sum();
        Entry {
            command: measured.name.clone(),
            mean: mean_time,
            stddev: (times.len() > 1).then(|| (squares / (times.len() - 1) as f64).sqrt()),
            median: sample.median(),
            user: mean(&values(runs, &Quantity::User)),
            system: mean(&values(runs, &Quantity::System)),
            min: sample.min(),
            max: sample.max(),
            times,
            memory_usage_byte: runs.iter().map(|run| run.cost.peak_rss_bytes).collect(),
            exit_codes: runs.iter().map(|run| exit_code(run)).collect(),
            parameters: &measured.benchmark.parameters,
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
