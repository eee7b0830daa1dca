//! What is said in sentences, the same in all forms of a report.

use crate::view::Shown;
use crate::{names, numbers};
use reheap_bench::analysis::Verdict;
use reheap_bench::figures;
use reheap_bench::findings::Findings;
use reheap_bench::overview::{Entry, Matrix, Overview};
use reheap_bench::results::{Ending, Machine, OutputCheck, Quantity, Results, Role};
use reheap_bench::warnings::Warning;

/// How to read a table.
pub(crate) const LEGEND: &str = "Median ± median absolute deviation. Ratio: variant / baseline, paired by round, with \
its 95 % interval; ~ where a difference is not more than noise and chance.";

/// Why there is no table.
pub(crate) fn nothing_measured(findings: &Findings<'_>) -> String {
    match findings.benchmark.ended {
        Ending::Interrupted => {
            "Nothing was measured: it was interrupted before the first round ended.".to_owned()
        }
        _ => "Nothing was measured.".to_owned(),
    }
}

/// How many rounds, why no more, and what noise looks like.
pub(crate) fn rounds_and_noise(findings: &Findings<'_>) -> String {
    let rounds = figures::count(findings.rounds(), "round");
    let ended = match findings.benchmark.ended {
        Ending::Rounds => "",
        Ending::Budget => " (the time was used up)",
        Ending::Precise => " (precise enough)",
        Ending::Decided => " (nothing was left to decide)",
        Ending::Interrupted => " (interrupted)",
    };
    format!("{rounds}{ended}; {}", noise(findings))
}

/// The noise floor in words.
fn noise(findings: &Findings<'_>) -> String {
    let main = findings.main_quantity();
    match noise_floor(findings, &main) {
        Some(floor) => format!(
            "noise floor of {}: {}",
            figures::noun(&main),
            figures::percent(floor)
        ),
        None if baseline_failed(findings) => {
            "too few runs of the baseline count for a noise floor".to_owned()
        }
        None => "too few rounds for a noise floor".to_owned(),
    }
}

fn noise_floor(findings: &Findings<'_>, quantity: &Quantity) -> Option<f64> {
    findings.analysis(quantity)?.visible(findings.benchmark)
}

/// Whether a run of the baseline or of its copy does not count.
fn baseline_failed(findings: &Findings<'_>) -> bool {
    let mut variants = findings.benchmark.variants.iter().zip(&findings.failures);
    variants.any(|(variant, failures)| variant.role != Role::Candidate && failures.count() > 0)
}

/// What to be careful about, and what helps.
pub(crate) struct Warned {
    /// What was seen: several things, where the same helps.
    pub(crate) said: Vec<String>,
    pub(crate) advice: String,
}

/// All warnings, those with the same advice together.
pub(crate) fn warnings(findings: &Findings<'_>) -> Vec<Warned> {
    let mut all: Vec<Warned> = Vec::new();
    for warning in &findings.warnings {
        let advice = warning.advice(&findings.results.settings);
        let said = warning.to_string();
        match all.iter_mut().find(|warned| warned.advice == advice) {
            Some(warned) => warned.said.push(said),
            None => all.push(Warned {
                said: vec![said],
                advice,
            }),
        }
    }
    all
}

/// What stands behind the headline; nothing where it claims nothing.
pub(crate) fn lead(overview: &Overview<'_>) -> Option<String> {
    match overview.benchmarks.as_slice() {
        [findings] => lead_of_one(findings),
        several => lead_of_several(most_wins(several)?.0, &overview.matrices),
    }
}

fn lead_of_one(findings: &Findings<'_>) -> Option<String> {
    let (_, comparison) = findings.best()?;
    let interval = comparison.ratio?.interval;
    let quantity = findings.main_quantity();
    let floor = noise_floor(findings, &quantity).map(|floor| {
        format!(
            "; the same program twice differs by {}",
            figures::percent(floor)
        )
    });
    Some(format!(
        "The ratio of {} is between {} and {}, with {} confidence over {}{}.",
        figures::noun(&quantity),
        numbers::ratio(interval.low),
        numbers::ratio(interval.high),
        figures::percent(interval.confidence),
        figures::count(comparison.rounds, "round"),
        floor.unwrap_or_default(),
    ))
}

