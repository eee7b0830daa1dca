//! The terminal table.
//!
//! Nothing here is said by colour alone: a difference that is claimed has an arrow, and every other ratio the sign of
//! what is known of it, so nobody quotes a number that is noise.

mod table;

pub use table::Colour;
pub(crate) use table::{Cell, Column, Group, Paint, RowName, Table, padded, wrapped};

use crate::escape::visible;
use crate::view::{Shown, View, Weight, views};
use crate::{names, numbers, words};
use reheap_bench::analysis::{Analysis, Comparison, Verdict};
use reheap_bench::figures;
use reheap_bench::findings::Findings;
use reheap_bench::overview::{Entry, Matrix, MatrixRow, Overview};
use reheap_bench::results::Role;
use reheap_bench::verdict;
use reheap_bench::warnings::Warning;

/// As wide as the arrow behind a ratio that is claimed.
const NO_ARROW: &str = "  ";

/// How a text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether it is coloured.
    pub colour: Colour,
    /// How many columns a line has at most; fewer than 40 count as 40, more than 100 as 100.
    pub width: usize,
    /// Whether all quantities and all warnings are shown.
    pub verbose: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            colour: Colour::Never,
            width: 100,
            verbose: false,
        }
    }
}

/// The tables of all benchmarks, for a terminal.
pub fn text(overview: &Overview<'_>, style: Style) -> String {
    let mut page = Page::new(style);
    let views = views(overview);
    for view in &views {
        page.benchmark(view);
    }
    if !overview.matrices.is_empty() {
        let all = figures::count(overview.benchmarks.len(), "benchmark");
        page.paragraph(&format!("All {all}"), Paint::Heading);
        page.gap();
        page.paragraph(&verdict::verdict(overview), Paint::Heading);
        page.gap();
    }
    for matrix in &overview.matrices {
        page.matrix(matrix, &views);
    }
    page.footer(overview);
    page.lines.push(String::new());
    page.lines.join("\n")
}

/// What a search tried before its last benchmark: the ratios of each variant, in as few lines as they need. Empty if
/// there was nothing before.
pub fn tried_before_last(overview: &Overview<'_>, style: Style) -> String {
    let mut page = Page::new(style);
    let views = views(overview);
    let (_, before) = views.split_last().unzip();
    for view in before.unwrap_or_default() {
        page.ratios(view);
    }
    page.lines.join("\n")
}

struct Page {
    style: Style,
    lines: Vec<String>,
}

impl Page {
    fn new(style: Style) -> Page {
        Page {
            style: Style {
                width: style.width.clamp(40, 100),
                ..style
            },
            lines: Vec::new(),
        }
    }

    fn ratios(&mut self, view: &View<'_>) {
        let Style { width, colour, .. } = self.style;
        let baseline = view
            .findings
            .benchmark
            .baseline()
            .map_or("the baseline", |variant| variant.name.as_str());
        let title = format!("{}, ratios to {baseline}", view.title);
        self.paragraph(&title, Paint::Plain);
        self.gap();
        self.lines.extend(ratio_table(view).lines(width, colour));
        self.left_out(view.findings);
        self.gap();
    }

    fn left_out(&mut self, findings: &Findings<'_>) {
        for left_out in &findings.benchmark.left_out {
            let text = format!("left out: {}: {}", left_out.name, left_out.reason);
            self.paragraph(&text, Paint::Plain);
        }
    }

    fn benchmark(&mut self, view: &View<'_>) {
        let findings = view.findings;
        self.paragraph(&view.title, Paint::Plain);
        self.gap();
        if view.shown.iter().all(|shown| shown.failures.runs == 0) {
            self.paragraph(&words::nothing_measured(findings), Paint::Plain);
        } else {
            self.paragraph(&verdict::of_one(findings), Paint::Heading);
            self.gap();
            self.results(view);
        }
        self.gap();
        self.left_out(findings);
        if findings.rounds() > 0 {
            self.warnings(findings);
            self.paragraph(&words::rounds(findings), Paint::Faint);
            self.gap();
        }
    }

