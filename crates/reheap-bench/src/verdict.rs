//! The verdict: what benchmarks show, in the one sentence that every report begins with.
//!
//! It names how much, and the price: `mimalloc: 22 % less time than glibc [18, 26], 27 % more memory`. Of several
//! benchmarks it says geometric means, because "best in 1 of 2" says neither. Only what is claimed is said.

use crate::analysis::{Comparison, Verdict};
use crate::figures;
use crate::findings::Findings;
use crate::overview::{Entry, Matrix, MatrixRow, Overview};
use crate::results::{Direction, Quantity, Role};
use crate::warnings::Warning;
use reheap_stats::interval::Estimate;

/// The verdict of all benchmarks of a report.
pub fn verdict(overview: &Overview<'_>) -> String {
    match (overview.benchmarks.as_slice(), overview.matrices.first()) {
        ([findings], _) => of_one(findings),
        (_, Some(matrix)) => of_several(overview, matrix),
        (several, None) => {
            let mut measured = several.iter().filter(|findings| findings.rounds() > 0);
            measured
                .next()
                .map_or_else(|| "Nothing was measured".to_owned(), of_one)
        }
    }
}

/// The verdict of one benchmark.
pub fn of_one(findings: &Findings<'_>) -> String {
    if let Some(reason) = nothing_compared(findings) {
        return reason;
    }
    let (main, baseline) = (findings.main_quantity(), baseline(findings));
    if let Some((variant, change)) = best_change(findings, &main) {
        let name = &findings.benchmark.variants[variant].name;
        return format!("{name}: {change}{}", memory_of(findings, variant));
    }
    let direction = findings.benchmark.direction(&main);
    let none = if all_are_worse(findings, &main) {
        format!(
            "Every other variant {} {} {} than {baseline}",
            verb(&main),
            wanted(direction).1,
            noun(&main)
        )
    } else {
        none_better(&main, direction, baseline)
    };
    match least_memory(findings) {
        Some(memory) => format!("{none}; {memory}"),
        None => none,
    }
}

/// The best variant, and by how much it is better than the baseline; none if that rounds to nothing.
fn best_change(findings: &Findings<'_>, main: &Quantity) -> Option<(usize, String)> {
    let (variant, shown) = findings.best()?;
    let baseline = baseline(findings);
    let Some(ratio) = shown.ratio else {
        let analysis = findings.analysis(main)?;
        let row = analysis
            .rows
            .iter()
            .find(|row| row.role == Role::Baseline)?;
        let medians = analysis.rows[variant].median().zip(row.median())?;
        let [own, other] = [medians.0, medians.1].map(|median| figures::value(main, median));
        let change = format!("{} {own} instead of {other} with {baseline}", noun(main));
        return Some((variant, change));
    };
    if figures::is_said_as_none(ratio.value) {
        return None;
    }
    let change = figures::change_of(noun(main), ratio.value);
    let change = format!("{change} {} {baseline}", compared(ratio.value));
    Some((variant, with_interval(&change, &ratio)))
}

/// Why nothing can be said of a benchmark.
fn nothing_compared(findings: &Findings<'_>) -> Option<String> {
    if findings.rounds() == 0 {
        return Some("Nothing was measured".to_owned());
    }
    let baseline = baseline(findings);
    let variants = &findings.benchmark.variants;
    let baseline_place = variants
        .iter()
        .position(|variant| variant.role == Role::Baseline)?;
    let (mut works, mut candidates) = (Vec::new(), 0);
    for &place in &findings.ranked {
        let variant = &findings.benchmark.variants[place];
        candidates += usize::from(variant.role == Role::Candidate);
        if findings.never_failed(place, &[Role::Candidate]) && !variant.runs.is_empty() {
            works.push(variant.name.as_str());
        }
    }
    let never_works = |warning: &Warning| matches!(warning, Warning::NoBaseline { .. });
    if findings.warnings.iter().any(never_works) {
        return Some(match works.as_slice() {
            [] if candidates == 0 => format!("{baseline} never got through"),
            [] => format!("{baseline} never got through, and no other variant always did"),
            names => format!(
                "{baseline} never got through; {} always did",
                names.join(", ")
            ),
        });
    }
    if candidates == 0 {
        return Some(format!("Only {baseline} was measured"));
    }
    if works.is_empty() {
        return Some(match findings.failures[baseline_place].count() {
            0 => format!("No variant other than {baseline} always got through"),
            _ => "No variant always got through".to_owned(),
        });
    }
    let is_short = |warning: &&Warning| matches!(warning, Warning::FewRounds { .. });
    findings
        .warnings
        .iter()
        .find(is_short)
        .map(Warning::to_string)
}

