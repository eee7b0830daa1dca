//! What all benchmarks of one report show, computed once and borrowed by each form of it.

use crate::analysis::Comparison;
use crate::findings::{Findings, decisive_quantities};
use crate::results::{Direction, Quantity, Results, Role};
use crate::sweeps::{Series, series};
use reheap_stats::geometric_mean;
use reheap_stats::interval::{CONFIDENCE, Estimate, Interval};

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
    /// In which direction it is better.
    pub direction: Direction,
    /// The columns, as places in [`Overview::benchmarks`].
    pub benchmarks: Vec<usize>,
    /// A row for each variant, from the best to the worst.
    pub rows: Vec<MatrixRow>,
}

/// A variant in several benchmarks.
#[derive(Clone, Debug)]
pub struct MatrixRow {
    /// Its name.
    pub variant: String,
    /// What it shows in each of them.
    pub cells: Vec<Entry>,
    /// The geometric mean of its ratios; none if it has no ratio in one of them, or there is only one.
    pub mean: Option<f64>,
    /// Where the true mean lies; none without a mean, or if a ratio has no interval.
    pub interval: Option<Interval>,
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
        let mut variants: Vec<&str> = Vec::new();
        for (_, findings) in benchmarks {
            let measured = &findings.benchmark.variants;
            for variant in findings.ranked.iter().map(|&place| &measured[place]) {
                if variant.role == Role::Candidate && !variants.contains(&variant.name.as_str()) {
                    variants.push(&variant.name);
                }
            }
        }
        let direction = benchmarks[0].1.benchmark.direction(quantity);
        let rows = variants.into_iter().map(|name| {
            let entries = benchmarks.iter();
            MatrixRow::of(
                name,
                entries
                    .map(|(_, findings)| entry(findings, quantity, name))
                    .collect(),
            )
        });
        let mut rows: Vec<MatrixRow> = rows.collect();
        rows.sort_by(|left, right| left.cost(direction).total_cmp(&right.cost(direction)));
        Matrix {
            quantity: quantity.clone(),
            direction,
            benchmarks: benchmarks.iter().map(|(place, _)| *place).collect(),
            rows,
        }
    }
}

impl Matrix {
    /// Whether any variant has a mean.
    pub fn has_means(&self) -> bool {
        self.rows.iter().any(|row| row.mean.is_some())
    }
}

impl MatrixRow {
    fn of(variant: &str, cells: Vec<Entry>) -> MatrixRow {
        let ratio = |entry: &Entry| match entry {
            Entry::Compared(comparison) => comparison.ratio,
            Entry::Missing | Entry::Failed => None,
        };
        // One that lacks the worst benchmark would be no mean.
        let ratios: Option<Vec<Estimate>> = cells.iter().map(ratio).collect();
        let ratios = ratios.filter(|ratios| ratios.len() > 1);
        let values = ratios.iter().flatten().map(|ratio| ratio.value);
        let mean = ratios.as_ref().and(geometric_mean(values));
        MatrixRow {
            variant: variant.to_owned(),
            mean,
            interval: mean.and_then(|mean| interval_of_mean(mean, &ratios?)),
            cells,
        }
    }

    /// What rows are sorted by: those without a mean stand last, in the order of the benchmarks.
    fn cost(&self, direction: Direction) -> f64 {
        match direction {
            Direction::Lower => self.mean.unwrap_or(f64::INFINITY),
            Direction::Higher => -self.mean.unwrap_or(f64::NEG_INFINITY),
        }
    }
}

/// The interval of a geometric mean of independent ratios. In logarithms it is an arithmetic mean, and the variance of that is
/// the sum of theirs by the square of their number; a ratio's interval reaches as far as its longer side.
fn interval_of_mean(mean: f64, ratios: &[Estimate]) -> Option<Interval> {
    let reach = |ratio: &Estimate| {
        let Interval {
            low,
            high,
            confidence,
        } = ratio.interval;
        let longer = (high / ratio.value).max(ratio.value / low).ln();
        (confidence >= CONFIDENCE && longer.is_finite()).then_some(longer)
    };
    let reaches: Option<Vec<f64>> = ratios.iter().map(reach).collect();
    let squares: f64 = reaches?.iter().map(|reach| reach * reach).sum();
    let reach = squares.sqrt() / ratios.len() as f64;
    Some(Interval {
        low: mean / reach.exp(),
        high: mean * reach.exp(),
        confidence: CONFIDENCE,
    })
}

fn matrices(benchmarks: &[Findings<'_>]) -> Vec<Matrix> {
    let all = benchmarks.iter().enumerate();
    let measured: Vec<_> = all
        .filter(|(_, analyzed)| !analyzed.analyses.is_empty())
        .collect();
    if measured.len() < 2 {
        return Vec::new();
    }
    let is_time = |quantity: &Quantity| matches!(quantity, Quantity::Wall | Quantity::Cpu);
    let mut matrices = Vec::new();
    for quantity in decisive_quantities(measured.iter().map(|(_, findings)| *findings)) {
        let is_about = |(_, findings): &(usize, &Findings<'_>)| {
            let main = findings.main_quantity();
            main == quantity
                || quantity == Quantity::PeakRss
                || (is_time(&main) && is_time(&quantity))
        };
        let about: Vec<_> = measured.iter().copied().filter(is_about).collect();
        matrices.push(Matrix::of(&about, &quantity));
    }
    matrices.retain(|matrix| !matrix.rows.is_empty());
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
