//! The programs under `programs/c` once more, linked dynamically with glibc and with musl, and run by `reheap run` with
//! every allocator of the catalogue.
//!
//! What an allocator does is the same in a static executable, and tested there; what differs in a preload is how it
//! starts, how it learns of threads and forks, and that the libc brings blocks and functions of its own. So those
//! programs run for every allocator with glibc, and with musl for one of each kind of glue (locks and gate); those that
//! fork or start others run for every allocator with either libc; the others for glibc only, once for the three
//! mimallocs. What `realloc(block, 0)` does is the libc's to say, so that program runs with every allocator for both
//! libcs, and with `stock`.

use crate::common::multi_call::{Check, MultiCall};
use crate::common::suite::{allocators, program, scratch_directory};
use crate::common::{reheap, run};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builtins off, as in the C suite.
const FLAGS: [&str; 4] = ["-std=gnu11", "-O2", "-fno-builtin", "-pthread"];

/// A dynamic executable and the directory that it lies in.
struct Built {
    _directory: tempfile::TempDir,
    executable: PathBuf,
}

#[track_caller]
fn build(compiler: &str, flags: &[&str], source: &Path) -> Built {
    let directory = scratch_directory();
    let executable = directory.path().join("program");
    run(Command::new(compiler)
        .args(flags)
        .arg(source)
        .args([OsStr::new("-o"), executable.as_os_str()])
        .arg("-ldl"))
    .succeeded();
    Built {
        _directory: directory,
        executable,
    }
}

#[track_caller]
fn passes_with(allocator: &str, built: &Built, arguments: &[&str], name: &str) {
    let outcome = run(reheap(&format!("run -a {allocator} --"))
        .arg(&built.executable)
        .args(arguments))
    .succeeded();
    let said = &outcome.stderr;
    assert_eq!(outcome.stdout, format!("ok {name}\n"), "--- stderr\n{said}");
}

/// Runs all of these in one executable.
#[track_caller]
fn all_conform(allocator: &str, compiler: &str, lists: &[&[Check]]) {
    let with_flags = || {
        let mut compiler = Command::new(compiler);
        compiler.args(FLAGS);
        compiler
    };
    let checks = lists.concat();
    MultiCall::build(with_flags, &checks).all_pass(&checks, |executable| {
        let mut command = reheap(&format!("run -a {allocator} --"));
        command.arg(executable);
        command
    });
}

#[track_caller]
fn conforms(allocator: &str, compiler: &str, name: &str) {
    let built = build(compiler, &FLAGS, &program(&format!("c/{name}.c")));
    passes_with(allocator, &built, &[], name);
}

/// The program is linked with a library of its own, whose constructor runs before or after that of the preload.
#[track_caller]
fn forks_with_handlers_of_a_library(allocator: &str, compiler: &str) {
    let shared = [FLAGS.as_slice(), &["-shared", "-fPIC"]].concat();
    let library = build(compiler, &shared, &program("c/fork_handler_library.c"));
    let path = library.executable.display().to_string();
    let flags = [FLAGS.as_slice(), &["-Wl,--no-as-needed", &path]].concat();
    let built = build(compiler, &flags, &program("c/fork_handler.c"));
    passes_with(allocator, &built, &[], "fork_handler");
}

#[track_caller]
fn is_active(allocator: &str, compiler: &str) {
    let built = build(compiler, &FLAGS, &program("c/preloaded.c"));
    passes_with(allocator, &built, &[allocator], "preloaded");
}

#[track_caller]
fn conforms_in_cxx(allocator: &str, name: &str) {
    let flags = ["-std=c++17", "-O2", "-pthread"];
    let built = build("c++", &flags, &program(&format!("c++/{name}.cpp")));
    passes_with(allocator, &built, &[], name);
}

/// What differs between the libcs.
const FAMILY: &[Check] = &[Check(
    "every function of the family keeps its contract",
    "family",
)];