    /// What explains the times is shown where it takes no table of its own, or to those who ask.
    fn results(&mut self, view: &View<'_>) {
        let Style {
            width,
            colour,
            verbose,
        } = self.style;
        let least = if verbose {
            Weight::OnRequest
        } else {
            Weight::Explains
        };
        let all = table(view, least);
        let shown = if verbose || all.fits(width) {
            all
        } else {
            table(view, Weight::Matters)
        };
        self.lines.extend(shown.lines(width, colour));
    }

    /// One line, or all of them with what helps. Output that differs leaves nothing to compare, so the way out of that
    /// is always said.
    fn warnings(&mut self, findings: &Findings<'_>) {
        if self.style.verbose {
            for warned in words::warnings(findings) {
                for said in &warned.said {
                    self.paragraph(&format!("warning: {said}"), Paint::Plain);
                }
                self.paragraph(&warned.advice, Paint::Faint);
            }
            return;
        }
        match findings.warnings.as_slice() {
            [] => {}
            [one] => self.paragraph(
                &format!("warning: {one}; --verbose says what helps"),
                Paint::Plain,
            ),
            [worst, others @ ..] => {
                let count = others.len() + 1;
                let text = format!("{count} warnings; the worst: {worst}; --verbose shows all");
                self.paragraph(&text, Paint::Plain);
            }
        }
        let other_output = findings.warnings.iter().find(|warning| {
            matches!(
                warning,
                Warning::OutputDiffers { .. } | Warning::OutputVaries { .. }
            )
        });
        if let Some(warning) = other_output {
            self.paragraph(&warning.advice(&findings.results.settings), Paint::Plain);
        }
    }

    fn matrix(&mut self, matrix: &Matrix, views: &[View<'_>]) {
        let Style { width, colour, .. } = self.style;
        let lines = matrix_table(matrix, views).lines(width, colour);
        self.lines.extend(lines);
        self.gap();
    }

    fn footer(&mut self, overview: &Overview<'_>) {
        let files = overview.files.iter();
        let mut machines: Vec<String> = files.map(|file| names::machine(&file.machine)).collect();
        machines.dedup();
        for machine in machines {
            self.paragraph(&machine, Paint::Faint);
        }
        if overview
            .benchmarks
            .iter()
            .any(|benchmark| benchmark.rounds() > 0)
        {
            self.paragraph(words::LEGEND, Paint::Faint);
        }
    }

    fn paragraph(&mut self, text: &str, paint: Paint) {
        for line in wrapped(&visible(text), self.style.width) {
            self.lines.push(paint.on(&line, self.style.colour));
        }
    }

    fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }
}

/// A row for each variant; columns for its mean, and for each benchmark.
fn matrix_table(matrix: &Matrix, views: &[View<'_>]) -> Table {
    let mut columns = Vec::new();
    if matrix.has_means() {
        let means = matrix.rows.iter().map(|row| match row.mean {
            Some(mean) => Cell::plain(numbers::ratio(mean)),
            None => Cell::plain(numbers::NONE),
        });
        columns.push(Column {
            heading: "geometric mean".to_owned(),
            cells: means.collect(),
        });
    }
    for (column, &place) in matrix.benchmarks.iter().enumerate() {
        let cells = matrix.rows.iter().map(|row| match &row.cells[column] {
            Entry::Missing => Cell::plain(numbers::NONE),
            Entry::Failed => Cell::painted("failed", Paint::Worse),
            Entry::Compared(comparison) => ratio(Some(comparison)),
        });
        columns.push(Column::of_ratios(views[place].title.clone(), cells));
    }
    let row_name = |row: &MatrixRow| RowName {
        name: row.variant.clone(),
        notes: Vec::new(),
    };
    let alone = |column| Group {
        columns: vec![column],
    };
    Table {
        heading: format!("{}, ratio", figures::noun(&matrix.quantity)),
        rows: matrix.rows.iter().map(row_name).collect(),
        groups: columns.into_iter().map(alone).collect(),
    }
}

/// A row for each variant; columns for what the benchmark is about, and for what it cost.
fn table(view: &View<'_>, least: Weight) -> Table {
    Table {
        heading: "variant".to_owned(),
        rows: view.shown.iter().map(row_name).collect(),
        groups: view
            .columns(least)
            .into_iter()
            .map(|analysis| group(view, analysis))
            .collect(),
    }
}

/// A row for each candidate; columns for its ratios, and for how many rounds they come from.
fn ratio_table(view: &View<'_>) -> Table {
    let shown = view.shown.iter();
    let candidates: Vec<&Shown<'_>> = shown
        .filter(|shown| shown.variant.role == Role::Candidate)
        .collect();
    let mut columns: Vec<Column> = view
        .columns(Weight::Matters)
        .into_iter()
        .map(|analysis| {
            let comparisons = candidates
                .iter()
                .map(|shown| view.comparison(&analysis.quantity, shown));
            let heading = figures::noun(&analysis.quantity).to_owned();
            Column::of_ratios(heading, comparisons.map(ratio))
        })
        .collect();
    let rounds = candidates
        .iter()
        .map(|shown| Cell::plain(shown.variant.runs.len().to_string()));
    columns.push(Column {
        heading: "rounds".to_owned(),
        cells: rounds.collect(),
    });
    let name = |shown: &&Shown<'_>| RowName {
        name: shown.variant.name.clone(),
        notes: failed(shown).into_iter().collect(),
    };
    Table {
        heading: "variant".to_owned(),
        rows: candidates.iter().map(name).collect(),
        groups: vec![Group { columns }],
    }
}

