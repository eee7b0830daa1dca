//! `reheap cc --target` and `reheap c++ --target`: programs for a processor that this machine does not have, run in an
//! emulator.

use crate::common::{INSTALL, Outcome, is_static_pie, marker_in, readelf, reheap, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs");
const THIS: &str = std::env::consts::ARCH;

/// This program calls no aligned function, so the marker refers to some that are not there.
const HELLO: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
    int main(void) { char *p = malloc(99); strcpy(p, \"hello\"); puts(p); free(p); }\n";

/// The other of the two processors that reheap runs on.
fn other() -> &'static str {
    match THIS {
        "aarch64" => "x86_64",
        _ => "aarch64",
    }
}

fn triple(processor: &str) -> String {
    format!("{processor}-unknown-linux-musl")
}

/// The libc.a that Rust links programs for a target with.
fn libc_of_rust(target: &str) -> PathBuf {
    let asked = ["--print", "target-libdir", "--target", target];
    let directory = run(Command::new("rustc").args(asked)).succeeded().stdout;
    let libc = Path::new(directory.trim()).join("self-contained/libc.a");
    assert!(
        libc.is_file(),
        "Rust's target `{target}` is missing; {INSTALL}"
    );
    libc
}

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("hello.c"), HELLO).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn reheap(&self, line: &str) -> Command {
        let mut command = reheap(line);
        command.current_dir(self.0.path());
        command
    }

    #[track_caller]
    fn makes(&self, line: &str) -> Outcome {
        run(&mut self.reheap(line)).succeeded()
    }

    #[track_caller]
    fn is_refused(&self, line: &str, texts: &[&str]) {
        run(&mut self.reheap(line)).ended_with(2).said(texts);
    }

    /// Checks that it is for the other processor, and has the allocator, and gives what it prints.
    #[track_caller]
    fn prints(&self, name: &str) -> String {
        let program = self.path(name);
        is_static_pie(&program);
        let machine = match other() {
            "aarch64" => "AArch64",
            _ => "X86-64",
        };
        assert!(readelf("-hW", &program).contains(machine));
        let inspected = run(reheap("inspect --json").arg(&program)).succeeded();
        let found: serde_json::Value = serde_json::from_str(&inspected.stdout).unwrap();
        let text = found.to_string();
        assert!(
            text.contains("\"confidence\":\"certain\"") && text.contains("\"name\":\"mimalloc\""),
            "{text}"
        );
        assert_eq!(marker_in(&program).unwrap().replaced, [""; 0]);
        let mut emulator = Command::new(format!("qemu-{}", other()));
        run(emulator.arg(&program)).succeeded().stdout
    }
}

#[test]
fn c_programs_for_another_processor_run_there_with_the_allocator() {
    let target = triple(other());
    libc_of_rust(&target);
    let directory = Directory::new();
    run(&mut reheap(&format!("libc --target {target}"))).succeeded(); // building the allocator is announced
    let outcome = directory.makes(&format!("cc --target {target} -O2 hello.c -o hello"));
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""));
    assert_eq!(directory.prints("hello"), "hello\n");
    let hello = marker_in(&directory.path("hello")).unwrap();
    assert!(
        hello.aligned.iter().all(|(_, address)| address.is_none()),
        "{:?}",
        hello.aligned
    );

    directory.makes(&format!(
        "cc --target={target} -O1 -c {PROGRAMS}/c/threads.c -o threads.o"
    ));
    directory.makes(&format!(
        "cc -a mimalloc --target {target} -t purge_delay=5 -- threads.o -o threads"
    ));
    assert_eq!(directory.prints("threads"), "ok threads\n");
    let threads = marker_in(&directory.path("threads")).unwrap();
    assert_eq!(threads.marker.tuning["purge_delay"], "5");
    assert!(
        threads.aligned[0].1.is_some(),
        "it calls {}",
        threads.aligned[0].0
    );
}

#[test]
fn a_cxx_program_for_another_processor_throws_and_has_threads() {
    let target = triple(other());
    libc_of_rust(&target);
    let directory = Directory::new();
    directory.makes(&format!(
        "c++ --target {target} -std=c++17 -O1 {PROGRAMS}/c++/language.cpp -o language"
    ));
    assert_eq!(directory.prints("language"), "ok language\n");
}

#[test]
fn the_target_of_this_machine_is_what_no_target_means() {
    let directory = Directory::new();
    let target = triple(THIS);
    directory.makes("cc -O2 hello.c -o unnamed");
    directory.makes(&format!("cc --target {target} -O2 hello.c -o named"));
    let read = |name| fs::read(directory.path(name)).unwrap();
    assert!(read("unnamed") == read("named"), "the files differ");
}

#[test]
fn what_cannot_be_made_for_a_target_is_refused_before_a_compiler_is_looked_for() {
    let directory = Directory::new();
    directory.is_refused(
        "cc --target aarch64-unknown-linux-gnu hello.c",
        &["does not link with musl", "hint: ", "`reheap run -a"],
    );
    // As Clang and Zig spell it.
    directory.is_refused(
        "cc --target=aarch64-linux-musl -c hello.c",
        &["hint: did you mean `--target aarch64-unknown-linux-musl`?"],
    );
    directory.is_refused(
        "cc --target x86_64-unknown-linux-mus -c hello.c",
        &["hint: did you mean `--target x86_64-unknown-linux-musl`?"],
    );
    directory.is_refused(
        "c++ --target i686-unknown-linux-musl -a hardened_malloc hello.c",
        &[
            "cannot use hardened_malloc for `i686-unknown-linux-musl`: ",
            "128-bit integers",
            "hint: use one of these: mimalloc, ",
        ],
    );
    directory.is_refused(
        &format!("cc --target {} -shared hello.c", triple(other())),
        &["cannot make a shared library", "--disable-shared"],
    );
    directory.is_refused("cc --target", &["--target <TRIPLE>"]);
}

#[test]
fn a_libc_for_another_processor_is_refused_with_its_target() {
    let directory = Directory::new();
    let libc = libc_of_rust(&triple(other()));
    directory.is_refused(
        &format!("cc --libc {} hello.c", libc.display()),
        &[
            &format!("is a libc for {}", triple(other())),
            &format!("hint: make programs for it: --target {}", triple(other())),
        ],
    );
}

#[test]
fn where_no_compiler_makes_programs_for_the_target_the_hint_gets_one() {
    let directory = Directory::new();
    let target = triple(other());
    let variable = format!("CC_{}", target.replace('-', "_"));
    let mut command = directory.reheap(&format!("cc --target {target} -c hello.c"));
    run(command.env(variable, "/nowhere/cc"))
        .ended_with(1)
        .said(&[
            &format!("cannot find a C compiler for `{target}`"),
            &format!("hint: reheap doctor --fix --target {target}"),
        ]);
}
