//! `reheap check-memory`: what allocators notice in programs with errors, and in programs without.

use crate::common::command::{EVENT_DEADLINE, Running, ends_within, make_fifo};
use crate::common::image::in_namespace;
use crate::common::programs::Programs;
use crate::common::{Outcome, cache, library_of_glibcs_checks, reheap, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Misuses memory as its argument says.
const MISUSES: &str = include_str!("../programs/misuses.c");

fn misuses(programs: &Programs, compiler: &str) -> PathBuf {
    programs.compile(compiler, "misuses", MISUSES, &["-g", "-O1"])
}

fn check(options: &str, program: &Path, words: &[&str]) -> Outcome {
    let mut command = reheap(&format!("check-memory {options} --"));
    run(command.arg(program).args(words))
}

#[test]
fn an_error_that_an_allocator_notices_is_shown_with_its_stack() {
    for compiler in ["cc", "musl-gcc"] {
        let programs = Programs::new();
        let program = misuses(&programs, compiler);
        let outcome = check(
            "--runs 2 -a mimalloc-secure -a rpmalloc",
            &program,
            &["overflow"],
        );
        let stack = match compiler {
            "cc" => ["drop  ", "misuses.c:18", "main  "],
            // Debian's musl is built without tables for stacks, so nothing leads out of its abort.
            _ => [""; 3],
        };
        outcome
            .ended_with(3)
            .printed(&["misuses memory: noticed by mimalloc-secure"])
            .printed(&[
                "mimalloc-secure stopped misuses in 2 of 2 runs: mimalloc: error: buffer overflow",
            ])
            .printed(&["rpmalloc noticed nothing in 2 runs"])
            .printed(&stack)
            .did_not_print("its own words")
            .did_not_print("libc_start");
    }
}

#[test]
fn an_error_that_is_noticed_but_not_stopped_counts() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check("--runs 1 -a mimalloc-secure", &program, &["twice"])
        .ended_with(3)
        .printed(&["mimalloc-secure noticed an error and let it go on in 1 of 1 run"])
        .printed(&["double free detected"])
        .printed(&["stock stopped misuses in 1 of 1 run: free(): double free detected"]);
}

#[test]
fn children_are_checked_too() {
    let programs = Programs::new();
    misuses(&programs, "cc");
    let script = programs.script(
        "script",
        "#!/bin/sh\n\"${0%/*}/misuses\" overflow\nexit 0\n",
    );
    check("--runs 1 -a mimalloc-secure", &script, &[])
        .ended_with(3)
        .printed(&["mimalloc-secure stopped misuses in 1 of 1 run"]);
}

/// Without the right to look into every process.
fn check_unprivileged(options: &str, program: &Path, words: &[&str]) -> Outcome {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_ptrace", "--inh-caps=-all"]);
    command
        .arg(env!("CARGO_BIN_EXE_reheap"))
        .arg("check-memory");
    command.args(options.split(' ')).arg("--").arg(program);
    run(command.args(words).env("REHEAP_CACHE_DIR", cache()))
}

#[test]
fn a_program_that_lets_nobody_look_into_it_is_seen_to_die() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check_unprivileged("--runs 1 -a hardened_malloc", &program, &["twice, closed"])
        .ended_with(3)
        .printed(&["hardened_malloc stopped misuses in 1 of 1 run: fatal allocator error"])
        .printed(&["stock stopped misuses in 1 of 1 run: free(): double free"]);
    check_unprivileged("--runs 1 -a hardened_malloc", &program, &["fault, closed"])
        .ended_with(3)
        .printed(&["with stock misuses crashed in 1 of 1 run: SIGSEGV at 0x8\n"]);
}

#[test]
fn the_same_message_from_two_programs_is_two_findings() {
    let programs = Programs::new();
    misuses(&programs, "cc");
    programs.compile("cc", "other", MISUSES, &["-O1"]);
    let script = programs.script(
        "script",
        "#!/bin/sh\n\"${0%/*}/misuses\" overflow\n\"${0%/*}/other\" overflow\nexit 0\n",
    );
    check("--runs 2 -a hardened_malloc", &script, &[])
        .ended_with(3)
        .printed(&[
            "hardened_malloc stopped misuses in 2 of 2 runs: fatal allocator error",
            "hardened_malloc stopped other in 2 of 2 runs: fatal allocator error",
        ]);
}

