//! `reheap run`: which program it is that runs, what it gets, and what is refused.

use crate::common;
use crate::common::command::{EVENT_DEADLINE, Running};
use crate::common::programs::Programs;
use crate::common::{Outcome, cache, reheap, run, run_with_input};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROBE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void) {
    Dl_info info;
    void *(*function)(size_t) = malloc;
    if (!dladdr((void *)function, &info)) return 1;
    const char *slash = strrchr(info.dli_fname, '/');
    puts(slash ? slash + 1 : info.dli_fname);
    return 0;
}
"#;

/// `reheap run <flags> -- <program>`.
fn reheap_run(flags: &str, program: impl AsRef<Path>) -> Command {
    let mut command = reheap(&format!("run {flags} --"));
    command.arg(program.as_ref()).env_remove("LD_PRELOAD");
    command
}

/// The first run builds the library, and says so; nothing else is said.
#[track_caller]
fn said_only_that_it_builds(outcome: Outcome) -> Outcome {
    let other = |line: &&str| !line.starts_with("reheap: building ");
    let others: Vec<&str> = outcome.stderr.lines().filter(other).collect();
    assert!(others.is_empty(), "{others:?}");
    outcome
}

#[test]
fn a_program_of_each_libc_gets_the_library_for_it() {
    let programs = Programs::new();
    for compiler in ["cc", "musl-gcc"] {
        let probe = programs.compile(compiler, compiler, PROBE, &[]);
        let outcome = said_only_that_it_builds(run(&mut reheap_run("-a mimalloc", probe)));
        assert_eq!(outcome.succeeded().stdout, "libmimalloc-2.3.2.so\n");
    }
}

#[test]
fn a_real_program_has_the_allocator_in_its_memory_and_in_that_of_what_it_starts() {
    let mut command = reheap_run("-a rpmalloc", "sh");
    command.args(["-c", "cat /proc/$$/maps; exec cat /proc/self/maps"]);
    let maps = run(&mut command).succeeded().stdout;
    let library = Path::new("preloads/rpmalloc-1.4.3-");
    let cached = cache().join(library).display().to_string();
    assert!(maps.contains(&cached), "no {cached} in\n{maps}");
    assert!(maps.contains("/librpmalloc-1.4.3.so"), "{maps}");
}

/// On a glibc system a musl program starts a glibc shell, and the shell a musl program: the variable is inherited, and
/// a library for the wrong libc would end them.
#[test]
fn a_process_of_the_other_libc_is_left_alone() {
    let programs = Programs::new();
    let glibc = programs.compile("cc", "glibc", PROBE, &[]);
    let starts = "#include <stdlib.h>\nint main(int n, char **w) { return system(w[1]) != 0; }\n";
    let musl = programs.compile("musl-gcc", "musl", starts, &[]);
    let from_musl = run(reheap_run("-a mimalloc", &musl).arg(&glibc)).succeeded();
    assert_eq!(said_only_that_it_builds(from_musl).stdout, "libc.so.6\n");

    let musl = programs.compile("musl-gcc", "probe", PROBE, &[]);
    let mut shell = reheap_run("-a mimalloc", "sh");
    let script = format!("{}; {}", musl.display(), glibc.display());
    let from_glibc = run(shell.args(["-c", &script])).succeeded();
    let stdout = said_only_that_it_builds(from_glibc).stdout;
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(!lines[0].contains("malloc"), "{lines:?}");
    assert_eq!(lines[1], "libmimalloc-2.3.2.so");
}

#[test]
fn input_arguments_and_exit_code_pass_through() {
    let mut command = reheap_run("-a mimalloc", "sh");
    command.args(["-c", "cat; echo \"$0 $1\" >&2; exit 42", "--check", "-x"]);
    let outcome = run_with_input(&mut command, b"what stands on standard input").ended_with(42);
    assert_eq!(outcome.stdout, "what stands on standard input");
    let said = said_only_that_it_builds(Outcome {
        stderr: outcome.stderr.replace("--check -x\n", ""),
        ..outcome
    });
    said.ended_with(42);
}

#[test]
fn the_program_takes_the_process_over_so_signals_are_its_own() {
    run(&mut reheap_run("-a mimalloc", "true")).succeeded(); // the library is built by now
    let mut command = reheap_run("-a mimalloc", "sh");
    let outcome = run(command.args(["-c", "kill -TERM $$"]));
    assert_eq!(outcome.status.signal(), Some(15));
    let mut command = reheap_run("-a mimalloc", "sh");
    let running = Running::start(command.args(["-c", "echo $$"]));
    let id = format!("{}\n", running.pid());
    assert_eq!(running.finish(EVENT_DEADLINE).stdout, id);
}