/// hardened_malloc keeps its own realloc.
const GROWS: &[Check] = &[
    Check(
        "large buffers grow, shrink and are refused without damage",
        "growing",
    ),
    Check(
        "a buffer that grows needs no memory for a copy",
        "growing_memory",
    ),
];

/// What depends on being preloaded.
const PRELOADED: &[Check] = &[
    Check("what cannot be had is refused with errno", "refusals"),
    Check(
        "POSIX and C11 threads end with destructors that use the heap",
        "thread_exit",
    ),
    Check("the libc allocates for itself and its caller", "libc_paths"),
];

/// How an allocator gets through a fork depends on the libc, and on the kind of its locks.
const FORKS: &[Check] = &[
    Check("forks while other threads allocate succeed", "fork"),
    Check("threads may fork at once", "fork_at_once"),
    Check(
        "a program may fork while its streams allocate",
        "fork_stdio",
    ),
    Check(
        "a signal handler may fork in the middle of an allocation",
        "fork_in_handler",
    ),
    Check(
        "a signal handler may fork while other threads allocate too",
        "fork_in_handler_threads",
    ),
    Check("a program may end while its threads fork", "fork_at_exit"),
    Check(
        "programs may be started in every way while threads allocate",
        "spawn",
    ),
];

/// glibc's own fork does not survive this: it waits for its own locks.
const FORKS_IN_MUSL: &[Check] = &[Check(
    "a signal handler may fork in a thread that forks",
    "fork_nested",
)];

/// The other programs.
const MORE: &[Check] = &[
    Check(
        "sizes around every class and of several gibibytes work",
        "sizes",
    ),
    Check("realloc chains keep their contents", "realloc_chains"),
    Check("sixty-four threads free each other's blocks", "threads"),
    Check(
        "memory freed by another thread is used again",
        "producer_consumer",
    ),
    Check("signals may interrupt allocations", "signals"),
];

/// Who learns of a thread's end depends on the libc.
const AT_REST: &[Check] = &[Check(
    "what is free goes back to the system, though nobody calls the allocator any more",
    "at_rest",
)];

const JEMALLOC_AT_REST: &[Check] = &[Check(
    "what is free goes back to the system, but for tables of 1 MiB",
    "at_rest_of_jemalloc",
)];

/// mimalloc may read its options before the libc is ready.
const HUGE_PAGES: &[Check] = &[Check(
    "the heap has no huge pages, and the programs that it starts may have some",
    "huge_pages",
)];

/// What `shared_heaps.c` and the recipe add to mimalloc 2.
const FRUGAL: &[Check] = &[
    Check("a thread that allocates little costs little", "few_blocks"),
    Check("the first block of a size brings one page", "first_block"),
    Check(
        "threads that come and go, and fork, leave their blocks to others",
        "short_threads",
    ),
    Check(
        "vectors that grow among blocks of all sizes need little memory",
        "changing_sizes",
    ),
];

macro_rules! conforming {
    ($allocator:literal, $compiler:literal, $($list:ident)*) => {
        #[test]
        fn all_programs_conform() {
            super::super::all_conform($allocator, $compiler, &[$(super::super::$list),*]);
        }
    };
}

macro_rules! preloading {
    ($allocator:literal, $compiler:literal, $($list:ident)*) => {
        #[test]
        fn every_function_of_the_family_is_the_librarys_and_nothing_else() {
            super::super::is_active($allocator, $compiler);
        }

        #[test]
        fn the_heap_works_before_main_and_at_exit() {
            super::super::conforms($allocator, $compiler, "exit");
        }
    };
}

/// All but those of `conformance_c.rs` that work under one kind of limit only.
macro_rules! under_limits {
    ($allocator:literal, $compiler:literal, $($list:ident)*) => {
        #[test]
        fn running_out_of_memory_while_threads_start_is_survived() {
            super::super::conforms($allocator, $compiler, "threads_out_of_memory");
        }
    };
}

