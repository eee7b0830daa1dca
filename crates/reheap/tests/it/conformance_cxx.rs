//! The C++ programs under `programs/c++` with every allocator of the catalogue, linked by `reheap c++` and run.
//!
//! They take a C++ compiler for musl; where there is none, reheap's own message says how to get one.

use crate::common::suite::{
    allocators, passes, placement_of_static_executable, program, scratch_directory,
};
use crate::common::{reheap, run};
use std::ffi::OsStr;

#[track_caller]
fn conforms(allocator: &str, name: &str) {
    let directory = scratch_directory();
    let executable = directory.path().join("program");
    run(reheap(&format!("c++ -a {allocator} --"))
        .args(["-std=c++17", "-O2", "-pthread"])
        .arg(program(&format!("c++/{name}.cpp")))
        .args([OsStr::new("-o"), executable.as_os_str()]))
    .succeeded();
    placement_of_static_executable(&executable);
    passes(&executable, name);
}

macro_rules! conforming {
    ($allocator:literal) => {
        #[test]
        fn exceptions_streams_threads_and_every_form_of_new_work() {
            super::conforms($allocator, "language");
        }

        #[test]
        fn a_program_with_its_own_operator_new_keeps_it() {
            super::conforms($allocator, "own_operators");
        }
    };
}

allocators! {
    stock("stock"): conforming;
    mimalloc("mimalloc"): conforming;
    jemalloc("jemalloc"): conforming;
    hardened_malloc_light("hardened_malloc-light"): conforming;
    + test_all {
        mimalloc3("mimalloc3"): conforming;
        mimalloc_secure("mimalloc-secure"): conforming;
        mimalloc2_secure("mimalloc2-secure"): conforming;
        rpmalloc("rpmalloc"): conforming;
        snmalloc("snmalloc"): conforming;
        snmalloc_checks("snmalloc-checks"): conforming;
        hardened_malloc("hardened_malloc"): conforming;
    }
}