#[test]
fn what_is_preloaded_already_stays_behind_the_library() {
    let programs = Programs::new();
    let other = programs.compile("cc", "other.so", "int other;\n", &["-shared", "-fPIC"]);
    let mut command = reheap_run("-a mimalloc", "sh");
    command
        .args(["-c", "echo \"$LD_PRELOAD\""])
        .env("LD_PRELOAD", &other);
    let stdout = run(&mut command).succeeded().stdout;
    let (library, rest) = stdout.trim().split_once(':').unwrap();
    assert!(library.ends_with("/libmimalloc-2.3.2.so"), "{stdout}");
    assert_eq!(rest, other.display().to_string());
}

#[test]
fn tuning_reaches_each_allocator_in_its_own_way_and_wins_over_what_is_set() {
    let echo = |flags: &str, variable: &str, present: Option<&str>| {
        let mut command = reheap_run(flags, "sh");
        command.args(["-c", &format!("echo \"${variable}\"")]);
        command.env_remove(variable);
        command.envs(present.map(|value| (variable, value)));
        let stdout = run(&mut command).succeeded().stdout;
        stdout.trim_end().to_owned()
    };
    let purge = "-a mimalloc -t purge_delay=0 -t huge_pages=never";
    assert_eq!(echo(purge, "MIMALLOC_PURGE_DELAY", Some("7")), "0");
    assert_eq!(echo(purge, "MIMALLOC_ALLOW_THP", None), "0");
    let arenas = "-a stock -t arena_max=2 -t tcache_count=0";
    let expected = "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0";
    assert_eq!(echo(arenas, "GLIBC_TUNABLES", None), expected);
    let present = Some("glibc.malloc.perturb=1");
    let merged = format!("glibc.malloc.perturb=1:{expected}");
    assert_eq!(echo(arenas, "GLIBC_TUNABLES", present), merged);
}

#[test]
fn allocators_say_themselves_what_they_were_told() {
    let mut command = reheap_run("-a mimalloc -t purge_delay=4321", "true");
    let outcome = run(command.env("MIMALLOC_VERBOSE", "1")).succeeded();
    outcome.said(&["option 'purge_delay': 4321"]);

    let mut command = reheap_run("-a jemalloc -t narenas=3 -t dirty_decay_ms=0", "true");
    let present = "confirm_conf:true,narenas:1";
    let outcome = run(command.env("MALLOC_CONF", present)).succeeded();
    outcome.said(&[
        "Set conf value: zero_realloc:alloc",
        &format!("MALLOC_CONF): \"{present},dirty_decay_ms:0,narenas:3\""),
    ]);
}

