//! The terminal table.
//!
//! Nothing here is said by colour alone: a difference that is not claimed has `~` where its ratio would stand, so
//! nobody quotes a number that is noise.

mod table;

pub use table::Colour;

use crate::escape::visible;
use crate::view::{Shown, View, Weight, matrix_row, views};
use crate::{names, numbers, words};
use reheap_bench::analysis::{Analysis, Comparison, Verdict};
use reheap_bench::figures;
use reheap_bench::overview::{Entry, Matrix, Overview};
use table::{Cell, Column, Group, Paint, RowName, Table, wrapped};

/// Stands where a difference is not more than noise.
const SAME: &str = "~";

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether it is coloured.
    pub colour: Colour,
    /// How many columns a line has at most; fewer than 40 count as 40, more than 100 as 100.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            colour: Colour::Never,
            width: 100,
        }
    }
}

/// The tables of all benchmarks, for a terminal.
pub fn text(overview: &Overview<'_>, style: Style) -> String {
    let mut page = Page {
        colour: style.colour,
        width: style.width.clamp(40, 100),
        lines: Vec::new(),
    };
    let views = views(overview);
    for view in &views {
        page.benchmark(view);
    }
    for matrix in &overview.matrices {
        page.matrix(matrix, &views);
    }
    page.footer(overview);
    page.lines.push(String::new());
    page.lines.join("\n")
}

struct Page {
    colour: Colour,
    width: usize,
    lines: Vec<String>,
}

impl Page {
    fn benchmark(&mut self, view: &View<'_>) {
        let findings = view.findings;
        self.paragraph(&view.title, Paint::Heading);
        self.gap();
        if view.shown.iter().all(|shown| shown.failures.runs == 0) {
            self.paragraph(&words::nothing_measured(findings), Paint::Plain);
        } else {
            let table = table(view);
            self.lines.extend(table.lines(self.width, self.colour));
        }
        self.gap();
        for left_out in &findings.benchmark.left_out {
            self.paragraph(
                &format!("left out: {}: {}", left_out.name, left_out.reason),
                Paint::Plain,
            );
        }
        if findings.rounds() == 0 {
            return;
        }
        for warning in words::warnings(findings) {
            for said in &warning.said {
                self.paragraph(&format!("warning: {said}"), Paint::Plain);
            }
            self.paragraph(&warning.advice, Paint::Faint);
        }
        self.paragraph(&words::rounds_and_noise(findings), Paint::Faint);
        self.gap();
    }

    fn matrix(&mut self, matrix: &Matrix, views: &[View<'_>]) {
        self.paragraph(
            &format!("All benchmarks: {}", figures::noun(&matrix.quantity)),
            Paint::Heading,
        );
        self.gap();
        let rows = matrix.rows.iter().map(|row| RowName {
            name: matrix_row(row, views).to_owned(),
            notes: Vec::new(),
            is_apart: row.benchmark.is_none(),
        });
        let column = |(index, heading): (usize, &String)| Group {
            columns: vec![Column {
                heading: heading.clone(),
                cells: matrix
                    .rows
                    .iter()
                    .map(|row| match row.cells[index] {
                        Entry::Missing => Cell::plain(numbers::NONE),
                        Entry::Failed => Cell::painted("failed", Paint::Worse),
                        Entry::Mean(mean) => Cell::plain(numbers::ratio(mean)),
                        Entry::Compared(comparison) => ratio(Some(&comparison)),
                    })
                    .collect(),
            }],
        };
        let table = Table {
            heading: "ratio to the baseline".to_owned(),
            rows: rows.collect(),
            groups: matrix.variants.iter().enumerate().map(column).collect(),
        };
        self.lines.extend(table.lines(self.width, self.colour));
        self.gap();
    }

    fn footer(&mut self, overview: &Overview<'_>) {
        let files = overview.files.iter();
        let mut machines: Vec<String> = files.map(|it| names::machine(&it.machine)).collect();
        machines.dedup();
        for machine in machines {
            self.paragraph(&machine, Paint::Faint);
        }
        if overview.benchmarks.iter().any(|it| it.rounds() > 0) {
            self.paragraph(words::LEGEND, Paint::Faint);
        }
    }

    fn paragraph(&mut self, text: &str, paint: Paint) {
        for line in wrapped(&visible(text), self.width) {
            self.lines.push(paint.on(&line, self.colour));
        }
    }

    fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }
}

/// A row for each variant; columns for what the benchmark is about, and for what it cost.
fn table(view: &View<'_>) -> Table {
    Table {
        heading: "variant".to_owned(),
        rows: view.shown.iter().map(row_name).collect(),
        groups: view
            .columns
            .iter()
            .map(|analysis| group(view, analysis))
            .collect(),
    }
}

fn row_name(shown: &Shown<'_>) -> RowName {
    let notes = (shown.failures.count() > 0)
        .then(|| Cell::painted(shown.failures.to_string(), Paint::Worse))
        .into_iter()
        .collect();
    RowName {
        name: shown.variant.name.clone(),
        notes,
        is_apart: false,
    }
}

/// The columns of a quantity: what matters most has spread and interval, what only explains it has neither.
fn group(view: &View<'_>, analysis: &Analysis) -> Group {
    let quantity = &analysis.quantity;
    let weight = view.weight(quantity);
    let figures = view.shown.iter().map(|shown| {
        let row = &analysis.rows[shown.index];
        Cell::plain(if weight == Weight::Decides {
            numbers::median_with_spread(row, quantity)
        } else {
            numbers::median_text(row, quantity)
        })
    });
    let mut columns = vec![Column {
        heading: figures::noun(quantity).to_owned(),
        cells: figures.collect(),
    }];
    let comparisons = || {
        view.shown
            .iter()
            .map(|shown| view.comparison(quantity, shown))
    };
    if weight != Weight::Explains {
        columns.push(Column {
            heading: "ratio".to_owned(),
            cells: comparisons().map(ratio).collect(),
        });
    }
    if weight == Weight::Decides {
        columns.push(Column {
            heading: "interval".to_owned(),
            cells: comparisons().map(interval).collect(),
        });
    }
    Group { columns }
}

/// The ratio of a difference that is claimed, or the sign that none is.
fn ratio(comparison: Option<&Comparison>) -> Cell {
    let Some(comparison) = comparison else {
        return Cell::plain("");
    };
    let paint = match comparison.verdict {
        Verdict::Better => Paint::Better,
        Verdict::Worse => Paint::Worse,
        _ => Paint::Faint,
    };
    let estimate = comparison
        .ratio
        .map(|estimate| numbers::ratio(estimate.value));
    let text = estimate.unwrap_or_else(|| numbers::NONE.to_owned());
    match comparison.verdict.is_claimed() {
        true => Cell::painted(text, paint),
        false => Cell::painted(format!("{SAME}{text}"), paint),
    }
}

fn interval(comparison: Option<&Comparison>) -> Cell {
    let estimate = comparison.and_then(|comparison| comparison.ratio);
    Cell::painted(
        estimate
            .and_then(|estimate| numbers::interval(&estimate))
            .unwrap_or_default(),
        Paint::Faint,
    )
}
