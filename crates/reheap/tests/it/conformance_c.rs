//! The C suite: every program under `programs/c` with every allocator of the catalogue, linked by `reheap cc` and run.
//!
//! `stock` is musl's own allocator and comes first: what it does is what a program written for musl relies on, so a
//! check that it fails is a wrong check. To add a program: a file in `programs/c` that prints `ok NAME`, and a line in
//! one of the lists; to add an allocator: a line in `allocators!`.

use crate::common::multi_call::{Check, MultiCall};
use crate::common::suite::{
    Placement, allocators, passes, placement_of_static_executable, program, scratch_directory,
};
use crate::common::{reheap, run};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// Builtins off: the compiler may otherwise remove a malloc whose block is only freed, and the check with it.
const FLAGS: [&str; 3] = ["-std=gnu11", "-O2", "-fno-builtin"];

/// What every allocator does.
pub(crate) const EVERY: &[Check] = &[
    Check("every function of the family keeps its contract", "family"),
    Check("what cannot be had is refused with errno", "refusals"),
    Check(
        "sizes around every class and of several gibibytes work",
        "sizes",
    ),
    Check("realloc chains keep their contents", "realloc_chains"),
    Check(
        "large buffers grow, shrink and are refused without damage",
        "growing",
    ),
    Check("sixty-four threads free each other's blocks", "threads"),
    Check(
        "memory freed by another thread is used again",
        "producer_consumer",
    ),
    Check(
        "POSIX and C11 threads end with destructors that use the heap",
        "thread_exit",
    ),
    Check(
        "the first allocations may come from threads at once",
        "first_malloc",
    ),
    Check("signals may interrupt allocations", "signals"),
    Check("the libc allocates for itself and its caller", "libc_paths"),
    Check("memory functions do what loops do", "memory_functions"),
];

/// What the allocator and the libc do about locks.
pub(crate) const FORKS: &[Check] = &[
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
        "a signal handler may fork in a thread that forks",
        "fork_nested",
    ),
    Check("a program may end while its threads fork", "fork_at_exit"),
    Check(
        "threads that come and go, and fork, leave their blocks to others",
        "short_threads",
    ),
    Check(
        "programs may be started in every way while threads allocate",
        "spawn",
    ),
];

/// A fork of musl's own waits for a lock of its allocator that the thread itself may hold.
const FORKS_BEYOND_MUSL: &[Check] = &[Check(
    "a signal handler may fork while other threads allocate too",
    "fork_in_handler_threads",
)];

pub(crate) const LIMITS: &[Check] = &[Check("running out of memory is survived", "out_of_memory")];

/// musl has no `free_sized` and `free_aligned_sized`; every other allocator brings them.
const BEYOND_MUSL: &[Check] = &[Check("the sized frees of C23 work", "free_sized")];

/// hardened_malloc keeps its own realloc, because it puts guard regions around large blocks.
pub(crate) const GROWS: &[Check] = &[Check(
    "a buffer that grows needs no memory for a copy",
    "growing_memory",
)];

/// jemalloc, rpmalloc and snmalloc were not seen to do so within half a minute.
pub(crate) const COLLECTS: &[Check] = &[Check(
    "what another thread freed is given back while one block comes and goes",
    "one_block",
)];

pub(crate) const AT_REST: &[Check] = &[Check(
    "what is free goes back to the system, though nobody calls the allocator any more",
    "at_rest",
)];

const JEMALLOC_AT_REST: &[Check] = &[Check(
    "what is free goes back to the system, but for tables of 1 MiB",
    "at_rest_of_jemalloc",
)];

/// What its authors built into mimalloc, and `last_block.c` must not lose, and what `huge_pages.c` adds.
const OF_MIMALLOC: &[Check] = &[
    Check(
        "the heap has no huge pages, and the programs that it starts may have some",
        "huge_pages",
    ),
    Check(
        "what another thread freed is given back after as many calls as upstream needs",
        "one_block_calls",
    ),
    Check(
        "an idle page is given back although another was in front of it",
        "idle_page",
    ),
];

/// What `shared_heaps.c` and the recipe add to mimalloc 2.
pub(crate) const FRUGAL: &[Check] = &[
    Check("a thread that allocates little costs little", "few_blocks"),
    Check("the first block of a size brings one page", "first_block"),
    Check(
        "vectors that grow among blocks of all sizes need little memory",
        "changing_sizes",
    ),
];

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

