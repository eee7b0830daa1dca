//! `reheap run --verify`: what it sees of a command, what it puts down to the allocator, and that nothing is left of
//! it.

use crate::common;
use crate::common::command::{EVENT_DEADLINE, Running, in_time, make_fifo};
use crate::common::programs::Programs;
use crate::common::{Outcome, cache, reheap, run};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes 600 calls, and then does what its words say, where its malloc is not the libc's (`with`) or anyway (`always`).
const TROUBLE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void in_trouble(const char *how) {
    if (strcmp(how, "abort") == 0) abort();
    if (strcmp(how, "fault") == 0) *(volatile int *)8 = 1;
    if (strcmp(how, "code") == 0) exit(3);
    if (strcmp(how, "hang") == 0) for (;;) pause();
    if (strcmp(how, "ended child") == 0) {
        pid_t child = fork();
        if (child == 0) for (;;) pause();
        kill(child, SIGTERM);
        waitpid(child, NULL, 0);
        return;
    }
    if (strcmp(how, "child") == 0) { // of which nobody is told, because the parent does not want to be
        signal(SIGCHLD, SIG_IGN);
        if (fork() == 0) abort();
        wait(NULL);
        return;
    }
}
int main(int count, char **words) {
    if (count != 3) return 2;
    for (int i = 0; i < 300; i++) free(malloc(100));
    Dl_info info;
    int is_libc = dladdr((void *)malloc, &info)
        && (strstr(info.dli_fname, "libc.so") || strstr(info.dli_fname, "ld-musl"));
    void *behind = dlsym(RTLD_NEXT, "malloc");
    if (dladdr(behind, &info) && strstr(info.dli_fname, "malloc")) is_libc = 0;
    if (strcmp(words[1], "always") == 0 || !is_libc) in_trouble(words[2]);
    if (strcmp(words[2], "child") == 0 && is_libc && fork() == 0) exit(0);
    return 0;
}
"#;

fn trouble(programs: &Programs, compiler: &str) -> PathBuf {
    programs.compile(compiler, "trouble", TROUBLE, &[])
}

/// `reheap run --verify` for a second, of these words.
fn verify(flags: &str, words: &[&str]) -> Command {
    let mut command = reheap(&format!("run --verify --for 1 -a mimalloc {flags} --"));
    command.args(words).env_remove("LD_PRELOAD");
    command
}

fn verified(words: &[&str]) -> Outcome {
    run(&mut verify("", words))
}

