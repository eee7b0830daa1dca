//! The workloads of all variants, run in interleaved rounds, and what came out as tables.

use crate::progress::Progress;
use crate::table::Table;
use crate::variants::{Built, GLIBC, STOCK_MUSL, WORKLOADS, Workload};
use anyhow::{Context, Result, ensure};
use reheap_bench::results::Cost;
use reheap_bench::rounds::{Turn, interleave};
use reheap_bench::run::{CommandLine, Launcher, Limits};
use reheap_bench::stats::{Sample, paired_ratios};
use serde::{Deserialize, Serialize};

/// How many threads the workloads are run with.
const THREADS: [usize; 2] = [1, 2];

/// All runs of one workload with one number of threads.
#[derive(Serialize)]
pub(crate) struct Comparison {
    pub(crate) workload: &'static str,
    pub(crate) threads: usize,
    pub(crate) rounds: usize,
    pub(crate) seed: u64,
    pub(crate) variants: Vec<VariantRuns>,
}

/// The runs of one variant, by round.
#[derive(Serialize)]
pub(crate) struct VariantRuns {
    pub(crate) variant: String,
    pub(crate) runs: Vec<Cost>,
}

/// The line that a workload prints.
#[derive(Deserialize)]
struct Line {
    workload: String,
    threads: usize,
    operations: u64,
}

/// Runs everything: first each variant once untimed, which also warms the page cache, then the rounds.
pub(crate) fn compare(
    built: &[Built],
    progress: &Progress,
    rounds: usize,
    seed: u64,
) -> Result<Vec<Comparison>> {
    let launcher = Launcher::new()?;
    let mut comparisons = Vec::new();
    for (index, workload) in WORKLOADS.iter().enumerate() {
        for threads in THREADS {
            let what = format!(
                "{} with {threads} {}",
                workload.name,
                if threads == 1 { "thread" } else { "threads" }
            );
            progress.say(format!("{what}: one untimed run of each variant"));
            for variant in built {
                run(&launcher, variant, index, *workload, threads)?;
            }
            let mut announced = None;
            let runs = interleave(built.len(), rounds, seed, |Turn { round, variant }| {
                if announced.replace(round) != Some(round) {
                    progress.say(format!("{what}: round {} of {rounds}", round + 1));
                }
                run(&launcher, &built[variant], index, *workload, threads)
            })?;
            let variants = built.iter().zip(runs);
            let variants = variants.map(|(built, runs)| VariantRuns {
                variant: built.variant.name.clone(),
                runs,
            });
            let variants = variants.collect();
            comparisons.push(Comparison {
                workload: workload.name,
                threads,
                rounds,
                seed,
                variants,
            });
        }
    }
    Ok(comparisons)
}

/// One run, which must end well and say that it did what it was asked.
fn run(
    launcher: &Launcher,
    built: &Built,
    index: usize,
    workload: Workload,
    threads: usize,
) -> Result<Cost> {
    let arguments = [
        "--threads",
        &threads.to_string(),
        "--amount",
        &workload.amount.to_string(),
    ]
    .map(Into::into);
    let program = built.executables[index].clone();
    let command = CommandLine {
        program,
        arguments: arguments.to_vec(),
        ..CommandLine::default()
    };
    let run = launcher.run(&command, &Limits::default(), &[])?;
    let what = || format!("{} as {}", workload.name, built.variant.name);
    ensure!(
        run.outcome.is_success(),
        "{} failed ({}): {}",
        what(),
        run.outcome,
        run.stderr.last_lines(20)
    );
    let line: Line = serde_json::from_slice(&run.stdout.head)
        .with_context(|| format!("{} printed no result", what()))?;
    ensure!(
        line.workload == workload.name
            && line.threads == threads
            && line.operations == workload.amount,
        "{} did something else than it was asked: {}",
        what(),
        run.stdout.last_lines(20)
    );
    Ok(run.cost)
}

impl Comparison {
    /// The heading of the table.
    pub(crate) fn title(&self) -> String {
        let threads = if self.threads == 1 {
            "thread"
        } else {
            "threads"
        };
        format!("{}, {} {threads}", self.workload, self.threads)
    }