#[test]
fn what_the_libcs_malloc_stops_is_not_the_allocators() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    let program = program.to_str().unwrap();
    let words = ["-i", program, "twice"];
    check("--runs 1 -a hardened_malloc", Path::new("env"), &words)
        .ended_with(3)
        .printed(&[
            "misuses memory: noticed by stock\n",
            "with hardened_malloc the libc's own malloc stopped misuses in 1 of 1 run\n",
            "stderr: free(): double free detected",
            "stock stopped misuses in 1 of 1 run: free(): double free detected",
        ])
        .did_not_print("hardened_malloc stopped");
}

#[test]
fn a_message_that_ends_no_program_is_somebody_elses() {
    let programs = Programs::new();
    let script = programs.script(
        "script",
        "#!/bin/sh\necho \"test 'double free or corruption (out)' ... ok\" >&2\n",
    );
    check("--runs 1 -a hardened_malloc", &script, &[])
        .ended_with(0)
        .printed(&["stock noticed nothing in 1 run\n"]);
}

#[test]
fn a_message_that_comes_out_of_a_log_is_shown_beside_what_was_stopped() {
    let programs = Programs::new();
    misuses(&programs, "cc");
    let script = programs.script(
        "script",
        "#!/bin/sh\n\"${0%/*}/misuses\" overflow 2> \"$0.log\"\ncat \"$0.log\" >&2\n",
    );
    check("--runs 1 -a hardened_malloc", &script, &[])
        .ended_with(3)
        .printed(&["hardened_malloc stopped misuses in 1 of 1 run\n"])
        .printed(&["with hardened_malloc one of these processes wrote in 1 of 1 run: fatal alloc"]);
}

#[test]
fn a_crash_is_told_apart_from_an_error_that_is_noticed() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check("--runs 1 -a mimalloc-secure", &program, &["fault"])
        .ended_with(3)
        .printed(&["crashes with mimalloc-secure, stock"])
        .printed(&["with stock misuses crashed in 1 of 1 run: SIGSEGV at 0x8"])
        .did_not_print("misuses memory");
}

#[test]
fn an_error_that_a_program_survived_is_not_what_it_died_of() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check("--runs 1 -a mimalloc-secure", &program, &["twice, fault"])
        .ended_with(3)
        .printed(&[
            "with mimalloc-secure misuses crashed in 1 of 1 run: SIGSEGV at 0x8\n",
            "mimalloc-secure noticed an error and let it go on in 1 of 1 run",
        ])
        .did_not_print("stopped");
}

#[test]
fn a_program_that_ends_itself_is_not_stopped_by_an_allocator() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    for how in ["trap", "survived, abort"] {
        check("--runs 1 -a mimalloc-secure", &program, &[how])
            .ended_with(3)
            .printed(&["ends itself by a signal with mimalloc-secure, stock\n"])
            .printed(&[
                "with mimalloc-secure misuses ended itself in 1 of 1 run: SIG",
                "    main  ",
            ])
            .did_not_print("0x8");
    }
    let how = "child twice, abort";
    check("--runs 1 -a mimalloc-secure", &program, &[how])
        .ended_with(3)
        .printed(&["with mimalloc-secure misuses ended itself in 1 of 1 run: SIGABRT\n"])
        .printed(&["mimalloc-secure noticed an error and let it go on in 1 of 1 run: "])
        .printed(&["with stock misuses ended itself in 1 of 1 run: SIGABRT\n"])
        .did_not_print("stopped");
}

#[test]
fn what_cannot_be_told_of_two_processes_is_not_invented() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    let options = "--runs 2 -a mimalloc-secure";
    check(options, &program, &["two die"])
        .ended_with(3)
        .printed(&["mimalloc-secure stopped misuses in 2 of 2 runs\n    free  "])
        .printed(&["with mimalloc-secure one of these processes wrote in 2 of 2 runs: mimalloc: "])
        .printed(&["of size 72: write after", "of size 640"]);
    check(options, &program, &["two die alike"])
        .ended_with(3)
        .printed(&["mimalloc-secure stopped misuses in 2 of 2 runs: mimalloc: error: buffer "])
        .did_not_print("one of these");
}

#[test]
fn each_different_message_is_a_finding_wherever_it_is_in_a_line() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    for how in ["different", "in a line"] {
        let outcome = check("--runs 2 -a mimalloc-secure", &program, &[how]).ended_with(3);
        let text = "mimalloc-secure noticed an error and let it go on in 2 of 2 runs: mimalloc: error: double free ";
        assert_eq!(outcome.stdout.matches(text).count(), 2, "{outcome:?}");
    }
}

