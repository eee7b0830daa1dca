//! `reheap graft`: static executables get another allocator after they were linked, and lose it again.

use crate::common::multi_call::{Check, MultiCall};
use crate::common::suite::{allocators, passes, program, scratch_directory};
use crate::common::{marker_in, prints, reheap, run};
use crate::conformance_c::{AT_REST, COLLECTS, EVERY, FORKS, FRUGAL, GROWS, LIMITS};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What depends on where the program is linked to, and on its libc.
pub(crate) const FEW: &[Check] = &[
    Check("every function of the family keeps its contract", "family"),
    Check(
        "POSIX and C11 threads end with destructors that use the heap",
        "thread_exit",
    ),
    Check("the libc allocates for itself and its caller", "libc_paths"),
    Check("forks while other threads allocate succeed", "fork"),
];

/// Programs that do not also have musl's calloc for itself. Nothing in the code shows which of the two is the program's.
const STRIPPED: &[Check] = &[
    Check("every function of the family keeps its contract", "family"),
    Check("realloc chains keep their contents", "realloc_chains"),
    Check("sixty-four threads free each other's blocks", "threads"),
    Check("memory functions do what loops do", "memory_functions"),
];

/// A compiler of static programs with the allocator of their libc.
pub(crate) fn compiler(line: &str) -> Command {
    let mut words = line.split(' ');
    let first = words.next().unwrap();
    let mut compiler = match first {
        "reheap" => reheap(&line[first.len() + 1..]),
        program => {
            let mut compiler = Command::new(program);
            compiler.args(words);
            compiler
        }
    };
    compiler.args(["-std=gnu11", "-O2", "-fno-builtin"]);
    compiler
}

const STATIC_PIE_WITH_MUSL: &str = "reheap cc -a stock -- -static-pie -fPIE";

#[track_caller]
fn graft_in_place(allocator: &str, executable: &Path) {
    run(reheap("graft -a")
        .arg(allocator)
        .arg(executable)
        .arg("-o")
        .arg(executable))
    .succeeded();
}

#[track_caller]
fn conforms(line: &str, allocator: &str, checks: &[Check]) {
    let graft = |executable: &Path| graft_in_place(allocator, executable);
    let built = MultiCall::build_and_change(|| compiler(line), checks, graft);
    built.all_pass(checks, |executable| Command::new(executable));
}

#[test]
fn stripped_executables_conform() {
    conforms(&format!("{STATIC_PIE_WITH_MUSL} -s"), "mimalloc", STRIPPED);
    conforms("musl-gcc -static -s", "mimalloc", STRIPPED);
}

#[test]
fn executables_at_a_fixed_address_with_musl_conform() {
    conforms("musl-gcc -static", "mimalloc", FEW);
}

#[test]
fn executables_with_glibc_conform() {
    conforms("gcc -static -pthread", "mimalloc", FEW);
    conforms("gcc -static-pie -fPIE -pthread", "mimalloc", FEW);
}

/// An allocator that can be grafted, in one kind of file.
macro_rules! conformance {
    ($allocator:literal, $($list:ident)*) => {
        #[test]
        fn all_programs_conform() {
            let checks = [$(super::$list),*].concat();
            super::conforms(super::STATIC_PIE_WITH_MUSL, $allocator, &checks);
        }

        #[test]
        fn a_crowd_of_threads_leaves_nothing_behind() {
            super::a_crowd_leaves_nothing_behind($allocator, "none");
        }

        #[test]
        fn inspect_names_it_and_the_original_comes_back() {
            super::is_named_and_undone($allocator);
        }
    };
}

/// An allocator that no finished executable can have, and a part of the reason.
macro_rules! refusal {
    ($allocator:literal, $reason:literal) => {
        #[test]
        fn it_is_refused_with_the_reason() {
            super::is_refused($allocator, $reason);
        }
    };
}

allocators! {
    mimalloc("mimalloc", EVERY FORKS LIMITS GROWS COLLECTS AT_REST FRUGAL): conformance;
    jemalloc("jemalloc", "thread's own memory"): refusal;
    hardened_malloc_light("hardened_malloc-light", "handlers around a fork"): refusal;
    rpmalloc("rpmalloc", "tell it when a thread ends"): refusal;
    snmalloc("snmalloc", "tell it when a thread ends"): refusal;
    snmalloc_checks("snmalloc-checks", "tell it when a thread ends"): refusal;
    hardened_malloc("hardened_malloc", "handlers around a fork"): refusal;
    + test_all {
        mimalloc3("mimalloc3", EVERY FORKS LIMITS GROWS COLLECTS): conformance;
        mimalloc_secure("mimalloc-secure", EVERY FORKS LIMITS GROWS COLLECTS): conformance;
        mimalloc2_secure("mimalloc2-secure", EVERY FORKS LIMITS GROWS COLLECTS AT_REST): conformance;
    }
}

