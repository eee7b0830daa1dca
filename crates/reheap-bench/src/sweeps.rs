//! What several benchmarks show together: how the variants scale with one setting of a sweep.

use crate::analysis::analyse;
use crate::results::{Benchmark, OutputCheck, Quantity, Role};
use crate::stats::interval::Estimate;
use std::collections::BTreeMap;

/// Benchmarks that differ by one parameter only.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What was run.
    pub name: String,
    /// The other parameters, which are the same for all of them.
    pub fixed: BTreeMap<String, String>,
    /// The memory limit of all of them.
    pub memory_limit_bytes: Option<u64>,
    /// The values of the parameter: in increasing order if they are numbers, otherwise as they were measured.
    pub values: Vec<String>,
    /// The benchmark of each value, as a place in the slice that was given.
    pub benchmarks: Vec<usize>,
    /// The variants.
    pub lines: Vec<Line>,
}

/// A variant over the values of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The variant's name.
    pub variant: String,
    /// What it is there for.
    pub role: Role,
    /// The median at each value; none where the variant has no figure.
    pub medians: Vec<Option<Estimate>>,
}

/// The series of a parameter: one for each combination of everything else that has at least two values of it.
pub fn series(
    benchmarks: &[Benchmark],
    parameter: &str,
    quantity: &Quantity,
    output: OutputCheck,
) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for (place, benchmark) in benchmarks.iter().enumerate() {
        let mut fixed = benchmark.parameters.clone();
        let Some(value) = fixed.remove(parameter) else {
            continue;
        };
        let belongs = |series: &&mut Series| {
            series.name == benchmark.name
                && series.fixed == fixed
                && series.memory_limit_bytes == benchmark.memory_limit_bytes
        };
        if let Some(series) = all.iter_mut().find(belongs) {
            series.values.push(value);
            series.benchmarks.push(place);
        } else {
            all.push(Series {
                name: benchmark.name.clone(),
                fixed,
                memory_limit_bytes: benchmark.memory_limit_bytes,
                values: vec![value],
                benchmarks: vec![place],
                lines: Vec::new(),
            });
        }
    }
    all.retain(|series| series.values.len() > 1);
    for series in &mut all {
        series.sort();
        series.lines = lines(benchmarks, &series.benchmarks, quantity, output);
    }
    all
}

impl Series {
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

fn lines(
    benchmarks: &[Benchmark],
    places: &[usize],
    quantity: &Quantity,
    output: OutputCheck,
) -> Vec<Line> {
    let analyses: Vec<_> = places
        .iter()
        .map(|&place| analyse(&benchmarks[place], quantity, output))
        .collect();
    let median = |variant: &str| {
        let of_each = analyses.iter().map(|analysis| {
            let row = analysis
                .as_ref()?
                .rows
                .iter()
                .find(|row| row.variant == variant)?;
            Some(row.summary.as_ref()?.median)
        });
        of_each.collect()
    };
    names(places.iter().map(|&place| &benchmarks[place]))
        .into_iter()
        .map(|(variant, role)| Line {
            medians: median(&variant),
            variant,
            role,
        })
        .collect()
}

/// The variants of all these benchmarks, each once.
fn names<'a>(benchmarks: impl Iterator<Item = &'a Benchmark>) -> Vec<(String, Role)> {
    let mut names: Vec<(String, Role)> = Vec::new();
    for variant in benchmarks.flat_map(|benchmark| &benchmark.variants) {
        if !names.iter().any(|(name, _)| *name == variant.name) {
            names.push((variant.name.clone(), variant.role));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Simulated;

    fn sweep(threads: &str, seconds: f64) -> Benchmark {
        let mut benchmark = Simulated::quiet(10, 1).run(&[
            ("base", Role::Baseline, 1.0, 1e6),
            ("fast", Role::Candidate, seconds, 1e6),
        ]);
        benchmark
            .parameters
            .insert("threads".into(), threads.into());
        benchmark.parameters.insert("size".into(), "7".into());
        benchmark
    }

    #[test]
    fn a_series_is_in_the_order_of_its_numbers() {
        let mut other = sweep("2", 1.0);
        other.memory_limit_bytes = Some(1 << 20);
        let benchmarks = [sweep("16", 0.5), sweep("2", 0.9), other, sweep("4", 0.8)];
        let all = series(&benchmarks, "threads", &Quantity::Wall, OutputCheck::Same);
        let [series] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(series.values, ["2", "4", "16"]);
        assert_eq!(series.benchmarks, [1, 3, 0]);
        assert_eq!(series.fixed, BTreeMap::from([("size".into(), "7".into())]));
        let medians = series.lines[1]
            .medians
            .iter()
            .map(|median| median.unwrap().value);
        assert!(medians.is_sorted_by(|left, right| left > right));
    }

    #[test]
    fn words_stay_in_the_order_in_which_they_were_measured() {
        let benchmarks = [sweep("many", 0.5), sweep("few", 0.9)];
        let all = series(&benchmarks, "threads", &Quantity::Wall, OutputCheck::Same);
        assert_eq!(all[0].values, ["many", "few"]);
        assert!(series(&benchmarks, "depth", &Quantity::Wall, OutputCheck::Same).is_empty());
    }
}
