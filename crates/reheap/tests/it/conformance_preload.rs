//! The programs under `programs/c` once more, linked dynamically with glibc and with musl, and run by `reheap run` with
//! every allocator of the catalogue.
//!
//! What an allocator does is the same in a static executable, and tested there; what differs in a preload is how it
//! starts, how it learns of threads and forks, and that the libc brings blocks and functions of its own. So those
//! programs run for every allocator with glibc, and with musl for one of each kind of glue (locks and gate); those that
//! fork or start others run for every allocator with either libc; the others for glibc only, once for the three
//! mimallocs. What `realloc(block, 0)` does is the libc's to say, so that program runs with every allocator for both
//! libcs, and with `stock`.

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

#[track_caller]
fn conforms(allocator: &str, compiler: &str, name: &str) {
    says(allocator, compiler, name, name);
}

#[track_caller]
fn says(allocator: &str, compiler: &str, source: &str, name: &str) {
    let built = build(compiler, &FLAGS, &program(&format!("c/{source}.c")));
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
macro_rules! family {
    ($allocator:literal, $compiler:literal) => {
        #[test]
        fn every_function_of_the_family_keeps_its_contract() {
            super::super::conforms($allocator, $compiler, "family");
        }
    };
}

/// What depends on being preloaded.
macro_rules! preloading {
    ($allocator:literal, $compiler:literal) => {
        #[test]
        fn every_function_of_the_family_is_the_librarys_and_nothing_else() {
            super::super::is_active($allocator, $compiler);
        }

        #[test]
        fn what_cannot_be_had_is_refused_with_errno() {
            super::super::conforms($allocator, $compiler, "refusals");
        }

        #[test]
        fn posix_and_c11_threads_end_with_destructors_that_use_the_heap() {
            super::super::conforms($allocator, $compiler, "thread_exit");
        }

        #[test]
        fn the_heap_works_before_main_and_at_exit() {
            super::super::conforms($allocator, $compiler, "exit");
        }

        #[test]
        fn the_libc_allocates_for_itself_and_its_caller() {
            super::super::conforms($allocator, $compiler, "libc_paths");
        }
    };
}

/// All but those of `conformance_c.rs` that work under one kind of limit only.
macro_rules! under_limits {
    ($allocator:literal, $compiler:literal) => {
        #[test]
        fn running_out_of_memory_while_threads_start_is_survived() {
            super::super::conforms($allocator, $compiler, "threads_out_of_memory");
        }
    };
}

/// How an allocator gets through a fork depends on the libc, and on the kind of its locks.
macro_rules! forking {
    ($allocator:literal, $compiler:literal) => {
        #[test]
        fn hundreds_of_forks_while_other_threads_allocate_succeed() {
            super::super::conforms($allocator, $compiler, "fork");
        }

        #[test]
        fn threads_may_fork_at_once() {
            super::super::conforms($allocator, $compiler, "fork_at_once");
        }

        #[test]
        fn handlers_of_a_library_may_wait_for_threads_that_allocate() {
            super::super::forks_with_handlers_of_a_library($allocator, $compiler);
        }

        #[test]
        fn a_program_may_fork_while_its_streams_allocate() {
            super::super::conforms($allocator, $compiler, "fork_stdio");
        }

        #[test]
        fn a_signal_handler_may_fork_in_the_middle_of_an_allocation() {
            super::super::conforms($allocator, $compiler, "fork_in_handler");
        }

        #[test]
        fn a_signal_handler_may_fork_while_other_threads_allocate_too() {
            let source = "fork_in_handler_threads";
            super::super::says($allocator, $compiler, source, "fork_in_handler");
        }

        #[test]
        fn a_program_may_end_while_its_threads_fork() {
            super::super::conforms($allocator, $compiler, "fork_at_exit");
        }

        #[test]
        fn programs_may_be_started_in_every_way_while_threads_allocate() {
            super::super::conforms($allocator, $compiler, "spawn");
        }
    };
}

/// glibc's own fork does not survive this: it waits for its own locks.
macro_rules! forking_in_musl {
    ($allocator:literal, $compiler:literal) => {
        #[test]
        fn a_signal_handler_may_fork_in_a_thread_that_forks() {
            super::super::conforms($allocator, $compiler, "fork_nested");
        }
    };
}

/// The other programs, and C++, whose operators call malloc.
macro_rules! more_with_glibc {
    ($allocator:literal, $compiler:literal) => {
        #[test]
        fn sizes_around_every_class_and_of_several_gibibytes_work() {
            super::super::conforms($allocator, $compiler, "sizes");
        }

        #[test]
        fn realloc_chains_keep_their_contents() {
            super::super::conforms($allocator, $compiler, "realloc_chains");
        }

        #[test]
        fn sixty_four_threads_free_each_others_blocks() {
            super::super::conforms($allocator, $compiler, "threads");
        }

        #[test]
        fn memory_freed_by_another_thread_is_used_again() {
            super::super::conforms($allocator, $compiler, "producer_consumer");
        }

        #[test]
        fn signals_may_interrupt_allocations() {
            super::super::conforms($allocator, $compiler, "signals");
        }

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

/// mimalloc may read its options before the libc is ready.
macro_rules! without_huge_pages {
    ($allocator:literal, $compiler:literal) => {
        #[test]
        fn the_heap_has_no_huge_pages_and_the_programs_that_it_starts_may() {
            super::super::conforms($allocator, $compiler, "huge_pages");
        }
    };
}

// Variants of an allocator fork alike, because the locks and the glue are the same.
mod glibc {
    super::allocators! {
        stock("stock", "cc"): family;
        mimalloc("mimalloc", "cc"): family preloading under_limits forking more_with_glibc without_huge_pages;
        jemalloc("jemalloc", "cc"): family preloading under_limits forking more_with_glibc;
        hardened_malloc_light("hardened_malloc-light", "cc"): family preloading forking more_with_glibc;
        + test_all {
            mimalloc3("mimalloc3", "cc"): family preloading under_limits forking without_huge_pages;
            mimalloc_secure("mimalloc-secure", "cc"): family preloading under_limits forking;
            mimalloc2_secure("mimalloc2-secure", "cc"): family preloading under_limits;
            rpmalloc("rpmalloc", "cc"): family preloading under_limits forking more_with_glibc;
            snmalloc("snmalloc", "cc"): family preloading under_limits forking more_with_glibc;
            snmalloc_checks("snmalloc-checks", "cc"): family preloading;
            hardened_malloc("hardened_malloc", "cc"): family preloading;
        }
    }
}

mod musl {
    super::allocators! {
        stock("stock", "musl-gcc"): family;
        mimalloc("mimalloc", "musl-gcc"): family preloading under_limits forking forking_in_musl without_huge_pages;
        jemalloc("jemalloc", "musl-gcc"): family forking forking_in_musl;
        hardened_malloc_light("hardened_malloc-light", "musl-gcc"): family preloading forking_in_musl;
        + test_all {
            mimalloc3("mimalloc3", "musl-gcc"): family forking forking_in_musl;
            mimalloc_secure("mimalloc-secure", "musl-gcc"): family forking forking_in_musl;
            mimalloc2_secure("mimalloc2-secure", "musl-gcc"): family;
            rpmalloc("rpmalloc", "musl-gcc"): family preloading under_limits forking forking_in_musl;
            snmalloc("snmalloc", "musl-gcc"): family forking forking_in_musl;
            snmalloc_checks("snmalloc-checks", "musl-gcc"): family;
            hardened_malloc("hardened_malloc", "musl-gcc"): family;
        }
    }
}