/// What the best variant of one benchmark does to memory, to be put behind its time; nothing where that is not known.
fn memory_of(findings: &Findings<'_>, variant: usize) -> String {
    let memory = noun(&Quantity::PeakRss);
    match findings.comparison(&Quantity::PeakRss, variant) {
        Some(Comparison {
            verdict,
            ratio: Some(ratio),
            ..
        }) if verdict.is_claimed() => {
            format!(", {}", figures::change_of(memory, ratio.value))
        }
        Some(Comparison {
            verdict: Verdict::Equal,
            ..
        }) => format!(", the same {memory}"),
        _ => String::new(),
    }
}

/// The variant that has least memory, and is not worse in what the benchmark is about.
fn least_memory(findings: &Findings<'_>) -> Option<String> {
    let main = findings.main_quantity();
    let claimed = |quantity: &Quantity, variant: usize, verdict: Verdict| {
        let comparison = findings.comparison(quantity, variant)?;
        (comparison.verdict_for_a_choice() == verdict).then_some(comparison.ratio?)
    };
    let smaller = findings.ranked.iter().filter_map(|&variant| {
        let is_slower = claimed(&main, variant, Verdict::Worse).is_some();
        let may_be_taken = !is_slower && findings.never_failed(variant, &[Role::Candidate]);
        let ratio = claimed(&Quantity::PeakRss, variant, Verdict::Better)?;
        may_be_taken.then_some((variant, ratio))
    });
    let (variant, ratio) = smaller.min_by(|left, right| left.1.value.total_cmp(&right.1.value))?;
    let change = figures::change_of(noun(&Quantity::PeakRss), ratio.value);
    let change = with_interval(&change, &ratio);
    Some(format!(
        "{}: {change}",
        findings.benchmark.variants[variant].name
    ))
}

/// The variant with the best mean of what the benchmarks are about, if that is claimed of it on the whole.
fn of_several(overview: &Overview<'_>, matrix: &Matrix) -> String {
    let (here, all) = (matrix.benchmarks.len(), overview.benchmarks.len());
    let benchmarks = if here == all {
        format!("{all} benchmarks")
    } else {
        format!("{here} of {all} benchmarks")
    };
    if !matrix.has_means() {
        return format!("No variant has figures of all {benchmarks}");
    }
    let baseline = common_baseline(overview, matrix);
    let better = |row: &&MatrixRow| on_the_whole(row, matrix.direction) == Some(Verdict::Better);
    let Some(best) = matrix.rows.iter().find(better) else {
        let none = none_better(&matrix.quantity, matrix.direction, baseline);
        return format!("{none}, on average of {benchmarks}");
    };
    let change = |matrix: &Matrix, mean: f64| figures::change_of(noun(&matrix.quantity), mean);
    let mean = best.mean.unwrap_or(1.0);
    let memory = overview.matrices.iter().find_map(|matrix| {
        let rows = matrix.rows.iter();
        let row = rows
            .filter(|_| matrix.quantity == Quantity::PeakRss)
            .find(|shown| shown.variant == best.variant)?;
        match on_the_whole(row, matrix.direction)? {
            Verdict::Equal => Some(format!(" and the same {}", noun(&matrix.quantity))),
            _ => Some(format!(" and {}", change(matrix, row.mean?))),
        }
    });
    format!(
        "{}: {} {} {baseline}{}, geometric mean of {benchmarks}",
        best.variant,
        change(matrix, mean),
        compared(mean),
        memory.unwrap_or_default(),
    )
}

