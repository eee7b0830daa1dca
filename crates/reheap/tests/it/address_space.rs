//! What the catalogue says that allocators reserve, measured again; and what is said where a limit leaves less.
//!
//! Limits are set on the programs only, by the shell's `ulimit`.

use crate::common::suite::is_tested;
use crate::common::{Outcome, reheap, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes a thousand blocks, and says whose malloc that was and how it was brought in.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    for (int i = 0; i < 1000; i++) {
        char *block = malloc(100);
        if (!block) return 3;
        memset(block, 1, 100);
        free(block);
    }
    Dl_info info;
    int is_known = dladdr((void *)malloc, &info);
    const char *preload = getenv("LD_PRELOAD");
    printf("%s\n%s\n", is_known ? info.dli_fname : "", preload ? preload : "");
    return 0;
}
"#;

struct Programs {
    directory: tempfile::TempDir,
    source: PathBuf,
}

impl Programs {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("blocks.c");
        fs::write(&source, PROGRAM).unwrap();
        Self { directory, source }
    }

    fn dynamic(&self, compiler: &str) -> PathBuf {
        let program = self.directory.path().join(compiler);
        let mut command = Command::new(compiler);
        command.args(["-O1", "-fno-builtin", "-fPIE", "-pie"]);
        run(command
            .arg(&self.source)
            .arg("-o")
            .arg(&program)
            .arg("-ldl"))
        .succeeded();
        program
    }

    fn with(&self, allocator: &str) -> PathBuf {
        let program = self.directory.path().join(format!("static-{allocator}"));
        let mut command = reheap(&format!("cc -a {allocator} -- -O1 -fno-builtin"));
        run(command.arg(&self.source).arg("-o").arg(&program)).succeeded();
        program
    }
}

/// Runs a program with a limit of the shell's `ulimit`, in KiB.
fn limited(flag: &str, kib: u64, program: &Path, preload: Option<&str>) -> Outcome {
    let mut command = Command::new("/bin/sh");
    let script = format!(
        "ulimit {flag} {kib}; {} exec \"$0\"",
        match preload {
            Some(_) => "LD_PRELOAD=\"$1\"",
            None => "",
        }
    );
    command.arg("-c").arg(script).arg(program).args(preload);
    run(&mut command)
}

/// An allocator that reserves something, with what it reserves in programs of glibc and of musl, in KiB, and the flags of
/// `ulimit` for the limits that this counts against.
type Row = (String, u64, u64, &'static [&'static str]);

fn catalogue() -> Vec<Row> {
    let rows = run(&mut reheap("list --json")).succeeded().stdout;
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    let row = |row: &serde_json::Value| {
        let kib = |libc: &str| row["address_space_bytes"][libc].as_u64().unwrap() / 1024;
        let name = row["name"].as_str().unwrap().to_owned();
        let flags: &[&str] = if row["address_space_counts_as_data"].as_bool().unwrap() {
            &["-v", "-d"]
        } else {
            &["-v"]
        };
        (name, kib("glibc"), kib("musl"), flags)
    };
    let rows = rows.as_array().unwrap().iter().map(row);
    rows.filter(|(name, ..)| is_tested(name)).collect()
}

/// Under a limit of what it reserves a program does not start with it; with half as much again, and some for the
/// program itself, it does.
#[track_caller]
fn is_right(kib: u64, flags: &[&str], what: &str, starts: &dyn Fn(&str, u64) -> bool) {
    const OF_THE_PROGRAM_KIB: u64 = 4 << 10;
    assert!(kib > 0, "{what}: every allocator reserves something");
    for flag in flags {
        assert!(!starts(flag, kib), "{what} starts with {flag} {kib}");
        let enough = kib + kib / 2 + OF_THE_PROGRAM_KIB;
        assert!(
            starts(flag, enough),
            "{what} does not start with {flag} {enough}"
        );
    }
}

fn is_right_for_preloads(compiler: &str, reserved: impl Fn(&Row) -> u64) {
    let programs = Programs::new();
    let program = programs.dynamic(compiler);
    for row in catalogue() {
        let (allocator, _, _, flags) = &row;
        let mut command = reheap(&format!("run -a {allocator} --"));
        let unlimited = run(command.arg(&program).env_remove("LD_PRELOAD")).succeeded();
        let (library, preload) = unlimited.stdout.trim_end().split_once('\n').unwrap();
        assert!(library.contains(&format!("/lib{allocator}-")), "{library}");
        // A library that is not loaded is passed over: the program starts, and its malloc is the libc's.
        let starts = |flag: &str, kib| {
            let outcome = limited(flag, kib, &program, Some(preload));
            outcome.code() == Some(0) && outcome.stdout.starts_with(library)
        };
        let what = format!("{compiler} with {allocator}");
        is_right(reserved(&row), flags, &what, &starts);
    }
}

#[test]
fn preloads_for_glibc_reserve_what_the_catalogue_says() {
    is_right_for_preloads("cc", |(_, of_glibc, _, _)| *of_glibc);
}

#[test]
fn preloads_for_musl_reserve_what_the_catalogue_says() {
    is_right_for_preloads("musl-gcc", |(_, _, of_musl, _)| *of_musl);
}

