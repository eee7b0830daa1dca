//! All benchmarks of a report at once: one row each, one column for each variant.

use crate::view::View;
use reheap_bench::analysis::{Comparison, Verdict};
use reheap_bench::results::{Quantity, Role};
use reheap_bench::stats::geometric_mean;

/// The ratios of several benchmarks in one quantity.
pub(crate) struct Matrix {
    pub(crate) quantity: Quantity,
    pub(crate) variants: Vec<String>,
    pub(crate) rows: Vec<MatrixRow>,
}

/// A benchmark, or the mean of all.
pub(crate) struct MatrixRow {
    pub(crate) name: String,
    pub(crate) cells: Vec<Entry>,
    pub(crate) is_mean: bool,
}

/// What one variant shows in one benchmark.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    /// It was not part of it.
    Missing,
    /// Some of its runs failed.
    Failed,
    /// How it compares with the baseline.
    Compared(Comparison),
    /// The geometric mean of its ratios.
    Mean(f64),
    /// The mean of ratios of which none is more than noise, which is noise too.
    Same,
}

impl Matrix {
    /// What the last row says of a variant.
    pub(crate) fn mean_of(&self, variant: &str) -> Option<Entry> {
        let column = self.variants.iter().position(|name| name == variant)?;
        let row = self.rows.iter().find(|row| row.is_mean)?;
        Some(row.cells[column])
    }
}

/// One matrix for what the benchmarks are about, and one for peak memory; none for a single benchmark.
pub(crate) fn matrices(views: &[View<'_>]) -> Vec<Matrix> {
    let measured: Vec<&View<'_>> = views
        .iter()
        .filter(|view| !view.analyses.is_empty())
        .collect();
    if measured.len() < 2 {
        return Vec::new();
    }
    let quantities = quantities(&measured);
    let matrices = quantities.iter().map(|quantity| {
        let about: Vec<&View<'_>> = measured
            .iter()
            .copied()
            .filter(|view| view.main_quantity() == *quantity || *quantity == Quantity::PeakRss)
            .collect();
        matrix(&about, quantity)
    });
    matrices
        .filter(|matrix| !matrix.variants.is_empty())
        .collect()
}

/// What the benchmarks are about, and peak memory.
pub(crate) fn quantities(views: &[&View<'_>]) -> Vec<Quantity> {
    let mut quantities: Vec<Quantity> = Vec::new();
    for quantity in views
        .iter()
        .map(|view| view.main_quantity())
        .chain([Quantity::PeakRss])
    {
        if !quantities.contains(&quantity) {
            quantities.push(quantity);
        }
    }
    quantities
}

fn matrix(views: &[&View<'_>], quantity: &Quantity) -> Matrix {
    let mut variants: Vec<String> = Vec::new();
    for shown in views.iter().flat_map(|view| &view.shown) {
        if shown.variant.role == Role::Candidate && !variants.contains(&shown.variant.name) {
            variants.push(shown.variant.name.clone());
        }
    }
    let mut rows: Vec<MatrixRow> = views
        .iter()
        .map(|view| MatrixRow {
            name: view.title(),
            cells: variants
                .iter()
                .map(|name| entry(view, quantity, name))
                .collect(),
            is_mean: false,
        })
        .collect();
    if rows.len() > 1 {
        rows.push(MatrixRow {
            name: "geometric mean".to_owned(),
            cells: (0..variants.len())
                .map(|column| mean(&rows, column))
                .collect(),
            is_mean: true,
        });
    }
    Matrix {
        quantity: quantity.clone(),
        variants,
        rows,
    }
}

fn entry(view: &View<'_>, quantity: &Quantity, name: &str) -> Entry {
    let Some(shown) = view.shown.iter().find(|shown| shown.variant.name == name) else {
        return Entry::Missing;
    };
    match view.comparison(quantity, shown) {
        _ if shown.failures.count() > 0 => Entry::Failed,
        Some(comparison) => Entry::Compared(*comparison),
        None => Entry::Missing,
    }
}

/// The mean of a column that has a ratio in every row: one that lacks the worst row would be no mean.
fn mean(rows: &[MatrixRow], column: usize) -> Entry {
    let comparisons: Option<Vec<Comparison>> = rows
        .iter()
        .map(|row| match row.cells[column] {
            Entry::Compared(comparison) => Some(comparison),
            _ => None,
        })
        .collect();
    let Some(comparisons) = comparisons else {
        return Entry::Missing;
    };
    if comparisons
        .iter()
        .all(|comparison| comparison.verdict == Verdict::Indistinguishable)
    {
        return Entry::Same;
    }
    let ratios: Option<Vec<f64>> = comparisons
        .iter()
        .map(|comparison| Some(comparison.ratio?.value))
        .collect();
    ratios
        .and_then(geometric_mean)
        .map_or(Entry::Missing, Entry::Mean)
}