/// What several benchmarks show of a variant: better or worse if that is claimed in at least half of them, and in more
/// than the opposite, and the mean agrees beyond its interval; equal if all say so.
fn on_the_whole(row: &MatrixRow, direction: Direction) -> Option<Verdict> {
    let count = |wanted: Verdict| {
        let cells = row.cells.iter();
        cells
            .filter(|entry| matches!(entry, Entry::Compared(comparison) if comparison.verdict == wanted))
            .count()
    };
    let (better, worse, equal) = (
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::Equal),
    );
    // Without an interval, a ratio that may be chance must not move the mean.
    let is_shown = match row.interval {
        Some(interval) => !interval.contains(1.0),
        None => better + worse + equal == row.cells.len(),
    };
    let is_less = row.mean? < 1.0;
    let has_better_mean = is_less == (direction == Direction::Lower);
    match (better, worse) {
        _ if equal == row.cells.len() => Some(Verdict::Equal),
        _ if !is_shown => None,
        _ if 2 * better.max(worse) < row.cells.len() => None,
        _ if better > worse && has_better_mean => Some(Verdict::Better),
        _ if worse > better && !has_better_mean => Some(Verdict::Worse),
        _ => None,
    }
}

/// A change with its interval behind it: `22 % less time than glibc [18, 26]`.
fn with_interval(change: &str, ratio: &Estimate) -> String {
    match figures::interval_of_change(ratio) {
        Some(interval) => format!("{change} {interval}"),
        None => change.to_owned(),
    }
}

/// What joins a change to what it is compared with: 3 times the time *of* glibc, 20 % less *than* glibc.
fn compared(ratio: f64) -> &'static str {
    if figures::is_said_in_times(ratio) {
        "of"
    } else {
        "than"
    }
}

fn none_better(quantity: &Quantity, direction: Direction, baseline: &str) -> String {
    format!(
        "No variant {} measurably {} {} than {baseline}",
        verb(quantity),
        wanted(direction).0,
        noun(quantity)
    )
}

/// Whether it is claimed of every candidate that it is worse.
fn all_are_worse(findings: &Findings<'_>, quantity: &Quantity) -> bool {
    let variants = findings.benchmark.variants.iter().enumerate();
    let mut candidates = variants.filter(|(_, variant)| variant.role == Role::Candidate);
    candidates.all(|(place, _)| {
        let comparison = findings.comparison(quantity, place);
        comparison.is_some_and(|comparison| comparison.verdict == Verdict::Worse)
    })
}

fn verb(quantity: &Quantity) -> &'static str {
    match quantity {
        Quantity::Wall | Quantity::Cpu => "takes",
        _ => "has",
    }
}

/// What is wanted of a figure, and what is not.
fn wanted(direction: Direction) -> (&'static str, &'static str) {
    match direction {
        Direction::Lower => ("less", "more"),
        Direction::Higher => ("more", "less"),
    }
}

/// What a quantity is called where it is the only one of its kind.
fn noun(quantity: &Quantity) -> &str {
    match quantity {
        Quantity::Wall => "time",
        Quantity::PeakRss => "memory",
        other => figures::noun(other),
    }
}

/// The name of what the others are compared with.
pub fn baseline<'a>(findings: &Findings<'a>) -> &'a str {
    let baseline = findings.benchmark.baseline();
    baseline.map_or("the baseline", |baseline| &baseline.name)
}

