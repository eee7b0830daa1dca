//! `reheap bench compare`: two files of results, measured at different times. A threshold makes it a gate for CI.

use crate::cli::report::read;
use reheap_bench::analysis::Verdict;
use reheap_bench::compare::{Change, Changes, Check, Reference, compare, title};
use reheap_bench::figures;
use reheap_bench::results::{Quantity, Results};
use reheap_bench::threshold::{Bound, Threshold, nearest};
use reheap_command::exit;
use reheap_command::ui::{self, Failure};
use reheap_stats::interval::{CONFIDENCE, Estimate, Interval};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  \
    reheap bench compare old.json new.json\n  \
    reheap bench compare main.json branch.json --fail-if 'wall>+2%' --fail-if 'peak-rss>500MiB'";

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArguments {
    /// The earlier results
    old: PathBuf,
    /// The later results
    new: PathBuf,
    /// Exit with code 3 if a change breaks this threshold: wall>+2%, peak-rss>500MiB, throughput<-5%
    #[arg(long, value_name = "THRESHOLD")]
    fail_if: Vec<String>,
    /// Exit with code 3 also if such a change can be neither shown nor excluded
    #[arg(long, requires = "fail_if")]
    fail_unclear: bool,
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
    for (threshold, typed) in thresholds.iter().zip(&arguments.fail_if) {
        refuse_unknown(threshold, typed, [&old, &new])?;
    }
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
        let text = if titles(&old).is_disjoint(&titles(&new)) {
            "the two files have no benchmark in common"
        } else {
            "there is nothing to compare: the old file has no run that counts"
        };
        return Err(Failure::failed(text).into());
    }
    ui::data(&if arguments.json {
        format!("{:#}\n", as_json(&changes))
    } else {
        as_text(&changes)
    })?;
    Ok(gate(&changes, &thresholds, arguments.fail_unclear))
}

/// A name that is no quantity is a metric. One that neither file knows is a mistake in the command line, and not in what
/// was measured.
fn refuse_unknown(threshold: &Threshold, typed: &str, files: [&Results; 2]) -> Result<(), Failure> {
    let benchmarks = files.into_iter().flat_map(|file| &file.benchmarks);
    let metrics: BTreeSet<&str> = benchmarks
        .flat_map(|benchmark| benchmark.metrics.keys().map(String::as_str))
        .collect();
    let Quantity::Metric(name) = &threshold.quantity else {
        return Ok(());
    };
    if metrics.contains(name.as_str()) {
        return Ok(());
    }
    let nearest = nearest(name, metrics.iter().copied()).map(ui::printable);
    let text = format!("cannot read the threshold `{typed}`: the files have no `{name}`");
    let known = Quantity::COSTS.iter().map(Quantity::name).chain(metrics);
    let known: Vec<String> = known.map(ui::printable).collect();
    let hint = match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("there are {}", known.join(", ")),
    };
    Err(Failure::usage(text).hint(hint))
}

/// A note for which names in files of others cannot make lines of their own.
fn note(text: &str) {
    ui::note(&ui::printable(text));
}

