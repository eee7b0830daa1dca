//! The C suite: every program under `programs/c` with every allocator of the catalogue, linked by `reheap cc` and run.
//!
//! `stock` is musl's own allocator and comes first: what it does is what a program written for musl relies on, so a
//! check that it fails is a wrong check. To add a program: a file in `programs/c` that prints `ok NAME`, and a line in
//! `conformance!`; to add an allocator: a line in `allocators!`.

use crate::common::suite::{
    Placement, allocators, passes, placement_of_static_executable, program, scratch_directory,
};
use crate::common::{reheap, run};
use std::ffi::OsStr;
use std::path::PathBuf;

/// Builtins off: the compiler may otherwise remove a malloc whose block is only freed, and the check with it.
const FLAGS: [&str; 3] = ["-std=gnu11", "-O2", "-fno-builtin"];

/// An executable and the directory that it lies in.
struct Built {
    _directory: tempfile::TempDir,
    executable: PathBuf,
}

#[track_caller]
fn build_c(allocator: &str, source: &str, flags: &[&str]) -> Built {
    let directory = scratch_directory();
    let executable = directory.path().join("program");
    run(reheap(&format!("cc -a {allocator} --"))
        .args(FLAGS)
        .args(flags)
        .arg(program(&format!("c/{source}.c")))
        .args([OsStr::new("-o"), executable.as_os_str()]))
    .succeeded();
    Built {
        _directory: directory,
        executable,
    }
}

#[track_caller]
fn conforms(allocator: &str, source: &str, name: &str) {
    let built = build_c(allocator, source, &["-pthread"]);
    placement_of_static_executable(&built.executable);
    passes(&built.executable, name);
}

#[track_caller]
fn conforms_under_a_limit(allocator: &str, limit: &str) {
    let source = "threads_out_of_memory";
    let only = format!("-DONLY_LIMIT={limit}");
    let built = build_c(allocator, source, &["-pthread", &only]);
    passes(&built.executable, source);
}

#[track_caller]
fn a_program_is_placed(allocator: &str, flag: &str, expected: Placement) {
    let built = build_c(allocator, "family", &[flag]);
    assert_eq!(placement_of_static_executable(&built.executable), expected);
    passes(&built.executable, "family");
}

/// The tests of one allocator.
macro_rules! conformance {
    ($allocator:literal) => {
        #[test]
        fn every_function_of_the_family_keeps_its_contract() {
            super::conforms($allocator, "family", "family");
        }

        #[test]
        fn what_cannot_be_had_is_refused_with_errno() {
            super::conforms($allocator, "refusals", "refusals");
        }

        #[test]
        fn sizes_around_every_class_and_of_several_gibibytes_work() {
            super::conforms($allocator, "sizes", "sizes");
        }

        #[test]
        fn realloc_chains_keep_their_contents() {
            super::conforms($allocator, "realloc_chains", "realloc_chains");
        }

        #[test]
        fn sixty_four_threads_free_each_others_blocks() {
            super::conforms($allocator, "threads", "threads");
        }

        #[test]
        fn memory_freed_by_another_thread_is_used_again() {
            super::conforms($allocator, "producer_consumer", "producer_consumer");
        }

        #[test]
        fn posix_and_c11_threads_end_with_destructors_that_use_the_heap() {
            super::conforms($allocator, "thread_exit", "thread_exit");
        }

        #[test]
        fn the_first_allocations_may_come_from_threads_at_once() {
            super::conforms($allocator, "first_malloc", "first_malloc");
        }

        #[test]
        fn signals_may_interrupt_allocations() {
            super::conforms($allocator, "signals", "signals");
        }

        #[test]
        fn the_heap_works_before_main_and_at_exit() {
            super::conforms($allocator, "exit", "exit");
        }

        #[test]
        fn the_libc_allocates_for_itself_and_its_caller() {
            super::conforms($allocator, "libc_paths", "libc_paths");
        }

        #[test]
        fn a_program_with_its_own_malloc_family_keeps_it() {
            super::conforms($allocator, "own_malloc", "own_malloc");
        }

        #[test]
        fn a_program_with_only_malloc_calloc_realloc_and_free_keeps_them() {
            super::conforms($allocator, "own_malloc_c89", "own_malloc");
        }

        #[test]
        fn memory_functions_do_what_loops_do() {
            super::conforms($allocator, "memory_functions", "memory_functions");
        }

        #[test]
        fn a_program_may_be_at_a_fixed_address() {
            super::a_program_is_placed($allocator, "-no-pie", super::Placement::Fixed);
        }

        #[test]
        fn a_program_may_be_position_independent() {
            super::a_program_is_placed($allocator, "-static-pie", super::Placement::Anywhere);
        }
    };
}

/// What the allocator and the libc do about locks.
macro_rules! conformance_of_forks {
    ($allocator:literal) => {
        #[test]
        fn hundreds_of_forks_while_other_threads_allocate_succeed() {
            super::conforms($allocator, "fork", "fork");
        }

        #[test]
        fn threads_may_fork_at_once() {
            super::conforms($allocator, "fork_at_once", "fork_at_once");
        }

        #[test]
        fn a_program_may_fork_while_its_streams_allocate() {
            super::conforms($allocator, "fork_stdio", "fork_stdio");
        }

        #[test]
        fn a_signal_handler_may_fork_in_the_middle_of_an_allocation() {
            super::conforms($allocator, "fork_in_handler", "fork_in_handler");
        }

        #[test]
        fn a_signal_handler_may_fork_in_a_thread_that_forks() {
            super::conforms($allocator, "fork_nested", "fork_nested");
        }

        #[test]
        fn a_program_may_end_while_its_threads_fork() {
            super::conforms($allocator, "fork_at_exit", "fork_at_exit");
        }

        #[test]
        fn programs_may_be_started_in_every_way_while_threads_allocate() {
            super::conforms($allocator, "spawn", "spawn");
        }
    };
}

