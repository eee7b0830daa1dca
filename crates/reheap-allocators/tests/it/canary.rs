//! The canary starts with each libc, with and without a preload, and shows what a preload was tuned to.

use crate::common::{Outcome, cache, run_with_input, scratch_directory, target, toolchain};
use reheap_allocators::catalogue::{self, CATALOGUE};
use reheap_allocators::options::Domain;
use reheap_allocators::preload;
use reheap_allocators::target::Libc;
use reheap_allocators::tuning::Tuning;
use reheap_allocators::{canary, target::Target};
use reheap_elf::marker;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn dynamic_linker(libc: Libc) -> PathBuf {
    let arch = std::env::consts::ARCH;
    match (libc, arch) {
        (Libc::Musl, _) => format!("/lib/ld-musl-{arch}.so.1"),
        (Libc::Glibc, "aarch64") => "/lib/ld-linux-aarch64.so.1".to_owned(),
        (Libc::Glibc, _) => "/lib64/ld-linux-x86-64.so.2".to_owned(),
    }
    .into()
}

/// What the canary answers to two lines, and what it or its allocator says beside that.
#[track_caller]
fn answers(target: &Target, preload: Option<&Path>, variables: &[(&str, &str)]) -> Outcome {
    let canary = canary::LIBRARY
        .build(target, &toolchain(target), &cache())
        .unwrap();
    let mut command = Command::new(dynamic_linker(target.libc()));
    command
        .arg(canary)
        .envs(preload.map(|library| ("LD_PRELOAD", library)))
        .envs(variables.iter().copied());
    run_with_input(&mut command, b"one\ntwo\n").succeeded()
}

#[test]
fn the_canary_answers_each_line() {
    for libc in [Libc::Glibc, Libc::Musl] {
        let Outcome { stdout, stderr, .. } = answers(&target(libc), None, &[]);
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!(lines.len(), 2, "{stdout}");
        assert_eq!(lines[0], lines[1]);
        assert!(u64::from_str_radix(lines[0], 16).unwrap() > 0);
        assert_eq!(stderr, "");
    }
}

#[test]
fn options_baked_into_a_preload_reach_the_allocator_and_the_users_win() {
    for (name, libcs, options, baked, users, said) in [
        (
            "mimalloc",
            &[Libc::Glibc, Libc::Musl][..],
            ["purge_delay=4321", "huge_pages=allow"],
            ["option 'purge_delay': 4321", "option 'allow_thp': 1"],
            ("MIMALLOC_PURGE_DELAY", "77"),
            "option 'purge_delay': 77",
        ),
        (
            "mimalloc3",
            &[Libc::Glibc],
            ["purge_delay=4321", "huge_pages=allow"],
            ["option 'purge_delay': 4321", "option 'allow_thp': 1"],
            ("MIMALLOC_PURGE_DELAY", "77"),
            "option 'purge_delay': 77",
        ),
    ] {
        let allocator = catalogue::find(name).unwrap();
        let tuning = Tuning::parse(allocator, &options).unwrap();
        for &libc in libcs {
            let target = target(libc);
            let plain = preload::build(allocator, &target, &toolchain(&target), &cache()).unwrap();
            let directory = scratch_directory();
            let with_options = directory.path().join("tuned.so");
            let bytes = preload::tuned(&plain, allocator, &tuning, &target).unwrap();
            assert_eq!(
                marker::read(&bytes).unwrap().unwrap().marker.tuning,
                tuning.as_given()
            );
            fs::write(&with_options, bytes).unwrap();
            let verbose = ("MIMALLOC_VERBOSE", "1");
            let without = answers(&target, Some(&plain), &[verbose]).stderr;
            let with = answers(&target, Some(&with_options), &[verbose]).stderr;
            let changed = answers(&target, Some(&with_options), &[verbose, users]).stderr;
            for text in baked {
                assert!(with.contains(text), "{libc}: no `{text}` in {with}");
            }
            assert!(!without.contains(baked[0]), "{without}");
            assert!(without.contains("option 'allow_thp': 0"), "{without}");
            assert!(changed.contains(said), "{libc}: no `{said}` in {changed}");
        }
    }
}

/// The longest value that an option accepts.
fn longest(domain: &Domain) -> String {
    match domain {
        Domain::Milliseconds { .. } | Domain::Bytes => u32::MAX.to_string(),
        Domain::Count { most, .. } => most.to_string(),
        Domain::OneOf(words) => {
            let longest = words.iter().max_by_key(|(_, meant)| meant.len());
            longest.expect("an option has values").0.to_owned()
        }
    }
}

#[test]
fn every_preload_has_room_for_all_options_at_once() {
    let target = target(Libc::Glibc);
    for allocator in CATALOGUE.iter().filter(|row| row.build.is_some()) {
        let of_row = |row: &reheap_allocators::options::TuningOption| {
            format!("{}={}", row.key, longest(&row.domain))
        };
        let options: Vec<String> = allocator.tuning.iter().map(of_row).collect();
        let tuning = Tuning::parse(allocator, &options).unwrap();
        let plain = preload::build(allocator, &target, &toolchain(&target), &cache()).unwrap();
        let tuned = preload::tuned(&plain, allocator, &tuning, &target).unwrap();
        let found = marker::read(&tuned).unwrap().unwrap().marker;
        assert_eq!(found.tuning, tuning.as_given());
    }
}

#[test]
fn a_library_that_is_not_a_preload_of_this_reheap_is_not_tuned() {
    let allocator = catalogue::default_allocator();
    let target = target(Libc::Glibc);
    let canary = canary::LIBRARY
        .build(&target, &toolchain(&target), &cache())
        .unwrap();
    let refused = preload::tuned(&canary, allocator, &Tuning::default(), &target).unwrap_err();
    let shown = canary.display();
    assert_eq!(
        refused.to_string(),
        format!("cannot tune the library `{shown}`")
    );
}
