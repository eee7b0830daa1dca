//! The page of what was measured, and its chart.

use super::measured::{DIRECTORY, GLIBC, GRAFTED, MEASURED, Measured, RELEASED};
use crate::pages::answers;
use crate::pages::chart::{Bar, draw};
use crate::pages::ratios::{Benchmark, Kind, Of, Ratios};
use crate::start;
use crate::table::Table;
use anyhow::{Context, Result};
use reheap_bench::analysis::Analysis;
use reheap_bench::figures;
use reheap_bench::findings::Findings;
use reheap_bench::results::{Quantity, Results};
use std::path::Path;
use xtask::files;

/// In the directory of the measurements.
pub(crate) const PAGE: &str = "graft.md";
pub(crate) const CHART: &str = "graft.svg";
/// The programs of the chart: those that have a glibc release, and the first of them.
const SHOWN: usize = 5;

/// Each program after the graft, and its glibc release, relative to what was released.
pub(crate) fn chart(measured: &[(String, Results)], day: &str) -> Result<String> {
    let ratios = Ratios::of(measured);
    let benchmark = |name: &str| -> Option<&Benchmark> {
        let mut benchmarks = ratios.benchmarks.iter();
        benchmarks.find(|benchmark| benchmark.title == name)
    };
    let shown = MEASURED.iter().filter_map(|row| benchmark(row.name));
    let shown: Vec<&Benchmark> = shown.take(SHOWN).collect();
    let mut bars = Vec::new();
    for (index, benchmark) in shown.iter().enumerate() {
        let bar = |variant, label, kind, begins_group| Bar {
            label,
            kind,
            begins_group,
            ratios: [Of::Time, Of::Memory].map(|of| Some(benchmark.ratio(variant, of)?.value)),
            variant,
            dots: &[],
        };
        let name = &benchmark.title;
        bars.push(bar(
            GRAFTED,
            format!("{name}, grafted"),
            Kind::Reheap,
            index > 0,
        ));
        bars.push(bar(
            GLIBC,
            "its glibc release".to_owned(),
            Kind::Known,
            false,
        ));
    }
    let first = shown.first().context("nothing was measured")?;
    let notes = [
        "The dashed line is the static executable as its project released it, with musl's own malloc.".to_owned(),
        format!("Medians of {} interleaved rounds, {day}.", first.rounds),
    ];
    let title = format!(
        "{} released programs, before and after reheap graft",
        shown.len()
    );
    Ok(draw(&title, "as released", &bars, &notes))
}

/// The page of these measurements, which are in this directory.
pub(crate) fn page(directory: &Path, measured: &[(String, Results)]) -> Result<String> {
    let starts = directory.join(start::RAW);
    let starts = if starts.exists() {
        start::of_grafts_table(&files::read(&starts)?)?
    } else {
        "Not measured.\n".to_owned()
    };
    Ok(format!(
        "# Released programs, before and after `reheap graft`\n\n{}\n{}\n![Time and peak memory, relative to what was released]({CHART})\n\n\
         ## Time\n\n{}\n## Processor time\n\n{}\n## Peak memory\n\n{}\n## What a start costs\n\n{starts}\nRaw data: [{DIRECTORY}/]({DIRECTORY}/).\n",
        INTRODUCTION,
        answers::machine(measured, &[]),
        table(measured, &Quantity::Wall)?,
        table(measured, &Quantity::Cpu)?,
        table(measured, &Quantity::PeakRss)?,
    ))
}

const INTRODUCTION: &str = "Static executables from the registries of Python and npm, pinned by version and SHA-256: as their projects \
    released them, with\nmusl's own malloc; the same files after `reheap graft`; and, where there is one, the release of the same version \
    for glibc. Made by\n`cargo lab measure --graft`, which also compares the outputs. The programs and their work are in \
    `lab/src/grafts/measured.rs`.\n";

/// A row for each program: the median of what was released, and the others relative to it.
fn table(measured: &[(String, Results)], quantity: &Quantity) -> Result<String> {
    let mut table = Table::new(["program", RELEASED, GRAFTED, GLIBC]);
    for Measured { name, does, .. } in MEASURED {
        let Some((_, results)) = measured
            .iter()
            .find(|(file, _)| file.strip_suffix(".json") == Some(name))
        else {
            continue;
        };
        let benchmark = results.benchmarks.first().context("no benchmark")?;
        let findings = Findings::of(results, benchmark);
        let analysis = findings.analysis(quantity).context("nothing was counted")?;
        let released = analysis.rows.first().context("no variant")?;
        let median = released.median().context("no run counts")?;
        table.row([
            format!("{name}: {does}"),
            figures::value(quantity, median),
            cell(analysis, GRAFTED),
            cell(analysis, GLIBC),
        ]);
    }
    Ok(table.render())
}

/// The ratio and its interval.
fn cell(analysis: &Analysis, variant: &str) -> String {
    let row = analysis.rows.iter().find(|row| row.variant == variant);
    let comparison = row.and_then(|row| row.comparison);
    let Some((verdict, ratio)) = comparison.and_then(|found| Some((found.verdict, found.ratio?)))
    else {
        return String::new();
    };
    let digits = format!("{:.2}", ratio.value);
    let interval = ratio.interval;
    format!(
        "{} [{:.2}, {:.2}]",
        figures::judged(verdict, ratio.value, &digits),
        interval.low,
        interval.high
    )
}
