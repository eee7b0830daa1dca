//! The tests of all crates.
//!
//! cargo-nextest runs the tests of all executables at once, and notes how long each takes. Without it, `cargo test` runs
//! one executable after the other, and only a nightly toolchain would tell the times.

mod filter;

use anyhow::{Context as _, Result, ensure};
use reheap_allocators::catalogue::CATALOGUE;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use xtask::command::{shown, stdout_of};
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// Tests of what `make test` takes samples of: every allocator, for one.
pub(crate) const ALL: &[&str] = &["--features", "reheap/test_all"];
/// Builds them, and the programs that they run.
pub(crate) const BUILD: [&str; 4] = ["test", "--workspace", "--locked", "--no-run"];
/// Where nextest writes what it did (`.config/nextest.toml`): below the workspace, wherever Cargo builds.
const REPORT: &str = "target/nextest/default/junit.xml";
/// The allocators that many tests of `make test` use: its samples (`common/suite.rs`), and another one.
const USED_OFTEN: [&str; 4] = ["mimalloc", "jemalloc", "hardened_malloc-light", "rpmalloc"];
/// How many of the slowest tests are printed.
const SLOWEST: usize = 20;
/// The first random numbers of property tests. `.cargo/config.toml` has one that is always the same.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Builds them, makes the allocators that they share, and runs them.
pub(crate) fn run(workspace: &Workspace, progress: &Progress, all: bool) -> Result<()> {
    let extent = if all { ALL } else { &[] };
    let mut cargo = workspace.cargo();
    progress.step("building the tests", cargo.args(BUILD).args(extent))?;
    prepare_allocators(workspace, progress, all)?;
    let has_nextest = has_nextest(workspace);
    if has_nextest {
        check_filter(workspace, extent)?;
    }
    let mut tests = workspace.cargo();
    if has_nextest {
        tests.args(["nextest", "run", "--test-threads"]);
        tests.arg(tests_at_once().to_string());
        tests.args(all.then_some("--ignore-default-filter"));
    } else {
        progress.say("cargo-nextest is not installed: all tests run, one executable after the other, without times");
        tests.arg("test");
    }
    // A directory from the environment would be that of the projects that tests build, too.
    tests
        .args(["--workspace", "--locked", "--no-fail-fast", "--target-dir"])
        .arg(&workspace.target)
        .env_remove("CARGO_TARGET_DIR")
        .args(extent);
    if all {
        let seed = RandomState::new().hash_one(());
        progress.say(format!("property tests begin with {SEED}={seed}"));
        tests.env(SEED, seed.to_string());
    }
    let report = workspace.root.join(REPORT);
    let result = progress.step("the tests, and the tidy checks with them", &mut tests);
    if has_nextest {
        print_slowest(&report)?;
    }
    result
}

/// One more than there are processors, because many tests wait for a process or a deadline.
fn tests_at_once() -> usize {
    1 + thread::available_parallelism().map_or(1, NonZero::get)
}

fn has_nextest(workspace: &Workspace) -> bool {
    let mut version = workspace.cargo();
    version.args(["nextest", "--version"]);
    version.stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

/// Fails if the filter of nextest names tests that there are not.
fn check_filter(workspace: &Workspace, extent: &[&str]) -> Result<()> {
    let mut list = workspace.cargo();
    list.args(["nextest", "list", "--message-format", "json"]);
    list.args(["--workspace", "--locked"]).args(extent);
    let tests = filter::read_list(&stdout_of(&mut list)?)?;
    let config = fs::read_to_string(workspace.root.join(filter::CONFIG));
    filter::check(
        &config.context("cannot read nextest's configuration")?,
        &tests,
    )
}

/// Fills the cache of the tests. A test that is run alone makes what it needs, and the others would wait for it.
fn prepare_allocators(workspace: &Workspace, progress: &Progress, all: bool) -> Result<()> {
    progress.say("the allocators that the tests use");
    let directory = workspace.target.join("tmp");
    let built = CATALOGUE.iter().filter(|row| row.build.is_some());
    for allocator in built.filter(|row| all || USED_OFTEN.contains(&row.name)) {
        progress.say(format!("  {}", allocator.name));
        let preload = ["preload", "--output", "prepared", "--libc"];
        let mut uses = vec![vec!["libc"], [&preload[..], &["glibc"]].concat()];
        if all {
            uses.push([&preload[..], &["musl"]].concat());
        }
        let mut started = Vec::new();
        for words in uses {
            let mut command = Command::new(workspace.target.join("debug/reheap"));
            command
                .args(words)
                .args(["--allocator", allocator.name])
                .env("REHEAP_CACHE_DIR", directory.join("reheap-cache"))
                .current_dir(&directory)
                .stdout(Stdio::null());
            let child = command.spawn();
            let shown = shown(&command);
            started.push((
                child.with_context(|| format!("cannot start {shown}"))?,
                shown,
            ));
        }
        for (mut child, shown) in started {
            ensure!(child.wait()?.success(), "{shown} failed");
        }
    }
    Ok(())
}

/// A test and its seconds.
fn read_times(report: &str) -> Result<Vec<(f64, String)>> {
    let document = roxmltree::Document::parse(report).context("nextest's report is not XML")?;
    let cases = document
        .descendants()
        .filter(|node| node.has_tag_name("testcase"));
    cases
        .map(|case| {
            let of = |name| case.attribute(name).with_context(|| format!("no {name}"));
            let seconds = of("time")?.parse().context("a time is no number")?;
            Ok((seconds, format!("{} {}", of("classname")?, of("name")?)))
        })
        .collect()
}

fn print_slowest(report: &Path) -> Result<()> {
    let text = fs::read_to_string(report)
        .with_context(|| format!("cannot read `{}`", report.display()))?;
    let mut times = read_times(&text)?;
    times.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    eprintln!(
        "the slowest tests, in seconds; all times are in `{}`",
        report.display()
    );
    for (seconds, name) in times.iter().take(SLOWEST) {
        eprintln!("{seconds:8.1}  {name}");
    }
    Ok(())
}

#[cfg(test)]
mod report {
    #[test]
    fn times_are_read_from_the_report_of_nextest() {
        let report = "<testsuites><testsuite name=\"a::it\">\
                      <testcase name=\"b::c\" classname=\"a::it\" time=\"1.250\"><failure/></testcase>\
                      </testsuite></testsuites>";
        let times = super::read_times(report).unwrap();
        assert_eq!(times, [(1.25, "a::it b::c".to_owned())]);
    }
}
