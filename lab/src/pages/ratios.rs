//! How the variants compare with glibc, benchmark by benchmark and in the mean.
//!
//! A geometric mean is taken only over benchmarks that every shown variant took part in: means over different
//! benchmarks compare nothing. Micro benchmarks have no part in it. The heap of a loop that does little but allocate is a
//! few blocks, so its peak memory says nothing about that of a program.

use crate::known;
use crate::programs;
use reheap_bench::analysis::{Analysis, Verdict};
use reheap_bench::compare::title;
use reheap_bench::findings::Findings;
use reheap_bench::results::{Quantity, Results};
use reheap_stats::geometric_mean;

/// A variant that people are shown, among those that were measured.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) variant: &'static str,
    pub(crate) label: &'static str,
    pub(crate) kind: Kind,
}

/// What a variant is to a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What one gets without doing anything.
    Stock,
    /// What one can do today, without reheap or beside it.
    Known,
    /// What reheap makes.
    Reheap,
}

pub(crate) const fn shown(variant: &'static str, label: &'static str, kind: Kind) -> Shown {
    Shown {
        variant,
        label,
        kind,
    }
}

/// Static programs, and the same with a preload.
pub(crate) const LINKED: &[Shown] = &[
    shown("musl", "stock musl", Kind::Stock),
    shown("musl, crate mimalloc", "musl, mimalloc crate", Kind::Known),
    shown(
        "musl, crate tikv-jemallocator",
        "musl, tikv-jemallocator",
        Kind::Known,
    ),
    shown("glibc+mimalloc", "glibc, mimalloc preloaded", Kind::Known),
    shown("glibc+jemalloc", "glibc, jemalloc preloaded", Kind::Known),
    shown("musl+mimalloc", "reheap, mimalloc (default)", Kind::Reheap),
    shown("musl+jemalloc", "reheap, jemalloc", Kind::Reheap),
];

/// What else one can do today. Tables have it where it was measured; the chart is readable without it.
pub(crate) const FURTHER: &[Shown] = &[
    shown(known::BY_HAND, known::BY_HAND, Kind::Known),
    shown(
        known::JEMALLOC,
        "glibc, Debian's jemalloc preloaded",
        Kind::Known,
    ),
    shown(
        known::MIMALLOC,
        "glibc, Debian's mimalloc preloaded",
        Kind::Known,
    ),
    shown(
        known::TCMALLOC,
        "glibc, Debian's tcmalloc preloaded",
        Kind::Known,
    ),
];

/// Programs that nobody links again.
pub(crate) const PRELOADED: &[Shown] = &[
    shown("glibc+mimalloc", "mimalloc", Kind::Reheap),
    shown("glibc+mimalloc3", "mimalloc3", Kind::Reheap),
    shown("glibc+mimalloc-secure", "mimalloc-secure", Kind::Reheap),
    shown("glibc+jemalloc", "jemalloc", Kind::Reheap),
    shown("glibc+rpmalloc", "rpmalloc", Kind::Reheap),
    shown("glibc+snmalloc", "snmalloc", Kind::Reheap),
];

/// All benchmarks.
pub(crate) struct Ratios {
    pub(crate) benchmarks: Vec<Benchmark>,
}

/// One benchmark: what each variant's time and memory are, over the baseline's.
pub(crate) struct Benchmark {
    pub(crate) title: String,
    /// Whether it is a loop that does little but allocate.
    pub(crate) is_micro: bool,
    pub(crate) rounds: usize,
    /// How large a difference in time would have been seen: 0.05 for 5 %.
    pub(crate) visible: Option<f64>,
    pub(crate) load: Option<f64>,
    cells: Vec<Cell>,
}

struct Cell {
    variant: String,
    time: Ratio,
    memory: Ratio,
}

/// A ratio, and what may be claimed.
#[derive(Clone, Copy)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) verdict: Verdict,
}

/// What several benchmarks show of one variant.
pub(crate) struct Spread {
    /// The geometric mean.
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// Time or memory.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    Time,
    Memory,
}

impl Ratios {
    pub(crate) fn of(all: &[(String, Results)]) -> Ratios {
        let mut benchmarks = Vec::new();
        for (file, results) in all {
            let is_micro = programs::MICRO
                .iter()
                .any(|program| file.strip_suffix(".json") == Some(program));
            for benchmark in &results.benchmarks {
                let findings = Findings::of(results, benchmark);
                let analysis = |quantity| findings.analysis(&quantity);
                let (Some(time), Some(memory)) =
                    (analysis(Quantity::Wall), analysis(Quantity::PeakRss))
                else {
                    continue;
                };
                let ratio = |analysis: &Analysis, variant| {
                    let comparison = analysis.comparison(variant)?;
                    Some(Ratio {
                        value: comparison.ratio?.value,
                        verdict: comparison.verdict,
                    })
                };
                let variants = benchmark.variants.iter().enumerate();
                let cells = variants
                    .filter(|(place, _)| findings.failures[*place].count() == 0)
                    .filter_map(|(place, variant)| {
                        Some(Cell {
                            variant: variant.name.clone(),
                            time: ratio(time, place)?,
                            memory: ratio(memory, place)?,
                        })
                    });
                let baseline = benchmark.baseline();
                benchmarks.push(Benchmark {
                    title: title(benchmark),
                    is_micro,
                    rounds: baseline.map_or(0, |baseline| baseline.runs.len()),
                    visible: time.visible(benchmark),
                    load: results.machine.load_average,
                    cells: cells.collect(),
                });
            }
        }
        Ratios { benchmarks }
    }