#[test]
fn a_lack_of_memory_and_words_like_an_allocators_are_no_findings() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check("--runs 1 -a mimalloc-secure", &program, &["no memory"]).ended_with(0);
}

#[test]
fn programs_that_were_not_checked_are_named() {
    let programs = Programs::new();
    misuses(&programs, "cc");
    programs.compile("cc", "fixed", MISUSES, &["-static"]);
    let script = programs.script(
        "script",
        "#!/bin/sh\n\"${0%/*}/fixed\"\nenv -i \"${0%/*}/misuses\"\nexit 0\n",
    );
    check(
        "--runs 1 -a mimalloc-secure -a stock[debug=full]",
        &script,
        &[],
    )
    .ended_with(0)
    .printed(&["fixed was not checked: it is static"])
    .printed(&["misuses was not checked: it was started without LD_PRELOAD\n"]);
}

/// Counts the days of a month into a list that has no room for the last one.
const CALENDAR: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    short *days = malloc(30 * sizeof *days);
    for (int day = 0; day <= 30; day++) days[day] = (short)(day + 1);
    printf("%d\n", days[30]);
    free(days);
    free(days);
    return 0;
}
"#;

#[test]
fn a_containers_first_process_is_checked_to_its_end() {
    let programs = Programs::new();
    let calendar = programs.compile("cc", "calendar", CALENDAR, &["-O0"]);
    let user = if rustix::process::geteuid().is_root() {
        ""
    } else {
        "--user --map-root-user"
    };
    let mut command = reheap("check-memory --runs 1 -a hardened_malloc -- unshare");
    command
        .args(user.split_whitespace())
        .args(["--fork", "--pid"]);
    run(command.arg(calendar))
        .ended_with(3)
        .printed(&["misuses memory: noticed by hardened_malloc"])
        .printed(&["hardened_malloc stopped calendar in 1 of 1 run: "]);
}

#[test]
fn a_daemon_that_is_ended_is_named() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check("--runs 1 -a mimalloc-secure", &program, &["daemon"])
        .ended_with(0)
        .printed(&[
            "misuses still ran when the command had ended, and reheap killed it, in 2 of 2 runs\n",
        ]);
}

#[test]
fn a_server_is_ended_at_the_time_limit_and_what_it_showed_counts() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check(
        "--runs 1 -a mimalloc-secure --time-limit 4",
        &program,
        &["server"],
    )
    .ended_with(3)
    .printed(&["mimalloc-secure noticed an error and let it go on in 1 of 1 run: mimalloc: "])
    .did_not_print("still ran")
    .did_not_print("otherwise");
    check(
        "--runs 1 -a mimalloc-secure --time-limit 1",
        &program,
        &["endless"],
    )
    .ended_with(0)
    .printed(&["the time limit ended the command in 2 of 2 runs\n"]);
}

#[test]
fn what_overwrites_the_record_is_a_finding_and_the_check_goes_on() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check(
        "--runs 1 -a hardened_malloc -a rpmalloc",
        &program,
        &["overwrite"],
    )
    .ended_with(3)
    .printed(&["misuses memory: it writes where it must not with hardened_malloc, rpmalloc\n"])
    .printed(&["with rpmalloc it wrote over what reheap keeps in its memory in 1 of 1 run: "])
    .printed(&["stock noticed nothing in 1 run\n"]);
}

#[test]
fn a_command_that_never_ends_with_an_allocator_is_a_finding() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check(
        "--runs 1 -a hardened_malloc --time-limit 8",
        &program,
        &["endless, preloaded"],
    )
    .ended_with(3)
    .printed(&["does not end with hardened_malloc, which may be an error"])
    .printed(&["with hardened_malloc it did not end in 1 of 1 run: it ends by itself within "])
    .did_not_print("the time limit");
}

#[test]
fn another_malloc_in_ld_preload_is_refused() {
    let programs = Programs::new();
    let other = programs.compile(
        "cc",
        "libother.so",
        "void *__libc_malloc(unsigned long); void *malloc(unsigned long size) { return __libc_malloc(size); }",
        &["-shared", "-fPIC", "-fno-builtin"],
    );
    let mut command = reheap("check-memory -a mimalloc-secure -- true");
    run(command.env("LD_PRELOAD", &other))
        .ended_with(1)
        .said(&[
            "cannot check `",
            "LD_PRELOAD names `",
            "libother.so`, which has a malloc",
        ])
        .said(&["hint: remove it from LD_PRELOAD"]);
}

