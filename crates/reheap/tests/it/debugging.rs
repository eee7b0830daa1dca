//! Errors that show only where an allocator looks for them: glibc's own debugging, and hardening options of `-t`.

use crate::common::suite::scratch_directory;
use crate::common::{Outcome, reheap, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One memory error per run, which glibc without debugging does not notice.
const ERRORS: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char **words) {
    (void)count;
    if (!strcmp(words[1], "overflow")) { // into the space that rounding up leaves
        volatile char *block = malloc(20);
        block[20] = 7;
        free((char *)block);
    } else if (!strcmp(words[1], "far-overflow")) {
        char *blocks[2000];
        for (int i = 0; i < 2000; i++) blocks[i] = malloc(48);
        for (int i = 48; i < 80; i++) ((volatile char *)blocks[1500])[i] = 7;
    } else if (!strcmp(words[1], "large-overflow")) {
        volatile char *block = malloc(200000);
        for (int i = 0; i < 240000; i++) block[i] = 7;
    } else { // what the memory of a block was before: another block
        volatile char *first = malloc(1000);
        void *fence = malloc(1000);
        for (int i = 0; i < 1000; i++) first[i] = 's';
        free((char *)first);
        int found = 0;
        for (int n = 0; n < 100; n++) {
            volatile char *block = malloc(1000);
            for (int i = 100; i < 1000; i++) found += block[i] == 's';
        }
        puts(found ? "stale data" : "no stale data");
        free(fence);
    }
    puts("not noticed");
    return 0;
}
"#;

fn build(directory: &Path, compiler: &str, flags: &[&str]) -> PathBuf {
    let (source, program) = (directory.join("errors.c"), directory.join("errors"));
    fs::write(&source, ERRORS).unwrap();
    let mut command = Command::new(compiler);
    command.args(["-O0", "-w", "-fno-builtin"]).args(flags);
    run(command.arg(&source).arg("-o").arg(&program)).succeeded();
    program
}

fn run_with(flags: &str, program: &Path, error: &str) -> Outcome {
    run(reheap(&format!("run {flags} --")).arg(program).arg(error))
}

#[track_caller]
fn is_stopped(outcome: &Outcome, message: &str) {
    assert_eq!(outcome.code(), None, "a signal ends it: {}", outcome.stdout);
    assert!(outcome.stderr.contains(message), "{}", outcome.stderr);
}

#[test]
fn glibcs_checks_find_what_glibc_alone_does_not() {
    let directory = scratch_directory();
    let program = build(directory.path(), "cc", &[]);
    let alone = run_with("-a stock", &program, "overflow").succeeded();
    assert_eq!(alone.stdout, "not noticed\n");
    for mode in ["check", "full"] {
        let checked = run_with(&format!("-a stock -t debug={mode}"), &program, "overflow");
        is_stopped(&checked, "free(): invalid pointer");
    }
}

#[test]
fn glibc_fills_blocks_with_a_pattern() {
    let directory = scratch_directory();
    let program = build(directory.path(), "cc", &[]);
    let alone = run_with("-a stock", &program, "stale").succeeded();
    assert_eq!(alone.stdout, "stale data\nnot noticed\n");
    for mode in ["perturb", "full"] {
        let filled = run_with(&format!("-a stock -t debug={mode}"), &program, "stale").succeeded();
        assert_eq!(filled.stdout, "no stale data\nnot noticed\n", "{mode}");
    }
}

#[test]
fn a_benchmark_may_have_glibcs_checks_as_a_variant() {
    let directory = scratch_directory();
    let program = build(directory.path(), "cc", &[]);
    let mut command = reheap("bench --rounds 2 --variant glibc,glibc[debug=check] --json --");
    let compared = run(command.arg(program).arg("stale")).succeeded();
    let results: Value = serde_json::from_str(&compared.stdout).unwrap();
    let variants = results["benchmarks"][0]["variants"].as_array().unwrap();
    let of_glibc = variants
        .iter()
        .find(|variant| variant["name"] == "glibc[debug=check]");
    let activity = of_glibc.unwrap()["activity"].to_string();
    assert!(
        activity.contains("libc_malloc_debug.so.0, with its checks on"),
        "{activity}"
    );
}

/// The programs that a program starts inherit the variables.
#[test]
fn glibcs_checks_leave_programs_of_musl_alone() {
    let directory = scratch_directory();
    let musl = build(directory.path(), "musl-gcc", &[]);
    let mut command = reheap("run -a stock -t debug=check -- sh -c");
    let outcome = run(command.arg("\"$0\" stale; echo done").arg(musl)).succeeded();
    assert!(outcome.stdout.ends_with("done\n"), "{outcome:?}");
    assert_eq!(outcome.stderr, "");
}

