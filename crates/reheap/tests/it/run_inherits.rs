//! `reheap run` leaves the program what the caller of reheap left it: environment, open files, signals.
//!
//! Each test starts a program twice, by itself and by `reheap run`, and compares what the program says of its own
//! process.

use crate::common;
use crate::common::{cache, compile_for_32_bits, reheap, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes into the file that it is given as its first argument, because the standard streams may be closed.
const STATE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
extern char **environ;
int main(int count, char **words) {
    int is_open[10];
    for (int i = 0; i < 10; i++) is_open[i] = fcntl(i, F_GETFD) != -1;
    FILE *file = fopen(words[1], "w");
    for (int i = 0; i < count; i++) fprintf(file, "argument %s\n", words[i]);
    for (int i = 0; i < 10; i++) fprintf(file, "file %d: %d\n", i, is_open[i]);
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int i = 1; i < 65; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) != 0) continue;
        int is_ignored = action.sa_handler == SIG_IGN;
        fprintf(file, "signal %d: ignored %d, blocked %d\n", i, is_ignored, sigismember(&blocked, i));
    }
    for (char **entry = environ; *entry; entry++) fprintf(file, "entry %s\n", *entry);
    return fclose(file) != 0;
}
"#;

/// Changes what its first word says, and becomes the rest.
const CALLER: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
static char entry[2][5000];
int main(int count, char **words) {
    const char *how = words[1];
    if (count < 3) return 2;
    if (strcmp(how, "SIGPIPE ignored") == 0) signal(SIGPIPE, SIG_IGN);
    if (strcmp(how, "SIGPIPE as usual") == 0) signal(SIGPIPE, SIG_DFL);
    if (strcmp(how, "SIGCHLD ignored") == 0) signal(SIGCHLD, SIG_IGN);
    if (strcmp(how, "signals blocked") == 0) {
        sigset_t blocked;
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGPIPE);
        sigaddset(&blocked, SIGUSR1);
        sigprocmask(SIG_SETMASK, &blocked, NULL);
        signal(SIGHUP, SIG_IGN);
        signal(SIGSEGV, SIG_IGN);
    }
    if (strcmp(how, "input closed") == 0) close(0);
    if (strcmp(how, "all closed") == 0) for (int i = 0; i < 3; i++) close(i);
    if (strcmp(how, "another open") == 0) dup2(1, 7);
    if (strcmp(how, "odd environment") == 0) {
        snprintf(entry[0], sizeof entry[0], "PATH=%s", getenv("PATH"));
        snprintf(entry[1], sizeof entry[1], "REHEAP_CACHE_DIR=%s", getenv("REHEAP_CACHE_DIR"));
        char *entries[] = {"Z=1", "odd", entry[0], "=x=y", "", "A=1", entry[1], "Z=2", "LATIN=\xe9", "odd", "=", "A", NULL};
        environ = entries;
    }
    execv(words[2], words + 2);
    return 1;
}
"#;

fn compile(directory: &Path, name: &str, source: &str) -> PathBuf {
    let (file, program) = (directory.join(format!("{name}.c")), directory.join(name));
    fs::write(&file, source).unwrap();
    run(Command::new("cc").arg(file).arg("-o").arg(&program)).succeeded();
    program
}

/// What the program says when it was started by these words.
fn said(command: &mut Command, file: &Path) -> Vec<String> {
    run(command.env_remove("LD_PRELOAD")).succeeded();
    let text = fs::read(file).unwrap();
    let text = text.split(|&byte| byte == b'\n');
    let lines = text.map(|line| line.escape_ascii().to_string());
    lines.collect()
}

#[test]
fn a_program_finds_all_that_its_caller_left_it() {
    run(&mut reheap("run -a mimalloc -- true")).succeeded(); // the library is built by now
    let directory = tempfile::tempdir().unwrap();
    let state = compile(directory.path(), "state", STATE);
    let caller = compile(directory.path(), "caller", CALLER);
    let file = directory.path().join("said");
    for how in [
        "SIGPIPE ignored",
        "SIGPIPE as usual",
        "SIGCHLD ignored",
        "signals blocked",
        "input closed",
        "all closed",
        "another open",
        "odd environment",
    ] {
        let started = |words: &[&str]| {
            let mut command = Command::new(&caller);
            command.arg(how).args(words).arg(&state);
            command.env("REHEAP_CACHE_DIR", cache());
            said(command.arg(&file).arg("--check"), &file)
        };
        let usual = started(&[]);
        let program = env!("CARGO_BIN_EXE_reheap");
        for allocator in ["stock", "mimalloc"] {
            let mut lines = started(&[program, "run", "-a", allocator, "--"]);
            let preload = lines
                .iter()
                .position(|line| line.starts_with("entry LD_PRELOAD="));
            assert_eq!(preload.is_some(), allocator != "stock", "{lines:#?}");
            preload.map(|position| lines.remove(position));
            let differ = lines.iter().zip(&usual).find(|(line, usual)| line != usual);
            assert_eq!(differ, None, "{how}, {allocator}");
            assert_eq!(lines.len(), usual.len(), "{how}, {allocator}");
        }
    }
}

#[test]
fn a_32_bit_program_that_a_program_starts_says_no_more_than_usual() {
    let directory = tempfile::tempdir().unwrap();
    let caller = compile(directory.path(), "caller", CALLER);
    let narrow = directory.path().join("narrow");
    compile_for_32_bits(&directory.path().join("caller.c"), &narrow);
    for allocator in ["mimalloc", "jemalloc"] {
        let mut command = reheap(&format!("run -a {allocator} --"));
        command.arg(&caller).arg("as usual").arg(&narrow);
        // Too few words, which it answers with its exit code alone.
        let outcome = run(command.env_remove("LD_PRELOAD")).ended_with(2);
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", ""));
    }
}

/// Some process managers do so: then waitpid(2) tells nobody anything.
#[test]
fn reheap_can_start_programs_where_its_caller_ignores_that_they_end() {
    let directory = tempfile::tempdir().unwrap();
    let caller = compile(directory.path(), "caller", CALLER);
    let program = env!("CARGO_BIN_EXE_reheap");
    for line in [
        "run --verify --for 1 -a mimalloc -- ls",
        "bench --rounds 1 --variant glibc -- true",
    ] {
        let mut command = Command::new(&caller);
        command.arg("SIGCHLD ignored").arg(program);
        command.args(common::words(line)).env_remove("LD_PRELOAD");
        run(command.env("REHEAP_CACHE_DIR", cache())).succeeded();
    }
}
