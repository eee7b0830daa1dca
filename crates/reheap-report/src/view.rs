//! What all forms of a report show, and in which order.
//!
//! Everything here is asked of [`reheap_bench::analysis`]; a report computes nothing by itself, so that two forms of it
//! can never disagree.

use crate::chart::Tone;
use crate::{names, numbers};
use reheap_bench::analysis::{self, Analysis, Comparison, Failures, Row, Verdict};
use reheap_bench::compare::title;
use reheap_bench::results::{Benchmark, Direction, Quantity, Results, Role, Variant};
use std::collections::BTreeSet;

/// A benchmark with all that is to be said of it.
pub(crate) struct View<'a> {
    pub(crate) results: &'a Results,
    pub(crate) benchmark: &'a Benchmark,
    /// What tells it from the report's other benchmarks.
    pub(crate) qualified: Option<String>,
    /// One for each quantity that any variant has, in the order of the columns: the program's own
    /// figures first.
    pub(crate) analyses: Vec<Analysis>,
    /// The variants that are shown: the baseline, the others from the best to the worst.
    pub(crate) shown: Vec<Shown<'a>>,
}

/// A variant in its place.
pub(crate) struct Shown<'a> {
    /// Its place in the benchmark, and in each analysis.
    pub(crate) index: usize,
    pub(crate) variant: &'a Variant,
    pub(crate) tone: Tone,
    pub(crate) failures: Failures,
}

/// All benchmarks of all files.
pub(crate) fn views(all: &[Results]) -> Vec<View<'_>> {
    let several = names::several(all);
    let candidates = candidates(all);
    all.iter()
        .flat_map(|results| {
            results
                .benchmarks
                .iter()
                .map(move |benchmark| (results, benchmark))
        })
        .map(|(results, benchmark)| View::of(results, benchmark, several, &candidates))
        .collect()
}

/// The candidates of all benchmarks, each once: a variant has the same colour in the whole report.
fn candidates(all: &[Results]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for variant in all
        .iter()
        .flat_map(|results| &results.benchmarks)
        .flat_map(|benchmark| &benchmark.variants)
    {
        if variant.role == Role::Candidate && !names.contains(&variant.name.as_str()) {
            names.push(&variant.name);
        }
    }
    names
}

/// How much is said of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// What a choice depends on: spread, ratio, interval.
    Decides,
    /// What one looks at as well: the ratio.
    Matters,
    /// What explains the others: the median.
    Explains,
}

