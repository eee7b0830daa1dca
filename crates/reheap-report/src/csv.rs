//! One line for each run, with all that was seen of it: for spreadsheets, R and pandas.
//!
//! Parameters and metrics differ between benchmarks; each name of any of them is a column, empty where a benchmark has
//! none of that name. Values are plain numbers in seconds and bytes, as the column's name says.

use reheap_bench::overview::Overview;
use reheap_bench::results::{Benchmark, Results, Run, Variant};
use std::borrow::Cow;
use std::collections::BTreeSet;

const COLUMNS: [&str; 31] = [
    "machine",
    "architecture",
    "started_at",
    "benchmark",
    "memory_limit_bytes",
    "variant",
    "role",
    "allocator",
    "allocator_version",
    "round",
    "position",
    "started_seconds",
    "outcome",
    "failed",
    "wall_seconds",
    "user_seconds",
    "system_seconds",
    "peak_rss_bytes",
    "mean_rss_bytes",
    "minor_faults",
    "major_faults",
    "voluntary_context_switches",
    "involuntary_context_switches",
    "instructions",
    "cycles",
    "cache_misses",
    "tlb_misses",
    "executable_bytes",
    "stdout_bytes",
    "stdout_sha256",
    "command",
];

/// All runs of all files as CSV with a heading, quoted as RFC 4180 says.
pub fn csv(overview: &Overview<'_>) -> String {
    let all = &overview.benchmarks;
    let parameters: BTreeSet<&str> = all
        .iter()
        .flat_map(|findings| findings.benchmark.parameters.keys().map(String::as_str))
        .collect();
    let metrics: BTreeSet<&str> = all
        .iter()
        .flat_map(|findings| &findings.benchmark.variants)
        .flat_map(|variant| &variant.runs)
        .flat_map(|run| run.metrics.keys().map(String::as_str))
        .collect();
    let mut table = String::new();
    let mut write = |fields: Vec<String>| {
        let fields: Vec<Cow<'_, str>> = fields.iter().map(|field| quoted(field)).collect();
        table.push_str(&fields.join(","));
        table.push('\n');
    };
    let fixed = COLUMNS.into_iter().map(str::to_owned);
    let parameter_columns = parameters.iter().map(|name| format!("parameter.{name}"));
    let metric_columns = metrics.iter().map(|name| format!("metric.{name}"));
    write(
        fixed
            .chain(parameter_columns)
            .chain(metric_columns)
            .collect(),
    );
    for findings in all {
        let (results, benchmark) = (findings.results, findings.benchmark);
        let of_benchmark: Vec<String> = parameters
            .iter()
            .map(|&name| benchmark.parameters.get(name).cloned().unwrap_or_default())
            .collect();
        for (variant, failures) in benchmark.variants.iter().zip(&findings.failures) {
            for run in &variant.runs {
                let is_failure = failures.rounds.contains(&run.round);
                let mut fields = fixed_fields(results, benchmark, variant, run, is_failure);
                fields.extend(of_benchmark.iter().cloned());
                fields.extend(metrics.iter().map(|&name| optional(run.metrics.get(name))));
                write(fields);
            }
        }
    }
    table
}

/// In quotes, if anything in it would end the field or the line (RFC 4180, section 2).
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}

/// The fields of [`COLUMNS`], in their order.
fn fixed_fields(
    results: &Results,
    benchmark: &Benchmark,
    variant: &Variant,
    run: &Run,
    is_failure: bool,
) -> Vec<String> {
    let cost = &run.cost;
    let counters = run.counters.unwrap_or_default();
    let allocator = variant.allocator.as_ref();
    vec![
        results.machine.name.clone(),
        results.machine.architecture.clone(),
        results.started_at.clone(),
        benchmark.name.clone(),
        optional(benchmark.memory_limit_bytes),
        variant.name.clone(),
        crate::names::role(variant.role).to_owned(),
        optional(allocator.map(|allocator| &allocator.name)),
        optional(allocator.map(|allocator| &allocator.version)),
        run.round.to_string(),
        run.position.to_string(),
        run.started_seconds.to_string(),
        run.outcome.to_string(),
        is_failure.to_string(),
        cost.wall_seconds.to_string(),
        cost.user_seconds.to_string(),
        cost.system_seconds.to_string(),
        cost.peak_rss_bytes.to_string(),
        optional(cost.mean_rss_bytes),
        cost.minor_faults.to_string(),
        cost.major_faults.to_string(),
        cost.voluntary_context_switches.to_string(),
        cost.involuntary_context_switches.to_string(),
        optional(counters.instructions),
        optional(counters.cycles),
        optional(counters.cache_misses),
        optional(counters.tlb_misses),
        optional(variant.executable_bytes),
        run.stdout_bytes.to_string(),
        run.stdout_sha256.clone(),
        crate::escape::shell(&variant.command),
    ]
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}