#[test]
fn scripts_are_followed_to_the_program_that_runs_them() {
    let programs = Programs::new();
    let python = "import os, sys\nprint(any('libmimalloc-' in line for line in open('/proc/self/maps')), sys.argv[1])\n";
    for (name, first_line) in [
        ("env", "#!/usr/bin/env python3\n"),
        ("split", "#!/usr/bin/env -S -u HOME python3 -u\n"),
    ] {
        let script = programs.script(name, &format!("{first_line}{python}"));
        let outcome = run(reheap_run("-a mimalloc", &script).arg("word")).succeeded();
        assert_eq!(outcome.stdout, "True word\n", "{first_line}");
        let shown = run(&mut reheap_run("--check", &script)).succeeded().stdout;
        assert!(
            shown.contains(&format!("script     {}", script.display())),
            "{shown}"
        );
    }
    // As shells do it where the first line says nothing.
    let plain = programs.script("plain", "cat /proc/$$/maps; exit 3\n");
    let outcome = run(&mut reheap_run("-a mimalloc", plain)).ended_with(3);
    assert!(
        outcome.stdout.contains("/libmimalloc-2.3.2.so"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_program_with_its_own_malloc_is_refused_unless_forced() {
    let programs = Programs::new();
    let source = "#include <stddef.h>\n\
        static char heap[1 << 20]; static size_t used;\n\
        void *malloc(size_t size) { void *block = heap + used; used += (size + 15) / 16 * 16; return block; }\n\
        void free(void *block) { (void)block; }\n\
        int main(void) { char *block = malloc(9); block[0] = 1; free(block); return 5; }\n";
    let program = programs.compile("cc", "own", source, &["-fno-builtin"]);
    run(&mut reheap_run("-a mimalloc", &program))
        .ended_with(1)
        .said(&[
            "it has a malloc of its own",
            "hint: to try it anyway: reheap run --force",
        ]);
    run(&mut reheap_run("-a mimalloc --force", &program))
        .ended_with(5)
        .said(&["warning: it has a malloc of its own"]);
}

/// To whom the kernel would give another user's rights; root gives them away, others find them in the system.
fn setuid_program(programs: &Programs) -> PathBuf {
    let copy = programs.path("setuid");
    fs::copy("/bin/true", &copy).unwrap();
    match std::os::unix::fs::chown(&copy, Some(65_534), None) {
        Ok(()) => {
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
            copy
        }
        Err(_) => "/bin/su".into(),
    }
}

#[test]
fn a_setuid_program_is_refused_with_the_reason() {
    let programs = Programs::new();
    let program = setuid_program(&programs);
    let reason =
        "it has more rights than its caller (setuid), so the dynamic linker ignores LD_PRELOAD";
    run(&mut reheap_run("-a mimalloc", &program))
        .ended_with(1)
        .said(&[reason]);
    let checked = run(&mut reheap_run("--check", &program)).ended_with(1);
    assert!(
        checked
            .stdout
            .contains(&format!("verdict    refused: {reason}"))
    );
}

#[test]
fn options_of_stock_are_refused_where_it_is_not_glibc() {
    let programs = Programs::new();
    let program = programs.compile("musl-gcc", "probe", PROBE, &[]);
    run(&mut reheap_run("-a stock -t arena_max=1", &program))
        .ended_with(1)
        .said(&["the options of `stock` are for glibc's allocator"]);
    let outcome = run(&mut reheap_run("-a stock", &program)).succeeded();
    assert!(!outcome.stdout.contains("malloc-"), "{}", outcome.stdout);
}

#[test]
fn what_cannot_be_run_gives_the_exit_codes_of_a_shell() {
    let programs = Programs::new();
    run(&mut reheap_run("-a mimalloc", "no-such-program-anywhere"))
        .ended_with(127)
        .said(&["cannot run `no-such-program-anywhere`: it was not found"]);
    let data = programs.path("data");
    fs::write(&data, "text").unwrap();
    for file in [data.as_path(), programs.directory()] {
        run(&mut reheap_run("-a mimalloc", file))
            .ended_with(126)
            .said(&["it is not an executable file"]);
    }
    let orphan = programs.script("orphan", "#!/no/such/interpreter\n");
    run(&mut reheap_run("-a mimalloc", &orphan))
        .ended_with(127)
        .said(&["/orphan`: its first line names `/no/such/interpreter`, which was not found"]);
    let itself = programs.script(
        "itself",
        &format!("#!{}\n", programs.path("itself").display()),
    );
    run(&mut reheap_run("-a mimalloc", &itself)).ended_with(126);
    run(&mut reheap("run -a mimalloc")).ended_with(2);
    run(&mut reheap("run -a nonsense -- true")).ended_with(2);
}

#[test]
fn a_file_without_an_interpreter_is_run_or_refused_as_a_shell_does() {
    let programs = Programs::new();
    let plain = programs.script("plain", "echo plain\n");
    let shortened = fs::read("/bin/true").unwrap()[..100].to_vec();
    let tar = programs.path("tar");
    let mut command = Command::new("tar");
    command.arg("-cf").arg(&tar).arg("-C");
    run(command.arg(programs.directory()).arg("plain")).succeeded();
    let after_plain = format!("#!{}\necho itself \"$1\"\n", plain.display());
    let after_env = format!("#!/usr/bin/env {}\n", plain.display());
    let too_long = format!("#!/{}\necho itself\n", "a".repeat(300));
    let files: [(&str, &[u8]); 12] = [
        ("empty", b""),
        ("text", b"echo \"$1\"; exit 3\n"),
        ("archive", &fs::read(tar).unwrap()),
        ("a_zero", b"echo\0\necho hello\n"),
        ("a_zero_later", b"echo hello\nexit\n\0"),
        ("a_zero_behind_the_path", b"#!/bin/sh\0-x\necho hello\n"),
        ("program_cut_off", &shortened),
        ("only_the_mark", b"#!"),
        ("a_line_of_only_the_mark", b"#! \necho hello\n"),
        ("path_too_long", too_long.as_bytes()),
        (
            "interpreter_is_a_script_of_the_shell",
            after_plain.as_bytes(),
        ),
        ("env_finds_a_script_of_the_shell", after_env.as_bytes()),
    ];
    for (name, bytes) in files {
        let file = programs.script(name, "");
        fs::write(&file, bytes).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$0\" word"]).arg(&file);
        let usual = run(&mut shell);
        let outcome = run(reheap_run("-a mimalloc", &file).arg("word"));
        assert_eq!(
            (outcome.code(), &outcome.stdout),
            (usual.code(), &usual.stdout),
            "{name}: {}",
            outcome.stderr
        );
        let checked = run(&mut reheap_run("--check", &file));
        let is_run = outcome.code() != Some(126);
        assert_eq!(
            checked.stdout.contains("verdict    works"),
            is_run,
            "{name}"
        );
        assert_eq!(checked.code(), Some(if is_run { 0 } else { 126 }), "{name}");
    }
}

#[test]
fn a_hostile_name_does_not_reach_the_terminal() {
    let programs = Programs::new();
    let name = "\u{1b}[2J\nname";
    let (script, dynamic, linked) = (
        programs.script(name, "#!/bin/sh\n"),
        programs.path(&format!("{name} of ls")),
        programs.path(&format!("{name} static")),
    );
    fs::copy("/bin/ls", &dynamic).unwrap();
    let hello = "int main(void) { return 0; }\n";
    let program = programs.compile("cc", "static", hello, &["-static"]);
    fs::rename(program, &linked).unwrap();
    let interpreter = programs.script("interpreter", "#!/no/such\u{1b}[2J\n");
    for (flags, program, code) in [
        ("--check", &script, 0),
        ("--verify --for 1", &dynamic, 0),
        ("-a rpmalloc", &linked, 1),
        ("--check", &linked, 0),
        (
            "-a mimalloc",
            &programs.path(&format!("{name} missing")),
            127,
        ),
        ("-a mimalloc", &interpreter, 127),
    ] {
        let outcome = run(&mut reheap_run(flags, program)).ended_with(code);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(said.contains(r"\u{1b}[2J"), "{said}");
        let is_raw = said.contains('\u{1b}') || said.contains("\nname");
        assert!(!is_raw, "{said:?}");
    }
}

#[test]
fn a_check_says_what_would_be_and_builds_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let mut command = reheap_run("--check", "sh");
    command.env("REHEAP_CACHE_DIR", cache.path());
    let outcome = run(&mut command).succeeded();
    assert_eq!(outcome.stderr, "");
    for line in ["kind       dynamic", "libc       glibc", "verdict    works"] {
        assert!(
            outcome.stdout.contains(line),
            "no `{line}` in\n{}",
            outcome.stdout
        );
    }
    assert_eq!(common::kept_in(cache.path()), [""; 0]);
}

