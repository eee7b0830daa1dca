//! All parts of a profile count the same: blocks by size, thread, lifetime and call site.

use crate::common::{Outcome, reheap, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

struct Compiled {
    directory: TempDir,
    program: PathBuf,
}

impl Compiled {
    fn new(mut compiler: Command, name: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/c");
        let program = directory.path().join(name);
        compiler
            .args(["-O1", "-g", "-fno-builtin", "-pthread"])
            .args(flags);
        compiler.arg(sources.join(name).with_extension("c"));
        run(compiler.arg("-o").arg(&program)).succeeded();
        Self { directory, program }
    }

    /// The profile of its only process, what it allocated by stack, and what was said.
    fn profile(&self, flags: &str, words: &[&str]) -> (Value, String, Outcome) {
        let [json, folded] = ["json", "folded"].map(|name| self.directory.path().join(name));
        let mut command = reheap(&format!("profile {flags} -o"));
        command.arg(&json).arg("--folded").arg(&folded);
        let outcome = run(command.arg("--").arg(&self.program).args(words)).succeeded();
        let profile: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        let folded = fs::read_to_string(folded).unwrap();
        (profile["processes"][0].clone(), folded, outcome)
    }
}

fn sum(rows: &Value, figure: &str) -> u64 {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row.pointer(figure).unwrap().as_u64().unwrap())
        .sum()
}

/// The bytes of stacks with this function.
fn bytes_at(folded: &str, function: &str) -> u64 {
    let lines = folded.lines().filter(|line| line.contains(function));
    lines
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn a_realloc_is_a_new_block_and_a_freed_one_in_every_table() {
    for compiler in ["cc", "musl-gcc"] {
        let ledgers = Compiled::new(Command::new(compiler), "ledgers", &[]);
        let (process, _, outcome) = ledgers.profile("", &[]);
        let (counts, threads) = (&process["counts"], &process["threads"]);
        let calls = counts["calls"].as_object().unwrap().iter();
        let allocating = calls.filter(|(name, _)| !name.starts_with("free"));
        let allocations: u64 = allocating.map(|(_, calls)| calls.as_u64().unwrap()).sum();
        assert_eq!(counts["calls"]["realloc"], 1500);
        assert_eq!(counts["allocations"], allocations);
        assert_eq!(sum(&counts["sizes"], "/blocks"), allocations);
        assert_eq!(sum(threads, "/allocated/blocks"), allocations);
        let said = format!(
            " in {},{:03} blocks",
            allocations / 1000,
            allocations % 1000
        );
        assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);

        let bytes = counts["requested_bytes"].as_u64().unwrap();
        assert_eq!(sum(&counts["sizes"], "/requested_bytes"), bytes);
        assert_eq!(sum(threads, "/allocated/bytes"), bytes);

        let frees = counts["frees"].as_u64().unwrap();
        assert_eq!(sum(&counts["lifetimes"], "/blocks"), frees);
        assert_eq!(sum(&counts["lifetimes_in_allocations"], "/blocks"), frees);
        assert_eq!(sum(threads, "/freed/blocks"), frees);
        let freed_bytes = sum(&counts["lifetimes"], "/bytes");
        assert_eq!(sum(threads, "/freed/bytes"), freed_bytes);
        assert_eq!(process["live_at_end"]["blocks"], allocations - frees);
        assert_eq!(process["live_at_end"]["bytes"], bytes - freed_bytes);

        // A block that realloc replaces lived until then. The last one of a thread goes to main, which changes it first.
        assert!(counts["temporaries"].as_u64().unwrap() < 10, "{counts:#}");
        assert_eq!(counts["freed_by_another_thread"]["blocks"], 1);
    }
}

#[test]
fn call_sites_count_what_realloc_allocates_as_the_headline_does() {
    let ledgers = Compiled::new(Command::new("cc"), "ledgers", &[]);
    let (process, folded, _) = ledgers.profile("--every 1", &["few"]);
    assert_eq!(process["counts"]["allocations"], 10);
    assert_eq!(process["counts"]["requested_bytes"], 62_500);
    assert_eq!(bytes_at(&folded, "few"), 62_500, "{folded}");
}

#[test]
fn of_many_large_blocks_few_are_sampled_and_stand_for_all() {
    let darkroom = Compiled::new(Command::new("cc"), "darkroom", &[]);
    let (process, folded, outcome) = darkroom.profile("", &[]);
    let samples = sum(&process["sites"]["stacks"], "/samples");
    assert!((50..100_000).contains(&samples), "{samples} samples");
    assert_eq!(process["lost"]["stacks"], 0);
    // Far more than what chance does to hundreds of samples.
    for (function, bytes) in [("develop", 60e9), ("enlarge", 240e9)] {
        let estimate = bytes_at(&folded, function) as f64;
        assert!((0.4..1.6).contains(&(estimate / bytes)), "{folded}");
    }
    assert!(outcome.stderr.contains("call site, estimated from "));
}

#[test]
fn threads_of_a_stripped_static_program_are_told_by_their_numbers() {
    for (compiler, flags) in [
        (Command::new("cc"), ["-static", "-s"]),
        (Command::new("musl-gcc"), ["-static", "-s"]),
        (reheap("cc"), ["-static", "-s"]),
    ] {
        let crew = Compiled::new(compiler, "crew", &flags);
        let (process, _, outcome) = crew.profile("", &[]);
        let threads = process["threads"].as_array().unwrap().iter();
        let told: BTreeSet<String> = threads.map(|thread| thread["tid"].to_string()).collect();
        let printed = outcome.stdout.lines().map(str::to_owned).collect();
        assert_eq!(told, printed);
    }
}
