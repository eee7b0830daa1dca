//! The canary starts with each libc, with and without a preload, and shows what a preload was tuned to.

mod common;

use common::{Outcome, cache, run_with_input, target, toolchain};
use reheap_allocators::catalogue;
use reheap_allocators::preload;
use reheap_allocators::target::Libc;
use reheap_allocators::tuning::Tuning;
use reheap_allocators::{canary, target::Target};
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
    for (name, options, baked, users, said) in [
        (
            "mimalloc",
            ["purge_delay=4321", "huge_pages=allow"],
            ["option 'purge_delay': 4321", "option 'allow_thp': 1"],
            ("MIMALLOC_PURGE_DELAY", "77"),
            "option 'purge_delay': 77",
        ),
        (
            "mimalloc3",
            ["purge_delay=4321", "huge_pages=allow"],
            ["option 'purge_delay': 4321", "option 'allow_thp': 1"],
            ("MIMALLOC_PURGE_DELAY", "77"),
            "option 'purge_delay': 77",
        ),
    ] {
        let allocator = catalogue::find(name).unwrap();
        let tuning = Tuning::parse(allocator, &options).unwrap();
        for libc in [Libc::Glibc, Libc::Musl] {
            let target = target(libc);
            let plain = preload::build(allocator, &target, &toolchain(&target), &cache()).unwrap();
            let tuned =
                preload::build_tuned(allocator, &tuning, &target, &toolchain(&target), &cache())
                    .unwrap();
            assert_ne!(plain, tuned);
            let verbose = ("MIMALLOC_VERBOSE", "1");
            let without = answers(&target, Some(&plain), &[verbose]).stderr;
            let with = answers(&target, Some(&tuned), &[verbose]).stderr;
            let changed = answers(&target, Some(&tuned), &[verbose, users]).stderr;
            for text in baked {
                assert!(with.contains(text), "{libc}: no `{text}` in {with}");
            }
            assert!(!without.contains(baked[0]), "{without}");
            assert!(without.contains("option 'allow_thp': 0"), "{without}");
            assert!(changed.contains(said), "{libc}: no `{said}` in {changed}");
        }
    }
}