impl<'a> View<'a> {
    fn of(
        results: &'a Results,
        benchmark: &'a Benchmark,
        several: names::Several,
        candidates: &[&str],
    ) -> View<'a> {
        let output = results.settings.output;
        let metrics = benchmark.metrics.keys().cloned().map(Quantity::Metric);
        let costs = [
            Quantity::Wall,
            Quantity::Cpu,
            Quantity::PeakRss,
            Quantity::MeanRss,
        ];
        let mut view = View {
            results,
            benchmark,
            qualified: names::qualified(results, benchmark, several),
            analyses: metrics
                .chain(costs)
                .filter_map(|quantity| analysis::analyse(benchmark, &quantity, output))
                .collect(),
            shown: Vec::new(),
        };
        view.shown = view.in_order(candidates);
        view
    }

    /// The copy of the baseline is not shown as a variant: what it says is the noise floor.
    fn in_order(&self, candidates: &[&str]) -> Vec<Shown<'a>> {
        let mut shown: Vec<Shown<'a>> = self
            .benchmark
            .variants
            .iter()
            .enumerate()
            .filter(|(_, variant)| variant.role != Role::BaselineCopy)
            .map(|(index, variant)| Shown {
                index,
                variant,
                tone: match variant.role {
                    Role::Baseline | Role::BaselineCopy => Tone::Baseline,
                    Role::Candidate => Tone::Candidate(
                        candidates
                            .iter()
                            .position(|name| *name == variant.name)
                            .unwrap_or(0),
                    ),
                },
                failures: Failures::of(self.benchmark, variant, self.results.settings.output),
            })
            .collect();
        let main = self.analysis(&self.main_quantity());
        // Sorting keeps the order of equals, so variants without a figure stay as they were given.
        let rank = |shown: &Shown<'_>| {
            let median = main.and_then(|main| numbers::median(&main.rows[shown.index]));
            match (median, main.map(|main| main.direction)) {
                (Some(median), Some(Direction::Higher)) => -median,
                (Some(median), _) => median,
                (None, _) => f64::INFINITY,
            }
        };
        shown.sort_by(|left, right| {
            let place = |shown: &Shown<'_>| match shown.variant.role {
                Role::Baseline | Role::BaselineCopy => 0,
                Role::Candidate => 1,
            };
            place(left)
                .cmp(&place(right))
                .then(rank(left).total_cmp(&rank(right)))
        });
        shown
    }

    /// What it is called in this report.
    pub(crate) fn title(&self) -> String {
        self.qualified
            .clone()
            .unwrap_or_else(|| title(self.benchmark))
    }

    pub(crate) fn analysis(&self, quantity: &Quantity) -> Option<&Analysis> {
        self.analyses
            .iter()
            .find(|analysis| analysis.quantity == *quantity)
    }

    /// What the benchmark is about: the program's own figure where one was found, else the wall time.
    pub(crate) fn main_quantity(&self) -> Quantity {
        let quantities = self.analyses.iter().map(|analysis| &analysis.quantity);
        let mut metrics = quantities.filter(|it| matches!(it, Quantity::Metric(_)));
        metrics.next().cloned().unwrap_or(Quantity::Wall)
    }

    /// What is said of a quantity in a table.
    pub(crate) fn weight(&self, quantity: &Quantity) -> Weight {
        match quantity {
            Quantity::Metric(_) => Weight::Decides,
            Quantity::Wall if self.main_quantity() == Quantity::Wall => Weight::Decides,
            Quantity::Wall | Quantity::PeakRss => Weight::Matters,
            _ => Weight::Explains,
        }
    }

    pub(crate) fn row(&self, quantity: &Quantity, shown: &Shown<'_>) -> Option<&Row> {
        self.analysis(quantity)
            .map(|analysis| &analysis.rows[shown.index])
    }

    pub(crate) fn comparison(&self, quantity: &Quantity, shown: &Shown<'_>) -> Option<&Comparison> {
        self.row(quantity, shown)?.comparison.as_ref()
    }

    pub(crate) fn baseline(&self) -> &str {
        self.benchmark
            .baseline()
            .map_or("the baseline", |baseline| &baseline.name)
    }

    /// How many runs of the baseline and of its copy do not count.
    pub(crate) fn baseline_failures(&self) -> usize {
        let is_baseline = |it: &&Variant| matches!(it.role, Role::Baseline | Role::BaselineCopy);
        let variants = self.benchmark.variants.iter().filter(is_baseline);
        let output = self.results.settings.output;
        variants
            .map(|variant| Failures::of(self.benchmark, variant, output).count())
            .sum()
    }

    /// Whether all runs of the baseline failed, so that there is nothing to compare with.
    pub(crate) fn baseline_never_counts(&self) -> bool {
        let mut shown = self.shown.iter();
        shown.any(|shown| {
            let failures = &shown.failures;
            let is_baseline = shown.variant.role == Role::Baseline;
            is_baseline && failures.runs > 0 && failures.count() == failures.runs
        })
    }

    /// The candidates that ran and never failed.
    pub(crate) fn survivors(&self) -> Vec<&str> {
        let candidates = self.shown.iter().filter(|shown| {
            let failures = &shown.failures;
            shown.variant.role == Role::Candidate && failures.runs > 0 && failures.count() == 0
        });
        candidates
            .map(|shown| shown.variant.name.as_str())
            .collect()
    }

    /// The rounds in which a variant's run does not count.
    pub(crate) fn failed_rounds(&self, shown: &Shown<'_>) -> BTreeSet<usize> {
        let output = self.results.settings.output;
        self.benchmark
            .failures(shown.variant, output)
            .map(|run| run.round)
            .collect()
    }

    /// How many rounds began.
    pub(crate) fn rounds(&self) -> usize {
        let last = self
            .benchmark
            .variants
            .iter()
            .flat_map(|v| &v.runs)
            .map(|run| run.round + 1)
            .max();
        last.unwrap_or(0)
    }

    /// The candidate that is better than the baseline by most, and never failed; none if no better one was found.
    pub(crate) fn best(&self) -> Option<(&Shown<'a>, &Comparison)> {
        let main = self.main_quantity();
        self.shown
            .iter()
            .filter(|shown| shown.variant.role == Role::Candidate && shown.failures.count() == 0)
            .filter_map(|shown| Some((shown, self.comparison(&main, shown)?)))
            .find(|(_, comparison)| comparison.verdict == Verdict::Better)
    }
}
