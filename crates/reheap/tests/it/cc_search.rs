//! `reheap cc` looks for a compiler once, and again when something changes that decides which one it is.

use crate::common;
use crate::common::{reheap, run};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that appends its arguments to a file beside it and then starts another one with them.
const RECORDER: &str = r#"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 8);
    if (length < 0) return 9;
    strcpy(path + length, ".calls");
    FILE *calls = fopen(path, "a");
    for (int i = 1; i < count; i++) fprintf(calls, "%s ", words[i]);
    fprintf(calls, "\n");
    fclose(calls);
    words[0] = STARTS; // GCC looks for its parts beside the name
    execvp(STARTS, words);
    return 9;
}
"#;

/// A directory with a source file, a cache and compilers of its own.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = "#include <string.h>\nint length(const char *word) { return strlen(word); }\n";
        fs::write(directory.path().join("length.c"), source).unwrap();
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a compiler that records how it is called, and starts another one.
    fn recorder(&self, name: &str, starts: &str) -> PathBuf {
        let (source, program) = (self.path("recorder.c"), self.path(name));
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&source, RECORDER).unwrap();
        // A new file in its place, as a package manager puts it there.
        let new = self.path("recorder.new");
        let mut cc = Command::new("cc");
        cc.arg(format!("-DSTARTS=\"{starts}\"")).arg(&source);
        run(cc.arg("-o").arg(&new)).succeeded();
        fs::rename(new, &program).unwrap();
        program
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The calls of such a compiler since this was asked last.
    fn calls_of(&self, recorder: &Path) -> Vec<String> {
        let calls = PathBuf::from(format!("{}.calls", recorder.display()));
        let text = fs::read_to_string(&calls).unwrap_or_default();
        let _ = fs::remove_file(calls);
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn compile(&self) -> Command {
        let mut command = reheap("cc -c length.c -o length.o");
        command.current_dir(self.0.path());
        command.env("REHEAP_CACHE_DIR", self.path("cache"));
        command
    }

    fn compile_with(&self, compiler: &Path) -> Command {
        let mut command = self.compile();
        let variable = format!("CC_{}", common::target().replace('-', "_"));
        command.env(variable, compiler);
        command
    }

    fn records(&self) -> Vec<PathBuf> {
        let directory = fs::read_dir(self.path("cache/compilers")).unwrap();
        directory.map(|entry| entry.unwrap().path()).collect()
    }
}

const COMPILE: &str = "-fPIE -c length.c -o length.o";

#[test]
fn a_compiler_that_was_found_is_started_once_for_each_file() {
    let place = Place::new();
    let compiler = place.recorder("my-cc", "musl-gcc");
    run(&mut place.compile_with(&compiler)).succeeded();
    assert!(place.calls_of(&compiler).len() > 1, "it is tried first");
    run(&mut place.compile_with(&compiler)).succeeded();
    assert_eq!(place.calls_of(&compiler), [COMPILE]);
    let made = common::kept_in(&place.path("cache"));
    assert_eq!(made, ["compilers"], "an object needs no libc");
}

#[test]
fn a_compiler_that_was_replaced_is_tried_again() {
    let place = Place::new();
    let compiler = place.recorder("my-cc", "musl-gcc");
    run(&mut place.compile_with(&compiler)).succeeded();
    place.recorder("my-cc", "cc");
    run(&mut place.compile_with(&compiler))
        .ended_with(1)
        .said(&["uses the headers of glibc"]);
    place.recorder("my-cc", "musl-gcc");
    place.calls_of(&compiler);
    run(&mut place.compile_with(&compiler)).succeeded();
    assert!(place.calls_of(&compiler).len() > 1);
}

#[test]
fn a_script_that_starts_another_compiler_than_before_is_tried_again() {
    let place = Place::new();
    let compiler = place.recorder("inner", "musl-gcc");
    let script = place.script("outer", "exec \"${0%/*}/inner\" \"$@\"");
    run(&mut place.compile_with(&script)).succeeded();
    place.calls_of(&compiler);
    run(&mut place.compile_with(&script)).succeeded();
    assert_eq!(place.calls_of(&compiler), ["--version", COMPILE]);
    let other = "case $1 in --version) echo 'cc 99' ;; *) exec musl-gcc \"$@\" ;; esac";
    fs::remove_file(&compiler).unwrap();
    place.script("inner", &format!("echo \"$*\" >> \"$0.calls\"\n{other}"));
    run(&mut place.compile_with(&script)).succeeded();
    assert!(place.calls_of(&compiler).len() > 3);
}

#[test]
fn a_compiler_that_comes_first_is_found_when_it_appears() {
    let place = Place::new();
    fs::create_dir(place.path("front")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", place.path("front").display());
    let mut compile = place.compile();
    run(compile.env("PATH", &path)).succeeded();
    let name = format!("front/{}-linux-musl-gcc", std::env::consts::ARCH);
    let compiler = place.recorder(&name, "musl-gcc");
    run(compile.env("PATH", &path)).succeeded();
    assert!(!place.calls_of(&compiler).is_empty());
}

#[test]
fn a_record_that_is_damaged_is_made_again() {
    let place = Place::new();
    let compiler = place.recorder("my-cc", "musl-gcc");
    run(&mut place.compile_with(&compiler)).succeeded();
    let [record] = &place.records()[..] else {
        panic!("{:?}", place.records())
    };
    let whole = fs::read(record).unwrap();
    for damage in [
        &b""[..],
        &whole[..whole.len() / 2],
        b"{\"found\":[]}",
        b"\xff\0",
    ] {
        fs::write(record, damage).unwrap();
        run(&mut place.compile_with(&compiler)).succeeded();
        place.calls_of(&compiler);
        run(&mut place.compile_with(&compiler)).succeeded();
        assert_eq!(place.calls_of(&compiler), [COMPILE]);
    }
}

#[test]
fn a_cache_that_cannot_be_written_costs_only_the_search() {
    let place = Place::new();
    fs::write(place.path("cache"), "a file").unwrap();
    for _ in 0..2 {
        let outcome = run(&mut place.compile()).succeeded();
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""));
    }
}

#[test]
fn compilers_that_are_looked_for_at_once_do_not_disturb_each_other() {
    let place = Place::new();
    let compiler = place.recorder("my-cc", "musl-gcc");
    let start = |number| {
        let mut command = place.compile_with(&compiler);
        command.arg(format!("-DNUMBER={number}"));
        command.stderr(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = (0..6).map(start).collect();
    for child in started {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stderr, b"");
    }
    assert_eq!(place.records().len(), 1, "no temporary file is left");
    place.calls_of(&compiler);
    run(&mut place.compile_with(&compiler)).succeeded();
    assert_eq!(place.calls_of(&compiler), [COMPILE]);
}