#[test]
fn a_cache_whose_path_the_variable_cannot_hold_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let cache = directory.path().join("with a blank");
    let mut command = reheap_run("-a mimalloc", "true");
    run(command.env("REHEAP_CACHE_DIR", &cache))
        .ended_with(1)
        .said(&[
            "LD_PRELOAD allows no blank",
            "hint: set another one: REHEAP_CACHE_DIR=",
        ]);
    assert!(!cache.exists(), "refused before anything is built");
}

#[test]
fn a_cache_that_cannot_be_used_is_refused_before_anything_is_built() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for cache in [&file, &file.join("below"), Path::new("/proc/reheap")] {
        let mut command = reheap_run("-a rpmalloc", "true");
        run(command.env("REHEAP_CACHE_DIR", cache))
            .ended_with(1)
            .said(&[
                "cannot use the cache: cannot make the directory `",
                "hint: set another one: REHEAP_CACHE_DIR=",
            ])
            .did_not_say("building");
    }
}

#[test]
fn a_library_that_is_empty_or_cut_off_is_built_again() {
    let programs = Programs::new();
    let probe = programs.compile("cc", "probe", PROBE, &[]);
    let own_cache = programs.path("cache");
    fs::create_dir(&own_cache).unwrap();
    for part in ["allocators", "compilers"] {
        let part = cache().join(part);
        run(Command::new("cp").arg("-a").arg(part).arg(&own_cache)).succeeded();
    }
    let rpmalloc = || {
        let mut command = reheap_run("-a rpmalloc", &probe);
        run(command.env("REHEAP_CACHE_DIR", &own_cache)).succeeded()
    };
    assert_eq!(rpmalloc().stdout, "librpmalloc-1.4.3.so\n");
    let entries = fs::read_dir(own_cache.join("preloads")).unwrap();
    let entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let library = entries[0].join("librpmalloc-1.4.3.so");
    assert_eq!(entries.len(), 1, "{entries:?}");
    let whole = fs::read(&library).unwrap();
    for bytes in [0, 30, 4096, whole.len() - 1] {
        fs::write(&library, &whole[..bytes]).unwrap();
        let outcome = said_only_that_it_builds(rpmalloc());
        assert_eq!(outcome.stdout, "librpmalloc-1.4.3.so\n", "{bytes} bytes");
        assert!(fs::read(&library).unwrap() == whole, "{bytes} bytes");
    }
    fs::remove_file(&library).unwrap();
    assert_eq!(rpmalloc().stdout, "librpmalloc-1.4.3.so\n");
}

