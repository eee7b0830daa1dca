//! The page of the programs, its chart, and the table of the front page.

use super::version;
use crate::known;
use crate::pages::ratios::{Benchmark, Kind, Of, Ratios, Shown, shown};
use crate::pages::{answers, chart as charts, tables::tables};
use crate::table::Table;
use anyhow::{Context, Result};
use reheap_bench::analysis::Verdict;
use reheap_bench::figures;
use reheap_bench::results::Results;

/// In the directory of the measurements.
pub(crate) const PAGE: &str = "real-programs.md";
pub(crate) const CHART: &str = "real-programs.svg";
const IN_RUST: &str = "real/in-rust.md";
const IN_C: &str = "real/in-c.md";

const DEFAULT: &str = "musl+mimalloc";

/// What every program took part in.
const SHOWN: &[Shown] = &[
    shown("musl", "stock musl", Kind::Stock),
    shown(known::BY_HAND, "musl, libc.a patched by hand", Kind::Known),
    shown(known::TCMALLOC, "glibc, tcmalloc preloaded", Kind::Known),
    shown(known::MIMALLOC, "glibc, mimalloc preloaded", Kind::Known),
    shown(known::JEMALLOC, "glibc, jemalloc preloaded", Kind::Known),
    shown("musl+jemalloc", "reheap, jemalloc", Kind::Reheap),
    shown(DEFAULT, "reheap, mimalloc (default)", Kind::Reheap),
];

/// What only programs in Rust can take.
const CRATES: [Shown; 2] = [
    shown(
        "musl, crate mimalloc",
        "musl, `mimalloc` crate",
        Kind::Known,
    ),
    shown(
        "musl, crate tikv-jemallocator",
        "musl, `tikv-jemallocator` crate",
        Kind::Known,
    ),
];

pub(crate) fn chart(ratios: &Ratios, day: &str) -> String {
    let programs = ratios.common(SHOWN).len();
    let title = format!("{programs} programs: time and peak memory, compared with the glibc build");
    charts::svg(&title, ratios, SHOWN, day)
}

/// The table of the front page.
pub(crate) fn block(ratios: &Ratios) -> Result<String> {
    let all = ratios.common(SHOWN);
    let in_rust = ratios.common(&CRATES);
    let mut table = Table::new(["relative to the glibc build", "time", "peak memory"]);
    for row in SHOWN {
        table.row(cells(&label(row), &all, row.variant)?);
    }
    let mut rust = Table::new(["the same, in Rust", "time", "peak memory"]);
    for row in CRATES
        .iter()
        .chain(SHOWN.iter().filter(|row| row.variant == DEFAULT))
    {
        rust.row(cells(&label(row), &in_rust, row.variant)?);
    }
    Ok(format!(
        "{} programs of the registries: geometric mean, and least to most. The preloads are Debian's.\n\n{}\n\
         Allocator crates are for Rust only, so they are compared over the {} programs in Rust:\n\n{}",
        all.len(),
        table.render(),
        in_rust.len(),
        rust.render()
    ))
}

fn label(row: &Shown) -> String {
    match row.kind {
        Kind::Reheap => format!("**{}**", row.label),
        Kind::Stock | Kind::Known => row.label.to_owned(),
    }
}

fn cells(label: &str, programs: &[&Benchmark], variant: &str) -> Result<[String; 3]> {
    let cell = |of| {
        let spread = Ratios::spread(programs, variant, of)
            .with_context(|| format!("`{variant}` is missing in a program"))?;
        let (mean, least, most) = (spread.mean, spread.least, spread.most);
        anyhow::Ok(format!("{mean:.2} ({least:.2} to {most:.2})"))
    };
    Ok([label.to_owned(), cell(Of::Time)?, cell(Of::Memory)?])
}

