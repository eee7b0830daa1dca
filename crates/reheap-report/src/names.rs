//! What things are called, the same in all forms of a report.

use reheap_bench::results::{Benchmark, Machine, Results, Role};

/// Whether a benchmark's name alone says which one is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Several {
    /// There is only one benchmark.
    Nothing,
    /// Several benchmarks on one machine.
    Benchmarks,
    /// Several machines.
    Machines,
}

pub(crate) fn several(all: &[Results]) -> Several {
    if all.len() > 1 {
        Several::Machines
    } else if all
        .iter()
        .map(|results| results.benchmarks.len())
        .sum::<usize>()
        > 1
    {
        Several::Benchmarks
    } else {
        Several::Nothing
    }
}

/// What tells a benchmark from the others in the report; none if there is no other.
pub(crate) fn qualified(
    results: &Results,
    benchmark: &Benchmark,
    several: Several,
) -> Option<String> {
    match several {
        Several::Nothing => None,
        Several::Benchmarks => Some(full(benchmark)),
        Several::Machines => Some(format!("{} on {}", full(benchmark), results.machine.name)),
    }
}

/// A benchmark's name with its settings: `string-map, threads=4, memory limit 384 MiB`.
pub(crate) fn full(benchmark: &Benchmark) -> String {
    match settings(benchmark) {
        Some(settings) => format!("{}, {settings}", benchmark.name),
        None => benchmark.name.clone(),
    }
}

/// A benchmark's parameters and its memory limit; none if it has neither.
pub(crate) fn settings(benchmark: &Benchmark) -> Option<String> {
    let mut settings: Vec<String> = benchmark
        .parameters
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if let Some(limit) = benchmark.memory_limit_bytes {
        settings.push(memory_limit(limit));
    }
    (!settings.is_empty()).then(|| settings.join(", "))
}

/// A memory limit in words.
pub(crate) fn memory_limit(bytes: u64) -> String {
    format!("memory limit {}", whole_bytes(bytes))
}

/// A size that somebody chose, so that it reads as they typed it.
pub(crate) fn whole_bytes(bytes: u64) -> String {
    let units = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    units
        .into_iter()
        .find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(
            || format!("{bytes} B"),
            |(name, unit)| format!("{} {name}", bytes / unit),
        )
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
        Role::Limit => "limit",
    }
}
