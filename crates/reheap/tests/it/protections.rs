//! What protects stock musl's executables against memory errors protects reheap's too: nothing is weaker.

use crate::common;
use crate::common::suite::is_tested;
use crate::common::{Project, readelf, reheap, run, target};
use reheap_allocators::catalogue;
use reheap_elf::identify::{Protections, Relro, Stack, identify};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/c/guarded.c");

fn protections(file: &Path) -> Protections {
    let identity = identify(&fs::read(file).unwrap()).unwrap();
    identity.protections.expect("it is linked")
}

/// Panics if a file lacks what another has.
#[track_caller]
fn is_not_weaker(file: &Path, stock: &Path) {
    let (ours, theirs) = (protections(file), protections(stock));
    let shown = format!(
        "{} has {ours:?}, and the stock one {theirs:?}",
        file.display()
    );
    assert!(ours.relro >= theirs.relro, "{shown}");
    assert!(ours.binds_now >= theirs.binds_now, "{shown}");
    assert!(
        ours.position_independent >= theirs.position_independent,
        "{shown}"
    );
    assert!(
        ours.stack_protector.is_some() >= theirs.stack_protector.is_some(),
        "{shown}"
    );
    assert!(
        theirs
            .control_flow
            .iter()
            .all(|protection| ours.control_flow.contains(protection)),
        "{shown}"
    );
    is_closed(&ours, &shown);
}

/// What no file of reheap's may lack, whatever others do.
#[track_caller]
fn is_closed(ours: &Protections, shown: &str) {
    assert_eq!(ours.stack, Stack::NotExecutable, "{shown}");
    assert!(!ours.writable_code && !ours.text_relocations, "{shown}");
}

struct Compiled(tempfile::TempDir);

impl Compiled {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(&self, allocator: &str, flags: &str) -> PathBuf {
        let name = format!("{allocator}{}", flags.replace(' ', ""));
        let file = self.0.path().join(name);
        let mut command = reheap(&format!(
            "cc -a {allocator} -O1 -fstack-protector-all {flags}"
        ));
        run(command.arg(PROGRAM).arg("-o").arg(&file)).succeeded();
        file
    }
}

fn allocators() -> impl Iterator<Item = &'static str> {
    let names = catalogue::CATALOGUE.iter().map(|row| row.name);
    names.filter(|name| is_tested(name))
}

#[test]
fn c_executables_are_protected_as_those_with_stock_musl() {
    let compiled = Compiled::new();
    for flags in ["", "-fcf-protection=full -Wl,-z,now"] {
        if !cfg!(target_arch = "x86_64") && !flags.is_empty() {
            continue; // these are x86's
        }
        let stock = compiled.with("stock", flags);
        assert!(protections(&stock).position_independent);
        for allocator in allocators() {
            is_not_weaker(&compiled.with(allocator, flags), &stock);
        }
    }
}

#[test]
fn rust_executables_are_protected_as_those_with_stock_musl() {
    let project = Project::new(common::HELLO);
    for profile in ["", " --release"] {
        let directory = if profile.is_empty() {
            "debug"
        } else {
            "release"
        };
        let app = project.output(&format!("{directory}/app"));
        run(&mut project.cargo_reheap(&format!("build -a stock{profile}"))).succeeded();
        let stock = project.directory.join("stock");
        fs::rename(&app, &stock).unwrap();
        run(&mut project.cargo_reheap(&format!("build -a mimalloc{profile}"))).succeeded();
        is_not_weaker(&app, &stock);
        assert!(protections(&app).relro == Relro::Full);
    }
}

#[test]
fn the_derived_libc_has_no_object_that_asks_for_an_executable_stack() {
    for allocator in allocators() {
        let written = run(&mut reheap(&format!("libc -a {allocator}"))).succeeded();
        let archive = PathBuf::from(written.stdout.trim()).join("libc.a");
        // Of each object with code: the section whose flags say what its stack may be.
        let sections = readelf("-SW", &archive);
        assert!(sections.matches("\nFile: ").count() > 100, "{sections}");
        let mut without = BTreeSet::new();
        for object in sections.split("\nFile: ").skip(1) {
            let name = object.lines().next().unwrap();
            let mut lines = object.lines();
            let stack = lines.find(|line| line.contains(".note.GNU-stack"));
            match stack {
                None => without.insert(name.rsplit('(').next().unwrap().to_owned()),
                Some(line) => {
                    let flags: Vec<&str> = line.split_whitespace().rev().skip(3).take(1).collect();
                    assert!(!flags.concat().contains('X'), "{name}: {line}");
                    continue;
                }
            };
        }
        // Those that musl itself brings, such as an empty member, are as they were.
        let mut rustc = Command::new("rustc");
        rustc.args(["--print", "target-libdir", "--target", &target()]);
        let stock = run(&mut rustc);
        let stock = Path::new(stock.succeeded().stdout.trim()).join("self-contained/libc.a");
        let stock = readelf("-SW", &stock);
        let lacks = |object: &&str| !object.contains(".note.GNU-stack");
        let in_stock: BTreeSet<String> = stock
            .split("\nFile: ")
            .skip(1)
            .filter(lacks)
            .map(|object| {
                object
                    .lines()
                    .next()
                    .unwrap()
                    .rsplit('(')
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        let ours: Vec<_> = without.difference(&in_stock).collect();
        assert!(ours.is_empty(), "{allocator}: {ours:?}");
    }
}

#[test]
fn preloads_are_bound_at_the_start_and_read_only_from_then_on() {
    let directory = tempfile::tempdir().unwrap();
    for allocator in allocators() {
        // How a library for musl is linked does not depend on the allocator, and each would have to be built first.
        let has_both = cfg!(feature = "test_all") || allocator == "mimalloc";
        let libcs = if has_both {
            &["glibc", "musl"][..]
        } else {
            &["glibc"]
        };
        for libc in libcs {
            let line = format!("preload -a {allocator} --libc {libc} -o");
            let written = run(reheap(&line).arg(directory.path())).succeeded();
            let file = fs::read_dir(directory.path())
                .unwrap()
                .next()
                .unwrap()
                .unwrap()
                .path();
            let found = protections(&file);
            let shown = format!("{allocator} for {libc}: {found:?} {}", written.stdout);
            assert_eq!(found.relro, Relro::Full, "{shown}");
            assert!(found.binds_now, "{shown}");
            is_closed(&found, &shown);
            fs::remove_file(file).unwrap();
        }
    }
}

/// What the program does with an argument.
fn started(file: &Path, what: &str) -> common::Outcome {
    run(Command::new(file).arg(what))
}

#[test]
fn a_thread_that_runs_out_of_its_stack_meets_a_guard_page() {
    let compiled = Compiled::new();
    for allocator in std::iter::once("stock").chain(allocators()) {
        started(&compiled.with(allocator, ""), "overflow").ended_with(42);
    }
}

#[test]
fn an_overwritten_stack_ends_the_program_and_its_canary_differs_at_each_start() {
    let compiled = Compiled::new();
    for allocator in std::iter::once("stock").chain(allocators()) {
        let program = compiled.with(allocator, "");
        let overwritten = started(&program, "overwrite");
        assert!(
            overwritten.status.signal().is_some(),
            "{allocator}: {overwritten:?}"
        );
        let canaries: BTreeSet<String> = (0..4)
            .map(|_| started(&program, "canary").succeeded().stdout)
            .collect();
        assert!(
            canaries.len() == 4 && !canaries.contains("0\n"),
            "{allocator}: {canaries:?}"
        );
    }
}
