//! What the allocator and the memory functions add to the start of a small static program: counts, and no times, which
//! `cargo lab measure-start` measures.
#![cfg(target_arch = "x86_64")]

use crate::common::suite::program;
use crate::common::{reheap, run};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Programs in a directory of their own, and what counts what their start costs.
struct Starts(tempfile::TempDir);

impl Starts {
    fn new() -> Self {
        let starts = Self(tempfile::tempdir().unwrap());
        let mut cc = Command::new("cc");
        cc.arg("-O2").arg(program("starts.c")).arg("-o");
        run(cc.arg(starts.path("starts"))).succeeded();
        starts
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A program that makes one block and prints one line.
    fn hello(&self, allocator: &str) -> PathBuf {
        let hello = self.path(allocator);
        let mut cc = reheap(&format!("cc -a {allocator} -O2"));
        run(cc.arg(program("hello.c")).arg("-o").arg(&hello)).succeeded();
        hello
    }

    fn count(&self, program: &PathBuf, environment: &[(&str, &str)]) -> Counts {
        // With random addresses, the number of pages that a start touches is up to chance.
        let mut starts = Command::new("setarch");
        starts.arg("-R").arg(self.path("starts"));
        starts.arg("count").arg(program).env_clear();
        let outcome = run(starts.envs(environment.iter().copied())).succeeded();
        let counts: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let count = |name: &str| counts[name].as_u64().unwrap();
        Counts {
            system_calls: count("system_calls"),
            cpuids: count("cpuids"),
            page_faults: count("page_faults"),
            anonymous_kib: count("anonymous_kib"),
        }
    }
}

#[derive(Debug)]
struct Counts {
    system_calls: u64,
    cpuids: u64,
    page_faults: u64,
    anonymous_kib: u64,
}

#[test]
fn the_default_adds_three_system_calls_and_50_kib_at_most_and_no_cpuid() {
    let starts = Starts::new();
    let stock = starts.count(&starts.hello("stock"), &[]);
    let mimalloc = starts.count(&starts.hello("mimalloc"), &[]);
    let both = format!("{mimalloc:?}, with the stock allocator {stock:?}");
    assert_eq!(mimalloc.cpuids, 0, "{both}");
    assert!(mimalloc.system_calls <= stock.system_calls + 3, "{both}");
    assert!(mimalloc.anonymous_kib <= stock.anonymous_kib + 50, "{both}");
}

#[test]
fn mimalloc_3_executes_no_cpuid_either() {
    let starts = Starts::new();
    for allocator in ["mimalloc3", "mimalloc-secure"] {
        assert_eq!(starts.count(&starts.hello(allocator), &[]).cpuids, 0);
    }
}

/// glibc's start does.
#[test]
fn a_cpuid_is_noticed_where_there_is_one() {
    let starts = Starts::new();
    let mut cc = Command::new("cc");
    cc.arg("-static").arg(program("hello.c")).arg("-o");
    run(cc.arg(starts.path("glibc"))).succeeded();
    assert!(starts.count(&starts.path("glibc"), &[]).cpuids > 0);
}

#[test]
fn rpmalloc_leaves_the_heaps_of_other_threads_alone() {
    let starts = Starts::new();
    let rpmalloc = starts.count(&starts.hello("rpmalloc"), &[]);
    assert!(rpmalloc.page_faults < 100, "{rpmalloc:?}");
    assert!(rpmalloc.anonymous_kib < 300, "{rpmalloc:?}");
}

#[test]
fn mimalloc_asks_for_numa_nodes_if_its_memory_is_to_be_on_all_of_them() {
    let starts = Starts::new();
    for allocator in ["mimalloc", "mimalloc3"] {
        let hello = starts.hello(allocator);
        let on_all_nodes = ("MIMALLOC_RESERVE_HUGE_OS_PAGES", "1");
        let asks = starts.count(&hello, &[on_all_nodes]);
        let knows = starts.count(&hello, &[on_all_nodes, ("MIMALLOC_USE_NUMA_NODES", "1")]);
        assert!(
            asks.system_calls > knows.system_calls,
            "{allocator}: {asks:?}, {knows:?}"
        );
    }
}
