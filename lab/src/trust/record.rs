//! What `measure-trust` measured, and its page. Whether a difference is claimed is computed from the raw runs, so the page
//! shows the rules of today.

use crate::table::Table;
use anyhow::{Context, Result};
use reheap_bench::analysis::SIGNIFICANCE;
use reheap_bench::results::Machine;
use reheap_stats::aligned::{AlignedRanks, Round};
use serde::{Deserialize, Serialize};

/// The name of an experiment, and the question that it answers.
const QUESTIONS: [(&str, &str); 3] = [
    ("churn", "the same program twice: differences claimed"),
    (
        "wasm-compile",
        "the same program twice: differences claimed",
    ),
    ("planted", "churn with 3 % more work: found"),
];

/// All of it, as written to `trust.json`.
#[derive(Serialize, Deserialize)]
pub(crate) struct Trust {
    pub(super) machine: Machine,
    pub(super) repetitions: Vec<Repetition>,
    pub(super) peaks: Vec<Peak>,
    pub(super) overhead: Vec<Overhead>,
}

/// One comparison.
#[derive(Serialize, Deserialize)]
pub(super) struct Repetition {
    pub(super) experiment: String,
    pub(super) repetition: usize,
    /// Whether the rules of the first version claimed a difference: an interval apart from that of the baseline's copy,
    /// Wilcoxon's test, and Holm's correction, one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claimed_before: Option<bool>,
    /// Wall time of every run of the baseline, its copy and the second variant, in seconds.
    pub(super) wall_seconds: Vec<Vec<f64>>,
}

/// Peak memory of one program, by both tools.
#[derive(Serialize, Deserialize)]
pub(super) struct Peak {
    pub(super) command: String,
    pub(super) reheap_kib: Vec<u64>,
    pub(super) gnu_time_kib: Vec<u64>,
}

/// What a run of `/bin/true` takes, in milliseconds: by the clock of the tool, and by the clock on the wall.
#[derive(Serialize, Deserialize)]
pub(super) struct Overhead {
    pub(super) tool: String,
    pub(super) runs: usize,
    pub(super) reported_ms: f64,
    pub(super) whole_ms: f64,
}

/// What a comparison shows.
struct Shown {
    rounds: usize,
    ratio: f64,
    is_claimed: bool,
}

impl Repetition {
    fn shown(&self) -> Option<Shown> {
        let [baseline, copy, variant] = self.wall_seconds.as_slice() else {
            return None;
        };
        let runs = baseline.iter().zip(copy).zip(variant);
        let rounds: Vec<Round> = runs
            .map(|((first, second), variant)| Round {
                baseline: (first.ln(), Some(second.ln())),
                variant: variant.ln(),
            })
            .collect();
        let ranks = AlignedRanks::of_logarithms(&rounds)?;
        Some(Shown {
            rounds: rounds.len(),
            ratio: ranks.shift().value.exp(),
            is_claimed: ranks.p() < SIGNIFICANCE,
        })
    }
}

impl Trust {
    /// The page.
    pub(crate) fn markdown(&self) -> Result<String> {
        let machine = &self.machine;
        let load = machine.load_average.unwrap_or_default();
        let mut text = format!(
            "# How far `reheap bench` may be trusted\n\n{}, {} processors, {}, load before {load:.2}.\nMade by `cargo lab \
             measure-trust`; all runs are in `trust.json`.\n\n## Differences claimed\n\n",
            machine.processor, machine.processors, machine.kernel
        );
        text += &self.claims()?;
        text += "\n## Peak memory\n\nKiB: the median of five runs, and the least and the most. Linux counts the pages of a \
                 process\nfor each processor and adds them up now and then, and where libraries lie is random, so no two \
                 runs need to be\nequal, in either tool.\n\n";
        let mut table = Table::new(["command", "reheap", "GNU time"]);
        for peak in &self.peaks {
            let words = peak.command.split(' ');
            let names = words.map(|word| word.rsplit('/').next().unwrap_or(word));
            table.row([
                format!("`{}`", names.collect::<Vec<_>>().join(" ")),
                with_range(&peak.reheap_kib),
                with_range(&peak.gnu_time_kib),
            ]);
        }
        text += &table.render();
        text += "\n## What a run of `/bin/true` takes, in milliseconds\n\n";
        let mut table = Table::new(["tool", "runs", "as reported", "all of the tool, per run"]);
        for tool in &self.overhead {
            table.row([
                format!("`{}`", tool.tool),
                tool.runs.to_string(),
                format!("{:.3}", tool.reported_ms),
                format!("{:.3}", tool.whole_ms),
            ]);
        }
        Ok(text + &table.render())
    }

    /// How often a difference was claimed, by the rules of today and, where it is known, by those of the first version.
    fn claims(&self) -> Result<String> {
        let mut header = vec!["program", "rounds", "question", "answer"];
        let knows_before = self
            .repetitions
            .iter()
            .all(|repetition| repetition.claimed_before.is_some());
        if knows_before {
            header.push("by the first version's rules");
        }
        header.push("ratios seen");
        let mut table = Table::with_header(header.into_iter().map(str::to_owned).collect());
        for (name, question) in QUESTIONS {
            let all = self
                .repetitions
                .iter()
                .filter(|repetition| repetition.experiment == name);
            let all: Vec<&Repetition> = all.collect();
            let shown: Option<Vec<Shown>> =
                all.iter().map(|repetition| repetition.shown()).collect();
            let shown = shown.with_context(|| format!("a comparison of {name} has no runs"))?;
            let first = shown
                .first()
                .with_context(|| format!("there is no comparison of {name}"))?;
            let of_all = |claimed: usize| format!("{claimed} of {}", all.len());
            let ratios = || shown.iter().map(|shown| shown.ratio);
            let mut cells = vec![
                name.to_owned(),
                first.rounds.to_string(),
                question.to_owned(),
                of_all(shown.iter().filter(|shown| shown.is_claimed).count()),
            ];
            if knows_before {
                cells.push(of_all(
                    all.iter()
                        .filter(|repetition| repetition.claimed_before == Some(true))
                        .count(),
                ));
            }
            let (low, high) = (
                ratios().fold(f64::MAX, f64::min),
                ratios().fold(0.0, f64::max),
            );
            cells.push(format!("{low:.3} to {high:.3}"));
            table.push(cells);
        }
        Ok(table.render())
    }
}

/// The middle one, of the upper half if there are two; 0 of nothing.
pub(super) fn median<T: Copy + PartialOrd + Default>(mut values: Vec<T>) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The median, the least and the most.
fn with_range(kib: &[u64]) -> String {
    let least = kib.iter().min().copied().unwrap_or_default();
    let most = kib.iter().max().copied().unwrap_or_default();
    format!("{} ({least} to {most})", median(kib.to_vec()))
}