macro_rules! conformance_under_limits {
    ($allocator:literal) => {
        #[test]
        fn running_out_of_memory_is_survived() {
            super::conforms($allocator, "out_of_memory", "out_of_memory");
        }

        #[test]
        fn running_out_of_memory_while_threads_start_is_survived() {
            super::conforms($allocator, "threads_out_of_memory", "threads_out_of_memory");
        }
    };
}

/// hardened_malloc keeps the addresses of freed blocks for a while, so under a limit of address space they cannot be had
/// again. And that limit does not touch its small blocks: it reserves the addresses for all of them when it starts.
macro_rules! conformance_under_limits_of_data {
    ($allocator:literal) => {
        #[test]
        fn running_out_of_memory_while_threads_start_is_survived() {
            super::conforms_under_a_limit($allocator, "RLIMIT_DATA");
        }
    };
}

/// Where snmalloc's checks are built in, it does not look whether memory became accessible.
#[cfg(feature = "test_all")]
macro_rules! conformance_under_limits_of_address_space {
    ($allocator:literal) => {
        #[test]
        fn running_out_of_memory_is_survived() {
            super::conforms($allocator, "out_of_memory", "out_of_memory");
        }

        #[test]
        fn running_out_of_memory_while_threads_start_is_survived() {
            super::conforms_under_a_limit($allocator, "RLIMIT_AS");
        }
    };
}

/// musl has no `free_sized` and `free_aligned_sized`; every other allocator brings them.
macro_rules! conformance_beyond_musl {
    ($allocator:literal) => {
        #[test]
        fn the_sized_frees_of_c23_work() {
            super::conforms($allocator, "free_sized", "free_sized");
        }
    };
}

/// A fork of musl's own waits for a lock of its allocator that the thread itself may hold.
macro_rules! conformance_of_forks_beyond_musl {
    ($allocator:literal) => {
        #[test]
        fn a_signal_handler_may_fork_while_other_threads_allocate_too() {
            super::conforms($allocator, "fork_in_handler_threads", "fork_in_handler");
        }
    };
}

/// jemalloc, rpmalloc and snmalloc were not seen to do so within half a minute.
macro_rules! conformance_of_those_that_collect {
    ($allocator:literal) => {
        #[test]
        fn what_another_thread_freed_is_given_back_while_one_block_comes_and_goes() {
            super::conforms($allocator, "one_block", "one_block");
        }
    };
}

/// What its authors built into mimalloc, and `last_block.c` must not lose, and what `huge_pages.c` adds.
macro_rules! conformance_of_mimalloc {
    ($allocator:literal) => {
        #[test]
        fn the_heap_has_no_huge_pages_and_the_programs_that_it_starts_may() {
            super::conforms($allocator, "huge_pages", "huge_pages");
        }

        #[test]
        fn what_another_thread_freed_is_given_back_after_as_many_calls_as_upstream_needs() {
            super::conforms($allocator, "one_block_calls", "one_block_calls");
        }

        #[test]
        fn an_idle_page_is_given_back_although_another_was_in_front_of_it() {
            super::conforms($allocator, "idle_page", "idle_page");
        }
    };
}

// Variants of an allocator fork alike, because the locks and the glue are the same. With hardened_malloc hundreds of forks
// would last a minute: each slab has a guard region, and fork copies all mappings.
allocators! {
    stock("stock"): conformance conformance_of_forks conformance_under_limits conformance_of_those_that_collect;
    mimalloc("mimalloc"): conformance conformance_of_forks conformance_under_limits conformance_beyond_musl conformance_of_forks_beyond_musl
        conformance_of_those_that_collect conformance_of_mimalloc;
    jemalloc("jemalloc"): conformance conformance_of_forks conformance_under_limits conformance_beyond_musl conformance_of_forks_beyond_musl;
    hardened_malloc_light("hardened_malloc-light"): conformance conformance_of_forks
        conformance_under_limits_of_data conformance_beyond_musl conformance_of_forks_beyond_musl;
    + test_all {
        mimalloc3("mimalloc3"): conformance conformance_of_forks conformance_under_limits conformance_beyond_musl conformance_of_forks_beyond_musl
            conformance_of_those_that_collect conformance_of_mimalloc;
        mimalloc_secure("mimalloc-secure"): conformance conformance_of_forks conformance_under_limits
            conformance_beyond_musl conformance_of_forks_beyond_musl conformance_of_those_that_collect conformance_of_mimalloc;
        mimalloc2_secure("mimalloc2-secure"): conformance conformance_under_limits conformance_beyond_musl;
        rpmalloc("rpmalloc"): conformance conformance_of_forks conformance_under_limits conformance_beyond_musl conformance_of_forks_beyond_musl;
        snmalloc("snmalloc"): conformance conformance_of_forks conformance_under_limits conformance_beyond_musl conformance_of_forks_beyond_musl;
        snmalloc_checks("snmalloc-checks"): conformance conformance_under_limits_of_address_space
            conformance_beyond_musl;
        hardened_malloc("hardened_malloc"): conformance conformance_under_limits_of_data conformance_beyond_musl;
    }
}