#[test]
fn a_verified_program_is_ended_when_its_calls_were_seen_to_arrive() {
    let mut command = reheap_run("--verify --for 1 -a mimalloc", "sleep");
    let outcome = run(command.arg("100000")).succeeded();
    assert!(
        outcome.stdout.contains("/sleep` has mimalloc 2.3.2: ")
            && outcome
                .stdout
                .contains(" went to libmimalloc-2.3.2.so; it was still running"),
        "{}",
        outcome.stdout
    );

    // A program that ends by itself; what it prints is not mixed up with the result.
    let mut command = reheap_run("--verify --json -a mimalloc", "ls");
    let proof = run(command.arg("/")).succeeded().stdout;
    let proof: serde_json::Value = serde_json::from_str(&proof).unwrap();
    assert_eq!(proof["allocator"], "mimalloc");
    assert!(proof["calls"].as_u64().unwrap() > 0, "{proof}");
    run(&mut reheap_run("--verify -a stock", "true")).ended_with(2);
}

/// Starts a process, and allocates only when that is ready to be ended: it starts a hundred others then, one after the
/// other, and leaves a file.
const SLOW_TO_END: &str = r#"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    (void)count;
    int ready[2], signal_number;
    char byte = 0;
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    if (pipe(ready) != 0) return 2;
    if (fork() == 0) {
        sigprocmask(SIG_BLOCK, &term, NULL);
        if (write(ready[1], &byte, 1) != 1) return 2;
        sigwait(&term, &signal_number);
        for (int started = 0; started < 100; started++) {
            pid_t child = fork();
            if (child == 0) _exit(0);
            if (waitpid(child, NULL, 0) != child) return 2;
        }
        close(open(words[1], O_CREAT | O_WRONLY, 0600));
        return 0;
    }
    if (read(ready[0], &byte, 1) != 1) return 2;
    for (;;) {
        free(malloc(100));
        pause();
    }
}
"#;

#[test]
fn what_a_verified_program_started_has_time_to_end_too() {
    let programs = Programs::new();
    let program = programs.compile("cc", "slow", SLOW_TO_END, &["-fno-builtin"]);
    let left = programs.path("left");
    let mut command = reheap_run("--verify --for 1 -a mimalloc", &program);
    let outcome = run(command.arg(&left)).succeeded();
    assert!(
        outcome.stdout.contains("; it was still running"),
        "{}",
        outcome.stdout
    );
    assert!(left.exists(), "it was killed before it was done");
}

#[test]
fn a_program_that_does_not_use_the_library_is_not_verified() {
    let programs = Programs::new();
    let source = "#include <stddef.h>\n\
        static char heap[1 << 20]; static size_t used;\n\
        void *malloc(size_t size) { void *block = heap + used; used += (size + 15) / 16 * 16; return block; }\n\
        void free(void *block) { (void)block; }\n\
        int main(void) { char *block = malloc(9); block[0] = 1; free(block); return 0; }\n";
    let program = programs.compile("cc", "own", source, &["-fno-builtin"]);
    run(&mut reheap_run("--verify -a mimalloc --force", &program))
        .ended_with(1)
        .said(&[
            "does not get its memory from mimalloc",
            "has a malloc of its own",
        ]);
}

#[test]
fn what_a_check_finds_is_there_as_json_too() {
    let programs = Programs::new();
    let check = |code, program: &Path| -> serde_json::Value {
        let outcome = run(&mut reheap_run("--check --json", program)).ended_with(code);
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    assert_eq!(check(0, Path::new("sh"))["verdict"], "works");
    let source = "int main(void) { return 0; }\n";
    let program = programs.compile("cc", "static", source, &["-static", "-s"]);
    let refused = check(1, &program);
    assert_eq!(refused["verdict"], "refused");
    assert!(refused["hint"].as_str().unwrap().contains("reheap cc"));
    run(&mut reheap_run("--json", "true")).ended_with(2);
}
