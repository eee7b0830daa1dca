//! The tables of the page: a row for each variant, a column for each number of threads or for each way to run.

use super::{DIRECTORY, WASMTIME_32, WASMTIME_SWEEP};
use crate::table::Table;
use anyhow::{Context, Result, bail};
use reheap_bench::analysis::Analysis;
use reheap_bench::figures;
use reheap_bench::findings::Findings;
use reheap_bench::results::{Benchmark, Quantity, Results, Role};
use std::path::Path;
use xtask::files;

/// The page, in the directory of the measurements.
pub(crate) const PAGE: &str = "published-results.md";
/// The page of a directory that has none yet.
pub(crate) const SKELETON: &str = include_str!("skeleton.txt");

/// A column: what it is called, and the quantity of a benchmark that it shows.
struct Column<'a> {
    title: String,
    findings: Findings<'a>,
    quantity: Quantity,
}

/// What is between the two comments of that name.
pub(crate) fn block(directory: &Path, name: &str) -> Result<String> {
    let raw = directory.join(DIRECTORY);
    let resident = || Quantity::Metric("resident".to_owned());
    let throughput = || Quantity::Metric("lines/s".to_owned());
    match name {
        "passwords" | "churn" => table(&raw, &[(name, &threads, Quantity::Wall)]),
        "throughput" => table(&raw, &[("tokenize", &threads, throughput())]),
        "resident" => table(&raw, &[("tokenize", &threads, resident())]),
        "wasmtime" => table(
            &raw,
            &[
                (WASMTIME_SWEEP, &compilation, Quantity::Wall),
                (WASMTIME_32, &|_| "32 threads".to_owned(), Quantity::Wall),
            ],
        ),
        "readers-preloaded" | "readers-static" => {
            let with_malloc = format!("{name}-malloc");
            table(
                &raw,
                &[
                    (name, &|_| "Python's own pools".to_owned(), Quantity::Wall),
                    (
                        &with_malloc,
                        &|_| "all from malloc".to_owned(),
                        Quantity::Wall,
                    ),
                ],
            )
        }
        _ => bail!("the page has a block `{name}`, which nothing writes"),
    }
}

fn threads(benchmark: &Benchmark) -> String {
    match benchmark.parameters.get("threads").map(String::as_str) {
        Some("1") => "1 thread".to_owned(),
        Some(threads) => threads.to_owned(),
        None => String::new(),
    }
}

fn compilation(benchmark: &Benchmark) -> String {
    match benchmark.parameters.get("parallel").map(String::as_str) {
        Some("n") => "`parallel-compilation=n`".to_owned(),
        _ => "a thread for each processor".to_owned(),
    }
}

/// Where a column's raw data is, how it is called, and what it shows.
type Source<'a> = (&'a str, &'a dyn Fn(&Benchmark) -> String, Quantity);

/// A row for each variant; each cell has the median, and in brackets its ratio to the first row's.
fn table(raw: &Path, sources: &[Source<'_>]) -> Result<String> {
    let mut read = Vec::new();
    for (name, title, quantity) in sources {
        let path = raw.join(format!("{name}.json"));
        if !path.exists() {
            return Ok("Not measured.\n".to_owned());
        }
        let results: Results = files::read_json(&path)?;
        read.push((results, title, quantity));
    }
    let mut columns = Vec::new();
    for (results, title, quantity) in &read {
        columns.extend(results.benchmarks.iter().map(|benchmark| Column {
            title: title(benchmark),
            findings: Findings::of(results, benchmark),
            quantity: (*quantity).clone(),
        }));
    }
    let first = &columns.first().context("there is no benchmark")?.findings;
    let mut header = vec!["variant".to_owned()];
    header.extend(columns.iter().map(|column| column.title.clone()));
    let mut table = Table::with_header(header);
    for variant in &first.benchmark.variants {
        if variant.role == Role::BaselineCopy {
            continue;
        }
        let mut cells = vec![variant.name.clone()];
        cells.extend(columns.iter().map(|column| column.cell(&variant.name)));
        table.push(cells);
    }
    Ok(table.render())
}

impl Column<'_> {
    fn cell(&self, variant: &str) -> String {
        let analysis = self.findings.analysis(&self.quantity);
        analysis
            .and_then(|analysis| self.figure(analysis, variant))
            .unwrap_or_else(|| "-".to_owned())
    }

    /// `1.23 s (0.45 ↓)`; without brackets for the baseline.
    fn figure(&self, analysis: &Analysis, variant: &str) -> Option<String> {
        let row = analysis.rows.iter().find(|row| row.variant == variant)?;
        let value = row.summary.as_ref()?.median.value;
        let median = match self.quantity {
            Quantity::Metric(ref name) if name == "resident" => figures::bytes(value * 1024.0),
            ref quantity => figures::value(quantity, value),
        };
        let ratio = row.comparison.as_ref().and_then(|comparison| {
            let ratio = comparison.ratio?.value;
            Some(figures::judged(
                comparison.verdict,
                ratio,
                &format!("{ratio:.2}"),
            ))
        });
        Some(match ratio {
            Some(ratio) if row.role != Role::Baseline => format!("{median} ({ratio})"),
            _ => median,
        })
    }
}
