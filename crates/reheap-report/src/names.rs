//! What things are called, the same in all forms of a report.

use reheap_bench::compare::title;
use reheap_bench::findings::Findings;
use reheap_bench::overview::Overview;
use reheap_bench::results::{Machine, Results, Role};
use std::collections::BTreeSet;

/// Whether a benchmark's name alone says which one is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Several {
    /// There is only one benchmark.
    Nothing,
    /// Several benchmarks on one machine, each with a name of its own.
    Benchmarks,
    /// Several machines.
    Machines,
    /// Several files, some of which are of one machine and of the same benchmark.
    Times,
}

pub(crate) fn several(overview: &Overview<'_>) -> Several {
    let (all, benchmarks) = (overview.files, overview.benchmarks.iter());
    let titles: Vec<String> = benchmarks
        .map(|findings| title(findings.benchmark))
        .collect();
    let different: BTreeSet<&str> = titles.iter().map(String::as_str).collect();
    let machines = machines(all);
    if titles.len() < 2 && all.len() < 2 {
        Several::Nothing
    } else if machines.len() == 1 && (all.len() == 1 || different.len() == titles.len()) {
        Several::Benchmarks
    } else if machines.len() == all.len() {
        Several::Machines
    } else {
        Several::Times
    }
}

/// The names of the machines, each once.
pub(crate) fn machines(all: &[Results]) -> BTreeSet<&str> {
    all.iter()
        .map(|results| results.machine.name.as_str())
        .collect()
}

/// What tells a benchmark from the others in the report; none if there is no other.
pub(crate) fn qualified(findings: &Findings<'_>, several: Several) -> Option<String> {
    let (results, benchmark) = (findings.results, findings.benchmark);
    match several {
        Several::Nothing => None,
        Several::Benchmarks => Some(title(benchmark)),
        Several::Machines => Some(format!("{} on {}", title(benchmark), results.machine.name)),
        Several::Times => {
            let (machine, begun) = (&results.machine.name, &results.started_at);
            Some(format!("{} on {machine}, {begun}", title(benchmark)))
        }
    }
}

/// A machine's memory, of which the kernel has kept some for itself.
pub(crate) fn whole_gib(bytes: u64) -> String {
    format!("{} GiB", (bytes as f64 / f64::from(1u32 << 30)).round())
}

/// A machine in one line.
pub(crate) fn machine(machine: &Machine) -> String {
    let mut parts = vec![
        machine.name.clone(),
        format!("{} × {}", machine.processors, machine.processor),
        whole_gib(machine.memory_bytes),
        machine.kernel.clone(),
    ];
    parts.extend(machine.libc.clone());
    if machine.is_virtual {
        parts.push("virtual".to_owned());
    }
    parts.join(", ")
}

pub(crate) fn role(role: Role) -> &'static str {
    match role {
        Role::Baseline => "baseline",
        Role::BaselineCopy => "baseline-copy",
        Role::Candidate => "candidate",
    }
}
