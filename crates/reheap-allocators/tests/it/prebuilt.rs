//! Prebuilt files are what would be built here: a libc that is derived with them has the same bytes.

use crate::common::{cache, scratch_directory, target, toolchain};
use reheap_allocators::built::BuiltAllocator;
use reheap_allocators::catalogue::{Allocator, CATALOGUE};
use reheap_allocators::compiler::Search;
use reheap_allocators::libc::{Original, Replacement};
use reheap_allocators::link_kind::LinkKind;
use reheap_allocators::memory::{self, BuiltMemoryFunctions, MemoryFunctions};
use reheap_allocators::prebuilt::{self, Own, Prebuilt, Selection};
use reheap_allocators::program::Program;
use reheap_allocators::target::{Libc, Target};
use reheap_allocators::tuning::Tuning;
use reheap_allocators::upstream::{self, Toolchain};
use reheap_allocators::{canary, graft, preload};
use reheap_elf::identify::{self, Kind};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Returns 7 if its words and its environment reach it.
const PROGRAM: Program = Program {
    name: "words",
    source: "#include <stdlib.h>\n#include <string.h>\n\
        int main(int count, char **words) {\n\
        return count == 3 && !strcmp(words[2], \"two\") && getenv(\"PATH\") ? 7 : 1;\n}\n",
    compiler_flags: &["-O1"],
};

fn libc_of_rust(target: &Target) -> PathBuf {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target.triple()])
        .output()
        .unwrap();
    let directory = String::from_utf8(output.stdout).unwrap();
    PathBuf::from(directory.trim()).join("self-contained/libc.a")
}

fn derive(
    allocator: &'static Allocator,
    built: &BuiltAllocator,
    memory_functions: Option<&BuiltMemoryFunctions>,
    original: &Original,
) -> Vec<u8> {
    let replacement = Replacement {
        allocator,
        built,
        tuning: &Tuning::default(),
        memory_functions,
    };
    original.derive(&replacement).unwrap().bytes
}

/// The allocators that can be built with that toolchain are all in it, and give the same libc as those of the cache.
fn compare_libcs(prebuilt: &Prebuilt, target: &Target, toolchain: &Toolchain) {
    let original = Original::find(&libc_of_rust(target), &Search::default()).unwrap();
    let fast = MemoryFunctions::Fast;
    let found = prebuilt.memory_functions(fast, target).unwrap().unwrap();
    let memory_functions = memory::build(fast, target, toolchain, &cache()).unwrap();
    for allocator in CATALOGUE.iter().filter(|row| row.build.is_some()) {
        let kind = LinkKind::Executable;
        let built = upstream::build(allocator, target, kind, toolchain, &cache()).unwrap();
        let prebuilt = prebuilt.allocator(allocator, target).unwrap().unwrap();
        assert_ne!(prebuilt.key(), built.key());
        let here = derive(allocator, &built, memory_functions.as_ref(), &original);
        let elsewhere = derive(allocator, &prebuilt, found.as_ref(), &original);
        assert!(here == elsewhere, "{} differs", allocator.name);
    }
}

#[test]
fn what_was_produced_is_found_and_is_what_would_be_built_here() {
    let directory = scratch_directory();
    let target = target(Libc::Musl);
    let toolchain = toolchain(&target);
    let own = Own {
        libraries: &[],
        programs: &[PROGRAM],
    };
    let produced = prebuilt::produce(
        &target,
        &toolchain,
        &cache(),
        directory.path(),
        Selection::All,
        &own,
    )
    .unwrap();
    assert_eq!(produced.left_out, []);
    prebuilt::write(directory.path(), produced).unwrap();

    let prebuilt = Prebuilt::open(directory.path()).unwrap();
    compare_libcs(&prebuilt, &target, &toolchain);
    for allocator in CATALOGUE.iter().filter(|row| row.build.is_some()) {
        let found = prebuilt.preload(allocator, &target).unwrap().unwrap();
        let built = preload::build(allocator, &target, &toolchain, &cache()).unwrap();
        assert!(found.bytes == fs::read(built).unwrap());
        let graft = prebuilt.graft(allocator, &target).unwrap();
        assert_eq!(graft.is_some(), graft::exists(allocator, &target));
    }
    let canary = prebuilt.own_library(&canary::LIBRARY, &target).unwrap();
    assert!(canary.unwrap().path.is_file());
    let program = prebuilt.program(&PROGRAM, &target).unwrap().unwrap();
    let identity = identify::identify(&program.bytes).unwrap();
    assert_eq!(identity.kind, Kind::Dynamic);
    let status = Command::new(program.path).args(["one", "two"]).status();
    assert_eq!(status.unwrap().code(), Some(7));
    for file in prebuilt.files() {
        assert!(
            file.origin.contains("checksum") == file.allocator.is_some(),
            "{file:?}"
        );
    }
}

/// The other files are of use without it, and nothing is silently absent.
#[test]
fn what_cannot_be_built_is_left_out_with_the_reason() {
    let directory = scratch_directory();
    let target = target(Libc::Musl);
    let toolchain = Toolchain {
        cxx: Err("there is no compiler for C++".to_owned()),
        ..toolchain(&target)
    };
    let broken = Program {
        source: "int main(void) { return nothing; }\n",
        ..PROGRAM
    };
    let own = Own {
        libraries: &[],
        programs: &[broken],
    };
    let produced = prebuilt::produce(
        &target,
        &toolchain,
        &cache(),
        directory.path(),
        Selection::Only(&["mimalloc", "snmalloc", "snmalloc-checks"]),
        &own,
    )
    .unwrap();

    let left_out = |name: &str| {
        let path_is = |file: &&prebuilt::LeftOut| file.path.contains(name);
        let found: Vec<_> = produced.left_out.iter().filter(path_is).collect();
        let reasons = found.iter().map(|file| file.reason.clone());
        reasons.collect::<Vec<_>>().join("\n")
    };
    let reasons = left_out("snmalloc");
    // Preload and objects, with and without checks.
    assert_eq!(reasons.lines().count(), 4, "{reasons}");
    assert!(reasons.contains("no compiler for C++"), "{reasons}");
    let reason = left_out("programs/");
    assert!(reason.contains("cannot compile `words` for"), "{reason}");
    assert!(reason.contains("error: "), "{reason}");
    assert!(
        !reason.contains('\n') && !reason.contains("/tmp"),
        "{reason}"
    );
    let files = &produced.files;
    assert!(files.iter().any(|file| file.path.contains("libmimalloc")));
    assert!(!files.iter().any(|file| file.path.contains("snmalloc")));
}
