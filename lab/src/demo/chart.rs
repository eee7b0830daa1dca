//! What a benchmark shows, for a terminal: a bar for each variant, and a sentence about the default.

use reheap_bench::analysis::Analysis;
use reheap_bench::compare::title;
use reheap_bench::findings::Findings;
use reheap_bench::results::Quantity;
use std::fmt::Write as _;

/// How many columns the longest bar takes.
const COLUMNS: f64 = 48.0;
const STOCK: &str = "musl";
const DEFAULT: &str = "musl+mimalloc";

/// The chart of a benchmark, with its sentence below.
pub(crate) fn of(findings: &Findings<'_>) -> String {
    let (Some(time), Some(memory)) = (
        findings.analysis(&Quantity::Wall),
        findings.analysis(&Quantity::PeakRss),
    ) else {
        return format!("{}: no run counts\n\n", title(findings.benchmark));
    };
    let longest = findings
        .ranked
        .iter()
        .filter_map(|&place| median(time, place));
    let longest = longest.fold(0.0, f64::max);
    let mut text = format!("{}: time, and peak memory\n", title(findings.benchmark));
    for &place in &findings.ranked {
        let name = &findings.benchmark.variants[place].name;
        let (Some(seconds), Some(bytes)) = (median(time, place), median(memory, place)) else {
            _ = writeln!(text, "  {name:<20} no run counts");
            continue;
        };
        // At least one column: a bar of none would look like a missing one.
        let bar = "█".repeat(((seconds / longest * COLUMNS).round() as usize).max(1));
        let (milliseconds, mebibytes) = (seconds * 1e3, bytes / (1 << 20) as f64);
        _ = writeln!(
            text,
            "  {name:<20} {bar} {milliseconds:.0} ms, {mebibytes:.1} MiB"
        );
    }
    if let Some(sentence) = sentence(findings, time, memory) {
        _ = writeln!(text, "\n  {sentence}");
    }
    text + "\n"
}

/// What mimalloc in musl's libc brings, compared with glibc, the baseline, and with stock musl.
fn sentence(findings: &Findings<'_>, time: &Analysis, memory: &Analysis) -> Option<String> {
    let place = |name| {
        let mut variants = findings.benchmark.variants.iter();
        variants.position(|variant| variant.name == name)
    };
    let (default, stock) = (place(DEFAULT)?, place(STOCK)?);
    let comparison = time.comparison(default)?;
    let percent = (comparison.ratio?.value - 1.0) * 100.0;
    let direction = if percent < 0.0 { "less" } else { "more" };
    let noise = if comparison.verdict.is_claimed() {
        ""
    } else {
        " (within the noise of this machine)"
    };
    let speedup = median(time, stock)? / median(time, default)?;
    let mebibytes = |place| Some(median(memory, place)? / (1 << 20) as f64);
    Some(format!(
        "mimalloc in musl's libc takes {:.0} % {direction} time than glibc{noise},\n  \
         is {speedup:.1} times as fast as stock musl, and needs {:.1} MiB (glibc {:.1}, stock musl {:.1}).",
        percent.abs(),
        mebibytes(default)?,
        mebibytes(place("glibc")?)?,
        mebibytes(stock)?
    ))
}

fn median(analysis: &Analysis, variant: usize) -> Option<f64> {
    Some(analysis.rows[variant].summary.as_ref()?.median.value)
}
