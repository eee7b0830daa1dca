//! What several benchmarks show together: how the variants scale with one parameter of a sweep.

use crate::findings::{Findings, decisive_quantities};
use crate::results::Quantity;
use reheap_stats::interval::Estimate;
use std::collections::BTreeSet;
use std::ops::Range;

/// Benchmarks of one file that differ by one parameter only.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The parameter.
    pub parameter: String,
    /// Its values: in increasing order if they are numbers, otherwise as they were measured.
    pub values: Vec<String>,
    /// The benchmark of each value, as a place in [`crate::overview::Overview::benchmarks`].
    pub benchmarks: Vec<usize>,
}

/// How a quantity changes with a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What was measured.
    pub sweep: Sweep,
    /// The quantity.
    pub quantity: Quantity,
    /// The variants, each once.
    pub lines: Vec<Line>,
}

/// A variant over the values of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The variant's name.
    pub variant: String,
    /// The median at each value; none where the variant has no figure.
    pub medians: Vec<Option<Estimate>>,
}

/// All series of a file, whose benchmarks have these places: of each parameter in each decisive quantity, one for each
/// combination of everything else.
pub(crate) fn series(benchmarks: &[Findings<'_>], file: Range<usize>) -> Vec<Series> {
    let of_file = &benchmarks[file.clone()];
    let parameters: BTreeSet<&String> = of_file
        .iter()
        .flat_map(|findings| findings.benchmark.parameters.keys())
        .collect();
    let quantities = decisive_quantities(of_file);
    let mut all = Vec::new();
    for parameter in parameters {
        let sweeps = sweeps(benchmarks, file.clone(), parameter);
        for quantity in &quantities {
            all.extend(sweeps.iter().map(|sweep| Series {
                lines: lines(benchmarks, sweep, quantity),
                quantity: quantity.clone(),
                sweep: sweep.clone(),
            }));
        }
    }
    all
}

/// The sweeps of a parameter that have at least two values of it.
fn sweeps(benchmarks: &[Findings<'_>], file: Range<usize>, parameter: &str) -> Vec<Sweep> {
    let everything_else = |place: usize| {
        let benchmark = benchmarks[place].benchmark;
        let mut fixed = benchmark.parameters.clone();
        fixed.remove(parameter);
        (&benchmark.name, fixed, benchmark.memory_limit_bytes)
    };
    let mut all: Vec<Sweep> = Vec::new();
    for place in file {
        let Some(value) = benchmarks[place].benchmark.parameters.get(parameter) else {
            continue;
        };
        let belongs =
            |sweep: &&mut Sweep| everything_else(sweep.benchmarks[0]) == everything_else(place);
        if let Some(sweep) = all.iter_mut().find(belongs) {
            sweep.values.push(value.clone());
            sweep.benchmarks.push(place);
        } else {
            all.push(Sweep {
                parameter: parameter.to_owned(),
                values: vec![value.clone()],
                benchmarks: vec![place],
            });
        }
    }
    all.retain(|sweep| sweep.values.len() > 1);
    all.iter_mut().for_each(Sweep::sort);
    all
}

impl Sweep {
    fn sort(&mut self) {
        let numbers: Option<Vec<f64>> =
            self.values.iter().map(|value| value.parse().ok()).collect();
        let Some(numbers) = numbers else {
            return;
        };
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by(|&left, &right| numbers[left].total_cmp(&numbers[right]));
        self.values = order
            .iter()
            .map(|&place| self.values[place].clone())
            .collect();
        self.benchmarks = order.iter().map(|&place| self.benchmarks[place]).collect();
    }
}

fn lines(benchmarks: &[Findings<'_>], sweep: &Sweep, quantity: &Quantity) -> Vec<Line> {
    let analyses: Vec<_> = sweep
        .benchmarks
        .iter()
        .map(|&place| benchmarks[place].analysis(quantity))
        .collect();
    let median = |variant: &str| {
        let of_each = analyses.iter().map(|analysis| {
            let mut rows = analysis.as_ref()?.rows.iter();
            let row = rows.find(|row| row.variant == variant)?;
            Some(row.summary.as_ref()?.median)
        });
        of_each.collect()
    };
    let mut lines: Vec<Line> = Vec::new();
    for &place in &sweep.benchmarks {
        for variant in &benchmarks[place].benchmark.variants {
            if !lines.iter().any(|line| line.variant == variant.name) {
                lines.push(Line {
                    medians: median(&variant.name),
                    variant: variant.name.clone(),
                });
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Benchmark, Role};
    use crate::simulated::{Simulated, results};

    fn measured(threads: &str, seconds: f64) -> Benchmark {
        let mut benchmark = Simulated::quiet(10, 1).run(&[
            ("base", Role::Baseline, 1.0, 1e6),
            ("fast", Role::Candidate, seconds, 1e6),
        ]);
        benchmark.metrics.clear();
        benchmark
            .parameters
            .insert("threads".into(), threads.into());
        benchmark.parameters.insert("size".into(), "7".into());
        benchmark
    }

    /// The series of the wall time.
    fn of_wall(benchmarks: Vec<Benchmark>) -> Vec<Series> {
        let results = results(benchmarks);
        let findings: Vec<Findings<'_>> = results
            .benchmarks
            .iter()
            .map(|benchmark| Findings::of(&results, benchmark))
            .collect();
        let mut all = series(&findings, 0..findings.len());
        all.retain(|series| series.quantity == Quantity::Wall);
        all
    }

    #[test]
    fn a_series_is_in_the_order_of_its_numbers() {
        let mut other = measured("2", 1.0);
        other.memory_limit_bytes = Some(1 << 20);
        let all = of_wall(vec![
            measured("16", 0.5),
            measured("2", 0.9),
            other,
            measured("4", 0.8),
        ]);
        let [series] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(series.sweep.parameter, "threads");
        assert_eq!(series.sweep.values, ["2", "4", "16"]);
        assert_eq!(series.sweep.benchmarks, [1, 3, 0]);
        let medians = series.lines[1]
            .medians
            .iter()
            .map(|median| median.unwrap().value);
        assert!(medians.is_sorted_by(|left, right| left > right));
    }

    #[test]
    fn words_stay_in_the_order_in_which_they_were_measured() {
        let all = of_wall(vec![measured("many", 0.5), measured("few", 0.9)]);
        assert_eq!(all[0].sweep.values, ["many", "few"]);
        assert_eq!(all.len(), 1);
    }
}
