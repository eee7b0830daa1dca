//! The C++ programs under `programs/c++` with every allocator of the catalogue, linked by `reheap c++` and run.
//!
//! They take a C++ compiler for musl; where there is none, reheap's own message says how to get one.
mod support;

use std::ffi::OsStr;
use support::{program, reheap, scratch_folder};

#[track_caller]
fn conforms(allocator: &str, name: &str) {
    let folder = scratch_folder();
    let executable = folder.path().join("program");
    support::succeed(
        reheap()
            .args(["c++", "-a", allocator, "--"])
            .args(["-std=c++17", "-O2", "-pthread"])
            .arg(program(&format!("c++/{name}.cpp")))
            .args([OsStr::new("-o"), executable.as_os_str()]),
        support::BUILD_DEADLINE,
    );
    support::placement_of_static_executable(&executable);
    support::passes(&executable, name);
}

macro_rules! allocators {
    ($($module:ident $name:literal;)*) => {
        $(
            mod $module {
                #[test]
                fn exceptions_streams_threads_and_every_form_of_new_work() {
                    super::conforms($name, "language");
                }

                #[test]
                fn a_program_with_its_own_operator_new_keeps_it() {
                    super::conforms($name, "own_operators");
                }
            }
        )*
    };
}

allocators! {
    stock "stock";
    mimalloc "mimalloc";
    mimalloc3 "mimalloc3";
    mimalloc_secure "mimalloc-secure";
    jemalloc "jemalloc";
    rpmalloc "rpmalloc";
    snmalloc "snmalloc";
}
