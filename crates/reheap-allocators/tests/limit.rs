//! The limit allocator: no row of the catalogue, but it works wherever an allocator of the catalogue does, or a benchmark
//! would say nothing of programs that need more than malloc and free.
//!
//! Of the conformance suite `out_of_memory` is left out: address space is reserved at the first call, so that a limit to
//! it that is set later has no effect.

mod common;

use common::{cache, compile, compiler, conformance_program, program, scratch_folder, succeed};
use reheap_allocators::catalogue::{self, CATALOGUE, LIMIT};
use reheap_allocators::compiler::Pie;
use reheap_allocators::libc::{Original, Replacement};
use reheap_allocators::preload;
use reheap_allocators::target::Libc;
use reheap_allocators::tuning::Tuning;
use reheap_allocators::upstream::{self, LinkKind};
use reheap_elf::marker;
use std::path::{Path, PathBuf};
use std::process::Command;

const CONFORMANCE: [&str; 12] = [
    "exit",
    "family",
    "first_malloc",
    "fork",
    "fork_at_once",
    "producer_consumer",
    "realloc_chains",
    "refusals",
    "signals",
    "sizes",
    "thread_exit",
    "threads",
];

fn sources() -> impl Iterator<Item = (&'static str, PathBuf)> {
    let conformance = CONFORMANCE.map(|name| (name, conformance_program(name)));
    conformance
        .into_iter()
        .chain([("thread_per_task", program("thread_per_task"))])
}

#[test]
fn nobody_can_choose_the_limit() {
    assert!(CATALOGUE.iter().all(|row| row.name != LIMIT.name));
    let error = catalogue::find(LIMIT.name).unwrap_err();
    assert_eq!(error.nearest, None);
}

fn libc_with_the_limit() -> PathBuf {
    let target = common::target(Libc::Musl);
    let toolchain = common::toolchain(&target);
    let kind = LinkKind::Executable;
    let built = upstream::build(&LIMIT, &target, kind, &toolchain, &cache()).unwrap();
    let libc = compiler(&target).original_libc(&common::search()).unwrap();
    let original = Original::read(&libc).unwrap();
    let replacement = Replacement {
        allocator: &LIMIT,
        built: &built,
        tuning: &Tuning::default(),
        memory_functions: None,
    };
    original.derived_folder(&replacement, &cache()).unwrap()
}

#[test]
fn static_executables_work_with_the_limit_in_their_libc() {
    let libc = libc_with_the_limit();
    let cc = compiler(&common::target(Libc::Musl));
    let folder = scratch_folder();
    let link = cc.link_arguments(&libc, Pie::Yes, folder.path()).unwrap();
    let link: Vec<&str> = link.iter().map(|word| word.to_str().unwrap()).collect();
    for (name, source) in sources().chain([("libc_paths", conformance_program("libc_paths"))]) {
        let executable = folder.path().join(name);
        compile(&cc, &source, &link, &executable);
        has_the_limit(&executable);
        let printed = succeed(&mut Command::new(&executable));
        assert_eq!(printed, format!("ok {name}\n"));
    }
}

fn has_the_limit(file: &Path) {
    let found = marker::read(&std::fs::read(file).unwrap()).unwrap();
    let found = found.expect("what reheap links has a marker");
    assert_eq!(found.marker.allocator, "limit");
    assert!(found.replaced.is_empty(), "{:?}", found.replaced);
}

fn dynamic_programs_work_with_the_limit_preloaded(libc: Libc) {
    let target = common::target(libc);
    let toolchain = common::toolchain(&target);
    let library = preload::build(&LIMIT, &target, &toolchain, &cache()).unwrap();
    has_the_limit(&library);
    let cc = compiler(&target);
    let folder = scratch_folder();
    for (name, source) in sources() {
        let executable = folder.path().join(name);
        compile(&cc, &source, &[], &executable);
        let printed = succeed(Command::new(&executable).env("LD_PRELOAD", &library));
        assert_eq!(printed, format!("ok {name}\n"));
    }
}

#[test]
fn dynamic_programs_of_glibc_work_with_the_limit_preloaded() {
    dynamic_programs_work_with_the_limit_preloaded(Libc::Glibc);
}

#[test]
fn dynamic_programs_of_musl_work_with_the_limit_preloaded() {
    dynamic_programs_work_with_the_limit_preloaded(Libc::Musl);
}
