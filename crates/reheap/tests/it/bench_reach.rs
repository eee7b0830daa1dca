//! `reheap bench` with commands of several programs, of which some do not get the allocator: whether it says so.

use crate::common::bench::{Commands, results, runs_of, variant};
use crate::common::{Outcome, reheap, run, started_by};
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
fn a_static_program_has_the_allocator_in_its_process() {
    let commands = commands();
    let line = "--rounds 2 --variant stock,mimalloc --json -- ./static 100000";
    let outcome = run(&mut commands.bench(line)).succeeded();
    let results = results(&outcome);
    for name in ["glibc", "glibc+mimalloc"] {
        assert_eq!(runs_of(&results, name).len(), 2, "{results:#}");
    }
    let with_mimalloc = variant(&results, "glibc+mimalloc");
    assert_eq!(with_mimalloc["allocator"]["name"], "mimalloc");
    let seen = with_mimalloc["activity"]["seen"].as_str().unwrap();
    assert!(seen.contains("malloc leads to it"), "{seen}");
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

/// An allocator that an executable is linked with: it gives blocks of one large area, and takes none back.
const AREA: &str = "#include <stddef.h>\n#include <string.h>\n#include <sys/mman.h>\n\
    static char *next;\n\
    void *malloc(size_t size) {\n\
    if (!next) next = mmap(0, 1UL << 34, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);\n\
    size_t *block = (size_t *)next;\n\
    next += 16 + (size + 15) / 16 * 16;\n\
    *block = size;\n\
    return block + 2; }\n\
    void free(void *block) { }\n\
    void *calloc(size_t count, size_t size) { return malloc(count * size); }\n\
    void *realloc(void *old, size_t size) {\n\
    void *block = malloc(size);\n\
    size_t before = old ? ((size_t *)old)[-2] : 0;\n\
    return old ? memcpy(block, old, before < size ? before : size) : block; }\n";

/// A directory with `worker`, which is linked with `libarea.so`.
fn with_own_allocator() -> Commands {
    let commands = Commands::new();
    let (area, library) = (commands.write("area.c", AREA), commands.path("libarea.so"));
    let mut compile = Command::new("cc");
    let compile = compile.args(["-O1", "-fno-builtin", "-shared", "-fPIC"]);
    run(compile.arg(area).arg("-o").arg(&library)).succeeded();
    let source = commands.write("worker.c", WORKER);
    let mut link = Command::new("cc");
    let link = link.args(["-O1", "-fno-builtin", "-Wl,--no-as-needed"]);
    let link = link.arg(source).arg(&library).arg("-o");
    run(link.arg(commands.path("worker"))).succeeded();
    commands
}

#[test]
fn a_program_with_an_allocator_of_its_own_is_not_called_by_its_libc() {
    let commands = with_own_allocator();
    let mut command = commands.bench("--rounds 1 --json --variant stock,mimalloc -- ./worker 1000");
    let outcome = run(&mut command)
        .succeeded()
        .said(&["has the malloc of libarea.so and not that of glibc"]);
    let baseline = variant(&results(&outcome), "glibc+libarea.so").clone();
    assert_eq!(baseline["role"], "baseline");
    let seen = baseline["activity"]["seen"].as_str().unwrap();
    assert!(seen.ends_with(" calls went to libarea.so"), "{seen}");
    let options = "--rounds 1 --variant glibc[arena_max=1] -- ./worker 1000";
    run(&mut commands.bench(options))
        .ended_with(2)
        .said(&["the malloc of libarea.so, which knows no option of glibc"]);
}

#[test]
fn a_baseline_has_the_allocator_of_the_program_that_does_the_work() {
    let commands = with_own_allocator();
    let counting = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
    for (script, name) in [
        ("./worker 100000", "glibc+libarea.so"),
        ("exec ./worker 100000", "glibc+libarea.so"),
        ("sh -c './worker 100000; true' | cat", "glibc+libarea.so"),
        (&format!("{counting}; ./worker 10"), "glibc"),
    ] {
        let outcome = measured(&commands, script, "--json").succeeded();
        let baseline = variant(&results(&outcome), name)["role"].clone();
        assert_eq!(baseline, "baseline", "{script}");
    }
}

#[test]
fn of_a_program_with_an_allocator_of_its_own_nothing_of_glibc_is_tuned_or_lost() {
    let commands = with_own_allocator();
    let mut command = reheap("recommend --goal security --rounds 1 -- ./worker 1000");
    command
        .env_remove("LD_PRELOAD")
        .current_dir(commands.path(""));
    let outcome = run(&mut command).succeeded();
    for text in ["  lost ", "glibc["] {
        assert!(!outcome.stdout.contains(text), "{}", outcome.stdout);
    }
    let mut command = reheap("recommend --rounds 1 -- ./worker 1000");
    command
        .env_remove("LD_PRELOAD")
        .current_dir(commands.path(""));
    let outcome = run(&mut command).succeeded();
    assert!(
        outcome.stdout.contains("\nglibc+libarea.so "),
        "{}",
        outcome.stdout
    );
    assert!(!outcome.stdout.contains("glibc["), "{}", outcome.stdout);
}