fn failed(shown: &Shown<'_>) -> Option<Cell> {
    let failures = shown.failures;
    (failures.count() > 0).then(|| Cell::painted(failures.to_string(), Paint::Worse))
}

fn row_name(shown: &Shown<'_>) -> RowName {
    let left = shown.variant.left;
    let left = left.map(|left| Cell::painted(left.to_string(), Paint::Faint));
    RowName {
        name: shown.variant.name.clone(),
        notes: failed(shown).into_iter().chain(left).collect(),
    }
}

/// The columns of a quantity: what matters most has spread and interval, what only explains it has neither.
fn group(view: &View<'_>, analysis: &Analysis) -> Group {
    let quantity = &analysis.quantity;
    let weight = view.said_of(analysis);
    let figures = view.shown.iter().map(|shown| {
        let row = &analysis.rows[shown.index];
        Cell::plain(match weight {
            Weight::Decides => numbers::median_with_spread(row, quantity),
            _ => numbers::median_text(row, quantity),
        })
    });
    let mut columns = vec![Column {
        heading: figures::noun(quantity).to_owned(),
        cells: figures.collect(),
    }];
    let comparisons = || {
        let shown = view.shown.iter();
        shown.map(|shown| view.comparison(quantity, shown))
    };
    if weight <= Weight::Matters {
        columns.push(Column::of_ratios(
            "ratio".to_owned(),
            comparisons().map(ratio),
        ));
    }
    if weight == Weight::Decides {
        columns.push(Column {
            heading: "interval".to_owned(),
            cells: comparisons().map(interval).collect(),
        });
    }
    Group { columns }
}

impl Column {
    /// Ratios stand below each other whether or not an arrow follows.
    fn of_ratios(heading: String, cells: impl Iterator<Item = Cell>) -> Column {
        let mut cells: Vec<Cell> = cells.collect();
        let has_arrow = |cell: &Cell| cell.text.ends_with(['↓', '↑']);
        if cells.iter().any(has_arrow) {
            let others = cells.iter_mut().filter(|cell| !has_arrow(cell));
            others.for_each(|cell| cell.text.push_str(NO_ARROW));
        }
        Column { heading, cells }
    }
}

fn ratio(comparison: Option<&Comparison>) -> Cell {
    let Some(comparison) = comparison else {
        return Cell::plain("");
    };
    let paint = match comparison.verdict {
        Verdict::Better => Paint::Better,
        Verdict::Worse => Paint::Worse,
        Verdict::Suspected | Verdict::Equal | Verdict::Open => Paint::Plain,
    };
    Cell::painted(numbers::judged(comparison), paint)
}

fn interval(comparison: Option<&Comparison>) -> Cell {
    let estimate = comparison.and_then(|comparison| comparison.ratio);
    let interval = estimate.and_then(|estimate| numbers::interval(&estimate));
    Cell::painted(interval.unwrap_or_default(), Paint::Faint)
}