#[test]
fn debugging_is_refused_where_it_would_be_ignored() {
    let directory = scratch_directory();
    let musl = build(directory.path(), "musl-gcc", &[]);
    run_with("-a stock -t debug=check", &musl, "overflow")
        .ended_with(1)
        .said(&["the options of `stock` are for glibc's allocator"]);
    let is_static = build(directory.path(), "cc", &["-static"]);
    run_with("-a stock -t debug=check", &is_static, "overflow")
        .ended_with(1)
        .said(&["glibc's checks are in a library, and the program is static"]);
    let program = build(directory.path(), "cc", &[]);
    run_with("-a stock -t debug=chek", &program, "overflow")
        .ended_with(2)
        .said(&["it accepts check or perturb or full or tagging"]);
    let tags = cfg!(target_arch = "aarch64")
        && fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(" mte"));
    if !tags {
        run_with("-a stock -t debug=tagging", &program, "overflow")
            .ended_with(1)
            .said(&["this processor cannot tag memory (AArch64 MTE)"]);
    }
}

/// glibc then ignores its options without a word.
#[test]
fn debugging_is_refused_where_malloc_is_another_allocators() {
    let directory = scratch_directory();
    let path = |name: &str| directory.path().join(name);
    let library = "#include <stddef.h>\nstatic _Alignas(16) char heap[1 << 20];\nstatic size_t used;\n\
        void *malloc(size_t n) { used += (n + 15) & -16; return heap + used; }\nvoid free(void *block) { (void)block; }\n\
        int mallctl(void) { return 0; }\n";
    fs::write(path("library.c"), library).unwrap();
    let mut cc = Command::new("cc");
    cc.args("-fno-builtin -shared -fPIC -Wl,-soname,libjemalloc.so.2 library.c -o".split(' '));
    run(cc.arg("libjemalloc.so.2").current_dir(directory.path())).succeeded();
    let origin = format!("-L{}", directory.path().display());
    let rpath = format!("-Wl,-rpath,{}", directory.path().display());
    let flags = ["-Wl,--no-as-needed", &rpath, &origin, "-l:libjemalloc.so.2"];
    let linked = build(directory.path(), "cc", &flags);
    let outcome = run_with("-a stock -t debug=perturb", &linked, "stale").ended_with(1);
    outcome.said(&[
        "it takes malloc from `libjemalloc.so.2`, which it is linked with: the options of `stock` would do nothing",
        "hint: to try it anyway: reheap run --force",
    ]);
    let forced = run_with("-a stock -t debug=perturb --force", &linked, "stale").succeeded();
    forced.said(&["warning: it takes malloc from `libjemalloc.so.2`"]);
    // The library with glibc's checks is a preload, so it comes first.
    let checked = run_with("-a stock -t debug=check", &linked, "overflow");
    is_stopped(&checked, "free(): invalid pointer");
}

/// Tried in each kind of file, because a preload reads its options elsewhere than a static executable.
#[test]
fn guard_pages_behind_blocks_stop_an_overflow() {
    let directory = scratch_directory();
    let program = build(directory.path(), "cc", &[]);
    // Each file would have to be built first.
    let all = cfg!(feature = "test_all");
    for (allocator, is_preloaded, is_linked) in [
        ("mimalloc-secure", true, all),
        ("mimalloc2-secure", all, true),
    ] {
        let flags = format!("-a {allocator} -t guard_pages=1");
        if is_preloaded {
            let alone = run_with(&format!("-a {allocator}"), &program, "far-overflow").succeeded();
            assert_eq!(alone.stdout, "not noticed\n");
            is_stopped(&run_with(&flags, &program, "far-overflow"), "");
        }
        if is_linked {
            let linked = directory.path().join("linked");
            let mut command = reheap(&format!("cc {flags} -- -O0 -w -fno-builtin"));
            command.arg(directory.path().join("errors.c"));
            run(command.arg("-o").arg(&linked)).succeeded();
            is_stopped(&run(Command::new(&linked).arg("far-overflow")), "");
        }
    }
}

#[test]
fn guard_pages_around_large_blocks_of_jemalloc_stop_an_overflow() {
    let directory = scratch_directory();
    let program = build(directory.path(), "cc", &[]);
    let alone = run_with("-a jemalloc", &program, "large-overflow").succeeded();
    assert_eq!(alone.stdout, "not noticed\n");
    let guarded = run_with("-a jemalloc -t guard_pages=1", &program, "large-overflow");
    is_stopped(&guarded, "");
}

#[test]
fn jemalloc_clears_or_fills_blocks_when_told_to() {
    let directory = scratch_directory();
    let program = build(directory.path(), "cc", &[]);
    let alone = run_with("-a jemalloc", &program, "stale").succeeded();
    assert_eq!(alone.stdout, "stale data\nnot noticed\n");
    for option in ["zero=on", "junk=on", "junk=alloc"] {
        let flags = format!("-a jemalloc -t {option}");
        let filled = run_with(&flags, &program, "stale").succeeded();
        assert_eq!(filled.stdout, "no stale data\nnot noticed\n", "{option}");
    }
}