#[track_caller]
fn a_crowd_leaves_nothing_behind(allocator: &str, strip: &str) {
    let compiler =
        format!("rustc --edition 2021 -O -C strip={strip} --target x86_64-unknown-linux-musl");
    let tool = Tool::new(&compiler, "crowd.rs");
    let grafted = tool.grafted(allocator);
    assert_eq!(prints(&grafted), prints(&tool.path));
}

#[track_caller]
fn is_named_and_undone(allocator: &str) {
    let tool = small();
    let grafted = tool.grafted(allocator);
    run(reheap("inspect").arg(&grafted))
        .succeeded()
        .printed(&[&format!(": {allocator} "), "; grafted; "]);
    run(reheap("inspect --expect").arg(allocator).arg(&grafted)).succeeded();
    run(reheap("graft --undo").arg(&grafted)).succeeded();
    assert_eq!(fs::read(&grafted).unwrap(), tool.bytes());
}

#[track_caller]
fn is_refused(allocator: &str, reason: &str) {
    let tool = small();
    let why = format!("cannot graft {allocator}: ");
    run(&mut tool.graft(&format!("-a {allocator}")))
        .ended_with(2)
        .said(&[&why, reason, "hint: use mimalloc"]);
    tool.is_alone();
}

/// A program that is linked, and a place for what comes of it.
struct Tool {
    directory: tempfile::TempDir,
    path: PathBuf,
}

