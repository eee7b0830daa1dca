//! `make demo`: from a machine with Rust and a C compiler to a chart and a sentence, in a few minutes. After building,
//! it takes less than one.

mod chart;

use crate::prerequisites;
use anyhow::Result;
use reheap_allocators::catalogue::CATALOGUE;
use reheap_bench::findings::Findings;
use reheap_bench::results::Results;
use std::path::{Path, PathBuf};
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Build, Workspace};

/// How many seconds the runs of a program may take.
const BUDGET: &str = "20";
/// How many they may take with every allocator, on one thread and on two.
const BUDGET_FOR_ALL: &str = "120";
/// What the short demonstration compares.
const VARIANTS: &str = "glibc,musl,musl+mimalloc";
/// The programs, with an amount of work that makes the start of the process not count.
const PROGRAMS: [(&str, &str); 2] = [("churn", "8000000"), ("passwords", "1000000")];

/// A small program with two threads, and three variants; with `all`, two programs, also with one thread, and every
/// allocator.
pub(crate) fn run(mut workspace: Workspace, all: bool) -> Result<()> {
    workspace.build = Build::Debug;
    let progress = Progress::start();
    let mut build = workspace.cargo();
    progress.quietly("building reheap", build.args(["build", "-p", "reheap"]))?;
    prerequisites::install_missing(&workspace, &progress)?;
    if all {
        prerequisites::install_cxx(&workspace, &progress);
    }
    let directory = workspace.target.join("demo");
    files::make_directory(&directory)?;
    let mut measured = Vec::new();
    let count = if all { PROGRAMS.len() } else { 1 };
    for program in &PROGRAMS[..count] {
        measured.push(measure(&workspace, program, all, &directory, &progress)?);
    }
    let mut shown = String::new();
    for file in &measured {
        let results = Results::from_json(&files::read(file)?)?;
        for benchmark in &results.benchmarks {
            shown.push_str(&chart::of(&Findings::of(&results, benchmark)));
        }
    }
    let page = directory.join("report.html");
    let mut report = workspace.reheap();
    report
        .arg("report")
        .args(&measured)
        .arg("--html")
        .arg(&page);
    progress.quietly("writing the page", &mut report)?;
    print!("\n{shown}");
    println!("All figures, with intervals and charts: {}", page.display());
    Ok(())
}

/// Builds, checks and runs the variants of a program, and gives the file of the results.
fn measure(
    workspace: &Workspace,
    (package, amount): &(&str, &str),
    all: bool,
    directory: &Path,
    progress: &Progress,
) -> Result<PathBuf> {
    let file = directory.join(format!("{package}.json"));
    let mut variants = VARIANTS.to_owned();
    for allocator in CATALOGUE.iter().filter(|row| all && row.build.is_some()) {
        let variant = format!("musl+{}", allocator.name);
        if !VARIANTS.split(',').any(|known| known == variant) {
            variants.push_str(&format!(",{variant}"));
        }
    }
    let threads = if all { "threads=1,2" } else { "threads=2" };
    let mut command = workspace.cargo_reheap();
    command.args(["bench", "--name", package, "--budget"]);
    command.arg(if all { BUDGET_FOR_ALL } else { BUDGET });
    command.args(["--variant", &variants, "-L", threads]);
    command.arg("--json").arg(&file);
    command.args(["--release", "--locked", "-p", package]);
    command.args(["--", "--threads", "{threads}", "--amount", amount]);
    let what = format!("building and comparing {package}");
    progress.quietly(&what, &mut command)?;
    Ok(file)
}