fn as_json(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[test]
fn a_program_that_makes_600_calls_and_then_aborts_is_not_verified() {
    let programs = Programs::new();
    for compiler in ["cc", "musl-gcc"] {
        let program = trouble(&programs, compiler);
        let program = program.to_str().unwrap();
        let json = run(&mut verify("--json", &[program, "with", "abort"])).ended_with(1);
        let json = as_json(&json.said(&[
            "with mimalloc: `",
            "died by SIGABRT; this did not happen without mimalloc",
        ]));
        assert_eq!(json["verdict"], "failed");
        assert!(json["calls"].as_u64().unwrap() >= 600, "{json}");
        let signal = &json["signals"][0];
        assert_eq!(signal["signal"], "SIGABRT");
        assert_eq!(signal["program"], program);
        assert_eq!(signal["also_without"], false);
        assert_eq!(json["without_allocator"]["exit_code"], 0);
    }
}

/// Takes its blocks from a heap of its own, of which no name is left.
const HIDDEN_HEAP: &str = r#"
#include <stdio.h>
static char heap[1 << 20];
static char *used = heap;
__attribute__((noinline)) static char *block(void) { return used += 112; }
int main(void) {
    for (int i = 0; i < 1000; i++) block()[0] = 1;
    puts("done");
    return 0;
}
"#;

#[test]
fn a_few_calls_prove_nothing_of_a_program_that_takes_no_malloc_from_elsewhere() {
    let programs = Programs::new();
    let hidden = programs.compile("cc", "hidden", HIDDEN_HEAP, &["-s"]);
    let hidden = hidden.to_str().unwrap();
    let outcome = run(&mut verify("--json", &[hidden])).ended_with(5);
    let json = as_json(&outcome.said(&["only 1 call went to libmimalloc-", "imports no malloc"]));
    assert_eq!(json["verdict"], "unknown");
    assert_eq!(json["calls"], 1);
    let checked = run(reheap("run --check -a mimalloc --").arg(hidden)).succeeded();
    let note = "note       neither the program nor its libraries import malloc";
    assert!(checked.stdout.contains(note), "{}", checked.stdout);

    // Such as most of C++: the program takes the operators, and its libraries malloc.
    for (words, note) in [
        (["xxd", "/dev/null"], Some("neither the program")),
        (["openssl", "version"], Some("libcrypto.so")),
        (["sh", "-c :"], None),
    ] {
        let checked = run(reheap("run --check -a mimalloc --").args(words)).succeeded();
        let said = checked.stdout.lines().find(|line| line.starts_with("note"));
        assert_eq!(said.is_some(), note.is_some(), "{words:?}: {said:?}");
        assert!(said.unwrap_or_default().contains(note.unwrap_or_default()));
    }
}

#[test]
fn no_compiler_is_needed_for_what_is_in_the_cache() {
    let programs = Programs::new();
    let words = ["/bin/sh", "-c", "for i in 1 2 3; do x=$x$i; done"];
    run(&mut verify("", &words)).succeeded();
    let without_compilers = |flags: &str| {
        let mut command = verify(flags, &words);
        command.env("PATH", programs.directory());
        command
    };
    // Variables of other targets, and those that only begin like theirs, name no compiler for it.
    for variable in [
        "HOME",
        "CC_NAME",
        "CXX_STANDARD",
        "CC_riscv64_unknown_linux_gnu",
    ] {
        let outcome = run(without_compilers("").env(variable, "/nowhere")).succeeded();
        assert!(outcome.stdout.starts_with("verified: "), "{variable}");
    }

    let empty = programs.path("empty-cache");
    let triple = format!("CC_{}_unknown_linux_gnu=<path>", std::env::consts::ARCH);
    run(without_compilers("").env("REHEAP_CACHE_DIR", empty))
        .ended_with(1)
        .said(&[
            "cannot find a C compiler for",
            "hint: install gcc, clang or zig",
            &triple,
        ])
        .did_not_say("doctor");
}

/// A server does not end either, so it is no failure, and said.
#[test]
fn a_program_that_did_not_end_by_itself_is_said_to_have_been_running() {
    let programs = Programs::new();
    let program = trouble(&programs, "cc");
    let program = program.to_str().unwrap();
    let hangs = verified(&[program, "with", "hang"]).succeeded();
    let said = "; it was still running after 1.";
    assert!(hangs.stdout.contains(said), "{}", hangs.stdout);
    let ends = verified(&[program, "with", "nothing"]).succeeded();
    assert!(ends.stdout.contains("; it ended after "), "{}", ends.stdout);
}

#[test]
fn a_crash_somewhere_below_a_shell_that_goes_on_is_seen() {
    let programs = Programs::new();
    let program = trouble(&programs, "cc");
    let shell = |script: &str| verified(&["sh", "-c", script, program.to_str().unwrap()]);
    let died = format!("`{}` (process ", program.display());
    for script in [
        "\"$0\" with fault; sleep 1000",
        "(setsid \"$0\" with fault &); sleep 1000",
        "sh -c '\"$0\" with fault; true' \"$0\"",
    ] {
        shell(script).ended_with(1).said(&[
            &died,
            "died by SIGSEGV; this did not happen without mimalloc",
        ]);
    }
}

#[test]
fn a_crash_of_which_no_parent_is_told_is_seen() {
    let programs = Programs::new();
    let program = trouble(&programs, "cc");
    verified(&[program.to_str().unwrap(), "with", "child"])
        .ended_with(1)
        .said(&["did not exit, like a program that crashes; without mimalloc it exits"]);
}

#[test]
fn a_program_that_crashes_anyway_is_neither_verified_nor_blamed_on_the_allocator() {
    let programs = Programs::new();
    let program = trouble(&programs, "cc");
    let outcome = run(&mut verify(
        "--json",
        &[program.to_str().unwrap(), "always", "abort"],
    ));
    let json = as_json(&outcome.ended_with(4).said(&[
        "died by SIGABRT, and without mimalloc as well: this says nothing about mimalloc",
    ]));
    assert_eq!(json["verdict"], "undecided");
    assert_eq!(json["signals"][0]["also_without"], true);
}

/// The kernel kills what needs too much memory: then nothing was seen of the work, whoever is to blame.
#[test]
fn a_program_that_is_killed_anyway_is_not_verified() {
    for (script, signal) in [("kill -KILL $$", "SIGKILL"), ("kill -TERM $$", "SIGTERM")] {
        let died = format!("died by {signal}, and without mimalloc as well");
        verified(&["sh", "-c", script]).ended_with(4).said(&[&died]);
    }
}

#[test]
fn processes_that_a_script_ends_are_nobodys_trouble() {
    for signal in ["TERM", "KILL"] {
        let script = format!("sleep 1000 & kill -{signal} $!; wait $!; exit 3");
        let outcome = verified(&["sh", "-c", &script]).succeeded();
        let died = format!(" died by SIG{signal}\n");
        for line in [&died, "also without mimalloc: exit code 3\n"] {
            assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
        }
    }
}

/// Python's pools of processes end those that have not ended yet.
#[test]
fn a_signal_that_a_program_sends_its_child_is_told_and_no_failure() {
    let programs = Programs::new();
    let program = trouble(&programs, "cc");
    let outcome = verified(&[program.to_str().unwrap(), "with", "ended child"]).succeeded();
    for words in [
        "only with mimalloc: ",
        "died by SIGTERM, which somebody sent it",
    ] {
        assert!(outcome.stdout.contains(words), "{}", outcome.stdout);
    }
}

#[test]
fn an_exit_code_that_only_the_allocator_brings_is_told() {
    let programs = Programs::new();
    let program = trouble(&programs, "cc");
    verified(&[program.to_str().unwrap(), "with", "code"])
        .ended_with(1)
        .said(&["it ended with exit code 3; without mimalloc it ends with 0"]);
}

#[test]
fn a_program_that_ends_quickly_is_verified_by_what_it_did() {
    let outcome = run(&mut verify("--json", &["ls", "/"])).succeeded();
    let json = as_json(&outcome);
    assert_eq!(json["verdict"], "verified");
    assert_eq!(json["ended"], false);
    assert_eq!(json["exit_code"], 0);
    assert_eq!(json["without_allocator"], serde_json::Value::Null);
}

#[test]
fn a_wrapper_that_drops_the_variable_is_found_out() {
    let became = "the command became `/";
    verified(&["env", "-i", "sleep", "1000"])
        .ended_with(1)
        .said(&[
            became,
            "/sleep`, which does not have mimalloc: it was started without LD_PRELOAD",
        ]);

    let json = run(&mut verify(
        "--json",
        &["sh", "-c", "env -i sleep 1000; true"],
    ))
    .ended_with(6);
    let json = as_json(&json);
    assert_eq!(json["verdict"], "partial");
    let without = &json["without_library"][0];
    assert!(without["program"].as_str().unwrap().ends_with("/sleep"));
    assert_eq!(without["reason"], "it was started without LD_PRELOAD");
}

#[test]
fn a_static_program_below_a_command_is_named() {
    let programs = Programs::new();
    let source = "#include <unistd.h>\nint main(void) { pause(); return 0; }\n";
    let program = programs.compile("musl-gcc", "static", source, &["-static"]);
    let program = program.to_str().unwrap();
    verified(&["sh", "-c", "\"$0\"; true", program])
        .ended_with(6)
        .said(&[
            &format!("a part of it runs without mimalloc: `{program}` (process "),
            "it is static, so no dynamic linker reads LD_PRELOAD",
        ]);
}

/// What stands in front of the library to look must not harm processes of the other libc either.
#[test]
fn processes_of_the_other_libc_are_left_alone() {
    let programs = Programs::new();
    let starts = "#include <stdlib.h>\n\
        int main(int n, char **w) { free(malloc(9)); return n > 1 && system(w[1]) != 0; }\n";
    let musl = programs.compile("musl-gcc", "musl", starts, &[]);
    let musl = musl.to_str().unwrap();
    // Its shell may have ended before anybody looked for other processes.
    let outcome = verified(&[musl, "/bin/true"]).did_not_say("ld.so");
    assert!(matches!(outcome.code(), Some(0 | 6)), "{outcome:?}");
    verified(&["sh", "-c", "\"$0\" 'sleep 1000'; true", musl])
        .ended_with(6)
        .said(&[
            &format!("a part of it runs without mimalloc: `{musl}` (process "),
            "it is linked with musl, and the library is for glibc",
        ]);
}

/// Starts workers with an environment of its own, as supervisors do, and waits for them.
const SUPERVISOR: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    char *variables[] = {"PATH=/usr/bin:/bin", NULL};
    free(malloc(5000));
    for (int i = 0; i < 3; i++) {
        if (fork() == 0) execve(words[1], words + 1, variables);
    }
    while (wait(NULL) > 0) {}
    return count;
}
"#;