    /// The programs that all of these variants took part in; no micro benchmark.
    pub(crate) fn common(&self, shown: &[Shown]) -> Vec<&Benchmark> {
        let has_all = |benchmark: &&Benchmark| {
            shown
                .iter()
                .all(|shown| benchmark.ratio(shown.variant, Of::Time).is_some())
        };
        self.programs().filter(has_all).collect()
    }

    pub(crate) fn programs(&self) -> impl Iterator<Item = &Benchmark> {
        self.benchmarks
            .iter()
            .filter(|benchmark| !benchmark.is_micro)
    }

    pub(crate) fn micro(&self) -> impl Iterator<Item = &Benchmark> {
        self.benchmarks
            .iter()
            .filter(|benchmark| benchmark.is_micro)
    }

    /// Whether any benchmark has this variant.
    pub(crate) fn has(&self, variant: &str) -> bool {
        let mut benchmarks = self.benchmarks.iter();
        benchmarks.any(|benchmark| benchmark.ratio(variant, Of::Time).is_some())
    }

    /// The titles of the programs that are not among these.
    pub(crate) fn apart(&self, common: &[&Benchmark]) -> Vec<&str> {
        self.programs()
            .map(|benchmark| benchmark.title.as_str())
            .filter(|title| common.iter().all(|benchmark| benchmark.title != *title))
            .collect()
    }

    /// The geometric mean over these benchmarks, the least and the most; none if the variant is missing in one.
    pub(crate) fn spread(benchmarks: &[&Benchmark], variant: &str, of: Of) -> Option<Spread> {
        let ratios: Option<Vec<f64>> = benchmarks
            .iter()
            .map(|benchmark| Some(benchmark.ratio(variant, of)?.value))
            .collect();
        let mut ratios = ratios?;
        ratios.sort_by(f64::total_cmp);
        Some(Spread {
            least: *ratios.first()?,
            most: *ratios.last()?,
            mean: geometric_mean(ratios)?,
        })
    }

    /// See [`Self::spread`].
    pub(crate) fn mean(benchmarks: &[&Benchmark], variant: &str, of: Of) -> Option<f64> {
        Ratios::spread(benchmarks, variant, of).map(|spread| spread.mean)
    }
}

impl Benchmark {
    /// A benchmark of these variants, with their time and their memory.
    #[cfg(test)]
    pub(crate) fn example(title: &str, variants: &[(&str, f64, f64)]) -> Benchmark {
        let ratio = |value| Ratio {
            value,
            verdict: Verdict::Better,
        };
        let cells = variants.iter().map(|&(variant, time, memory)| Cell {
            variant: variant.to_owned(),
            time: ratio(time),
            memory: ratio(memory),
        });
        Benchmark {
            title: title.to_owned(),
            is_micro: false,
            rounds: 10,
            visible: None,
            load: None,
            cells: cells.collect(),
        }
    }

    pub(crate) fn ratio(&self, variant: &str, of: Of) -> Option<Ratio> {
        let cell = self.cells.iter().find(|cell| cell.variant == variant)?;
        Some(match of {
            Of::Time => cell.time,
            Of::Memory => cell.memory,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_micro_benchmark_has_no_part_in_a_mean() {
        let mut micro = Benchmark::example("loop", &[("fast", 0.1, 0.1)]);
        micro.is_micro = true;
        let ratios = Ratios {
            benchmarks: vec![Benchmark::example("program", &[("fast", 0.5, 2.0)]), micro],
        };
        let fast = [shown("fast", "fast", Kind::Known)];
        let common = ratios.common(&fast);
        assert_eq!(Ratios::mean(&common, "fast", Of::Memory), Some(2.0));
        assert!(ratios.apart(&common).is_empty());
    }

    #[test]
    fn a_mean_is_taken_only_over_benchmarks_that_every_variant_ran() {
        let ratios = Ratios {
            benchmarks: vec![
                Benchmark::example("one", &[("fast", 0.5, 2.0), ("small", 1.0, 0.5)]),
                Benchmark::example("two", &[("fast", 2.0, 2.0), ("small", 4.0, 0.5)]),
                Benchmark::example("three", &[("fast", 0.01, 9.0)]),
            ],
        };
        let both = [
            shown("fast", "fast", Kind::Known),
            shown("small", "small", Kind::Known),
        ];
        let common = ratios.common(&both);
        assert_eq!(ratios.apart(&common), ["three"]);
        assert_eq!(Ratios::mean(&common, "fast", Of::Time), Some(1.0));
        assert_eq!(Ratios::mean(&common, "small", Of::Time), Some(2.0));
        assert_eq!(Ratios::mean(&common, "absent", Of::Time), None);
    }
}
