//! What `recommend` says of attacks: how each variant fared and what it costs, and what a change loses.

use reheap_bench::figures::count as count_of;
use reheap_bench::findings::Findings;
use reheap_bench::recommend::{Cost, Withstood};
use reheap_bench::results::Role;
use reheap_report::attacks::Outcome;
use reheap_variants::measured_attacks;

/// The attacks that what the user has stops, and the recommended variant does not.
pub(super) fn lost(baseline: &str, taken: &str) -> Option<String> {
    let attacks = measured_attacks::lost(baseline, taken);
    let under = [
        (Outcome::Succeeded, "succeed"),
        (Outcome::Crashed, "crash the program"),
        (Outcome::NoEffect, "have no effect"),
    ];
    let groups = under.into_iter().filter_map(|(outcome, verb)| {
        let of_it = attacks.iter().filter(|attack| attack.1 == outcome);
        let names: Vec<&str> = of_it.map(|attack| attack.0).collect();
        (!names.is_empty()).then(|| format!("these {verb}: {}", names.join(", ")))
    });
    let groups: Vec<String> = groups.collect();
    if groups.is_empty() {
        return None;
    }
    let count = count_of(attacks.len(), "attack");
    let plain = taken.split('[').next().unwrap_or(taken); // a shell would read brackets
    let without = if measured_attacks::is_of_untuned(taken) {
        "attacked without its options: "
    } else {
        ""
    };
    Some(format!(
        "{count} that {baseline} stops and {plain} does not; {} ({without}reheap attack --variant {baseline},{plain})",
        groups.join("; ")
    ))
}

/// All variants that should have been measured, those first under which the fewest attacks succeed, and their prices.
/// Several benchmarks measured some of them. The last one says the price, as it does in the recommendation.
pub(super) fn ranking(benchmarks: &[Findings<'_>]) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for findings in benchmarks.iter().rev() {
        let variants = findings.benchmark.variants.iter().enumerate();
        let variants = variants.filter(|(_, variant)| variant.role != Role::BaselineCopy);
        for (at, variant) in variants {
            if lines.iter().all(|(name, _)| *name != variant.name) {
                lines.push((variant.name.clone(), price(findings, at)));
            }
        }
    }
    // Options that were left out are no news where the allocator was measured.
    let first = benchmarks.first().map(|findings| findings.benchmark);
    for left_out in first.iter().flat_map(|benchmark| &benchmark.left_out) {
        if lines.iter().all(|(name, _)| *name != left_out.name) {
            let reason = format!("not measured: {}", left_out.reason);
            lines.push((left_out.name.clone(), reason));
        }
    }
    let withstood = measured_attacks::withstood(lines.iter().map(|(name, _)| name.as_str()));
    let mut known: Vec<(Withstood, &str, &str)> = lines
        .iter()
        .filter_map(|(name, price)| Some((*withstood.get(name)?, name.as_str(), price.as_str())))
        .collect();
    known.sort_by_key(|(withstood, ..)| (withstood.succeeded, usize::MAX - withstood.stopped));
    let mut text = String::new();
    for (place, (withstood, name, price)) in known.iter().enumerate() {
        let label = if place == 0 { "attacks" } else { "" };
        text.push_str(&format!("  {label:<10} {name} {withstood}; {price}\n"));
    }
    text
}

/// What a variant costs in time and memory, compared with what the user has.
fn price(findings: &Findings<'_>, variant: usize) -> String {
    if findings.benchmark.variants[variant].role == Role::Baseline {
        return "what you have; the costs are compared with it".to_owned();
    }
    let failures = &findings.failures[variant];
    if failures.count() > 0 {
        return format!("not recommended: {failures}");
    }
    let costs = Cost::of(findings, variant);
    let costs: Vec<String> = costs.iter().map(ToString::to_string).collect();
    if costs.is_empty() {
        "cannot be compared with what you have".to_owned()
    } else {
        costs.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_with_options_was_attacked_without_them() {
        let plain = lost("glibc", "glibc+mimalloc-secure").unwrap();
        let command = "reheap attack --variant glibc,glibc+mimalloc-secure)";
        assert!(plain.ends_with(&format!(" ({command}")), "{plain}");
        let tuned = lost("glibc", "glibc+mimalloc-secure[purge_delay=0]").unwrap();
        let end = format!(" (attacked without its options: {command}");
        assert!(tuned.ends_with(&end), "{tuned}");
    }

    /// glibc stops what mimalloc-secure only ignores: the program runs on after a double free.
    #[test]
    fn all_that_is_no_longer_stopped_is_lost_whatever_it_comes_to() {
        let said = lost("glibc", "glibc+mimalloc-secure").unwrap();
        let (succeed, ignored) = said.split_once("; these have no effect: ").unwrap();
        assert!(succeed.contains("these succeed: free-interior"), "{said}");
        for name in ["double-free", "realloc-after-free", "free-stack"] {
            assert!(ignored.contains(name), "{name}: {said}");
        }
        let crashed = lost("glibc", "glibc+mimalloc").unwrap();
        assert!(
            crashed.contains("these crash the program: free-stack"),
            "{crashed}"
        );
        let lost_attacks = measured_attacks::lost("glibc", "glibc+mimalloc");
        for (name, _) in lost_attacks {
            assert!(crashed.contains(name), "{name}: {crashed}");
        }
        assert_eq!(lost("glibc", "glibc+hardened_malloc"), None);
    }
}
