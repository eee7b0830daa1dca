//! Libraries that Zig builds run on old systems, of both processors.

use crate::common::{
    compile, compiler, conformance_program, run, scratch_directory, search, target,
};
use reheap_allocators::cache::Cache;
use reheap_allocators::catalogue::{self, Allocator};
use reheap_allocators::compiler::{self, Language};
use reheap_allocators::portable::{self, NotPortable};
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_allocators::upstream::Toolchain;
use reheap_allocators::{graft, preload};
use reheap_elf::{imports, linkage};
use std::path::{Path, PathBuf};
use std::process::Command;

fn toolchain_of_zig(target: &Target) -> Toolchain {
    let find = |language| compiler::find_zig(target, language, &search());
    Toolchain {
        cargo: "cargo".into(),
        cc: find(Language::C).expect("python3 -m pip install ziglang==0.14.1"),
        cxx: find(Language::Cxx).map_err(|error| error.to_string()),
        environment: std::env::vars_os().collect(),
    }
}

/// rpmalloc is in C and builds fastest. snmalloc is in C++, whose library takes Zig a minute for each target. `make dist`
/// checks all allocators for all targets.
fn built(target: &Target) -> impl Iterator<Item = &'static Allocator> + use<> {
    let with_cxx = (target.libc() == Libc::Glibc && target.arch() == Architecture::X86_64)
        .then_some("snmalloc");
    ["rpmalloc"]
        .into_iter()
        .chain(with_cxx)
        .map(|name| catalogue::find(name).unwrap())
}

/// A cache of its own: other tests take whatever library is in theirs, and small test systems lack the `libpthread.so.0` that
/// one for old systems names.
fn cache() -> Cache {
    Cache::at(Path::new(env!("CARGO_TARGET_TMPDIR")).join("portable-cache"))
}

fn preload_of(allocator: &'static Allocator, target: &Target) -> PathBuf {
    preload::build(allocator, target, &toolchain_of_zig(target), &cache()).unwrap()
}

#[test]
fn a_library_asks_for_no_later_libc_than_the_oldest_and_has_no_path_of_this_machine() {
    for libc in [Libc::Glibc, Libc::Musl] {
        for architecture in Architecture::WITH_PRELOADS {
            let target = Target::new(architecture, libc);
            for allocator in built(&target) {
                let bytes = std::fs::read(preload_of(allocator, &target)).unwrap();
                assert_eq!(
                    portable::check(&bytes, &target),
                    Ok(()),
                    "{}",
                    allocator.name
                );
                let home = std::env::home_dir().unwrap().display().to_string();
                let path = bytes.windows(home.len()).position(|w| w == home.as_bytes());
                assert_eq!(path, None, "{}: a path in {home}", allocator.name);
            }
        }
    }
}

#[test]
fn a_library_for_this_systems_own_glibc_or_with_more_libraries_is_refused() {
    let target = target(Libc::Glibc);
    let directory = scratch_directory();
    let library = directory.path().join("library.so");
    let source = directory.path().join("library.c");
    // `sigabbrev_np` came with glibc 2.32.
    let text =
        "const char *sigabbrev_np(int); const char *name(void) { return sigabbrev_np(9); }\n";
    std::fs::write(&source, text).unwrap();
    compile(&compiler(&target), &source, &["-shared", "-fPIC"], &library);
    let bytes = std::fs::read(&library).unwrap();
    let expected = NotPortable::LaterVersion("GLIBC_2.32".into());
    assert_eq!(portable::check(&bytes, &target), Err(expected));
    let musl = Target::new(target.arch(), Libc::Musl);
    let needed = linkage::read(bytes.as_slice()).unwrap().needed;
    let expected = NotPortable::Library(needed[0].clone());
    assert_eq!(portable::check(&bytes, &musl), Err(expected));
    assert!(matches!(
        portable::check(&bytes[..100], &target),
        Err(NotPortable::Damaged(_))
    ));
}

#[test]
fn what_goes_into_finished_executables_asks_for_no_libc_at_all() {
    let target = Target::new(Architecture::X86_64, Libc::Musl);
    let (allocator, toolchain) = (catalogue::default_allocator(), toolchain_of_zig(&target));
    let library = graft::build(allocator, &target, &toolchain, &cache()).unwrap();
    let bytes = std::fs::read(library).unwrap();
    assert!(imports::read(&bytes).unwrap().names.is_empty());
    assert!(linkage::read(bytes.as_slice()).unwrap().needed.is_empty());
}

#[test]
fn the_library_for_old_systems_works_on_this_one() {
    let target = target(Libc::Glibc);
    let directory = scratch_directory();
    let program = directory.path().join("program");
    compile(
        &compiler(&target),
        &conformance_program("threads"),
        &[],
        &program,
    );
    for allocator in built(&target) {
        let library = preload_of(allocator, &target);
        let outcome = run(Command::new(&program).env("LD_PRELOAD", &library)).succeeded();
        assert!(
            outcome.stdout.contains("ok "),
            "{}: {}",
            allocator.name,
            outcome.stdout
        );
    }
}
