//! `reheap bench` with commands of several programs, of which some do not get the allocator: whether it says so.

mod common;

use common::bench::{Commands, results, variant};
use common::{Outcome, run, started_by};
use serde_json::{Value, json};
use std::process::Command;

/// Allocates for some tenths of a second, or as often as it is told to.
const WORKER: &str = "#include <stdlib.h>\n\
    int main(int count, char **words) {\n\
    int blocks = count > 1 ? atoi(words[1]) : 3000000;\n\
    for (int i = 0; i < blocks; i++) free(malloc(i % 1000 + 1));\n\
    return 0; }\n";

/// A directory with `worker`, and with the same as a static program.
fn commands() -> Commands {
    let commands = Commands::new();
    let source = commands.write("worker.c", WORKER);
    for (name, flag) in [("worker", "-pie"), ("static", "-static")] {
        let mut compile = Command::new("cc");
        let compile = compile.args(["-O1", "-fno-builtin", flag]).arg(&source);
        run(compile.arg("-o").arg(commands.path(name))).succeeded();
    }
    commands
}

fn measured(commands: &Commands, script: &str, options: &str) -> Outcome {
    commands.script("work", script);
    let line = format!("--rounds 1 --variant stock,mimalloc {options} -- ./work");
    run(&mut commands.bench(&line))
}

/// The programs that ran without mimalloc.
#[track_caller]
fn unreached(commands: &Commands, script: &str) -> Value {
    let outcome = measured(commands, script, "--json").succeeded();
    variant(&results(&outcome), "glibc+mimalloc")["unreached"].clone()
}

#[test]
fn where_the_work_is_done_without_the_allocator_nothing_is_compared() {
    let commands = commands();
    let no_variable = "`worker` (it was started without LD_PRELOAD)";
    let of_static = "`static` (it is static, so no dynamic linker reads LD_PRELOAD)";
    let in_path = format!(
        "PATH={}:$PATH env -u LD_PRELOAD worker",
        commands.path("").display()
    );
    for (script, because) in [
        ("env -i ./worker", no_variable),
        ("LD_PRELOAD= ./worker", no_variable),
        ("exec env -u LD_PRELOAD ./worker", no_variable),
        (&in_path, no_variable),
        ("./worker 1; ./static", of_static),
        (
            "for i in 1 2 3 4; do ./static 1000000 & done; wait",
            of_static,
        ),
    ] {
        measured(&commands, script, "")
            .ended_with(1)
            .said(&["glibc+mimalloc would not be active", because]);
    }
}

#[test]
fn a_helper_without_the_allocator_is_worth_a_warning() {
    let commands = commands();
    let of_static = "it is static, so no dynamic linker reads LD_PRELOAD";
    let script = "./static 10; ./worker";
    let outcome = measured(&commands, script, "").succeeded();
    let warning = format!("`static` ran without glibc+mimalloc: {of_static}");
    let words: Vec<&str> = outcome.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains(&warning), "{}", outcome.stdout);
    let of_both = json!([
        { "program": "static", "reason": of_static },
        { "program": "worker", "reason": "it was started without LD_PRELOAD" },
    ]);
    let script = "env -i ./worker 10; ./static 10; ./worker";
    assert_eq!(unreached(&commands, script), of_both);
}

/// What the shell's children read counts as what the shell read, once they have ended (proc_pid_io(5)).
#[test]
fn a_large_program_without_the_allocator_is_read_once_for_all_variants() {
    const BYTES: u64 = 64 << 20;
    let commands = commands();
    let source = commands.write(
        "large.c",
        "__asm__(\".section .rodata; .fill 8388608, 8, 0x0123456789abcdef; .text\");\n\
         int main(void) { return 0; }\n",
    );
    let mut compile = Command::new("cc");
    compile.arg("-static").arg(source).arg("-o");
    run(compile.arg(commands.path("large"))).succeeded();
    commands.script("work", "./large; ./worker");
    let line = "--rounds 1 --variant glibc,mimalloc,mimalloc[purge_delay=0] -- ./work";
    let counting = commands.script("counting", "\"$@\" > /dev/null && cat /proc/$$/io");
    let mut counted = started_by(counting.to_str().unwrap(), &commands.bench(line));
    let figures = run(&mut counted).succeeded().stdout;
    let read = figures
        .lines()
        .find_map(|line| line.strip_prefix("rchar: "));
    let read: u64 = read.unwrap().parse().unwrap();
    assert!((BYTES..2 * BYTES).contains(&read), "{read} bytes");
}

#[test]
fn programs_that_get_the_allocator_are_worth_none() {
    let commands = commands();
    for script in [
        "./worker",
        "exec ./worker",
        "./worker 1000000 | ./worker 1000000 & wait",
        "for i in $(seq 200); do /bin/true; done",
        "sh -c './worker 1000; kill -9 $$'; no-such-program; exit 0",
        // A process of another user cannot say that it has the allocator.
        "[ $(id -u) != 0 ] || setpriv --reuid=65534 --clear-groups sort /dev/null; ./worker 9",
        "python3 -c 'import subprocess; subprocess.run([\"./worker\"], check=True)'",
    ] {
        assert_eq!(unreached(&commands, script), Value::Null, "{script}");
    }
}