fn lead_of_several(name: &str, matrices: &[Matrix]) -> Option<String> {
    let changes: Vec<String> = matrices
        .iter()
        .filter_map(|matrix| match matrix.mean_of(name)? {
            Entry::Mean(mean) => Some(figures::change(&matrix.quantity, mean)),
            _ => None,
        })
        .collect();
    (!changes.is_empty()).then(|| {
        format!(
            "On average over all of them: {} than the baseline (geometric mean).",
            changes.join(", ")
        )
    })
}

/// The result in one sentence.
pub(crate) fn headline(benchmarks: &[Findings<'_>]) -> String {
    match benchmarks {
        [] => "Nothing was measured".to_owned(),
        [findings] => headline_of_one(findings),
        several => headline_of_several(several),
    }
}

/// The result of one of several benchmarks, and what one would overlook without opening it.
pub(crate) fn summary(findings: &Findings<'_>) -> Vec<String> {
    let mut lines = vec![headline_of_one(findings)];
    if !findings.warnings.is_empty() {
        lines.push(figures::count(findings.warnings.len(), "warning"));
    }
    lines
}

fn headline_of_one(findings: &Findings<'_>) -> String {
    if findings.rounds() == 0 {
        return "Nothing was measured".to_owned();
    }
    let baseline = baseline(findings);
    let never_counts = |warning: &Warning| matches!(warning, Warning::NoBaseline { .. });
    match findings.best() {
        Some((variant, comparison)) => {
            let ratio = comparison.ratio.map_or(1.0, |estimate| estimate.value);
            let change = figures::change(&findings.main_quantity(), ratio);
            format!(
                "{}: {change} than {baseline}{}",
                findings.benchmark.variants[variant].name,
                memory(findings, variant)
            )
        }
        None if findings.warnings.iter().any(never_counts) => survivors(findings),
        None if findings.ranked.len() == 1 => format!("Only {baseline} was measured"),
        None => format!("No variant was found to be better than {baseline}"),
    }
}

/// The name of what the others are compared with.
pub(crate) fn baseline<'a>(findings: &Findings<'a>) -> &'a str {
    let baseline = findings.benchmark.baseline();
    baseline.map_or("the baseline", |baseline| &baseline.name)
}

/// Who got through where the baseline did not: the candidates that ran and never failed.
fn survivors(findings: &Findings<'_>) -> String {
    let (baseline, variants) = (baseline(findings), &findings.benchmark.variants);
    let got_through = |variant: usize| {
        let failures = &findings.failures[variant];
        let is_candidate = variants[variant].role == Role::Candidate;
        is_candidate && failures.runs > 0 && failures.count() == 0
    };
    let survivors: Vec<&str> = findings
        .ranked
        .iter()
        .filter(|&&variant| got_through(variant))
        .map(|&variant| variants[variant].name.as_str())
        .collect();
    match survivors.as_slice() {
        [] => format!("{baseline} never got through, and no other variant always did"),
        names => format!(
            "{baseline} never got through; {} always did",
            names.join(", ")
        ),
    }
}

fn headline_of_several(benchmarks: &[Findings<'_>]) -> String {
    let total = benchmarks.len();
    match most_wins(benchmarks) {
        Some((name, count)) if count == total => {
            format!("{name} is the best in all {total} benchmarks")
        }
        Some((name, count)) => {
            let failed = match failed_in(benchmarks, name) {
                0 => String::new(),
                failed => format!(", and failed in {failed}"),
            };
            format!("{name} is the best in {count} of {total} benchmarks{failed}")
        }
        None => format!(
            "In none of {total} benchmarks was a variant found to be better than the baseline"
        ),
    }
}

/// In how many benchmarks a run of a variant failed.
fn failed_in(benchmarks: &[Findings<'_>], name: &str) -> usize {
    let failed = |findings: &&Findings<'_>| {
        let mut variants = findings.benchmark.variants.iter().zip(&findings.failures);
        variants.any(|(variant, failures)| variant.name == name && failures.count() > 0)
    };
    benchmarks.iter().filter(failed).count()
}

/// The variant that is the best in most benchmarks, and in how many; of several with equally many, the first.
fn most_wins<'a>(benchmarks: &[Findings<'a>]) -> Option<(&'a str, usize)> {
    let mut wins: Vec<(&str, usize)> = Vec::new();
    for findings in benchmarks {
        let Some((best, _)) = findings.best() else {
            continue;
        };
        let best = findings.benchmark.variants[best].name.as_str();
        match wins.iter_mut().find(|(name, _)| *name == best) {
            Some((_, count)) => *count += 1,
            None => wins.push((best, 1)),
        }
    }
    wins.into_iter().rev().max_by_key(|(_, count)| *count)
}