/// The long tables, of the programs in Rust and of those in C and C++.
pub(crate) fn long_tables(measured: &[(String, Results)]) -> Result<[(&'static str, String); 2]> {
    let is_rust =
        |(file, _): &&(String, Results)| file.strip_suffix(".json").is_some_and(super::is_in_rust);
    let (in_rust, in_c): (Vec<_>, Vec<_>) = measured.iter().partition(is_rust);
    let owned = |chosen: Vec<&(String, Results)>| chosen.into_iter().cloned().collect::<Vec<_>>();
    let title = |language| format!("Programs in {language}: everything that was measured");
    Ok([
        (IN_RUST, tables(&title("Rust"), &owned(in_rust))?),
        (IN_C, tables(&title("C and C++"), &owned(in_c))?),
    ])
}

/// The page: what was not won, the means, each program.
pub(crate) fn page(measured: &[(String, Results)], ratios: &Ratios) -> Result<String> {
    Ok(format!(
        "# Real programs\n\n{INTRODUCTION}\n{}\n## What reheap does not win\n\n{}\n\
         ## All of them\n\n![Time and peak memory of each variant, relative to glibc]({CHART})\n\n{}\n\
         ## Time of each program, relative to glibc\n\nThe program in which reheap's default brings least stands first. {ARROWS}\n\n{}\n\
         ## Peak memory of each program, relative to glibc\n\n{}\n\
         With CPU time, intervals and average memory: [programs in Rust]({IN_RUST}), [programs in C and C++]({IN_C}).\n",
        answers::machine(measured, &[]),
        not_won(ratios),
        block(ratios)?,
        matrix(ratios, Of::Time),
        matrix(ratios, Of::Memory),
    ))
}

const INTRODUCTION: &str = "Programs that nobody here wrote, from the registries, at work that their users would give them: \
    formatters, parsers, interpreters, template and style sheet engines, a database, compression. What each does, and \
    with which input, is in `lab/src/real.rs`; the inputs are packages at fixed versions. `make bench-real` measures them.\n\n\
    The baseline is the program as a distribution would build it, dynamic, with glibc. The others are the same sources: in a static \
    executable with musl, stock or with another allocator in it, or with a package of Debian preloaded. C programs have the same GCC \
    in both libcs, C++ programs the same Clang and libc++ (of Zig). Outputs were compared, except \
    that of grass: now and then it prints one selector more, with stock musl too.\n";

const ARROWS: &str = "An arrow is a difference that was measured for sure; `~` is none or less than 2 %, and `?` one that needs more runs.";

/// The programs in which the default is not measurably faster than glibc, in which something else is faster than it, and in
/// which it needs more memory.
fn not_won(ratios: &Ratios) -> String {
    let programs: Vec<&Benchmark> = ratios.programs().collect();
    let names = |of: &dyn Fn(&Benchmark) -> bool| {
        let chosen = programs.iter().filter(|program| of(program));
        let names: Vec<String> = chosen
            .map(|program| format!("`{}`", program.title))
            .collect();
        match names.len() {
            0 => "none".to_owned(),
            count => format!("{count} of {}: {}", programs.len(), names.join(", ")),
        }
    };
    let is = |program: &Benchmark, of, verdict| {
        program
            .ratio(DEFAULT, of)
            .is_some_and(|ratio| ratio.verdict == verdict)
    };
    let value = |program: &Benchmark, variant, of| Some(program.ratio(variant, of)?.value);
    let others = || {
        SHOWN
            .iter()
            .chain(&CRATES)
            .filter(|row| row.kind != Kind::Reheap)
    };
    let beaten = |program: &Benchmark| {
        let Some(own) = value(program, DEFAULT, Of::Time) else {
            return false;
        };
        let best = others().filter_map(|row| value(program, row.variant, Of::Time));
        best.fold(f64::INFINITY, f64::min) < own * 0.98
    };
    let larger =
        |program: &Benchmark| value(program, DEFAULT, Of::Memory).is_some_and(|ratio| ratio > 1.1);
    format!(
        "- reheap's default is not measurably faster than the glibc build in {}.\n\
         - It is measurably slower than the glibc build in {}.\n\
         - Something that is not reheap's takes at least 2 % less time (medians) in {}.\n\
         - It needs measurably more memory than the glibc build in {}.\n\
         - More than 10 % more in {}.\n",
        names(&|program| !is(program, Of::Time, Verdict::Better)),
        names(&|program| is(program, Of::Time, Verdict::Worse)),
        names(&beaten),
        names(&|program| is(program, Of::Memory, Verdict::Worse)),
        names(&larger),
    )
}

/// A row for each program, a column for each variant.
fn matrix(ratios: &Ratios, of: Of) -> String {
    let variants = || SHOWN.iter().take(1).chain(&CRATES).chain(&SHOWN[1..]);
    let mut programs: Vec<&Benchmark> = ratios.programs().collect();
    let default = |program: &Benchmark| program.ratio(DEFAULT, of).map_or(0.0, |ratio| ratio.value);
    programs.sort_by(|left, right| default(right).total_cmp(&default(left)));
    let mut header = vec!["program".to_owned()];
    header.extend(variants().map(label));
    let mut table = Table::with_header(header);
    for program in programs {
        let title = match version(&program.title) {
            Some(version) => format!("{} {version}", program.title),
            None => program.title.clone(),
        };
        let mut row = vec![title];
        row.extend(
            variants().map(|shown| match program.ratio(shown.variant, of) {
                Some(ratio) => {
                    figures::judged(ratio.verdict, ratio.value, &format!("{:.2}", ratio.value))
                }
                None => "-".to_owned(),
            }),
        );
        table.push(row);
    }
    table.render()
}
