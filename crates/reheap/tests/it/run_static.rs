//! `reheap run` with static programs: the allocator is mapped into the process, and nothing else changes.

use crate::common::command::{Running, make_fifo};
use crate::common::multi_call::{Check, MultiCall};
use crate::common::programs::Programs;
use crate::common::{reheap, run};
use crate::conformance_c::LIMITS;
use crate::graft::{FEW, compiler};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};

/// `reheap run <flags> -- <program>`.
fn reheap_run(flags: &str, program: &Path) -> Command {
    let mut command = reheap(&format!("run {flags} --"));
    command.arg(program);
    command
}

#[track_caller]
fn conforms(line: &str, checks: &[Check]) {
    let built = MultiCall::build(|| compiler(line), checks);
    built.all_pass(checks, |executable| reheap_run("-a mimalloc", executable));
}

#[test]
fn static_pies_with_musl_conform() {
    let checks = [FEW, LIMITS].concat();
    conforms("reheap cc -a stock -- -static-pie -fPIE", &checks);
}

#[test]
fn executables_at_a_fixed_address_with_musl_conform() {
    conforms("musl-gcc -static", FEW);
}

#[test]
fn executables_with_glibc_conform() {
    conforms("gcc -static -pthread", FEW);
    conforms("gcc -static-pie -fPIE -pthread", FEW);
}

/// Says who it is, tells its number through a pipe and waits for its end, and counts its children.
const WHO: &str = "
    #include <errno.h>
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main(int count, char **arguments) {
        char *path = malloc(4096), byte;
        ssize_t size = readlink(\"/proc/self/exe\", path, 4095);
        if (size < 0 || wait(NULL) != -1 || errno != ECHILD) return 1;
        path[size] = 0;
        printf(\"%s is %s, with %d arguments\\n\", arguments[0], path, count);
        free(path);
        fflush(stdout);
        if (count > 1) {
            FILE *pipe = fopen(arguments[1], \"w\");
            fprintf(pipe, \"%d\", getpid());
            fclose(pipe);
            if (read(0, &byte, 1) != 0) return 1;
        }
        return 7;
    }
";

#[test]
fn the_program_is_its_own_file_and_has_no_child_and_no_tracer() {
    let programs = Programs::new();
    let program = programs.compile("musl-gcc", "who", WHO, &["-static"]);
    let shown = program.display();
    run(&mut reheap_run("-a mimalloc", &program))
        .ended_with(7)
        .printed(&[&format!("{shown} is {shown}, with 1 arguments")]);
}

#[test]
fn inspect_sees_in_the_process_what_the_file_does_not_have() {
    let programs = Programs::new();
    let program = programs.compile("musl-gcc", "who", WHO, &["-static"]);
    let fifo = programs.path("fifo");
    make_fifo(&fifo);
    let mut command = reheap_run("-a mimalloc -t purge_delay=7", &program);
    let running = Running::start(command.arg(&fifo).stdin(Stdio::piped()));
    let pid = running.says_through(&fifo);
    let outcome = run(&mut reheap(&format!("inspect --json {pid}"))).succeeded();
    let inspected: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let marker = &inspected[0]["marker"];
    assert_eq!(marker["allocator"], "mimalloc", "{inspected:#}");
    assert_eq!(marker["is_grafted"], true);
    assert_eq!(marker["replaced"], Value::Array(Vec::new()));
    assert_eq!(marker["tuning"]["purge_delay"], "7");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
    run(reheap("inspect").arg(&program))
        .succeeded()
        .did_not_print("mimalloc");
}

#[test]
fn who_blocks_all_signals_gets_the_allocator_too() {
    let programs = Programs::new();
    // The first instruction of malloc is the jump.
    let source = "#include <stdlib.h>\n\
        int main(void) { return *(unsigned char *)malloc == 0xe9 ? 7 : 1; }\n";
    let program = programs.compile("cc", "first_byte", source, &["-static"]);
    let block = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); \
                 os.execv(sys.argv[1], sys.argv[1:])";
    let mut blocking = Command::new("python3");
    blocking.args(["-c", block]);
    let wrapped = reheap_run("-a mimalloc", &program);
    blocking.arg(wrapped.get_program()).args(wrapped.get_args());
    for (name, value) in wrapped.get_envs() {
        blocking.env(name, value.unwrap_or_default());
    }
    run(&mut blocking).ended_with(7);
}

#[test]
fn what_cannot_work_is_refused_and_does_not_run() {
    let programs = Programs::new();
    let program = programs.compile("musl-gcc", "who", WHO, &["-static"]);
    run(&mut reheap_run("-a rpmalloc", &program))
        .ended_with(1)
        .said(&["cannot graft rpmalloc"])
        .did_not_print("arguments");
    run(&mut reheap_run("--verify -a mimalloc", &program))
        .ended_with(2)
        .said(&["cannot verify a static program"]);
    let own = "
        #include <stddef.h>
        static char heap[1 << 20]; static size_t used;
        void *malloc(size_t size) { void *block = heap + used; used += (size + 15) / 16 * 16; return block; }
        void free(void *block) { (void)block; }
        int main(void) { char *block = malloc(9); block[0] = 1; free(block); return 0; }
    ";
    let own = programs.compile("musl-gcc", "own", own, &["-static"]);
    run(&mut reheap_run("-a mimalloc", &own))
        .ended_with(1)
        .said(&["its malloc is neither musl's nor glibc's"]);
    // A traced program would not get these rights.
    if chown(&program, Some(65_534), None).is_ok() {
        fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
        run(&mut reheap_run("-a mimalloc", &program))
            .ended_with(1)
            .said(&["it has more rights than its caller (setuid)"]);
    }
}