/// Runs all of these in one executable.
#[track_caller]
fn all_conform(allocator: &str, lists: &[&[Check]]) {
    let compiler = || {
        let mut cc = reheap(&format!("cc -a {allocator} --"));
        cc.args(FLAGS).arg("-pthread");
        cc
    };
    let checks = lists.concat();
    let built = MultiCall::build(compiler, &checks);
    placement_of_static_executable(&built.path(checks[0].source()));
    built.all_pass(&checks, |executable| Command::new(executable));
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

/// The tests of one allocator, with the lists that apply to it.
macro_rules! conformance {
    ($allocator:literal, $($list:ident)*) => {
        #[test]
        fn all_programs_conform() {
            super::all_conform($allocator, &[$(super::$list),*]);
        }

        #[test]
        fn the_heap_works_before_main_and_at_exit() {
            super::conforms($allocator, "exit", "exit");
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
        fn a_program_may_be_at_a_fixed_address() {
            super::a_program_is_placed($allocator, "-no-pie", super::Placement::Fixed);
        }

        #[test]
        fn a_program_may_be_position_independent() {
            super::a_program_is_placed($allocator, "-static-pie", super::Placement::Anywhere);
        }
    };
}

macro_rules! under_limits {
    ($allocator:literal, $($list:ident)*) => {
        #[test]
        fn running_out_of_memory_while_threads_start_is_survived() {
            super::conforms($allocator, "threads_out_of_memory", "threads_out_of_memory");
        }
    };
}

/// hardened_malloc keeps the addresses of freed blocks for a while, so under a limit of address space they cannot be had
/// again. And that limit does not touch its small blocks: it reserves the addresses for all of them when it starts.
macro_rules! under_limits_of_data {
    ($allocator:literal, $($list:ident)*) => {
        #[test]
        fn running_out_of_memory_while_threads_start_is_survived() {
            super::conforms_under_a_limit($allocator, "RLIMIT_DATA");
        }
    };
}

/// Where snmalloc's checks are built in, it does not look whether memory became accessible.
#[cfg(feature = "test_all")]
macro_rules! under_limits_of_address_space {
    ($allocator:literal, $($list:ident)*) => {
        #[test]
        fn running_out_of_memory_while_threads_start_is_survived() {
            super::conforms_under_a_limit($allocator, "RLIMIT_AS");
        }
    };
}

// Variants of an allocator fork alike, because the locks and the glue are the same. With hardened_malloc hundreds of forks
// would last a minute: each slab has a guard region, and fork copies all mappings.
allocators! {
    stock("stock", EVERY GROWS FORKS LIMITS COLLECTS): conformance under_limits;
    mimalloc("mimalloc", EVERY GROWS FORKS LIMITS BEYOND_MUSL FORKS_BEYOND_MUSL COLLECTS AT_REST OF_MIMALLOC FRUGAL): conformance under_limits;
    jemalloc("jemalloc", EVERY GROWS FORKS LIMITS BEYOND_MUSL FORKS_BEYOND_MUSL JEMALLOC_AT_REST): conformance under_limits;
    hardened_malloc_light("hardened_malloc-light", EVERY FORKS BEYOND_MUSL FORKS_BEYOND_MUSL):
        conformance under_limits_of_data;
    + test_all {
        mimalloc3("mimalloc3", EVERY GROWS FORKS LIMITS BEYOND_MUSL FORKS_BEYOND_MUSL COLLECTS OF_MIMALLOC):
            conformance under_limits;
        mimalloc_secure("mimalloc-secure", EVERY GROWS FORKS LIMITS BEYOND_MUSL FORKS_BEYOND_MUSL COLLECTS OF_MIMALLOC):
            conformance under_limits;
        mimalloc2_secure("mimalloc2-secure", EVERY GROWS LIMITS BEYOND_MUSL AT_REST): conformance under_limits;
        rpmalloc("rpmalloc", EVERY GROWS FORKS LIMITS BEYOND_MUSL FORKS_BEYOND_MUSL): conformance under_limits;
        snmalloc("snmalloc", EVERY GROWS FORKS LIMITS BEYOND_MUSL FORKS_BEYOND_MUSL): conformance under_limits;
        snmalloc_checks("snmalloc-checks", EVERY GROWS LIMITS BEYOND_MUSL): conformance under_limits_of_address_space;
        hardened_malloc("hardened_malloc", EVERY BEYOND_MUSL): conformance under_limits_of_data;
    }
}
