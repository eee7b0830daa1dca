//! `cargo lab measure --scaling`: the same work on one to 32 threads.
//!
//! A machine has only so many processors. What more of them would show, `many_processors.rs` predicts.

use crate::programs::{RustProgram, rust_program};
use crate::table::Table;
use anyhow::{Context, Result};
use reheap_bench::results::{Benchmark, Machine, Results, Role, Variant};
use std::path::Path;
use xtask::files;
use xtask::workspace::Workspace;

/// What takes part in the times.
pub(crate) const VARIANTS: &str = "glibc,glibc+mimalloc,glibc+jemalloc,musl,musl+mimalloc,musl+mimalloc3,musl+jemalloc,\
                                   musl+snmalloc,musl+rpmalloc,musl+mimalloc-secure,musl+hardened_malloc-light";
const PROGRAMS: [&str; 3] = ["churn", "larson", "producers"];
/// Of all threads together.
const AMOUNT: &str = "2000000";
const SWEEP: &str = "threads=1,2,4,8,16,32";
/// In the directory of the measurements.
pub(crate) const DIRECTORY: &str = "scaling";
/// Where the page's links to programs lead: the book of the documentation has no page for what is outside of docs/.
const WORKLOADS: &str = "https://github.com/reheap/reheap/blob/main/workloads";
pub(crate) const PAGE: &str = "scaling.md";

/// The programs, each with one thread to 32.
pub(crate) fn programs(workspace: &Workspace) -> Vec<RustProgram> {
    let program = |package| RustProgram {
        sweep: Some(SWEEP),
        arguments: ["--threads", "{threads}", "--amount", AMOUNT]
            .map(String::from)
            .to_vec(),
        ..rust_program(workspace, package, "Cargo.toml")
    };
    PROGRAMS.map(program).into()
}

/// The page of these raw data.
pub(crate) fn page(directory: &Path) -> Result<String> {
    let read = |name: &str| {
        let path = directory.join(name);
        files::read(&path)
    };
    let mut text = String::new();
    let mut machine = None;
    for program in PROGRAMS {
        let results: Results = serde_json::from_str(&read(&format!("{program}.json"))?)
            .with_context(|| format!("cannot understand {program}.json"))?;
        text += &format!("\n### {program}\n\n{}", times(&results)?.render());
        machine.get_or_insert(results.machine);
    }
    let Machine {
        processor,
        processors,
        kernel,
        load_average,
        ..
    } = machine.context("there are no programs")?;
    let load = load_average.unwrap_or_default();
    Ok(format!(
        "# One to 32 threads\n\n{processor}, {processors} processors, {kernel}, load before {load:.2}.\nMade by `cargo lab \
         measure --scaling`; raw data in [{DIRECTORY}/]({DIRECTORY}/).\n\nEach program does the same work however many \
         threads share it. [churn]({WORKLOADS}/churn/README.md): each thread\nfrees its own blocks. \
         [larson]({WORKLOADS}/larson/README.md): threads end and leave their blocks to others. \
         [producers]({WORKLOADS}/producers/README.md):\nevery block is freed by another thread, and there is a \
         consumer beside each thread that is counted.\n\nMilliseconds by the clock, medians; in brackets the \
         time with 32 threads, compared with that of the\nbest number of threads. With more threads than processors no \
         allocator can be faster, only slower.\n{text}"
    ))
}

/// A row for each variant, a column for each number of threads.
fn times(results: &Results) -> Result<Table> {
    let threads = |benchmark: &Benchmark| -> Option<u64> {
        benchmark.parameters.get("threads")?.parse().ok()
    };
    let mut benchmarks: Vec<(u64, &Benchmark)> = Vec::new();
    for benchmark in &results.benchmarks {
        benchmarks.push((threads(benchmark).context("no threads")?, benchmark));
    }
    benchmarks.sort_by_key(|(threads, _)| *threads);
    let (_, first) = benchmarks.first().context("no benchmark")?;
    let mut header = vec!["variant".to_owned()];
    header.extend(benchmarks.iter().map(|(threads, _)| threads.to_string()));
    header.push("(32 / best)".to_owned());
    let mut table = Table::with_header(header);
    for variant in first
        .variants
        .iter()
        .filter(|variant| variant.role != Role::BaselineCopy)
    {
        let medians: Vec<f64> = benchmarks
            .iter()
            .filter_map(|(_, benchmark)| {
                let mut variants = benchmark.variants.iter();
                let same = variants.find(|other| other.name == variant.name);
                median_milliseconds(same?)
            })
            .collect();
        let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
        let Some(last) = medians.last().filter(|_| medians.len() == benchmarks.len()) else {
            continue;
        };
        let mut cells = vec![variant.name.clone()];
        cells.extend(medians.iter().map(|median| format!("{median:.0}")));
        cells.push(format!("({:.2})", last / best));
        table.push(cells);
    }
    Ok(table)
}

fn median_milliseconds(variant: &Variant) -> Option<f64> {
    let mut times: Vec<f64> = variant
        .runs
        .iter()
        .map(|run| run.cost.wall_seconds * 1e3)
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}
