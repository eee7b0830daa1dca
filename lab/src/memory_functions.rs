//! `cargo lab measure-memory`: the memory functions of reheap, musl and glibc side by side, as raw data, table and
//! plot.
//!
//! The measuring is the example of `reheap-mem`: it is unsafe code, which has no place here.

use crate::machine::Machine;
use crate::measurement;
use crate::memory_plot::{self, Row};
use crate::sources::rust_libc;
use anyhow::{Context, Result};
use xtask::command::stdout_of;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// Short calls take one of two times in a whole process, so one is not enough.
const PROCESSES: usize = 4;

/// Which of the paths of reheap and glibc are measured.
#[derive(Clone, Copy)]
enum Paths {
    /// The best for this processor.
    Best,
    /// Those of a processor without AVX-512.
    Avx2,
}

pub(crate) fn run(workspace: &Workspace, machine_name: Option<String>) -> Result<()> {
    let progress = Progress::start();
    let machine = Machine::describe()?;
    let example = ["-p", "reheap-mem", "--example", "measure_memory"];
    progress.step(
        "building the measurement",
        workspace.cargo().args(["build", "--release"]).args(example),
    )?;
    progress.say("measuring; it takes some minutes");
    let best = measured(workspace, &progress, Paths::Best)?;
    let avx2 = if has_avx512() {
        measured(workspace, &progress, Paths::Avx2)?
    } else {
        Vec::new()
    };

    let directory = measurement::directory(workspace, &machine, machine_name);
    let mut raw = "`memory-functions.csv`".to_owned();
    let mut files = vec![
        ("memory-functions.csv", csv(&best)),
        ("memory-functions.svg", memory_plot::svg(&best)),
    ];
    if !avx2.is_empty() {
        raw += " and, as without AVX-512, `memory-functions-avx2.csv`";
        files.push(("memory-functions-avx2.csv", csv(&avx2)));
    }
    let text = format!(
        "# Memory functions\n\n{machine}.\nMade by `cargo lab measure-memory`: for each size the fastest of {PROCESSES} \
         processes; raw data in {raw}, all sizes in `memory-functions.svg`.\n\n{}",
        table(&best, &avx2)
    );
    println!("{text}");
    files.push(("memory-functions.md", text));
    measurement::write(&progress, &directory, &files)
}

fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// The least time of each function and size, over all processes.
fn measured(workspace: &Workspace, progress: &Progress, paths: Paths) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for process in 1..=PROCESSES {
        progress.say(match paths {
            Paths::Best => format!("process {process} of {PROCESSES}"),
            Paths::Avx2 => format!("process {process} of {PROCESSES}, as without AVX-512"),
        });
        let mut command = workspace.cargo();
        command.args(["run", "--quiet", "--release", "-p", "reheap-mem"]);
        command.args(["--example", "measure_memory", "--"]);
        if let Paths::Avx2 = paths {
            command.arg("--avx2");
            let without = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW";
            command.env("GLIBC_TUNABLES", without);
        }
        command.arg("--musl").arg(rust_libc()?);
        let more = parse(&stdout_of(&mut command)?)?;
        if rows.is_empty() {
            rows = more;
        } else {
            for (row, more) in rows.iter_mut().zip(&more) {
                row.keep_least(more);
            }
        }
    }
    Ok(rows)
}

impl Row {
    fn keep_least(&mut self, other: &Self) {
        let least = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.min(b));
        self.reheap_ns = self.reheap_ns.min(other.reheap_ns);
        self.musl_ns = least(self.musl_ns, other.musl_ns);
        self.glibc_ns = least(self.glibc_ns, other.glibc_ns);
    }
}

const HEADER: &str = "function,size,placement,reheap_ns,musl_ns,glibc_ns\n";

fn csv(rows: &[Row]) -> String {
    let shown = |ns: Option<f64>| ns.map_or_else(String::new, |ns| format!("{ns:.3}"));
    let mut text = HEADER.to_owned();
    for row in rows {
        let reheap = shown(Some(row.reheap_ns));
        let (musl, glibc) = (shown(row.musl_ns), shown(row.glibc_ns));
        let (function, size, placement) = (&row.function, row.size, &row.placement);
        text += &format!("{function},{size},{placement},{reheap},{musl},{glibc}\n");
    }
    text
}

fn parse(csv: &str) -> Result<Vec<Row>> {
    let row = |line: &str| {
        let columns: Vec<&str> = line.split(',').collect();
        let [function, size, placement, reheap, musl, glibc, _batches] = columns[..] else {
            return None;
        };
        Some(Row {
            function: function.to_owned(),
            size: size.parse().ok()?,
            placement: placement.to_owned(),
            reheap_ns: reheap.parse().ok()?,
            musl_ns: musl.parse().ok(),
            glibc_ns: glibc.parse().ok(),
        })
    };
    csv.lines()
        .skip(1)
        .map(|line| row(line).with_context(|| format!("cannot understand the row `{line}`")))
        .collect()
}