#[test]
fn what_a_program_wrote_does_not_reach_the_terminal_as_it_is() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check("--runs 1 -a mimalloc-secure", &program, &["abort"])
        .ended_with(3)
        .printed(&[
            "ended itself in 1 of 1 run: SIGABRT\n",
            "    stderr: ",
            "[31mwords",
        ])
        .did_not_print("\u{1b}");
}

#[test]
fn another_exit_code_is_a_finding() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check("--runs 1 -a mimalloc-secure", &program, &["code"])
        .ended_with(3)
        .printed(&["with mimalloc-secure it ended otherwise in 1 of 1 run: exit code 3"]);
}

#[test]
fn programs_without_errors_have_none() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    for words in [
        &[program.to_str().unwrap()][..],
        &["perl", "-e", "print 'a' x 1e6"],
        &["git", "--version"],
    ] {
        check("--runs 1", Path::new(words[0]), &words[1..])
            .ended_with(0)
            .printed(&[
                "nothing was noticed",
                "mimalloc-secure noticed nothing in 1 run",
                "stock[debug=full] noticed nothing in 1 run",
            ])
            .did_not_print("was not tried");
    }
}

#[test]
fn glibcs_own_checks_are_among_the_allocators() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    let outcome = check("--runs 2 -a stock[debug=full]", &program, &["byte"]);
    // With glibc's debug information, the function has its internal name.
    let is_free = |line: &&str| line.contains("free  ");
    let mut lines = outcome.stdout.lines().skip_while(|line| !is_free(line));
    let caller = lines.nth(1).unwrap_or(&outcome.stdout);
    assert!(caller.starts_with("    drop  "), "{caller}");
    outcome
        .ended_with(3)
        .printed(&["misuses memory: noticed by stock[debug=full]\n"])
        .printed(&["stock[debug=full] stopped misuses in 2 of 2 runs: free(): invalid pointer\n"])
        .printed(&["misuses.c:", "main  "])
        .printed(&["stock noticed nothing in 2 runs"]);
    let options = "--runs 1 -a stock[debug=full] --json";
    let report = check(options, &program, &["byte"]).ended_with(3);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let checked = &report["checked"][0];
    assert_eq!(checked["allocator"], "stock");
    assert_eq!(checked["tuning"]["debug"], "full");
    let active = checked["active"].as_str().unwrap();
    assert!(
        active.ends_with(" went to libc_malloc_debug.so.0, with its checks on"),
        "{active}"
    );
    assert!(report["as_it_is"].get("tuning").is_none());
}

/// glibc's library for debugging writes its messages without an end of the line.
#[test]
fn what_others_write_behind_a_message_is_not_of_it() {
    let programs = Programs::new();
    misuses(&programs, "cc");
    let script = programs.script(
        "script",
        "#!/bin/sh\n\"${0%/*}/misuses\" byte\necho words >&2\nexit 0\n",
    );
    check("--runs 1 -a stock[debug=full]", &script, &[])
        .ended_with(3)
        .printed(&["stock[debug=full] stopped misuses in 1 of 1 run: free(): invalid pointer\n"]);
}

#[test]
fn where_glibcs_checks_are_missing_the_others_are_tried() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    // Its place has a file that is no library.
    let outcome = in_namespace(
        "mount --bind /dev/null \"$1\"; exec \"$REHEAP\" check-memory --runs 1 -- \"$2\"",
        &[&library_of_glibcs_checks(), &program],
    );
    let of_it = |line: &&str| line.starts_with("stock[debug=full]");
    let lines: Vec<&str> = outcome.stdout.lines().filter(of_it).collect();
    let [line] = lines.as_slice() else {
        panic!("{outcome:?}");
    };
    assert!(
        line.starts_with("stock[debug=full] was not tried: `libc_malloc_debug.so.0`, "),
        "{line}"
    );
    outcome
        .ended_with(0)
        .printed(&["mimalloc-secure noticed nothing in 1 run"]);
}

#[test]
fn a_program_of_musl_has_no_checks_of_glibc() {
    let programs = Programs::new();
    let program = misuses(&programs, "musl-gcc");
    check("--runs 1", &program, &[])
        .ended_with(0)
        .printed(&["mimalloc-secure noticed nothing in 1 run"])
        .did_not_print("debug=full");
    check("--runs 1 -a stock[debug=full]", &program, &[])
        .ended_with(1)
        .said(&["cannot debug glibc's heap: the program has musl's allocator"]);
}

