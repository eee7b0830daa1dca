//! What all benchmarks of one report show, computed once and borrowed by each form of it.

use crate::analysis::Comparison;
use crate::findings::{Findings, decisive_quantities};
use crate::results::{Quantity, Results, Role};
use crate::stats::geometric_mean;
use crate::sweeps::{Series, series};

/// Files of results, and what they show.
#[derive(Clone, Debug)]
pub struct Overview<'a> {
    /// The files.
    pub files: &'a [Results],
    /// All their benchmarks, in their order.
    pub benchmarks: Vec<Findings<'a>>,
    /// One for what the benchmarks are about, and one for peak memory; none for a single benchmark.
    pub matrices: Vec<Matrix>,
    /// How the variants scale with the parameters of sweeps.
    pub series: Vec<Series>,
}

/// The ratios of several benchmarks in one quantity.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The quantity.
    pub quantity: Quantity,
    /// The names of the columns.
    pub variants: Vec<String>,
    /// A row for each benchmark, and one for their mean.
    pub rows: Vec<MatrixRow>,
}

/// A benchmark, or the mean of all.
#[derive(Clone, Debug)]
pub struct MatrixRow {
    /// The benchmark, as a place in [`Overview::benchmarks`]; none for the mean.
    pub benchmark: Option<usize>,
    /// What each variant shows.
    pub cells: Vec<Entry>,
}

/// What one variant shows in one benchmark.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// It was not part of it.
    Missing,
    /// Some of its runs failed.
    Failed,
    /// How it compares with the baseline.
    Compared(Comparison),
    /// The geometric mean of its ratios.
    Mean(f64),
}

impl<'a> Overview<'a> {
    /// Of all benchmarks of these files.
    pub fn of(files: &'a [Results]) -> Overview<'a> {
        let mut benchmarks = Vec::new();
        let mut all_series = Vec::new();
        for results in files {
            let first = benchmarks.len();
            let own = results.benchmarks.iter();
            benchmarks.extend(own.map(|benchmark| Findings::of(results, benchmark)));
            all_series.extend(series(&benchmarks, first..benchmarks.len()));
        }
        Overview {
            files,
            matrices: matrices(&benchmarks),
            series: all_series,
            benchmarks,
        }
    }

    /// The last benchmark alone: what a search ended with.
    pub fn into_last(mut self) -> Overview<'a> {
        let last = self.benchmarks.pop();
        Overview {
            files: self.files,
            benchmarks: last.into_iter().collect(),
            matrices: Vec::new(),
            series: Vec::new(),
        }
    }
}

impl Matrix {
    fn of(benchmarks: &[(usize, &Findings<'_>)], quantity: &Quantity) -> Matrix {
        let mut variants: Vec<String> = Vec::new();
        for (_, findings) in benchmarks {
            let measured = &findings.benchmark.variants;
            for variant in findings.ranked.iter().map(|&place| &measured[place]) {
                if variant.role == Role::Candidate && !variants.contains(&variant.name) {
                    variants.push(variant.name.clone());
                }
            }
        }
        let mut rows: Vec<MatrixRow> = benchmarks
            .iter()
            .map(|&(place, findings)| MatrixRow {
                benchmark: Some(place),
                cells: variants
                    .iter()
                    .map(|name| entry(findings, quantity, name))
                    .collect(),
            })
            .collect();
        if rows.len() > 1 {
            rows.push(MatrixRow {
                benchmark: None,
                cells: (0..variants.len())
                    .map(|column| mean(&rows, column))
                    .collect(),
            });
        }
        Matrix {
            quantity: quantity.clone(),
            variants,
            rows,
        }
    }

    /// What the last row says of a variant.
    pub fn mean_of(&self, variant: &str) -> Option<Entry> {
        let column = self.variants.iter().position(|name| name == variant)?;
        let row = self.rows.iter().find(|row| row.benchmark.is_none())?;
        Some(row.cells[column])
    }
}

fn matrices(benchmarks: &[Findings<'_>]) -> Vec<Matrix> {
    let all = benchmarks.iter().enumerate();
    let measured: Vec<_> = all.filter(|(_, it)| !it.analyses.is_empty()).collect();
    if measured.len() < 2 {
        return Vec::new();
    }
    let mut matrices = Vec::new();
    for quantity in decisive_quantities(measured.iter().map(|(_, findings)| *findings)) {
        let is_about = |(_, findings): &(usize, &Findings<'_>)| {
            findings.main_quantity() == quantity || quantity == Quantity::PeakRss
        };
        let about: Vec<_> = measured.iter().copied().filter(is_about).collect();
        matrices.push(Matrix::of(&about, &quantity));
    }
    matrices.retain(|matrix| !matrix.variants.is_empty());
    matrices
}

fn entry(findings: &Findings<'_>, quantity: &Quantity, name: &str) -> Entry {
    let mut variants = findings.benchmark.variants.iter();
    let Some(variant) = variants.position(|variant| variant.name == name) else {
        return Entry::Missing;
    };
    match findings.comparison(quantity, variant) {
        _ if findings.failures[variant].count() > 0 => Entry::Failed,
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
    let ratios: Option<Vec<f64>> = comparisons
        .iter()
        .map(|comparison| Some(comparison.ratio?.value))
        .collect();
    ratios
        .and_then(geometric_mean)
        .map_or(Entry::Missing, Entry::Mean)
}
