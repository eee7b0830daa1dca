//! The table of a benchmark: figures, ratios, and the ratios once more as a drawing.

use crate::chart::{self, Interval};
use crate::escape;
use crate::view::{Shown, View, Weight};
use crate::{numbers, words};
use reheap_bench::analysis::{Analysis, Comparison, Verdict};
use reheap_bench::figures;
use reheap_bench::results::{Quantity, Role};
use reheap_bench::verdict;
use reheap_stats::interval::CONFIDENCE;

/// The headings and the rows of a benchmark.
pub(super) struct ResultsTable {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<TableRow>,
}

impl ResultsTable {
    pub(super) fn of(view: &View<'_>) -> ResultsTable {
        let analyses = view.columns(Weight::Explains).into_iter();
        let quantities: Vec<Plotted<'_>> = analyses
            .map(|analysis| Plotted::of(view, analysis))
            .collect();
        ResultsTable {
            columns: quantities
                .iter()
                .flat_map(|quantity| quantity.headings(view))
                .collect(),
            rows: view
                .shown
                .iter()
                .map(|shown| table_row(shown, &quantities))
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
    pub(super) left: Option<String>,
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

/// A quantity, with the axis on which its ratios are drawn if it decides.
struct Plotted<'a> {
    analysis: &'a Analysis,
    weight: Weight,
    axis: Option<chart::Axis>,
}

impl<'a> Plotted<'a> {
    fn of(view: &View<'_>, analysis: &'a Analysis) -> Plotted<'a> {
        let shown = view.shown.iter();
        let intervals: Vec<Interval> = shown
            .filter_map(|shown| analysis.comparison(shown.index))
            .filter_map(plotted)
            .collect();
        let weight = view.said_of(analysis);
        let is_plotted = weight == Weight::Decides || analysis.quantity == Quantity::PeakRss;
        Plotted {
            analysis,
            weight,
            axis: (is_plotted && !intervals.is_empty()).then(|| chart::interval_axis(&intervals)),
        }
    }

    fn headings(&self, view: &View<'_>) -> Vec<String> {
        let heading = figures::noun(&self.analysis.quantity).to_owned();
        let ratio = match (self.weight <= Weight::Matters, &self.axis) {
            (false, _) => return vec![heading],
            (true, None) => "ratio".to_owned(),
            (true, Some(_)) => format!("ratio to {}", verdict::baseline(view.findings)),
        };
        vec![heading, ratio]
    }

    fn cells(&self, shown: &Shown<'_>) -> Vec<TableCell> {
        let row = &self.analysis.rows[shown.index];
        let quantity = &self.analysis.quantity;
        let summary = row.summary.as_ref().filter(|_| self.axis.is_some());
        let figure = TableCell {
            label: figures::noun(quantity).to_owned(),
            text: numbers::median_text(row, quantity),
            spread: summary.map(numbers::spread).unwrap_or_default(),
            class: if row.summary.is_none() { "empty" } else { "" },
            verdict: "",
            svg: String::new(),
        };
        if self.weight <= Weight::Matters {
            vec![figure, self.ratio_cell(shown)]
        } else {
            vec![figure]
        }
    }

    /// The ratio, and below it its place on the column's axis.
    fn ratio_cell(&self, shown: &Shown<'_>) -> TableCell {
        let comparison = self.analysis.comparison(shown.index);
        let (text, verdict) = ratio(comparison);
        let noun = figures::noun(&self.analysis.quantity);
        let title = format!("{}, {noun}: {text}", shown.variant.name);
        let estimate = comparison
            .and_then(|comparison| comparison.ratio)
            .filter(|_| self.axis.is_some());
        let has_place = comparison.is_some() || shown.variant.role == Role::Baseline;
        let draw = |axis| {
            let interval = comparison.and_then(plotted);
            chart::interval(interval.as_ref(), axis, shown.tone, &title)
        };
        let axis = self.axis.as_ref().filter(|_| has_place);
        TableCell {
            label: "ratio".to_owned(),
            class: match (comparison, &self.axis) {
                (None, Some(_)) => "plot first",
                (None, None) => "first",
                (Some(_), Some(_)) => "plot",
                (Some(_), None) => "",
            },
            svg: axis.map(draw).unwrap_or_default(),
            spread: estimate
                .as_ref()
                .and_then(numbers::interval)
                .unwrap_or_default(),
            verdict,
            text,
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

fn table_row(shown: &Shown<'_>, quantities: &[Plotted<'_>]) -> TableRow {
    TableRow {
        name: breakable(&shown.variant.name),
        swatch: shown.tone.swatch(),
        below: match shown.variant.role {
            Role::Baseline => Some("baseline".to_owned()),
            _ => words::allocator(shown),
        },
        failed: (shown.failures.count() > 0).then(|| shown.failures.to_string()),
        left: shown.variant.left.map(|left| left.to_string()),
        cells: quantities
            .iter()
            .flat_map(|quantity| quantity.cells(shown))
            .collect(),
    }
}

/// A ratio and the class that says what may be claimed.
pub(super) fn ratio(comparison: Option<&Comparison>) -> (String, &'static str) {
    let Some(comparison) = comparison else {
        return (String::new(), "");
    };
    let class = match comparison.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Suspected | Verdict::Equal | Verdict::Open => "",
    };
    (numbers::judged(comparison), class)
}

/// A variant's name, which may be broken at its signs.
pub(super) fn breakable(name: &str) -> String {
    escape::html(name)
        .replace('+', "+<wbr/>")
        .replace(',', ",<wbr/>")
        .replace('[', "<wbr/>[")
}