macro_rules! forking {
    ($allocator:literal, $compiler:literal, $($list:ident)*) => {
        #[test]
        fn handlers_of_a_library_may_wait_for_threads_that_allocate() {
            super::super::forks_with_handlers_of_a_library($allocator, $compiler);
        }
    };
}

/// C++, whose operators call malloc.
macro_rules! in_cxx {
    ($allocator:literal, $compiler:literal, $($list:ident)*) => {
        #[test]
        fn exceptions_streams_threads_and_every_form_of_new_work() {
            super::super::conforms_in_cxx($allocator, "language");
        }

        #[test]
        fn a_program_with_its_own_operator_new_keeps_it() {
            super::super::conforms_in_cxx($allocator, "own_operators");
        }
    };
}

// Variants of an allocator fork alike, because the locks and the glue are the same.
mod glibc {
    super::allocators! {
        stock("stock", "cc", FAMILY): conforming;
        mimalloc("mimalloc", "cc", FAMILY GROWS PRELOADED FORKS MORE AT_REST HUGE_PAGES FRUGAL): conforming preloading under_limits forking in_cxx;
        jemalloc("jemalloc", "cc", FAMILY GROWS PRELOADED FORKS MORE JEMALLOC_AT_REST): conforming preloading under_limits forking in_cxx;
        hardened_malloc_light("hardened_malloc-light", "cc", FAMILY PRELOADED FORKS MORE): conforming preloading forking in_cxx;
        + test_all {
            mimalloc3("mimalloc3", "cc", FAMILY GROWS PRELOADED FORKS HUGE_PAGES): conforming preloading under_limits forking;
            mimalloc_secure("mimalloc-secure", "cc", FAMILY GROWS PRELOADED FORKS): conforming preloading under_limits forking;
            mimalloc2_secure("mimalloc2-secure", "cc", FAMILY GROWS PRELOADED AT_REST): conforming preloading under_limits;
            rpmalloc("rpmalloc", "cc", FAMILY GROWS PRELOADED FORKS MORE): conforming preloading under_limits forking in_cxx;
            snmalloc("snmalloc", "cc", FAMILY GROWS PRELOADED FORKS MORE): conforming preloading under_limits forking in_cxx;
            snmalloc_checks("snmalloc-checks", "cc", FAMILY GROWS PRELOADED): conforming preloading;
            hardened_malloc("hardened_malloc", "cc", FAMILY PRELOADED): conforming preloading;
        }
    }
}

mod musl {
    super::allocators! {
        stock("stock", "musl-gcc", FAMILY): conforming;
        mimalloc("mimalloc", "musl-gcc", FAMILY GROWS PRELOADED FORKS FORKS_IN_MUSL AT_REST HUGE_PAGES FRUGAL): conforming preloading under_limits forking;
        jemalloc("jemalloc", "musl-gcc", FAMILY FORKS FORKS_IN_MUSL): conforming forking;
        hardened_malloc_light("hardened_malloc-light", "musl-gcc", FAMILY PRELOADED FORKS_IN_MUSL): conforming preloading;
        + test_all {
            mimalloc3("mimalloc3", "musl-gcc", FAMILY FORKS FORKS_IN_MUSL): conforming forking;
            mimalloc_secure("mimalloc-secure", "musl-gcc", FAMILY FORKS FORKS_IN_MUSL): conforming forking;
            mimalloc2_secure("mimalloc2-secure", "musl-gcc", FAMILY): conforming;
            rpmalloc("rpmalloc", "musl-gcc", FAMILY PRELOADED FORKS FORKS_IN_MUSL): conforming preloading under_limits forking;
            snmalloc("snmalloc", "musl-gcc", FAMILY FORKS FORKS_IN_MUSL): conforming forking;
            snmalloc_checks("snmalloc-checks", "musl-gcc", FAMILY): conforming;
            hardened_malloc("hardened_malloc", "musl-gcc", FAMILY): conforming;
        }
    }
}
