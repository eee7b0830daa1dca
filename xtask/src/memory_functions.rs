//! `cargo xtask measure-memory`: the memory functions of reheap, musl and glibc side by side, as raw data, table and
//! plot.
//!
//! The measuring is the example of `reheap-mem`: it is unsafe code, which has no place here.

use crate::machine::Machine;
use crate::memory_plot::{self, Row};
use crate::progress::Progress;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

pub(crate) fn run(workspace: &Workspace, machine_name: Option<String>) -> Result<()> {
    let progress = Progress::start();
    let machine = Machine::describe()?;
    let example = ["-p", "reheap-mem", "--example", "measure_memory"];
    progress.step(
        "building the measurement",
        workspace.cargo().args(["build", "--release"]).args(example),
    )?;
    progress.say("measuring; it takes a minute or two");
    let output = workspace
        .cargo()
        .args(["run", "--quiet", "--release"])
        .args(example)
        .args(["--", "--musl"])
        .arg(libc_of_rust()?)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "the measurement failed");
    let csv = String::from_utf8(output.stdout).context("the table is not UTF-8")?;
    let rows = parse(&csv)?;

    let directory = machine.directory(workspace, machine_name)?;
    let text = format!(
        "# Memory functions\n\n{machine}.\nMade by `cargo xtask measure-memory`; raw data in `memory-functions.csv`, \
         all sizes in `memory-functions.svg`.\n\n{}",
        table(&rows)
    );
    let plot = memory_plot::svg(&rows);
    for (file, contents) in [("csv", &csv), ("md", &text), ("svg", &plot)] {
        let path = directory.join(format!("memory-functions.{file}"));
        fs::write(&path, contents).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    println!("{text}");
    progress.say(format!("written to `{}`", directory.display()));
    Ok(())
}

/// The musl libc that comes with Rust for this machine.
fn libc_of_rust() -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let output = std::process::Command::new("rustc")
        .args(["--print", "target-libdir", "--target", &target])
        .output()
        .context("cannot start rustc")?;
    let directory = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let libc = PathBuf::from(directory).join("self-contained/libc.a");
    ensure!(libc.is_file(), "rustup target add {target}");
    Ok(libc)
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

/// How many times as fast as the others, per function and class: the geometric mean, and for glibc the lowest.
fn table(rows: &[Row]) -> String {
    let mut text = "| function | sizes | x musl | x glibc | lowest x glibc |\n\
                    | --- | --- | ---: | ---: | ---: |\n"
        .to_owned();
    let mut functions: Vec<&str> = rows.iter().map(|row| row.function.as_str()).collect();
    functions.dedup();
    for function in functions {
        let of_function = |row: &&Row| row.function == function;
        let spread = CLASSES.map(|(name, from, to)| {
            let in_class =
                move |row: &&Row| row.placement == "spread" && (from..=to).contains(&row.size);
            (
                name,
                rows.iter().filter(of_function).filter(in_class).collect(),
            )
        });
        let mixed = rows
            .iter()
            .filter(of_function)
            .filter(|row| row.placement == "mixed");
        let classes = spread
            .into_iter()
            .chain([("mixed, up to 1 KiB", mixed.collect::<Vec<_>>())]);
        for (name, rows) in classes.filter(|(_, rows)| !rows.is_empty()) {
            let ratios = |of: fn(&Row) -> Option<f64>| -> Vec<f64> {
                rows.iter()
                    .filter_map(|row| Some(of(row)? / row.reheap_ns))
                    .collect()
            };
            let (musl, glibc) = (ratios(|row| row.musl_ns), ratios(|row| row.glibc_ns));
            let lowest = glibc.iter().copied().reduce(f64::min);
            text += &format!(
                "| {function} | {name} | {} | {} | {} |\n",
                shown(geometric_mean(&musl)),
                shown(geometric_mean(&glibc)),
                shown(lowest)
            );
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
        let table = table(&parse(CSV).unwrap());
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
    fn a_row_that_is_cut_off_is_an_error() {
        assert!(parse(&CSV[..CSV.len() - 8]).is_err());
    }
}