    /// The table: medians with their spread, and ratios to both baselines.
    pub(crate) fn table(&self) -> Result<String> {
        let (musl, glibc) = (self.wall_seconds(STOCK_MUSL)?, self.wall_seconds(GLIBC)?);
        let mut table = Table::new([
            "variant", "wall ms", "CPU ms", "peak MiB", "x musl", "x glibc",
        ]);
        for VariantRuns { variant, runs } in &self.variants {
            let wall = self.wall_seconds(variant)?;
            table.row([
                variant.clone(),
                with_spread(runs, |run| run.wall_seconds * 1e3)?,
                with_spread(runs, |run| run.cpu_seconds() * 1e3)?,
                with_spread(runs, |run| run.peak_rss_bytes as f64 / (1024.0 * 1024.0))?,
                ratio(&musl, &wall)?,
                ratio(&glibc, &wall)?,
            ]);
        }
        Ok(table.render())
    }

    fn wall_seconds(&self, variant: &str) -> Result<Vec<f64>> {
        let runs = self.variants.iter().find(|runs| runs.variant == variant);
        let runs =
            runs.with_context(|| format!("cannot compare: there are no runs of {variant}"))?;
        Ok(runs.runs.iter().map(|run| run.wall_seconds).collect())
    }
}

/// What the columns mean, to stand below the tables.
pub(crate) fn legend(rounds: usize) -> String {
    format!(
        "Medians of {rounds} rounds, ± median absolute deviation. Wall time is that of the whole process, CPU time\n\
         is user and system time of all threads. \"x musl\" and \"x glibc\": how many times as fast as stock\n\
         musl and as glibc; median of the ratios of each round, in brackets the smallest and the largest."
    )
}

fn with_spread(runs: &[Cost], value: impl Fn(&Cost) -> f64) -> Result<String> {
    let sample = Sample::new(runs.iter().map(value)).context("cannot summarize: no runs")?;
    Ok(format!(
        "{:.1} ± {:.1}",
        sample.median(),
        sample.median_absolute_deviation()
    ))
}

fn ratio(baseline: &[f64], variant: &[f64]) -> Result<String> {
    let ratios = paired_ratios(baseline, variant).context("cannot compare: a run took no time")?;
    let [median, min, max] = [ratios.median(), ratios.min(), ratios.max()].map(three_digits);
    Ok(format!("{median} [{min}, {max}]"))
}

/// A ratio with three digits that count, from 0.0142 to 70.7; more before the point if it is larger.
fn three_digits(ratio: f64) -> String {
    let before_point = ratio.log10().floor() as i32 + 1;
    format!(
        "{ratio:.*}",
        usize::try_from(3 - before_point).unwrap_or(0).min(4)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(wall_seconds: f64) -> Cost {
        Cost {
            wall_seconds,
            user_seconds: wall_seconds,
            peak_rss_bytes: 3 * 1024 * 1024,
            ..Cost::default()
        }
    }

    fn comparison(variants: &[(&str, [f64; 3])]) -> Comparison {
        let runs = |(variant, wall): &(&str, [f64; 3])| VariantRuns {
            variant: (*variant).to_owned(),
            runs: wall.map(cost).to_vec(),
        };
        let variants = variants.iter().map(runs).collect();
        Comparison {
            workload: "churn",
            threads: 2,
            rounds: 3,
            seed: 0,
            variants,
        }
    }

    #[test]
    fn a_table_has_medians_spreads_and_ratios_to_both_baselines() {
        let walls = [
            (GLIBC, [0.2, 0.2, 0.2]),
            (STOCK_MUSL, [1.0, 2.0, 4.0]),
            ("musl+mimalloc", [0.1, 0.1, 0.2]),
        ];
        let table = comparison(&walls).table().unwrap();
        let last = table.lines().last().unwrap();
        let cells: Vec<_> = last
            .split('|')
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .collect();
        let expected = [
            "musl+mimalloc",
            "100.0 ± 0.0",
            "100.0 ± 0.0",
            "3.0 ± 0.0",
            "20.0 [10.0, 20.0]",
            "2.00 [1.00, 2.00]",
        ];
        assert_eq!(cells, expected);
    }

    #[test]
    fn ratios_have_three_digits_whatever_their_size() {
        let ratios = [0.01423, 0.2, 1.0, 70.654, 359.4, 1234.0];
        assert_eq!(
            ratios.map(three_digits),
            ["0.0142", "0.200", "1.00", "70.7", "359", "1234"]
        );
    }

    #[test]
    fn without_a_baseline_there_is_no_table() {
        let error = comparison(&[(GLIBC, [1.0; 3])]).table().unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot compare: there are no runs of musl"
        );
    }
}