/// Sizes of one kind, from and to.
const CLASSES: [(&str, usize, usize); 6] = [
    ("1 to 15 B", 1, 15),
    ("16 to 64 B", 16, 64),
    ("65 to 256 B", 65, 256),
    ("257 B to 2 KiB", 257, 2048),
    ("to 64 KiB", 2049, 1 << 16),
    ("larger", (1 << 16) + 1, usize::MAX),
];

/// How many times as fast as the others, per function and class: the geometric mean, and for glibc the lowest; the same for
/// what was measured as without AVX-512, if anything.
fn table(best: &[Row], avx2: &[Row]) -> String {
    let columns = ["function", "sizes", "x musl", "x glibc", "lowest x glibc"];
    let more = match avx2 {
        [] => &[][..],
        _ => &["x glibc, AVX2", "lowest, AVX2"],
    };
    let mut text = format!("| {} |\n", [&columns[..], more].concat().join(" | "));
    let rules = ["---"; 2].into_iter().chain(["---:"; 5]);
    let rules: Vec<&str> = rules.take(columns.len() + more.len()).collect();
    text += &format!("| {} |\n", rules.join(" | "));
    let mut functions: Vec<&str> = best.iter().map(|row| row.function.as_str()).collect();
    functions.dedup();
    for function in functions {
        let spread = CLASSES.map(|(name, from, to)| (name, "spread", from..=to));
        let classes = spread
            .into_iter()
            .chain([("mixed, up to 1 KiB", "mixed", 0..=usize::MAX)]);
        for (name, placement, sizes) in classes {
            let ratios = |rows: &[Row], of: fn(&Row) -> Option<f64>| -> Vec<f64> {
                rows.iter()
                    .filter(|row| row.function == function && row.placement == placement)
                    .filter(|row| sizes.contains(&row.size))
                    .filter_map(|row| Some(of(row)? / row.reheap_ns))
                    .collect()
            };
            let musl = ratios(best, |row| row.musl_ns);
            let mut cells = vec![geometric_mean(&musl)];
            for rows in [best, avx2].into_iter().filter(|rows| !rows.is_empty()) {
                let glibc = ratios(rows, |row| row.glibc_ns);
                cells.push(geometric_mean(&glibc));
                cells.push(glibc.into_iter().reduce(f64::min));
            }
            if cells.iter().all(Option::is_none) {
                continue; // it was measured with no such sizes
            }
            let cells: Vec<String> = cells.into_iter().map(shown).collect();
            text += &format!("| {function} | {name} | {} |\n", cells.join(" | "));
        }
    }
    text
}

fn shown(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "function,size,placement,reheap_ns,musl_ns,glibc_ns,batches\n\
                       memcpy,1,spread,1.0,4.0,2.0,60\nmemcpy,2,spread,2.0,2.0,1.0,60\nrawmemchr,9,mixed,1.5,,3.0,60\n";

    #[test]
    fn ratios_are_geometric_means_and_a_function_that_musl_lacks_has_none() {
        let table = table(&parse(CSV).unwrap(), &[]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| memcpy | 1 to 15 B | 2.00 | 1.00 | 0.50 |",
                "| rawmemchr | mixed, up to 1 KiB | - | 2.00 | 2.00 |"
            ]
        );
    }

    #[test]
    fn what_was_measured_without_avx_512_stands_beside_it() {
        let best = parse(CSV).unwrap();
        let mut avx2 = best.clone();
        avx2.iter_mut().for_each(|row| row.reheap_ns *= 2.0);
        let table = table(&best, &avx2);
        let row = table.lines().nth(2);
        let expected = "| memcpy | 1 to 15 B | 2.00 | 1.00 | 0.50 | 0.50 | 0.25 |";
        assert_eq!(row, Some(expected));
    }

    #[test]
    fn of_several_processes_the_least_time_counts() {
        let mut rows = parse(CSV).unwrap();
        let mut faster = rows[0].clone();
        faster.glibc_ns = Some(0.5);
        faster.reheap_ns = 3.0;
        rows[0].keep_least(&faster);
        assert_eq!(
            csv(&rows[..1]),
            format!("{HEADER}memcpy,1,spread,1.000,4.000,0.500\n")
        );
    }

    #[test]
    fn a_row_that_is_cut_off_is_an_error() {
        assert!(parse(&CSV[..CSV.len() - 8]).is_err());
    }
}
