//! What it costs to watch a program: nanoseconds for each pair of malloc and free, and time of two real programs.

use super::{Session, cpu_seconds, figures, median, origin, read, variants};
use crate::programs;
use crate::table::Table;
use anyhow::{Context, Result};
use reheap_bench::results::{Benchmark, Results, Role, Run};
use reheap_stats::aligned::{AlignedRanks, Round};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use xtask::files;

/// How the program of pairs is linked: a name, the compiler, its flags, and how many pairs take long enough.
const LINKS: [(&str, &str, &[&str], &str); 4] = [
    ("dynamic glibc", "gcc", &[], "3000000"),
    ("static glibc", "gcc", &["-static"], "3000000"),
    ("dynamic musl", "musl-gcc", &[], "500000"),
    ("static musl", "musl-gcc", &["-static"], "500000"),
];
const METRIC: &str = r"ns:lower=([\d.]+) ns per pair";
/// The programs that do more than allocate, with their manifests and arguments.
const REAL: [(&str, &str, &str); 2] = [
    ("json", "Cargo.toml", "--threads 2"),
    ("tokenize", programs::REAL, "--threads 2 --amount 5000"),
];
/// heaptrack takes minutes for a program with deep stacks.
const LIMIT: [&str; 2] = ["--time-limit", "60"];
/// What the baseline is called: nobody watches.
const ALONE: &str = "not watched";
/// What other profilers say when they are given a static program.
const OTHERS_ON_STATIC: &str = "others-on-static.txt";
/// A profiler that has not ended after so many seconds hangs: the program alone takes a hundredth of one.
const HANGS_AFTER: &str = "20";

/// Measures both kinds of programs.
pub(super) fn measure(session: &Session<'_>) -> Result<()> {
    for (link, compiler, flags, pairs) in LINKS {
        let name = format!("pairs-{}", link.replace(' ', "-"));
        let mut cc = Command::new(compiler);
        cc.args(["-O2", "-pthread"]).args(flags);
        cc.args(["lab/workloads/pairs/pairs.c", "-o", &session.scratch(&name)]);
        session.step(&format!("compiling {name}"), &mut cc)?;
        let command = format!("{} {{threads}} {pairs} {{blocks}}", session.scratch(&name));
        let others = flags.is_empty() && compiler == "gcc";
        let mut arguments = profilers(session, &command, others);
        let parameters = ["-L", "threads=1,2", "-L", "blocks=1,10000"];
        arguments.extend(
            ["--metric", METRIC]
                .into_iter()
                .chain(parameters)
                .map(String::from),
        );
        session.bench(&name, &arguments, &[])?;
    }
    others_on_static(session)?;
    for (package, manifest, flags) in REAL {
        let program = programs::rust_program(session.workspace, package, manifest);
        let built = program.build_stock(session.workspace, session.progress)?;
        let command = format!("{} {flags}", session.relative(&built));
        session.bench(
            &format!("cost-{package}"),
            &profilers(session, &command, true),
            &[],
        )?;
    }
    python(session)
}

/// The command alone and under each profiler, as variants of `reheap bench`.
fn profilers(session: &Session<'_>, command: &str, others: bool) -> Vec<String> {
    let reheap = format!("{} profile", session.reheap());
    let file = |name: &str| session.scratch(name);
    let mut variants = vec![
        format!("{ALONE}={command}"),
        format!("reheap profile --every 0={reheap} --every 0 -- {command}"),
        format!("reheap profile={reheap} -- {command}"),
        format!(
            "reheap profile --trace={reheap} --trace {} -- {command}",
            file("trace")
        ),
    ];
    if others {
        variants.push(format!("memusage=memusage {command}"));
        variants.push(format!(
            "heaptrack=heaptrack -o {} {command}",
            file("heaptrack")
        ));
        let dhat = format!("--dhat-out-file={}", file("dhat"));
        variants.push(format!(
            "valgrind (DHAT)=valgrind --tool=dhat {dhat} {command}"
        ));
    }
    let limit = LIMIT.map(String::from).into_iter();
    let flags = variants
        .into_iter()
        .flat_map(|variant| ["--variant".to_owned(), variant]);
    limit.chain(flags).collect()
}