/// What the variant does to peak memory, to be put after a sentence.
fn memory(findings: &Findings<'_>, variant: usize) -> String {
    let Some(comparison) = findings.comparison(&Quantity::PeakRss, variant) else {
        return String::new();
    };
    let ratio = comparison.ratio.map_or(1.0, |estimate| estimate.value);
    let change = figures::change(&Quantity::PeakRss, ratio);
    match comparison.verdict {
        Verdict::Worse => format!(", but {change}"),
        Verdict::Better => format!(", and {change}"),
        _ => ", and no more peak memory".to_owned(),
    }
}

/// What was compared, in a few words for a title.
pub(crate) fn subject(benchmarks: &[Findings<'_>]) -> String {
    let mut subjects: Vec<&str> = Vec::new();
    for findings in benchmarks {
        if !subjects.contains(&findings.benchmark.name.as_str()) {
            subjects.push(&findings.benchmark.name);
        }
    }
    match subjects.as_slice() {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        several => format!("{} commands", several.len()),
    }
}

/// The allocator of a variant, with its version.
pub(crate) fn allocator(shown: &Shown<'_>) -> Option<String> {
    let allocator = shown.variant.allocator.as_ref()?;
    Some(match allocator.version.as_str() {
        "" => allocator.name.clone(),
        version => format!("{} {version}", allocator.name),
    })
}

/// How it was measured, as names and values.
pub(crate) fn settings(results: &Results) -> Vec<(&'static str, String)> {
    let settings = &results.settings;
    let mut pairs = vec![("seed", settings.seed.to_string())];
    match settings.rounds {
        Some(rounds) => pairs.push(("rounds asked for", rounds.to_string())),
        None => {
            pairs.push((
                "time for a benchmark",
                format!("{} s", settings.budget_seconds),
            ));
            pairs.push((
                "precision aimed at",
                format!("{} %", settings.precision * 100.0),
            ));
        }
    }
    if let Some(limit) = settings.time_limit_seconds {
        pairs.push(("time limit of a run", format!("{limit} s")));
    }
    pairs.push((
        "output",
        match settings.output {
            OutputCheck::Same => "has to be the baseline's".to_owned(),
            OutputCheck::Ignored => "ignored".to_owned(),
        },
    ));
    pairs.push(("measured by", format!("reheap {}", results.reheap_version)));
    pairs.push(("begun", results.started_at.clone()));
    pairs
}

/// Where it ran, as names and values.
pub(crate) fn machine(machine: &Machine) -> Vec<(&'static str, String)> {
    let optional = |name, value: &Option<String>| value.clone().map(|value| (name, value));
    let mut pairs = vec![
        ("name", machine.name.clone()),
        (
            "processor",
            format!(
                "{} × {} ({})",
                machine.processors, machine.processor, machine.architecture
            ),
        ),
        ("memory", names::whole_gib(machine.memory_bytes)),
        ("kernel", machine.kernel.clone()),
    ];
    pairs.extend(optional("system", &machine.distribution));
    pairs.extend(optional("libc", &machine.libc));
    pairs.extend(optional("huge pages", &machine.huge_pages));
    pairs.extend(optional("frequency governor", &machine.governor));
    if machine.is_virtual {
        pairs.push(("virtual machine", "yes".to_owned()));
    }
    pairs.extend(
        machine
            .load_average
            .map(|load| ("load when it began", format!("{load:.2}"))),
    );
    pairs.extend(optional("no counters", &machine.no_counters_because));
    pairs
}

/// The text with a capital letter at its beginning.
pub(crate) fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(characters).collect()
    })
}