/// A missing benchmark breaks a gate too. Otherwise it would pass because nobody looked.
fn gate(changes: &Changes, thresholds: &[Threshold], fail_unclear: bool) -> ExitCode {
    for difference in &changes.machines {
        note(&format!("warning: {difference}"));
    }
    if thresholds.is_empty() {
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    for missing in &changes.missing {
        note(&format!("violated: {missing}"));
        code = ExitCode::from(exit::THRESHOLD_VIOLATED);
    }
    for threshold in thresholds {
        let mut figures = changes.changes.iter().map(|change| &change.quantity);
        let has_benchmarks = !changes.references.is_empty();
        if has_benchmarks && !figures.any(|quantity| *quantity == threshold.quantity) {
            let name = threshold.quantity.name();
            note(&format!(
                "violated: {threshold}: there are no figures for `{name}`"
            ));
            code = ExitCode::from(exit::THRESHOLD_VIOLATED);
        }
    }
    for (threshold, change, check) in changes.check(thresholds) {
        match check {
            Check::Kept => {}
            Check::Violated => {
                note(&format!(
                    "violated: {threshold}: {}",
                    change.against(threshold)
                ));
                code = ExitCode::from(exit::THRESHOLD_VIOLATED);
            }
            Check::Unclear => {
                let advice = match threshold.bound {
                    Bound::Ratio(_) if change.is_reference => {
                        "it may be the session; give both files a baseline that does not change"
                    }
                    _ => "neither shown nor excluded; measure more rounds",
                };
                let change = change.against(threshold);
                note(&format!("unclear: {threshold}: {change}: {advice}"));
                if fail_unclear {
                    code = ExitCode::from(exit::THRESHOLD_VIOLATED);
                }
            }
        }
    }
    code
}

/// A heading for each benchmark, and a line for each variant. Names cannot make lines of their own.
fn as_text(changes: &Changes) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (benchmark, reference) in &changes.references {
        lines.push(format!("{benchmark}, {}", relative_to(reference)));
        let of_benchmark = changes.changes.iter();
        let of_benchmark: Vec<&Change> = of_benchmark
            .filter(|change| change.benchmark == *benchmark && !change.is_reference)
            .collect();
        let of_variants = of_benchmark.chunk_by(|one, other| one.variant == other.variant);
        lines.extend(of_variants.map(variant_line));
    }
    let missing = changes.missing.iter();
    lines.extend(missing.map(|missing| format!("missing  {missing}")));
    lines.extend(
        changes
            .added
            .iter()
            .map(|added| format!("new      {added}")),
    );
    let lines: Vec<String> = lines.iter().map(ui::printable).collect();
    lines.join("\n") + "\n"
}

fn relative_to(reference: &Reference) -> String {
    match reference {
        Reference::Baseline {
            variant,
            drift: Some(drift),
        } => format!(
            "relative to {variant}, which itself takes {}:",
            figures::change(&Quantity::Wall, *drift)
        ),
        Reference::Baseline {
            variant,
            drift: None,
        } => format!("relative to {variant}:"),
        Reference::None => {
            "without a common baseline, so the session may be all there is to a change:".to_owned()
        }
    }
}

/// What changed of a variant, and in what nothing did.
fn variant_line(changes: &[&Change]) -> String {
    let (claimed, others): (Vec<&Change>, Vec<&Change>) = changes
        .iter()
        .partition(|change| change.verdict.is_claimed());
    let is = |verdict: Verdict| claimed.iter().any(|change| change.verdict == verdict);
    let word = match (is(Verdict::Better), is(Verdict::Worse)) {
        (true, false) => "better",
        (false, true) => "worse",
        (true, true) => "mixed",
        (false, false) => "~",
    };
    let mut parts: Vec<String> = claimed
        .iter()
        .map(|change| change.without_names())
        .collect();
    if !others.is_empty() {
        let shown = others.iter().map(|change| {
            let ratio = change.ratio.map_or_else(String::new, |ratio| {
                let digits = figures::number(ratio.value);
                format!(" {}", figures::judged(change.verdict, ratio.value, &digits))
            });
            format!("{}{ratio}", figures::noun(&change.quantity))
        });
        let shown: Vec<String> = shown.collect();
        parts.push(shown.join(", "));
    }
    format!("  {word:<7}{}: {}", changes[0].variant, parts.join("; "))
}

fn as_json(changes: &Changes) -> Value {
    let interval = |ratio: Estimate| {
        let Interval {
            low,
            high,
            confidence,
        } = ratio.interval;
        (confidence >= CONFIDENCE).then_some([low, high])
    };
    let change = |change: &Change| {
        json!({
            "benchmark": change.benchmark,
            "variant": change.variant,
            "quantity": change.quantity.name(),
            "old": change.old.value,
            "new": change.new.value,
            "ratio": change.ratio.map(|ratio| ratio.value),
            "interval": change.ratio.and_then(interval),
            "p": change.p_adjusted,
            "relative_to": change.relative_to,
            "verdict": match change.verdict {
                Verdict::Better => "better",
                Verdict::Worse => "worse",
                Verdict::Suspected => "suspected",
                Verdict::Equal => "equal",
                Verdict::Open => "open",
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
