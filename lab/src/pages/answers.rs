//! The sentences and short tables with figures in them, each one block of a page.
//!
//! A sentence says only what its figures say on every machine: "measurably faster in 5 of 7", never "faster". What that
//! means is for the page around it.

use super::ratios::{Benchmark, FURTHER, Kind, LINKED, Of, PRELOADED, Ratio, Ratios, Shown};
use crate::table::Table;
use anyhow::{Context, Result};
use reheap_bench::analysis::Verdict;
use reheap_bench::compare::title;
use reheap_bench::figures;
use reheap_bench::findings::Findings;
use reheap_bench::results::{Quantity, Results};

/// From stock musl to the default, one change at a time.
const STEPS: [(&str, &str); 4] = [
    ("musl", "stock musl"),
    (
        "musl+mimalloc[huge_pages=allow,purge_delay=10,memory_functions=stock]",
        "+ allocator",
    ),
    (
        "musl+mimalloc[huge_pages=allow,purge_delay=10]",
        "+ memory functions",
    ),
    ("musl+mimalloc", "+ tuning"),
];
const DEFAULT: &str = "musl+mimalloc";

/// Where and when it was measured.
pub(crate) fn machine(linked: &[(String, Results)], preloaded: &[(String, Results)]) -> String {
    let all: Vec<&Results> = linked
        .iter()
        .chain(preloaded)
        .map(|(_, results)| results)
        .collect();
    let mut machines: Vec<String> = all
        .iter()
        .map(|results| {
            let machine = &results.machine;
            let gib = machine.memory_bytes as f64 / (1024.0 * 1024.0 * 1024.0);
            let libc = machine.libc.as_deref().unwrap_or("an unknown libc");
            let kind = if machine.is_virtual {
                "a virtual machine"
            } else {
                "a machine"
            };
            format!(
                "{kind} with {} processors ({}), {gib:.0} GiB, {}, {libc}",
                machine.processors, machine.processor, machine.kernel
            )
        })
        .collect();
    machines.sort();
    machines.dedup();
    let rounds = all
        .iter()
        .flat_map(|results| &results.benchmarks)
        .filter_map(|benchmark| benchmark.baseline())
        .map(|baseline| baseline.runs.len().to_string());
    let loads = all
        .iter()
        .filter_map(|results| results.machine.load_average)
        .map(|load| format!("{load:.1}"));
    format!(
        "Measured on {}. Rounds per benchmark: {}. Load average before a benchmark: {}.\n",
        machines.join("; "),
        span(rounds),
        span(loads)
    )
}

/// The least and the most of some numbers: `10 to 15`.
fn span(numbers: impl Iterator<Item = String>) -> String {
    let mut numbers: Vec<String> = numbers.collect();
    numbers.sort_by(|left, right| left.len().cmp(&right.len()).then(left.cmp(right)));
    match (numbers.first(), numbers.last()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(least), _) => least.clone(),
        _ => "unknown".to_owned(),
    }
}

pub(crate) fn time(linked: &Ratios) -> String {
    format!(
        "{}\n{}",
        verdicts("reheap's default", "time", linked, DEFAULT, Of::Time),
        matrix("time / glibc's", linked, LINKED, Of::Time)
    )
}

pub(crate) fn memory(linked: &Ratios) -> String {
    format!(
        "{}\n{}",
        verdicts(
            "reheap's default",
            "peak memory",
            linked,
            DEFAULT,
            Of::Memory
        ),
        matrix("peak memory / glibc's", linked, LINKED, Of::Memory)
    )
}

/// In which programs a variant measurably needs less than the baseline, and in which more.
fn verdicts(name: &str, what: &str, ratios: &Ratios, variant: &str, of: Of) -> String {
    let count = |verdict| {
        ratios
            .programs()
            .filter_map(|benchmark| benchmark.ratio(variant, of))
            .filter(|ratio| ratio.verdict == verdict)
            .count()
    };
    let (less, more) = (count(Verdict::Better), count(Verdict::Worse));
    let (same, open) = (
        count(Verdict::Equal),
        count(Verdict::Suspected) + count(Verdict::Open),
    );
    let number = |count: usize| match count {
        0 => "none".to_owned(),
        count => count.to_string(),
    };
    let mut text = format!(
        "Of {} programs, {name} needs measurably less {what} than glibc in {} and measurably more in {}.",
        less + more + same + open,
        number(less),
        number(more)
    );
    if same > 0 {
        text += &format!(" In {same} it needs the same within 2 %.");
    }
    if open > 0 {
        text += &format!(" In {open} the measurement cannot tell.");
    }
    text + "\n"
}