fn common_baseline<'a>(overview: &Overview<'a>, matrix: &Matrix) -> &'a str {
    let mut names = matrix
        .benchmarks
        .iter()
        .map(|&place| baseline(&overview.benchmarks[place]));
    let first = names.next().unwrap_or("the baseline");
    if names.all(|name| name == first) {
        first
    } else {
        "the baseline"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Benchmark;
    use crate::simulated::{Simulated, lose_runs, results};

    const MIB: f64 = 1024.0 * 1024.0;

    /// glibc and candidates with these seconds and MiB, where glibc has 1 and 50.
    fn measured(candidates: &[(&str, f64, f64)], rounds: usize, seed: u64) -> Benchmark {
        let mut variants = vec![
            ("glibc", Role::Baseline, 1.0, 50.0 * MIB),
            ("glibc#2", Role::BaselineCopy, 1.0, 50.0 * MIB),
        ];
        let candidates = candidates.iter();
        variants.extend(candidates.map(|&(name, s, mib)| (name, Role::Candidate, s, mib * MIB)));
        let mut benchmark = Simulated::quiet(rounds, seed).run(&variants);
        benchmark.metrics.clear();
        benchmark
    }

    fn said(benchmarks: Vec<Benchmark>) -> String {
        verdict(&Overview::of(&[results(benchmarks)]))
    }

    #[test]
    fn the_best_variant_is_said_with_its_price() {
        let variants = [("mimalloc", 0.78, 63.5), ("musl", 3.0, 20.0)];
        let said = said(vec![measured(&variants, 20, 1)]);
        assert!(
            said.starts_with("mimalloc: 23 % less time than glibc [22, 2"),
            "{said}"
        );
        assert!(said.ends_with("], 27 % more memory"), "{said}");
    }

    #[test]
    fn several_benchmarks_are_said_by_their_mean() {
        let one = measured(&[("mimalloc", 0.9, 150.0), ("jemalloc", 0.95, 30.0)], 12, 2);
        let two = measured(&[("mimalloc", 0.7, 150.0), ("jemalloc", 0.95, 30.0)], 12, 3);
        let said = said(vec![one, two]);
        let mean = "mimalloc: 21 % less time than glibc and 3.00 times the memory, geometric mean of 2 benchmarks";
        assert_eq!(said, mean);
    }

    #[test]
    fn one_benchmark_that_shows_nothing_makes_no_mean() {
        let shown = measured(&[("mimalloc", 0.97, 50.0)], 12, 2);
        let mut open = measured(&[("mimalloc", 1.0, 50.0)], 12, 3);
        for (round, run) in open.variants[2].runs.iter_mut().enumerate() {
            run.cost.wall_seconds = if round % 3 == 0 { 1.5 } else { 0.2 };
        }
        let none = "No variant takes measurably less time than glibc, on average of 2 benchmarks";
        assert_eq!(said(vec![shown, open]), none);
    }

    #[test]
    fn figures_of_zero_are_said_by_themselves() {
        let mut benchmark = measured(&[("mimalloc", 1.0, 50.0)], 12, 2);
        let errors = |variant: usize| if variant == 2 { 0.0 } else { 100.0 };
        for (place, variant) in benchmark.variants.iter_mut().enumerate() {
            for run in &mut variant.runs {
                let errors = errors(place) + run.round as f64 * errors(place) / 1e3;
                run.metrics = [("errors".to_owned(), errors)].into();
            }
        }
        benchmark.metrics = [("errors".to_owned(), Direction::Lower)].into();
        let said = said(vec![benchmark]);
        assert!(
            said.starts_with("mimalloc: errors 0 instead of 10"),
            "{said}"
        );
    }

    #[test]
    fn where_nothing_is_better_it_is_said_whether_all_is_worse() {
        let worse = said(vec![measured(&[("mimalloc", 1.2, 50.0)], 12, 4)]);
        assert_eq!(worse, "Every other variant takes more time than glibc");
        let one_is = [("mimalloc", 1.2, 50.0), ("jemalloc", 1.0, 50.0)];
        let one_is = said(vec![measured(&one_is, 12, 4)]);
        assert_eq!(one_is, "No variant takes measurably less time than glibc");
    }

    #[test]
    fn a_variant_that_only_saves_memory_is_named_too() {
        let said = said(vec![measured(&[("mimalloc", 1.0, 40.0)], 12, 5)]);
        let smaller =
            "No variant takes measurably less time than glibc; mimalloc: 20 % less memory";
        assert_eq!(said, smaller);
    }

    #[test]
    fn a_variant_that_failed_is_not_praised() {
        let mut benchmark = measured(&[("mimalloc", 0.5, 40.0)], 12, 6);
        lose_runs(&mut benchmark.variants[2], 3..4);
        assert_eq!(
            said(vec![benchmark.clone()]),
            "No variant other than glibc always got through"
        );
        lose_runs(&mut benchmark.variants[0], 0..12);
        lose_runs(&mut benchmark.variants[1], 0..12);
        lose_runs(&mut benchmark.variants[2], 0..12);
        let none = "glibc never got through, and no other variant always did";
        assert_eq!(said(vec![benchmark]), none);
    }

    #[test]
    fn too_few_rounds_say_so() {
        let few = "not enough data: 2 rounds, and 4 are needed";
        assert_eq!(said(vec![measured(&[("mimalloc", 0.5, 40.0)], 2, 7)]), few);
        assert_eq!(
            said(vec![measured(&[("mimalloc", 0.5, 40.0)], 0, 7)]),
            "Nothing was measured"
        );
    }
}