#[test]
fn a_daemon_whose_workers_lose_the_variable_is_verified_in_part() {
    let programs = Programs::new();
    let supervisor = programs.compile("cc", "supervisor", SUPERVISOR, &[]);
    let supervisor = supervisor.to_str().unwrap();
    verified(&[supervisor, "/bin/sleep", "1000"])
        .ended_with(6)
        .said(&[
            "a part of it runs without mimalloc: `/",
            "it was started without LD_PRELOAD",
        ]);
}

/// Executes its words where no file can be opened for writing (seccomp(2)), as man does with its helpers.
const SANDBOX: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 2;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 2;
    execvp(words[1], words + 1);
    return 127;
}
"#;

#[test]
fn a_program_that_may_write_nothing_is_seen_in_its_memory() {
    let programs = Programs::new();
    let sandbox = programs.compile("cc", "sandbox", SANDBOX, &[]);
    let sandbox = sandbox.to_str().unwrap();
    let json = run(&mut verify("--json", &[sandbox, "sleep", "1000"])).ended_with(5);
    let json = as_json(&json.said(&[
        "mimalloc is in the memory of `/",
        "/sleep`, but its calls are not countable: as another user or in a sandbox",
    ]));
    assert_eq!(json["verdict"], "loaded");
    // It may be over before its memory is seen.
    verified(&[sandbox, "sort", "/etc/passwd"])
        .ended_with(5)
        .did_not_say("never called");

    let mut command = reheap("check-memory --runs 1 -a mimalloc-secure --");
    let checked = run(command.args([sandbox, "sort", "/etc/passwd"])).succeeded();
    let said = "sort was checked, but its calls are not countable: ";
    assert!(checked.stdout.contains(said), "{}", checked.stdout);

    let shell = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let mut command = reheap("bench --rounds 1 --variant glibc,mimalloc --");
    run(command.args([sandbox, "sh", "-c", shell])).succeeded();
}

