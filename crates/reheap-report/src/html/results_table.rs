//! The table of a benchmark: figures, ratios, and the ratios once more as a drawing.

use crate::chart::{self, Interval};
use crate::escape;
use crate::view::{Shown, View, Weight};
use crate::{numbers, words};
use reheap_bench::analysis::{Analysis, Comparison, Verdict};
use reheap_bench::figures;
use reheap_bench::results::{Quantity, Role};
use reheap_bench::stats::interval::CONFIDENCE;

/// The headings and the rows of a benchmark.
pub(super) struct ResultsTable {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<TableRow>,
}

impl ResultsTable {
    pub(super) fn of(view: &View<'_>) -> ResultsTable {
        let plots: Vec<Plots> = view
            .columns
            .iter()
            .map(|analysis| Plots::of(view, analysis))
            .collect();
        ResultsTable {
            columns: view
                .columns
                .iter()
                .flat_map(|analysis| columns(view, analysis))
                .collect(),
            rows: view
                .shown
                .iter()
                .map(|shown| table_row(view, shown, &plots))
                .collect(),
        }
    }
}

/// A variant.
pub(super) struct TableRow {
    /// Escaped, with places where it may be broken.
    pub(super) name: String,
    pub(super) swatch: String,
    pub(super) below: Option<String>,
    pub(super) failed: Option<String>,
    pub(super) cells: Vec<TableCell>,
}

/// A figure or a ratio.
pub(super) struct TableCell {
    pub(super) label: String,
    pub(super) text: String,
    pub(super) spread: String,
    pub(super) class: &'static str,
    pub(super) verdict: &'static str,
    pub(super) svg: String,
}

/// The ratios of a quantity on one axis, if there is anything to compare.
struct Plots {
    axis: Option<chart::Axis>,
    noise: Option<(f64, f64)>,
}

impl Plots {
    fn of(view: &View<'_>, analysis: &Analysis) -> Plots {
        let intervals: Vec<Interval> = view
            .shown
            .iter()
            .filter_map(|shown| analysis.comparison(shown.index))
            .filter_map(plotted)
            .collect();
        let is_plotted = view.weight(&analysis.quantity) == Weight::Decides
            || analysis.quantity == Quantity::PeakRss;
        Plots {
            axis: (is_plotted && !intervals.is_empty()).then(|| chart::interval_axis(&intervals)),
            noise: None,
        }
    }
}

fn plotted(comparison: &Comparison) -> Option<Interval> {
    let estimate = comparison.ratio?;
    let is_certain = estimate.interval.confidence >= CONFIDENCE;
    is_certain.then_some(Interval {
        ratio: estimate.value,
        low: estimate.interval.low,
        high: estimate.interval.high,
    })
}

fn columns(view: &View<'_>, analysis: &Analysis) -> Vec<String> {
    let heading = figures::noun(&analysis.quantity).to_owned();
    match view.weight(&analysis.quantity) {
        Weight::Explains => vec![heading],
        Weight::Matters if analysis.quantity == Quantity::Wall => vec![heading, "ratio".to_owned()],
        Weight::Decides | Weight::Matters => vec![
            heading,
            format!("ratio to {}", words::baseline(view.findings)),
        ],
    }
}

fn table_row(view: &View<'_>, shown: &Shown<'_>, plots: &[Plots]) -> TableRow {
    TableRow {
        name: breakable(&shown.variant.name),
        swatch: shown.tone.swatch(),
        below: match shown.variant.role {
            Role::Baseline => Some("baseline".to_owned()),
            _ => words::allocator(shown),
        },
        failed: (shown.failures.count() > 0).then(|| shown.failures.to_string()),
        cells: view
            .columns
            .iter()
            .zip(plots)
            .flat_map(|(analysis, plots)| cells(view, shown, analysis, plots))
            .collect(),
    }
}

fn cells(view: &View<'_>, shown: &Shown<'_>, analysis: &Analysis, plots: &Plots) -> Vec<TableCell> {
    let row = &analysis.rows[shown.index];
    let quantity = &analysis.quantity;
    let weight = view.weight(quantity);
    let spread = row
        .summary
        .as_ref()
        .filter(|_| plots.axis.is_some())
        .map(numbers::spread);
    let figure = TableCell {
        label: figures::noun(quantity).to_owned(),
        text: numbers::median_text(row, quantity),
        spread: spread.unwrap_or_default(),
        class: if row.summary.is_none() { "empty" } else { "" },
        verdict: "",
        svg: String::new(),
    };
    match weight {
        Weight::Explains => vec![figure],
        Weight::Decides | Weight::Matters => vec![figure, ratio_cell(shown, analysis, plots)],
    }
}

/// The ratio, and below it its place on the column's axis.
fn ratio_cell(shown: &Shown<'_>, analysis: &Analysis, plots: &Plots) -> TableCell {
    let comparison = analysis.rows[shown.index].comparison.as_ref();
    let (text, verdict) = ratio(comparison);
    let title = format!(
        "{}, {}: {text}",
        shown.variant.name,
        figures::noun(&analysis.quantity)
    );
    let axis = plots.axis.as_ref();
    let estimate = comparison.and_then(|comparison| comparison.ratio);
    let spread = estimate
        .filter(|_| plots.axis.is_some())
        .and_then(|estimate| numbers::interval(&estimate));
    TableCell {
        label: "ratio".to_owned(),
        class: match (comparison, &plots.axis) {
            (None, Some(_)) => "plot first",
            (None, None) => "first",
            (Some(_), Some(_)) => "plot",
            (Some(_), None) => "",
        },
        verdict,
        text,
        spread: spread.unwrap_or_default(),
        svg: axis.map_or_else(String::new, |axis| {
            chart::interval(
                comparison.and_then(plotted).as_ref(),
                plots.noise,
                axis,
                shown.tone,
                &title,
            )
        }),
    }
}

/// A ratio and the class that says what may be claimed.
pub(super) fn ratio(comparison: Option<&Comparison>) -> (String, &'static str) {
    let Some(comparison) = comparison else {
        return (String::new(), "");
    };
    let text = comparison.ratio.map_or_else(
        || numbers::NONE.to_owned(),
        |estimate| numbers::ratio(estimate.value),
    );
    match comparison.verdict {
        Verdict::Better => (text, "better"),
        Verdict::Worse => (text, "worse"),
        _ => (format!("~{text}"), "same"),
    }
}

/// A variant's name, which may be broken at its signs.
pub(super) fn breakable(name: &str) -> String {
    escape::html(name)
        .replace('+', "+<wbr/>")
        .replace('[', "<wbr/>[")
}