#[test]
fn an_allocator_may_have_options() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    check("--runs 1 -a mimalloc-secure[guard_pages=1]", &program, &[])
        .ended_with(0)
        .printed(&["mimalloc-secure[guard_pages=1] noticed nothing in 1 run"]);
    check("-a mimalloc-secure[guard_page=1]", &program, &[])
        .ended_with(2)
        .said(&["guard_page"]);
    check("-a mimalloc-secure[", &program, &[])
        .ended_with(2)
        .said(&["`mimalloc-secure[` has no closing `]`"]);
}

#[test]
fn an_interrupted_check_leaves_nothing() {
    let programs = Programs::new();
    let fifo = programs.path("fifo");
    make_fifo(&fifo);
    let temporary = programs.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    // The first run is without the allocator, and ends at once.
    let waits = "[ -z \"$LD_PRELOAD\" ] || { echo $$ > \"$0\"; exec sleep 1000; }";
    let mut command = reheap("check-memory -a mimalloc-secure --runs 1 -- sh -c");
    let running = Running::start(command.arg(waits).arg(&fifo).env("TMPDIR", &temporary));
    let pid = running.says_through(&fifo).trim().parse().unwrap();
    kill_process(running.pid(), Signal::TERM).unwrap();
    running.finish(EVENT_DEADLINE).ended_with(128 + 15);
    assert!(ends_within(Pid::from_raw(pid).unwrap(), EVENT_DEADLINE));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn a_command_that_fails_anyway_is_said_to() {
    check(
        "--runs 1 -a mimalloc-secure",
        Path::new("ls"),
        &["/nonexistent"],
    )
    .ended_with(0)
    .printed(&["nothing was noticed in `ls /nonexistent`, which ends with exit code 2\n"]);
}

#[test]
fn the_findings_are_data() {
    let programs = Programs::new();
    let program = misuses(&programs, "cc");
    let outcome = check(
        "--runs 2 -a mimalloc-secure --json",
        &program,
        &["overflow"],
    )
    .ended_with(3);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let checked = &report["checked"][0];
    assert_eq!(checked["allocator"], "mimalloc-secure");
    assert!(
        checked["active"]
            .as_str()
            .unwrap()
            .contains("went to libmimalloc-secure")
    );
    let finding = &checked["findings"][0];
    assert_eq!(
        (&finding["what"], &finding["runs"]),
        (&"stopped".into(), &2.into())
    );
    let functions = finding["stack"]
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| &frame["function"]);
    assert_eq!(
        functions.take(3).collect::<Vec<_>>(),
        ["free", "drop", "main"]
    );
    assert_eq!(report["as_it_is"]["findings"], Value::Array(Vec::new()));
}

#[test]
fn what_cannot_be_checked_is_refused() {
    let programs = Programs::new();
    let with_static = programs.compile("cc", "static", MISUSES, &["-static"]);
    check("", &with_static, &[])
        .ended_with(1)
        .said(&["it is static"]);
    check("-a stock", &with_static, &[]).ended_with(1);
    let with_own = "#include <stdlib.h>\nvoid *__libc_malloc(size_t); void __libc_free(void *);\n\
        void *malloc(size_t size) { return __libc_malloc(size); } void free(void *block) { __libc_free(block); }\n\
        int main(void) { free(malloc(9)); }";
    let with_own = programs.compile("cc", "own", with_own, &["-fno-builtin"]);
    let refused = check("-a mimalloc-secure", &with_own, &[]).ended_with(1);
    assert!(!refused.stderr.contains("hint: "), "{refused:?}");
    refused.said(&["own`: it has a malloc of its own"]);
    check("-a nonsense", Path::new("true"), &[])
        .ended_with(2)
        .said(&["nonsense"]);
    check("-a stock", Path::new("true"), &[])
        .ended_with(2)
        .said(&["stock", "hint: glibc's own checks: -a 'stock[debug=full]'"]);
    check("--runs 0", Path::new("true"), &[]).ended_with(2);
    check("", Path::new("/nonexistent"), &[]).ended_with(127);
}

/// The probe sees that nothing reached the allocator.
#[test]
fn an_allocator_that_was_not_there_is_no_evidence() {
    let programs = Programs::new();
    let program = programs.compile(
        "cc",
        "idle",
        "#include <unistd.h>\nint main(void) { _exit(0); }",
        &[],
    );
    check("--runs 1 -a mimalloc-secure", &program, &[])
        .ended_with(1)
        .printed(&["mimalloc-secure was not tried: it was loaded, but never called"])
        .said(&["not tried: mimalloc-secure"]);
}