/// gosu, su-exec and the entry points of many images do so. Only root can.
#[test]
fn a_program_that_goes_on_as_another_user_counts() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let programs = Programs::new();
    fs::set_permissions(programs.directory(), fs::Permissions::from_mode(0o755)).unwrap();
    let cache = common::cache_for_all(programs.directory());
    let mut command = verify("--json", &["setpriv", "--reuid=65534", "--clear-groups"]);
    command.args(["sort", "/etc/passwd"]);
    let json = as_json(&run(command.env("REHEAP_CACHE_DIR", cache)).succeeded());
    assert_eq!(json["verdict"], "verified");
    assert!(
        json["seen"].as_str().unwrap().contains("of 2 processes"),
        "{json}"
    );
}

fn runs(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// Two lines, each with a process id.
#[track_caller]
fn two_pids(text: &str) -> Vec<String> {
    let pids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    assert_eq!(pids.len(), 2, "{text}");
    pids
}

/// Both processes say who they are, and then close what they said it through.
const DAEMON: &str = "exec 3> \"$0\"; echo $$ >&3; \
    setsid sh -c 'echo $$ >&3; exec 3>&-; sleep 1000' & exec 3>&-;";

#[test]
fn a_daemon_is_watched_and_ended_too() {
    let programs = Programs::new();
    let file = programs.path("pids");
    let script = format!("{DAEMON} exit 0");
    let json = run(&mut verify(
        "--json",
        &["sh", "-c", &script, file.to_str().unwrap()],
    ));
    let json = as_json(&json.succeeded());
    assert_eq!(json["ended"], true);
    let pids = two_pids(&fs::read_to_string(&file).unwrap());
    assert!(!pids.iter().any(|pid| runs(pid)), "left: {pids:?}");
}

#[test]
fn ctrl_c_and_the_like_in_the_middle_end_everything() {
    for signal in [Signal::INT, Signal::HUP, Signal::TERM] {
        let programs = Programs::new();
        let fifo = programs.path("pids");
        make_fifo(&fifo);
        let script = format!("{DAEMON} sleep 1000");
        let command = reheap("run --verify --for 1000 -a mimalloc -- sh -c");
        // Where the tests themselves run by nohup, SIGHUP is ignored, and children inherit that.
        let mut command = common::started_by("env --default-signal=HUP", &command);
        let running = Running::start(command.arg(&script).arg(&fifo).stdin(Stdio::null()));
        let pids = two_pids(&running.says_through(&fifo));
        kill_process(running.pid(), signal).unwrap();
        running
            .finish(EVENT_DEADLINE)
            .ended_with(128 + signal.as_raw());
        assert!(!pids.iter().any(|pid| runs(pid)), "left: {pids:?}");
    }
}

#[test]
fn a_closed_terminal_means_nothing_to_what_was_started_by_nohup() {
    let programs = Programs::new();
    let (begun, goes_on) = (programs.path("begun"), programs.path("goes-on"));
    make_fifo(&begun);
    make_fifo(&goes_on);
    let script = "echo > \"$0\"; cat \"$1\"";
    let command = reheap("run --verify --for 1000 -a mimalloc -- sh -c");
    let mut command = common::started_by("env --ignore-signal=HUP", &command);
    command.arg(script).args([&begun, &goes_on]);
    let running = Running::start(command.stdin(Stdio::null()));
    running.says_through(&begun);
    kill_process(running.pid(), Signal::HUP).unwrap();
    in_time("the command, reading on", || fs::write(goes_on, "")).unwrap();
    running.finish(EVENT_DEADLINE).succeeded();
}

/// A cache with something else in the place of the library, as one that was built on another system.
#[test]
fn a_library_that_does_not_load_is_explained_by_what_the_dynamic_linker_says() {
    verified(&["ls"]).succeeded(); // the library is built by now
    let programs = Programs::new();
    let newer = "int from_the_future(void) { return 1; }\n";
    fs::write(
        programs.path("versions"),
        "GLIBC_9.99 { global: from_the_future; };\n",
    )
    .unwrap();
    let script = format!(
        "-Wl,--version-script={}",
        programs.path("versions").display()
    );
    let flags = [
        "-shared",
        "-fPIC",
        "-nostdlib",
        "-Wl,-soname,libc.so.6",
        &script,
    ];
    let newer = programs.compile("cc", "newer.so", newer, &flags);
    let source = "int from_the_future(void);\nint call(void) { return from_the_future(); }\n";
    let newer = newer.to_str().unwrap();
    let flags = ["-shared", "-fPIC", "-Wl,--no-as-needed", newer];
    let library = programs.compile("cc", "library.so", source, &flags);

    let other = common::cache_for_all(programs.directory());
    for entry in fs::read_dir(other.join("preloads")).unwrap() {
        let entry = entry.unwrap().path();
        let name = entry.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("mimalloc-2") && name.contains("-linux-gnu-") {
            fs::copy(&library, entry.join("libmimalloc-2.3.2.so")).unwrap();
        }
    }
    let reason = "it was built for a newer libc: it needs GLIBC_9.99, which the program's libc does not have";
    run(verify("", &["ls"]).env("REHEAP_CACHE_DIR", &other))
        .ended_with(1)
        .said(&["does not get its memory from mimalloc", reason])
        .did_not_say("setuid");
    let mut bench = reheap("bench --rounds 1 --variant mimalloc -- ls");
    run(bench.env("REHEAP_CACHE_DIR", &other))
        .ended_with(1)
        .said(&["would not be active", reason]);
}

#[test]
fn a_cache_on_a_file_system_without_exec_is_named() {
    verified(&["ls"]).succeeded();
    let programs = Programs::new();
    let mounted = programs.path("mounted");
    fs::create_dir(&mounted).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-ec"])
        .arg(
            "mount -t tmpfs -o noexec,mode=755 none \"$1\"; cp -a \"$2/preloads\" \"$1\"
             REHEAP_CACHE_DIR=\"$1\" exec \"$0\" run --verify --for 1 -a mimalloc -- ls",
        )
        .arg(env!("CARGO_BIN_EXE_reheap"))
        .args([&mounted, &cache()])
        .env_remove("LD_PRELOAD");
    run(&mut command)
        .ended_with(1)
        .said(&["is on a file system that is mounted with `noexec`"]);
}

#[test]
fn a_time_that_is_none_is_wrong_usage() {
    for time in ["0", "-1", "soon"] {
        let mut command = reheap(&format!("run --verify --for={time} -- true"));
        run(&mut command).ended_with(2);
    }
    run(&mut reheap("run --for 3 -- true")).ended_with(2);
}