impl Tool {
    /// Compiles a program of `tests/programs`.
    #[track_caller]
    fn new(compiler: &str, source: &str) -> Self {
        let directory = scratch_directory();
        let path = directory.path().join("tool");
        let mut words = compiler.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .arg(program(source))
            .arg("-o")
            .arg(&path);
        run(&mut command).succeeded();
        Self { directory, path }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn graft(&self, flags: &str) -> Command {
        let mut command = reheap(&format!("graft {flags}"));
        command.arg(&self.path);
        command
    }

    /// The grafted program, which has another name by default.
    #[track_caller]
    fn grafted(&self, allocator: &str) -> PathBuf {
        run(&mut self.graft(&format!("-a {allocator}"))).succeeded();
        self.path("tool.reheap")
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Nothing was written.
    #[track_caller]
    fn is_alone(&self) {
        assert_eq!(fs::read_dir(&self.directory).unwrap().count(), 1);
    }
}

/// A small program with musl.
fn small() -> Tool {
    Tool::new("musl-gcc -static", "hello.c")
}

#[test]
fn programs_in_cxx_with_exceptions_and_global_objects_work() {
    let tool = Tool::new("g++ -std=c++17 -O2 -static -pthread", "c++/language.cpp");
    passes(&tool.grafted("mimalloc"), "language");
}

#[test]
fn stripped_programs_in_rust_work_and_their_threads_leave_nothing_behind() {
    a_crowd_leaves_nothing_behind("mimalloc", "symbols");
}

#[test]
fn the_original_comes_back_byte_for_byte() {
    let tool = small();
    fs::set_permissions(&tool.path, Permissions::from_mode(0o750)).unwrap();
    let original = tool.bytes();
    let grafted = tool.grafted("mimalloc");
    assert_eq!(tool.bytes(), original);
    assert_eq!(
        grafted.metadata().unwrap().permissions().mode() & 0o7777,
        0o750
    );
    let back = tool.path("back");
    run(reheap("graft --undo").arg(&grafted).arg("-o").arg(&back))
        .succeeded()
        .printed(&["the original again"]);
    assert_eq!(fs::read(&back).unwrap(), original);
    // In place, without another name.
    run(reheap("graft --undo").arg(&grafted)).succeeded();
    assert_eq!(fs::read(&grafted).unwrap(), original);
    run(reheap("graft --undo").arg(&grafted))
        .ended_with(1)
        .said(&["reheap has grafted nothing into it"]);
}

#[test]
fn inspect_says_what_is_grafted_and_whether_the_functions_lead_there() {
    let tool = small();
    let path = &tool.grafted("mimalloc");
    run(reheap("inspect").arg(path))
        .succeeded()
        .printed(&["mimalloc 2.3.2; grafted; static, musl"]);
    run(reheap("inspect --expect mimalloc").arg(path)).succeeded();
    // Without the jump at the beginning of malloc, the allocator is not in use.
    let mut bytes = fs::read(path).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let entry = &text[text.find("\"entries\"").unwrap()..];
    let malloc: usize = entry
        .split(':')
        .nth(3)
        .unwrap()
        .split(',')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    bytes[malloc - 0x40_0000] = 0xcc;
    fs::write(path, bytes).unwrap();
    run(reheap("inspect --expect mimalloc").arg(path)).ended_with(3);
    run(reheap("graft").arg(path))
        .ended_with(1)
        .said(&["`malloc` does not lead to"]);
}

#[test]
fn a_check_says_what_would_change_and_writes_nothing() {
    let tool = small();
    run(&mut tool.graft("--check")).succeeded().printed(&[
        "can take the place of its own allocator",
        "would lead there",
        "found by symbols",
    ]);
    let outcome = run(&mut tool.graft("--check --json")).succeeded();
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["path"], Value::Null);
    assert_eq!(json["allocator"], "mimalloc");
    assert_eq!(json["found_by"], "symbols");
    tool.is_alone();
}

#[test]
fn options_are_in_the_file() {
    let tool = Tool::new("musl-gcc -static", "hello.c");
    run(&mut tool.graft("-t purge_delay=0 --json")).succeeded();
    let marker = marker_in(&tool.path("tool.reheap")).unwrap();
    assert_eq!(marker.marker.tuning["purge_delay"], "0");
}

#[test]
fn what_cannot_work_is_refused_and_nothing_is_written() {
    let dynamic = Tool::new("cc", "hello.c");
    run(&mut dynamic.graft(""))
        .ended_with(1)
        .said(&["dynamic linker", "hint: reheap run -- "]);
    dynamic.is_alone();
    let stripped = Tool::new("gcc -static -s", "hello.c");
    run(&mut stripped.graft(""))
        .ended_with(1)
        .said(&["all of glibc's malloc"]);
    stripped.is_alone();

    let tool = small();
    let refuses = |flags: &str, code: i32, texts: &[&str]| {
        run(&mut tool.graft(flags)).ended_with(code).said(texts);
        tool.is_alone();
    };
    refuses(
        "-a stock",
        2,
        &["it is the allocator that programs already have"],
    );
    refuses("-t purge_delay=never", 2, &["purge_delay"]);
    refuses("--undo", 1, &["reheap has grafted nothing into it"]);
    fs::set_permissions(&tool.path, Permissions::from_mode(0o4755)).unwrap();
    refuses("", 1, &["other rights", "hint: --force"]);
    fs::set_permissions(&tool.path, Permissions::from_mode(0o755)).unwrap();

    let original = tool.bytes();
    let changed = |bytes: &[u8], texts: &[&str]| {
        fs::write(&tool.path, bytes).unwrap();
        run(&mut tool.graft("")).ended_with(1).said(texts);
        tool.is_alone();
    };
    changed(
        &[&original[..], b"data that the program looks for"].concat(),
        &["31 bytes"],
    );
    changed(&original[..original.len() / 2], &["cannot graft"]);
    changed(b"#!/bin/sh\n", &["cannot graft"]);
    changed(b"", &["cannot graft"]);
    run(&mut reheap("graft /"))
        .ended_with(1)
        .said(&["cannot read `/`"]);
    run(&mut reheap("graft ./no-such-file"))
        .ended_with(1)
        .said(&["cannot read"]);
}

#[test]
fn a_malloc_of_the_programs_own_is_refused() {
    for compiler in ["musl-gcc -static", "gcc -static"] {
        let tool = Tool::new(&format!("{compiler} -fno-builtin"), "pool.c");
        run(&mut tool.graft(""))
            .ended_with(1)
            .said(&["its malloc is neither musl's nor glibc's"]);
        tool.is_alone();
    }
}

#[test]
fn a_link_stays_and_what_is_no_file_is_not_replaced() {
    let tool = small();
    let (link, pipe) = (tool.path("link"), tool.path("pipe"));
    symlink("tool", &link).unwrap();
    run(Command::new("mkfifo").arg(&pipe)).succeeded();
    run(tool.graft("-o").arg(&pipe))
        .ended_with(1)
        .said(&["it is not a regular file"]);
    run(reheap("graft").arg(&pipe))
        .ended_with(1)
        .said(&["it is not a regular file"]);
    graft_in_place("mimalloc", &link);
    assert!(link.is_symlink());
    assert!(marker_in(&tool.path).is_some());
}

#[test]
fn other_rights_stay_with_their_owner() {
    let tool = small();
    if chown(&tool.path, Some(65_534), Some(65_534)).is_err() {
        return; // only root can give files away
    }
    fs::set_permissions(&tool.path, Permissions::from_mode(0o6755)).unwrap();
    run(&mut tool.graft("--force")).succeeded();
    let grafted = tool.path("tool.reheap").metadata().unwrap();
    assert_eq!((grafted.uid(), grafted.gid()), (65_534, 65_534));
    assert_eq!(grafted.mode() & 0o7777, 0o6755);
}

#[test]
fn what_has_another_allocator_already_is_refused() {
    let tool = small();
    let grafted = tool.grafted("mimalloc");
    run(reheap("graft").arg(&grafted))
        .ended_with(1)
        .said(&["grafted into it already", "hint: reheap graft --undo"]);
    let linked = tool.path("linked");
    run(reheap("cc --")
        .arg(program("hello.c"))
        .arg("-o")
        .arg(&linked))
    .succeeded();
    run(reheap("graft").arg(&linked))
        .ended_with(1)
        .said(&["reheap has linked it with an allocator already"]);
}
