//! What things are called, the same in all forms of a report.

use reheap_bench::results::{Machine, Results, Role};
use std::collections::BTreeSet;

/// The names of the machines, each once.
pub(crate) fn machines(all: &[Results]) -> BTreeSet<&str> {
    all.iter()
        .map(|results| results.machine.name.as_str())
        .collect()
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
