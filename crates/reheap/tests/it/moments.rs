//! Options hold from a program's first block to its last one, baked in or the user's, whoever allocates first.
//!
//! The program looks at its blocks through the kernel's eyes, at each moment at which code of a program runs: functions in
//! `.preinit_array`, constructors, global objects of C++, threads and their destructors, handlers of `atexit`.

use crate::common::suite::{allocators, program, scratch_directory};
use crate::common::{reheap, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options, and what the program then shows at every moment.
type Case = (&'static str, &'static [&'static str]);

/// `huge_pages=never` is reheap's own.
const OF_MIMALLOC: &[Case] = &[
    (
        "-t huge_pages=allow -t purge_delay=0",
        &["huge_pages=yes", "freed=gone"],
    ),
    ("-t purge_delay=-1", &["huge_pages=no", "freed=resident"]),
];
const OF_MIMALLOC_SECURE: &[Case] = &[
    (
        "-t huge_pages=allow -t purge_delay=0 -t guard_pages=1",
        &["huge_pages=yes", "freed=gone", "guard=yes"],
    ),
    WITHOUT_GUARDS,
];
/// mimalloc-secure does not ask for huge pages, but takes those that the system gives to everybody.
const OF_MIMALLOC_2_SECURE: &[Case] = &[
    (
        "-t huge_pages=allow -t purge_delay=0 -t guard_pages=1",
        &["huge_pages=as-the-system", "freed=gone", "guard=yes"],
    ),
    WITHOUT_GUARDS,
];
const WITHOUT_GUARDS: Case = (
    "-t purge_delay=-1",
    &["huge_pages=no", "freed=resident", "guard=no"],
);
const OF_JEMALLOC: &[Case] = &[
    (
        "-t huge_pages=allow -t dirty_decay_ms=0 -t guard_pages=1 -t zero=on",
        &["huge_pages=yes", "freed=gone", "guard=yes", "fill=00"],
    ),
    (
        "-t huge_pages=never -t dirty_decay_ms=-1 -t junk=on",
        &["huge_pages=no", "freed=resident", "guard=no", "fill=a5"],
    ),
];

/// What users set.
const FOR_MIMALLOC: &[(&str, &str)] = &[
    ("MIMALLOC_ALLOW_THP", "1"),
    ("MIMALLOC_PURGE_DELAY", "0"),
    ("MIMALLOC_GUARDED_SAMPLE_RATE", "1"),
];
const FOR_JEMALLOC: &[(&str, &str)] = &[(
    "MALLOC_CONF",
    "thp:always,dirty_decay_ms:0,san_guard_large:1,zero:true",
)];

/// The moments of a C program, of those that only glibc or C++ has.
const PREINIT: &[&str] = &["preinit"];
const CONSTRUCTORS: &[&str] = &["first-constructor", "constructor"];
const OF_C: &[&str] = &[
    "main",
    "thread",
    "end-of-thread",
    "atexit",
    "destructor",
    "last-destructor",
];
const OF_CXX: &[&str] = &[
    "global-object",
    "object-of-thread",
    "end-of-object-of-thread",
    "end-of-global-object",
];

/// A program that has an allocator with options in it, and the moments that it sees.
struct Built {
    _directory: tempfile::TempDir,
    command: Command,
    moments: Vec<&'static str>,
}

impl Built {
    #[track_caller]
    fn shows(&mut self, expected: &[&str]) {
        let outcome = run(&mut self.command).succeeded();
        let printed = &outcome.stdout;
        for line in printed.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let is_there = expected.iter().all(|word| words.contains(word));
            assert!(is_there, "{expected:?} is not in `{line}`:\n{printed}");
        }
        let seen = printed.lines().filter_map(|line| line.split(' ').next());
        let mut seen: Vec<&str> = seen.collect();
        seen.sort_unstable();
        self.moments.sort_unstable();
        assert_eq!(seen, self.moments);
    }
}

fn source() -> PathBuf {
    program("c/moments.c")
}

fn compiled(mut compiler: Command, executable: &Path) {
    compiler.args(["-O2", "-pthread"]).arg(source());
    run(compiler.arg("-o").arg(executable)).succeeded();
}

fn static_c(flags: &str) -> Built {
    let directory = scratch_directory();
    let executable = directory.path().join("program");
    compiled(reheap(&format!("cc {flags} --")), &executable);
    Built {
        _directory: directory,
        command: Command::new(executable),
        moments: [CONSTRUCTORS, OF_C].concat(),
    }
}

fn static_cxx(flags: &str) -> Built {
    let directory = scratch_directory();
    let executable = directory.path().join("program");
    compiled(reheap(&format!("c++ {flags} -- -x c++")), &executable);
    Built {
        _directory: directory,
        command: Command::new(executable),
        moments: [CONSTRUCTORS, OF_C, OF_CXX].concat(),
    }
}

/// The options are in the library.
fn preloaded(flags: &str, libc: &str) -> Built {
    let directory = scratch_directory();
    let executable = directory.path().join("program");
    let (compiler, moments) = match libc {
        "musl" => ("musl-gcc", [CONSTRUCTORS, OF_C].concat()),
        _ => ("cc", [PREINIT, CONSTRUCTORS, OF_C].concat()),
    };
    compiled(Command::new(compiler), &executable);
    let mut preload = reheap(&format!("preload {flags} --libc {libc} --json -o"));
    let outcome = run(preload.arg(directory.path())).succeeded();
    let written: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let mut command = Command::new(executable);
    command.env("LD_PRELOAD", written["path"].as_str().unwrap());
    Built {
        _directory: directory,
        command,
        moments,
    }
}

#[track_caller]
fn every_option_holds(allocator: &str, cases: &[Case], build: fn(&str) -> Built) {
    for (options, expected) in cases {
        build(&format!("-a {allocator} {options}")).shows(expected);
    }
}

#[track_caller]
fn variables_win(allocator: &str, variables: &[(&str, &str)], cases: &[Case]) {
    // They set what the first case says, so what is baked in must be something else.
    let (options, expected) = (cases[1].0, cases[0].1);
    let flags = format!("-a {allocator} {options}");
    for mut built in [
        static_c(&flags),
        preloaded(&flags, "glibc"),
        preloaded(&flags, "musl"),
    ] {
        built.command.envs(variables.iter().copied());
        built.shows(expected);
    }
}

macro_rules! has_options {
    ($allocator:literal, $cases:ident, $variables:ident) => {
        #[test]
        fn options_hold_at_every_moment_of_a_static_program() {
            super::every_option_holds($allocator, super::$cases, super::static_c);
        }

        #[test]
        fn options_hold_at_every_moment_of_a_static_cxx_program() {
            super::every_option_holds($allocator, super::$cases, super::static_cxx);
        }

        #[test]
        fn options_hold_at_every_moment_of_a_program_of_glibc() {
            super::every_option_holds($allocator, super::$cases, |flags| {
                super::preloaded(flags, "glibc")
            });
        }

        #[test]
        fn options_hold_at_every_moment_of_a_program_of_musl() {
            super::every_option_holds($allocator, super::$cases, |flags| {
                super::preloaded(flags, "musl")
            });
        }

        #[test]
        fn what_users_set_wins_at_every_moment() {
            super::variables_win($allocator, super::$variables, super::$cases);
        }
    };
}

/// The allocator has no options, and serves programs all the same.
macro_rules! has_no_options {
    ($allocator:literal) => {
        #[test]
        fn every_moment_has_blocks() {
            let flags = concat!("-a ", $allocator);
            super::static_c(flags).shows(&[]);
            super::static_cxx(flags).shows(&[]);
            super::preloaded(flags, "glibc").shows(&[]);
        }
    };
}

allocators! {
    mimalloc("mimalloc", OF_MIMALLOC, FOR_MIMALLOC): has_options;
    jemalloc("jemalloc", OF_JEMALLOC, FOR_JEMALLOC): has_options;
    hardened_malloc_light("hardened_malloc-light"): has_no_options;
    mimalloc3("mimalloc3", OF_MIMALLOC, FOR_MIMALLOC): has_options;
    mimalloc_secure("mimalloc-secure", OF_MIMALLOC_SECURE, FOR_MIMALLOC): has_options;
    mimalloc2_secure("mimalloc2-secure", OF_MIMALLOC_2_SECURE, FOR_MIMALLOC): has_options;
    + test_all {
        rpmalloc("rpmalloc"): has_no_options;
        snmalloc("snmalloc"): has_no_options;
        snmalloc_checks("snmalloc-checks"): has_no_options;
        hardened_malloc("hardened_malloc"): has_no_options;
    }
}

/// These show in no block, so jemalloc says it: it reads all its options at once.
#[test]
fn options_that_no_block_shows_are_those_that_jemalloc_reports() {
    let flags = "-a jemalloc -t narenas=1 -t muzzy_decay_ms=77";
    for mut built in [static_c(flags), preloaded(flags, "glibc")] {
        built.command.env("MALLOC_CONF", "stats_print:true");
        run(&mut built.command)
            .succeeded()
            .said(&["opt.narenas: 1\n", "opt.muzzy_decay_ms: 77 "]);
    }
}
