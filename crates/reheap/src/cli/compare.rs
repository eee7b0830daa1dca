//! `reheap bench compare`: two files of results, measured at different times. A threshold makes it a gate for CI.

use crate::cli::report::read;
use crate::exit;
use crate::ui::{self, Failure};
use reheap_bench::analysis::Verdict;
use reheap_bench::compare::{Change, Changes, Check, compare, title};
use reheap_bench::results::{Quantity, Results};
use reheap_bench::threshold::Threshold;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    reheap bench compare old.json new.json\n  \
    reheap bench compare main.json branch.json --fail-if 'wall>+2%' --fail-if 'peak-rss>500MiB'";

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArguments {
    /// What was measured before
    old: PathBuf,
    /// What was measured after
    new: PathBuf,
    /// End with exit code 3 if a change breaks this: wall>+2%, peak-rss>500MiB, throughput<-5%
    #[arg(long, value_name = "THRESHOLD")]
    fail_if: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows what changed, and compares it with the thresholds.
pub(crate) fn run(arguments: &CompareArguments) -> anyhow::Result<ExitCode> {
    let thresholds = arguments.fail_if.iter().map(|text| {
        let threshold: Result<Threshold, _> = text.parse();
        threshold.map_err(|reason| {
            Failure::usage(format!("cannot read the threshold `{text}`: {reason}"))
        })
    });
    let thresholds: Vec<Threshold> = thresholds.collect::<Result<_, _>>()?;
    let (old, new) = (read(&arguments.old)?, read(&arguments.new)?);
    let mut quantities = vec![Quantity::Wall, Quantity::Cpu, Quantity::PeakRss];
    let metrics = old.benchmarks.iter().flat_map(|b| b.metrics.keys());
    quantities.extend(metrics.map(|name| Quantity::Metric(name.clone())));
    quantities.extend(thresholds.iter().map(|t| t.quantity.clone()));
    quantities.sort();
    quantities.dedup();
    let changes = compare(&old, &new, &quantities);
    if changes.changes.is_empty() && changes.missing.is_empty() {
        let titles = |results: &Results| -> BTreeSet<String> {
            results.benchmarks.iter().map(title).collect()
        };
        let text = match titles(&old).is_disjoint(&titles(&new)) {
            true => "the two files have no benchmark in common",
            false => "there is nothing to compare: the old file has no run that counts",
        };
        return Err(Failure::failed(text).into());
    }
    ui::data(&if arguments.json {
        format!("{:#}\n", as_json(&changes))
    } else {
        as_text(&changes)
    })?;
    Ok(gate(&changes, &thresholds))
}

/// A missing benchmark breaks a gate too. Otherwise it would pass because nobody looked.
fn gate(changes: &Changes, thresholds: &[Threshold]) -> ExitCode {
    for difference in &changes.machines {
        ui::note(&format!("warning: {difference}"));
    }
    if thresholds.is_empty() {
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    for missing in &changes.missing {
        ui::note(&format!("violated: {missing}"));
        code = ExitCode::from(exit::THRESHOLD_VIOLATED);
    }
    for threshold in thresholds {
        if !changes
            .changes
            .iter()
            .any(|c| c.quantity == threshold.quantity)
        {
            let name = threshold.quantity.name();
            ui::note(&format!(
                "violated: {threshold}: there are no figures for `{name}`"
            ));
            code = ExitCode::from(exit::THRESHOLD_VIOLATED);
        }
    }
    for (threshold, change, check) in changes.check(thresholds) {
        match check {
            Check::Kept => {}
            Check::Violated => {
                ui::note(&format!("violated: {threshold}: {change}"));
                code = ExitCode::from(exit::THRESHOLD_VIOLATED);
            }
            Check::Unclear => ui::note(&format!(
                "unclear: {threshold}: {change}: this may be noise; measure more rounds"
            )),
        }
    }
    code
}

fn as_text(changes: &Changes) -> String {
    let (same, changed): (Vec<&Change>, Vec<&Change>) = changes
        .changes
        .iter()
        .partition(|change| !change.verdict.is_claimed());
    let mut lines: Vec<String> = Vec::new();
    for change in changed {
        let word = match change.verdict {
            Verdict::Better => "better",
            _ => "worse",
        };
        lines.push(format!("{word:<7} {change}"));
    }
    lines.extend(
        changes
            .missing
            .iter()
            .map(|missing| format!("missing {missing}")),
    );
    lines.extend(changes.added.iter().map(|added| format!("new     {added}")));
    if !same.is_empty() {
        let names: Vec<String> = same.iter().map(|change| subject(change)).collect();
        lines.push(format!("~       no clear difference: {}", names.join("; ")));
    }
    lines.join("\n") + "\n"
}

fn subject(change: &Change) -> String {
    let name = change.quantity.name();
    format!("{}, {}: {name}", change.benchmark, change.variant)
}

fn as_json(changes: &Changes) -> Value {
    let change = |change: &Change| {
        json!({
            "benchmark": change.benchmark,
            "variant": change.variant,
            "quantity": change.quantity.name(),
            "old": change.old.value,
            "new": change.new.value,
            "ratio": change.ratio.map(|ratio| ratio.value),
            "interval": change.ratio.map(|ratio| [ratio.interval.low, ratio.interval.high]),
            "p": change.p_adjusted,
            "verdict": match change.verdict {
                Verdict::Better => "better",
                Verdict::Worse => "worse",
                _ => "indistinguishable",
            },
        })
    };
    json!({
        "changes": changes.changes.iter().map(change).collect::<Vec<_>>(),
        "missing": changes.missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "added": changes.added,
        "machines": changes.machines.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}
