//! What is said in sentences, the same in all forms of a report.

use crate::names;
use crate::view::Shown;
use reheap_bench::figures;
use reheap_bench::findings::Findings;
use reheap_bench::outlook::duration;
use reheap_bench::results::{Ending, Machine, OutputCheck, Results};

/// How to read a table.
pub(crate) const LEGEND: &str = "Medians ± median absolute deviation; ratios to the baseline [95 % interval]. \
↓ and ↑ are beyond chance, ? may be chance, = is the same within 2 %, ~ cannot be told.";

/// Why there is no table.
pub(crate) fn nothing_measured(findings: &Findings<'_>) -> String {
    match findings.benchmark.ended {
        Ending::Interrupted => {
            "Nothing was measured: it was interrupted before the first round ended.".to_owned()
        }
        _ => "Nothing was measured.".to_owned(),
    }
}

/// How many rounds, why no more, and what could be seen in them.
pub(crate) fn rounds(findings: &Findings<'_>) -> String {
    let rounds = figures::count(findings.rounds(), "round");
    let ended = match findings.benchmark.ended {
        Ending::Rounds => "as asked",
        Ending::Budget => "the time was used up",
        Ending::Precise => "precise enough",
        Ending::Decided => "no variant was left to measure",
        Ending::Interrupted => "interrupted",
    };
    let main = findings.analysis(&findings.main_quantity());
    match main.and_then(|main| main.visible(findings.benchmark)) {
        Some(visible) => {
            let visible = figures::would_have_been_visible(visible);
            format!("{rounds} ({ended}); {visible}")
        }
        None => format!("{rounds} ({ended})"),
    }
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
            pairs.push(("time for all runs", duration(settings.budget())));
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