/// Python, whose objects come from malloc, under memray, which knows only Python.
fn python(session: &Session<'_>) -> Result<()> {
    let environment = session.scratch.join("memray");
    let memray = environment.join("bin/memray");
    if !memray.exists() {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(&environment);
        session.step("making an environment for memray", &mut venv)?;
        let mut pip = Command::new(environment.join("bin/pip"));
        pip.args(["install", "--quiet", "memray==1.17.2"]);
        session.step("installing memray", &mut pip)?;
    }
    let python = session.relative(&environment.join("bin/python"));
    let script = "lab/workloads/readers/readers.py";
    let mut arguments = profilers(session, &format!("{python} {script}"), true);
    let output = session.scratch("memray.bin");
    let memray = session.relative(&memray);
    for (name, flags) in [("memray", ""), ("memray --native", "--native ")] {
        arguments.push("--variant".to_owned());
        let run = format!("{memray} run --force --quiet {flags}--output {output} {script}");
        arguments.push(format!("{name}={run}"));
    }
    session.bench("cost-python", &arguments, &[])
}

/// Asks the other profilers about a static program, and keeps what they say.
fn others_on_static(session: &Session<'_>) -> Result<()> {
    let program = session.scratch("pairs-static-glibc");
    let dhat = format!("--dhat-out-file={}", session.scratch("dhat"));
    let heaptrack = session.scratch("heaptrack");
    let profilers: [(&str, &[&str]); 3] = [
        ("memusage", &["memusage"]),
        ("heaptrack", &["heaptrack", "-o", &heaptrack]),
        ("valgrind (DHAT)", &["valgrind", "--tool=dhat", &dhat]),
    ];
    let mut said = String::new();
    for (name, words) in profilers {
        session.progress.say(format!("{name} and a static program"));
        let mut command = Command::new("timeout");
        command.current_dir(&session.workspace.root);
        command.args(["--kill-after=1", HANGS_AFTER]).args(words);
        command.args([&program, "1", "100000"]);
        let output = command.output().context("cannot start timeout")?;
        let text = String::from_utf8_lossy(&output.stderr);
        let total = text.lines().find_map(|line| line.split("Total:").nth(1));
        let says = match (output.status.code(), total) {
            (Some(124 | 137), _) => format!("hangs (ended after {HANGS_AFTER} s)"),
            (_, Some(total)) => format!("says: {}", total.trim()),
            (code, None) if text.trim().is_empty() => {
                format!("says nothing (exit code {})", code.unwrap_or(-1))
            }
            (code, None) => format!("names no blocks (exit code {})", code.unwrap_or(-1)),
        };
        _ = writeln!(said, "{name}: {says}");
    }
    files::write(session.results.join(OTHERS_ON_STATIC), said)
}

/// The page, if anything was measured.
pub(super) fn markdown(directory: &Path) -> Result<Option<String>> {
    let mut pairs = Vec::new();
    for (link, ..) in LINKS {
        let name = format!("pairs-{}", link.replace(' ', "-"));
        pairs.extend(read(directory, &name)?.map(|results| (link.to_owned(), results)));
    }
    let mut real = Vec::new();
    for name in ["json", "tokenize", "python"] {
        real.extend(
            read(directory, &format!("cost-{name}"))?.map(|results| (name.to_owned(), results)),
        );
    }
    let Some((_, first)) = pairs.first().or(real.first()) else {
        return Ok(None);
    };
    let mut page = format!("# What watching a program costs\n\n{}\n", origin(first));
    page += "\n## A pair of malloc and free\n\nNanoseconds of a thread's CPU time that are added to a pair of calls: \
             the estimate, and the 95 % interval where there are enough rounds. The first column is what a pair takes \
             when nobody watches (median).\n\n";
    page += &table(
        &pairs,
        |run| run.metrics.get("ns").copied(),
        |value| format!("{value:.1}"),
    )?;
    let said = fs::read_to_string(directory.join(OTHERS_ON_STATIC)).unwrap_or_default();
    if !said.is_empty() {
        page += "\nWhat the other profilers do with a static program (`pairs` with glibc):\n\n";
        said.lines().for_each(|line| _ = writeln!(page, "- {line}"));
    }
    page += "\n## Programs\n\nSeconds of CPU time that are added to a program, with the profiler's own. `json` and \
             `tokenize` run two threads; `python` is `lab/workloads/readers`.\n\n";
    page += &table(
        &real,
        |run| Some(cpu_seconds(run)),
        |value| format!("{value:.3}"),
    )?;
    Ok(Some(page))
}