#[test]
fn executables_reserve_what_the_catalogue_says() {
    let programs = Programs::new();
    for (allocator, _, of_musl, flags) in catalogue() {
        let program = programs.with(&allocator);
        let starts = |flag: &str, kib| limited(flag, kib, &program, None).code() == Some(0);
        is_right(of_musl, flags, &format!("static with {allocator}"), &starts);
    }
}

#[test]
fn what_is_inaccessible_until_it_is_used_does_not_count_as_data() {
    let programs = Programs::new();
    let program = programs.with("hardened_malloc");
    assert_eq!(limited("-d", 1 << 20, &program, None).code(), Some(0));
    let script = "ulimit -d 1048576; exec \"$0\" run --check -a hardened_malloc -- true";
    let reheap = reheap("");
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg(reheap.get_program());
    let checked = run(&mut command).succeeded();
    assert!(
        checked.stdout.contains("verdict    works"),
        "{}",
        checked.stdout
    );
}

#[test]
fn inspect_tells_what_an_executable_reserves_where_that_is_much() {
    let programs = Programs::new();
    let told = |allocator: &str| {
        let mut command = reheap("inspect --verbose");
        let report = run(command.arg(programs.with(allocator)))
            .succeeded()
            .stdout;
        report.contains("256 GiB of address space")
    };
    assert!(told("snmalloc"));
    assert!(!told("rpmalloc"));
}

/// `reheap` with these arguments, under a limit of address space.
fn under(kib: u64, arguments: &str) -> Outcome {
    let reheap = reheap("");
    let mut command = Command::new("/bin/sh");
    let script = format!("ulimit -v {kib}; exec \"$0\" {arguments}");
    command.arg("-c").arg(script).arg(reheap.get_program());
    for (name, value) in reheap.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    run(&mut command)
}

/// A limit in KiB: little more than the 256 GiB that snmalloc reserves.
const LITTLE: u64 = (256 << 20) + 6_000;

#[test]
fn a_limit_that_is_too_low_is_refused_with_both_sizes_and_what_would_fit() {
    let reason = "snmalloc reserves 256 GiB of address space when the program starts, and the address space limit is 30 GiB (`ulimit -v`)";
    let hint = "hint: choose an allocator that reserves less, such as `-a mimalloc`";
    for flags in ["", "--force", "--verify"] {
        under(32_000_000, &format!("run {flags} -a snmalloc -- true"))
            .ended_with(1)
            .said(&["cannot run `", reason, hint]);
    }
    let checked = under(32_000_000, "run --check --json -a snmalloc -- true").ended_with(1);
    let checked: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(checked["verdict"], "refused");
    assert_eq!(checked["reason"], reason);
    assert_eq!(checked["address_space_reserved_bytes"], 256_u64 << 30);
    assert_eq!(checked["address_space_limit_bytes"], 32_000_000_u64 << 10);
    under(32_000_000, "bench --rounds 1 --variant snmalloc -- true")
        .ended_with(1)
        .said(&[reason]);
}

#[test]
fn a_limit_that_leaves_a_program_less_than_its_libraries_take_is_refused() {
    let snmalloc = (256 << 20) + 1_000;
    under(snmalloc, "run -a snmalloc -- true").ended_with(1).said(&[
        "snmalloc reserves 256 GiB of address space when the program starts, the program and its libraries need ",
        "and the address space limit is 256 GiB (`ulimit -v`)\n",
    ]);
}

#[test]
fn a_limit_that_leaves_little_is_warned_of_and_never_called_works() {
    let checked = under(LITTLE, "run --check --json -a snmalloc -- true").succeeded();
    let checked: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(checked["verdict"], "risky", "{checked}");
    let reason = checked["reason"].as_str().unwrap();
    assert!(reason.contains("(`ulimit -v`): only "), "{reason}");
    under(LITTLE, "run -a snmalloc -- true")
        .succeeded()
        .said(&["warning: snmalloc reserves 256 GiB", " are left"]);
}

#[test]
fn a_limit_of_data_that_leaves_little_is_warned_of_too() {
    for (allocator, kib) in [("rpmalloc", 6_500), ("mimalloc3", 4_200)] {
        let script = format!("ulimit -d {kib}; exec \"$0\" run --check -a {allocator} -- true");
        let reheap = reheap("");
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script).arg(reheap.get_program());
        let checked = run(&mut command).succeeded();
        let reason = "the data limit is ";
        let said = checked.stdout.contains("verdict    risky: ") && checked.stdout.contains(reason);
        assert!(said, "{}", checked.stdout);
    }
}

#[test]
fn a_limit_that_leaves_enough_is_none_to_speak_of() {
    under(32_000_000, "run -a mimalloc -- true").succeeded();
    let checked = under(32_000_000, "run --check -a mimalloc -- true").succeeded();
    let reserves = "reserves   32 MiB of address space; the limit is 30 GiB";
    assert!(checked.stdout.contains(reserves), "{}", checked.stdout);
    under(100_000, "run -a stock -- true").succeeded();
}
