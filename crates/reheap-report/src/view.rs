//! What all forms of a report show of a benchmark, and in which order.
//!
//! Everything here is read off [`Findings`]; a report computes nothing by itself, so that two forms of it can never
//! disagree.

use crate::chart::Tone;
use crate::names;
use reheap_bench::analysis::{Analysis, Comparison, Failures};
use reheap_bench::compare::title;
use reheap_bench::findings::Findings;
use reheap_bench::overview::Overview;
use reheap_bench::results::{Quantity, Role, Variant};
use std::collections::BTreeSet;

/// A benchmark as it is shown.
pub(crate) struct View<'a> {
    pub(crate) findings: &'a Findings<'a>,
    /// What tells it from the others in the report; none if there is no other.
    pub(crate) qualified: Option<String>,
    /// What it is called in this report.
    pub(crate) title: String,
    /// The variants that are shown: the baseline, the others from the best to the worst.
    pub(crate) shown: Vec<Shown<'a>>,
}

/// A variant in its place.
pub(crate) struct Shown<'a> {
    /// Its place in the benchmark, and in each analysis.
    pub(crate) index: usize,
    pub(crate) variant: &'a Variant,
    pub(crate) tone: Tone,
    pub(crate) failures: &'a Failures,
}

/// All benchmarks of a report, in its order.
pub(crate) fn views<'a>(overview: &'a Overview<'a>) -> Vec<View<'a>> {
    let several = several(overview);
    let candidates = candidates(overview);
    let view = |findings: &'a Findings<'a>| {
        let qualified = qualified(findings, several);
        let shown = findings.ranked.iter();
        View {
            findings,
            title: qualified
                .clone()
                .unwrap_or_else(|| title(findings.benchmark)),
            qualified,
            shown: shown
                .map(|&index| Shown::of(findings, index, &candidates))
                .collect(),
        }
    };
    overview.benchmarks.iter().map(view).collect()
}

/// Whether a benchmark's name alone says which one is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Several {
    /// There is only one benchmark.
    Nothing,
    /// Several benchmarks on one machine, each with a name of its own.
    Benchmarks,
    /// Several machines.
    Machines,
    /// Several files, some of which are of one machine and of the same benchmark.
    Times,
}

fn several(overview: &Overview<'_>) -> Several {
    let (all, benchmarks) = (overview.files, overview.benchmarks.iter());
    let titles: Vec<String> = benchmarks
        .map(|findings| title(findings.benchmark))
        .collect();
    let different: BTreeSet<&str> = titles.iter().map(String::as_str).collect();
    let machines = names::machines(all);
    if titles.len() < 2 && all.len() < 2 {
        Several::Nothing
    } else if machines.len() == 1 && (all.len() == 1 || different.len() == titles.len()) {
        Several::Benchmarks
    } else if machines.len() == all.len() {
        Several::Machines
    } else {
        Several::Times
    }
}

/// What tells a benchmark from the others in the report; none if there is no other.
fn qualified(findings: &Findings<'_>, several: Several) -> Option<String> {
    let (results, benchmark) = (findings.results, findings.benchmark);
    match several {
        Several::Nothing => None,
        Several::Benchmarks => Some(title(benchmark)),
        Several::Machines => Some(format!("{} on {}", title(benchmark), results.machine.name)),
        Several::Times => {
            let (machine, begun) = (&results.machine.name, &results.started_at);
            Some(format!("{} on {machine}, {begun}", title(benchmark)))
        }
    }
}

/// The candidates of all benchmarks, each once: a variant has the same colour in the whole report.
fn candidates<'a>(overview: &Overview<'a>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for variant in overview
        .benchmarks
        .iter()
        .flat_map(|findings| &findings.benchmark.variants)
    {
        if variant.role == Role::Candidate && !names.contains(&variant.name.as_str()) {
            names.push(&variant.name);
        }
    }
    names
}

impl<'a> Shown<'a> {
    fn of(findings: &'a Findings<'a>, index: usize, candidates: &[&str]) -> Shown<'a> {
        let variant = &findings.benchmark.variants[index];
        let place = candidates.iter().position(|name| *name == variant.name);
        Shown {
            index,
            variant,
            tone: match variant.role {
                Role::Baseline | Role::BaselineCopy => Tone::Baseline,
                Role::Candidate => Tone::Candidate(place.unwrap_or(0)),
            },
            failures: &findings.failures[index],
        }
    }
}

/// How much is said of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// What a choice depends on: spread, ratio, interval.
    Decides,
    /// What one looks at as well: the ratio.
    Matters,
    /// What explains the others: the median, where there is room.
    Explains,
    /// What is shown to those who ask for all.
    OnRequest,
}

impl View<'_> {
    /// What is said of a quantity in a table. Where nothing is compared there are no ratios, but all columns.
    pub(crate) fn said_of(&self, analysis: &Analysis) -> Weight {
        if analysis.rows.iter().any(|row| row.comparison.is_some()) {
            self.weight(&analysis.quantity)
        } else {
            Weight::Explains
        }
    }

    fn weight(&self, quantity: &Quantity) -> Weight {
        match quantity {
            Quantity::Metric(_) => Weight::Decides,
            time if *time == self.findings.main_quantity() => Weight::Decides,
            Quantity::Wall | Quantity::Cpu | Quantity::PeakRss => Weight::Matters,
            Quantity::MinorFaults | Quantity::Instructions => Weight::Explains,
            Quantity::User | Quantity::System | Quantity::MeanRss => Weight::OnRequest,
        }
    }

    /// What is shown of at least this weight, in the order of the columns: the program's own figures first, then the
    /// time that counts.
    pub(crate) fn columns(&self, least: Weight) -> Vec<&Analysis> {
        let analyses = self.findings.analyses.iter();
        let mut columns: Vec<&Analysis> = analyses
            .filter(|analysis| self.weight(&analysis.quantity) <= least)
            .collect();
        let time = self.findings.time();
        columns.sort_by_key(|analysis| match &analysis.quantity {
            Quantity::Metric(_) => 0,
            quantity if *quantity == time => 1,
            _ => 2,
        });
        columns
    }

    pub(crate) fn comparison(&self, quantity: &Quantity, shown: &Shown<'_>) -> Option<&Comparison> {
        self.findings.comparison(quantity, shown.index)
    }
}