/// One row for each benchmark, one column for each profiler.
fn table(
    results: &[(String, Results)],
    of: impl Fn(&Run) -> Option<f64> + Copy,
    shown: impl Fn(f64) -> String + Copy,
) -> Result<String> {
    let mut names: Vec<&str> = Vec::new();
    let benchmarks = || results.iter().flat_map(|(_, results)| &results.benchmarks);
    for variant in benchmarks().flat_map(variants) {
        if !names.contains(&variant.name.as_str()) {
            names.push(&variant.name);
        }
    }
    let mut header = vec![String::new()];
    header.extend(names.iter().map(|name| match *name {
        ALONE => ALONE.to_owned(),
        name => format!("`{name}`"),
    }));
    let mut table = Table::with_header(header);
    for (title, results) in results {
        for benchmark in &results.benchmarks {
            let mut row = vec![title.clone()];
            if let Some(threads) = benchmark.parameters.get("threads") {
                row[0] = format!(
                    "{title}, {threads} thread{}",
                    if threads == "1" { "" } else { "s" }
                );
            }
            if let Some(blocks) = benchmark
                .parameters
                .get("blocks")
                .filter(|blocks| *blocks != "1")
            {
                row[0] += &format!(", {blocks} blocks in use");
            }
            for name in &names {
                row.push(cell(benchmark, name, of, shown).unwrap_or_default());
            }
            table.push(row);
        }
    }
    Ok(table.render())
}

/// What a variant adds to the baseline; of the baseline, its median.
fn cell(
    benchmark: &Benchmark,
    name: &str,
    of: impl Fn(&Run) -> Option<f64> + Copy,
    shown: impl Fn(f64) -> String,
) -> Option<String> {
    let variant = variants(benchmark).find(|variant| variant.name == name)?;
    let theirs = figures(variant, of);
    if variant.role == Role::Baseline {
        return median(&theirs).map(shown);
    }
    let with_role = |role| {
        benchmark
            .variants
            .iter()
            .find(|variant| variant.role == role)
    };
    let baseline = figures(with_role(Role::Baseline)?, of);
    let copy = with_role(Role::BaselineCopy)
        .map(|copy| figures(copy, of))
        .unwrap_or_default();
    let in_round = |figures: &[(usize, f64)], round| {
        figures
            .iter()
            .find(|(other, _)| *other == round)
            .map(|(_, value)| *value)
    };
    let rounds: Vec<Round> = theirs
        .iter()
        .filter_map(|(round, value)| {
            Some(Round {
                baseline: (in_round(&baseline, *round)?, in_round(&copy, *round)),
                variant: *value,
            })
        })
        .collect();
    let added = AlignedRanks::of_figures(&rounds)?.shift();
    let interval = added.interval;
    let sign = if added.value < 0.0 { "" } else { "+" };
    let estimate = format!("{sign}{}", shown(added.value));
    Some(if interval.confidence >= 0.95 {
        let (low, high) = (shown(interval.low), shown(interval.high));
        format!("{estimate} [{low} to {high}]")
    } else {
        format!("{estimate} (n = {})", rounds.len())
    })
}
