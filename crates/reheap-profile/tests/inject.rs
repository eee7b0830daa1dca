//! Hooks in static programs: started, counted to the last call, and otherwise as they always are.

mod common;

use common::{Link, Recording, compile, ends, hooks, scratch_directory};
use reheap_profile::inject::{Access, Started, locate, spawn};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

const STATIC: [Link; 3] = [Link::Musl, Link::Glibc, Link::GlibcPie];

#[track_caller]
fn start(program: &Path, arguments: &[&str], recording: &Recording) -> Started {
    let directory = scratch_directory();
    let bytes = std::fs::read(program).unwrap();
    let located = locate(bytes.as_slice()).unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stdin(Stdio::null());
    let hooks = hooks(directory.path());
    spawn(command, &located, &hooks, &recording.path).unwrap_or_else(|error| panic!("{error}"))
}

/// What `known_counts` did, with that many threads and rounds in each.
#[track_caller]
fn counts(program: &Path, threads: u64, rounds: u64) -> BTreeMap<&'static str, u64> {
    let directory = scratch_directory();
    let recording = Recording::new(directory.path());
    let arguments = [threads.to_string(), rounds.to_string()];
    let mut started = start(program, &[&arguments[0], &arguments[1]], &recording);
    assert_eq!(started.injection.access, Access::Symbols);

    let mut said = String::new();
    let mut stdout = started.child.stdout.take().unwrap();
    stdout.read_to_string(&mut said).unwrap();
    assert_eq!(ends(&mut started.child).code(), Some(7), "{program:?}");
    assert_eq!(said, "done\n");
    recording.counts().into_iter().collect()
}

/// Runs `known_counts` and compares every counter.
#[track_caller]
fn counts_exactly(link: Link, threads: u64, rounds: u64) {
    let directory = scratch_directory();
    let program = compile("known_counts", link, directory.path());
    // What the libc itself does: glibc gets a block when it starts, and one for each thread.
    let without_rounds = counts(&program, threads, 0);
    if link == Link::Musl {
        let before_main = BTreeMap::from([("malloc", 3), ("free", 3)]);
        assert_eq!(without_rounds, before_main, "musl itself needs no block");
    }
    let mut counts = counts(&program, threads, rounds);
    for (name, count) in &mut counts {
        *count -= without_rounds.get(name).unwrap_or(&0);
    }
    let each = threads * rounds;
    let expected = [
        ("aligned_alloc", each),
        ("calloc", each),
        ("free", 4 * each),
        ("malloc", each),
        ("posix_memalign", each),
        ("realloc", each),
    ];
    assert_eq!(counts, BTreeMap::from(expected), "{link:?}");
}

#[test]
fn every_call_of_one_thread_is_counted() {
    for link in STATIC {
        counts_exactly(link, 1, 100_000);
    }
}

#[test]
fn every_call_of_eight_threads_is_counted() {
    for link in STATIC {
        counts_exactly(link, 8, 20_000);
    }
}
