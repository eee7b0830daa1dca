//! The long tables: every variant and every program, with intervals.

use crate::table::Table;
use anyhow::Result;
use reheap_bench::analysis::Row;
use reheap_bench::compare::title;
use reheap_bench::figures;
use reheap_bench::findings::Findings;
use reheap_bench::overview::Overview;
use reheap_bench::results::{Quantity, Results, Role};

/// The tables of `reheap report --markdown`, and what they leave out: the average memory.
pub(crate) fn tables(title: &str, results: &[(String, Results)]) -> Result<String> {
    let files: Vec<&str> = results.iter().map(|(name, _)| name.as_str()).collect();
    let all: Vec<Results> = results.iter().map(|(_, results)| results.clone()).collect();
    Ok(format!(
        "# {title}\n\nMade from the raw runs in {}. For the same with charts: `reheap report {} --html report.html`\n\n\
         {}{}",
        files
            .iter()
            .map(|file| format!("[{file}]({file})"))
            .collect::<Vec<_>>()
            .join(", "),
        files.join(" "),
        reheap_report::markdown(&Overview::of(&all)),
        average_memory(&all),
    ))
}

/// The resident memory of each run, averaged over its time, relative to the baseline's; a column for each benchmark
/// whose memory was sampled.
fn average_memory(all: &[Results]) -> String {
    let mut header = vec!["average memory, ratio".to_owned()];
    let mut columns: Vec<Vec<Row>> = Vec::new();
    for results in all {
        for benchmark in &results.benchmarks {
            let findings = Findings::of(results, benchmark);
            if let Some(analysis) = findings.analysis(&Quantity::MeanRss) {
                header.push(title(benchmark));
                columns.push(analysis.rows.clone());
            }
        }
    }
    let Some(first) = columns.first() else {
        return String::new();
    };
    let mut table = Table::with_header(header);
    for named in first.iter().filter(|row| row.role != Role::BaselineCopy) {
        let mut cells = vec![named.variant.clone()];
        for rows in &columns {
            let row = rows.iter().find(|row| row.variant == named.variant);
            cells.push(row.map_or_else(|| "-".to_owned(), cell));
        }
        table.push(cells);
    }
    let what = "The resident memory of a run, sampled, and averaged over its time:";
    format!("\n#### Average memory\n\n{what}\n\n{}", table.render())
}

/// The ratio and its interval; the baseline's own memory.
fn cell(row: &Row) -> String {
    let ratio = row
        .comparison
        .and_then(|comparison| Some((comparison.verdict, comparison.ratio?)));
    match (ratio, &row.summary) {
        (Some((verdict, ratio)), _) => format!(
            "{} [{:.2}, {:.2}]",
            figures::judged(verdict, ratio.value, &format!("{:.2}", ratio.value)),
            ratio.interval.low,
            ratio.interval.high
        ),
        (None, Some(summary)) => figures::bytes(summary.median.value),
        (None, None) => "-".to_owned(),
    }
}