/// One row for each variant, one column for each benchmark. The mean of the programs stands behind them, and before the
/// micro benchmarks, which have no part in it.
fn matrix(corner: &str, ratios: &Ratios, shown: &[Shown], of: Of) -> String {
    let common = ratios.common(shown);
    let titles = |benchmark: &Benchmark| benchmark.title.clone();
    let mut header = vec![corner.to_owned()];
    header.extend(ratios.programs().map(titles));
    header.push(format!("mean of {}", common.len()));
    header.extend(ratios.micro().map(titles));
    let mut table = Table::with_header(header);
    let further = FURTHER.iter().filter(|row| ratios.has(row.variant));
    for row in shown.iter().chain(further) {
        let of_benchmark = |benchmark: &Benchmark| match benchmark.ratio(row.variant, of) {
            Some(ratio) => cell(ratio),
            None => "-".to_owned(),
        };
        let mut cells = vec![match row.kind {
            Kind::Reheap => format!("**{}**", row.label),
            Kind::Stock | Kind::Known => row.label.to_owned(),
        }];
        cells.extend(ratios.programs().map(of_benchmark));
        let mean = Ratios::mean(&common, row.variant, of);
        cells.push(mean.map_or("-".to_owned(), |mean| format!("{mean:.2}")));
        cells.extend(ratios.micro().map(of_benchmark));
        table.push(cells);
    }
    table.render()
}

fn cell(ratio: Ratio) -> String {
    figures::judged(ratio.verdict, ratio.value, &format!("{:.2}", ratio.value))
}

/// CPU time over glibc's after each step from stock musl to the default.
pub(crate) fn steps(linked: &[(String, Results)]) -> String {
    let mut header = vec!["CPU time / glibc's".to_owned()];
    header.extend(STEPS.map(|(_, step)| step.to_owned()));
    let mut table = Table::with_header(header);
    for (_, results) in linked {
        for benchmark in &results.benchmarks {
            let findings = Findings::of(results, benchmark);
            let Some(analysis) = findings.analysis(&Quantity::Cpu) else {
                continue;
            };
            let ratio = |variant: &str| {
                let row = analysis.rows.iter().find(|row| row.variant == variant)?;
                Some(row.comparison?.ratio?.value)
            };
            let ratios: Option<Vec<f64>> = STEPS.iter().map(|step| ratio(step.0)).collect();
            let Some(ratios) = ratios else {
                continue; // not every step was measured
            };
            let mut cells = vec![title(benchmark)];
            cells.extend(ratios.iter().map(|ratio| format!("{ratio:.2}")));
            table.push(cells);
        }
    }
    table.render()
}

/// The benchmarks in which the default brings no time, and preloads.
pub(crate) fn no_help(linked: &Ratios, preloaded: &Ratios) -> Result<String> {
    let without = |ratios: &Ratios, variant| {
        let titles: Vec<String> = ratios
            .benchmarks
            .iter()
            .filter(|benchmark| {
                let ratio = benchmark.ratio(variant, Of::Time);
                ratio.is_some_and(|ratio| ratio.verdict != Verdict::Better)
            })
            .map(|benchmark| format!("`{}`", benchmark.title))
            .collect();
        if titles.is_empty() {
            "none".to_owned()
        } else {
            titles.join(", ")
        }
    };
    let common = preloaded.common(PRELOADED);
    let mean = |variant| {
        Ratios::mean(&common, variant, Of::Memory)
            .map(|mean| format!("{mean:.2}"))
            .with_context(|| format!("`{variant}` has no mean"))
    };
    Ok(format!(
        "- reheap's default, linked: no measurable gain in time in {}.\n\
         - mimalloc, preloaded: no measurable gain in time in {} of {} benchmarks ({}).\n\
         - Preloads cost memory in these programs: mimalloc needs {} times glibc's peak memory, jemalloc {} times (geometric \
         mean).\n",
        without(linked, DEFAULT),
        preloaded
            .benchmarks
            .iter()
            .filter_map(|benchmark| benchmark.ratio("glibc+mimalloc", Of::Time))
            .filter(|ratio| ratio.verdict != Verdict::Better)
            .count(),
        preloaded.benchmarks.len(),
        without(preloaded, "glibc+mimalloc"),
        mean("glibc+mimalloc")?,
        mean("glibc+jemalloc")?,
    ))
}

/// What each benchmark could have shown.
pub(crate) fn visible(linked: &Ratios, preloaded: &Ratios) -> String {
    let header = [
        "benchmark",
        "rounds",
        "visible difference of time",
        "load before",
    ];
    let mut table = Table::new(header);
    for benchmark in linked.benchmarks.iter().chain(&preloaded.benchmarks) {
        let unknown = || "unknown".to_owned();
        table.row([
            benchmark.title.clone(),
            benchmark.rounds.to_string(),
            benchmark
                .visible
                .map_or_else(unknown, |visible| format!("{:.0} %", visible * 100.0)),
            benchmark
                .load
                .map_or_else(unknown, |load| format!("{load:.1}")),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known;

    #[test]
    fn numbers_are_spanned_by_the_least_and_the_most() {
        let of = |numbers: &[&str]| span(numbers.iter().map(|number| (*number).to_owned()));
        assert_eq!(of(&["15", "9", "10"]), "9 to 15");
        assert_eq!(of(&["15", "15"]), "15");
        assert_eq!(of(&[]), "unknown");
    }

    #[test]
    fn further_variants_have_a_row_only_where_they_were_measured() {
        let variants = [("musl", 2.0, 1.0), (known::BY_HAND, 0.5, 1.0)];
        let ratios = Ratios {
            benchmarks: vec![Benchmark::example("one", &variants)],
        };
        let table = matrix("time", &ratios, LINKED, Of::Time);
        assert!(table.contains(known::BY_HAND), "{table}");
        assert!(!table.contains("tcmalloc"), "{table}");
    }
}
