//! `reheap bench` with commands as users bring them: what is reported, with which exit code, and what is left running.

use crate::common::bench::{Commands, bench, has_ended, interrupted, results, runs_of, variant};
use crate::common::command::{EVENT_DEADLINE, Running, try_until, wait_for_end};
use crate::common::{Outcome, reheap, run, started_by};
use reheap_bench::memory_limit::MemoryLimit;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Stdio};

#[test]
fn the_table_goes_to_standard_output_and_every_run_into_the_file() {
    let commands = Commands::new();
    let file = commands.path("results.json");
    let mut command = bench("--variant 1=true --variant 2=/bin/true --rounds 2 --name both");
    let outcome = run(command.arg("--json").arg(&file)).succeeded();
    assert!(outcome.stdout.starts_with("both\n\n"), "{}", outcome.stdout);
    for line in ["\n1 ", "\n2 ", "2 rounds (as asked)"] {
        assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    }
    outcome.said(&[
        "measuring 2 variants, 2 rounds",
        &format!("wrote {}", file.display()),
    ]);
    let results: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    assert_eq!(results["typed"][0], "reheap");
    assert_eq!(results["settings"]["rounds"], 2);
    let benchmark = &results["benchmarks"][0];
    for (name, role) in [
        ("1", "baseline"),
        ("1 again", "baseline-copy"),
        ("2", "candidate"),
    ] {
        let variant = variant(benchmark, name);
        assert_eq!(variant["role"], role);
        assert_eq!(runs_of(benchmark, name).len(), 2);
        assert_eq!(variant["activity"], "nothing-claimed");
    }
}

#[test]
fn a_preloaded_allocator_takes_part_after_it_was_seen_to_be_active() {
    let mut command = bench("--variant glibc,mimalloc[purge_delay=0] --rounds 1 --json --");
    let benchmark = results(&run(command.args([
        "sh",
        "-c",
        "echo $MIMALLOC_PURGE_DELAY",
    ])));
    let name = "glibc+mimalloc[purge_delay=0]";
    let seen = variant(&benchmark, name)["activity"]["seen"].as_str();
    assert!(
        seen.is_some_and(|name| name.contains("libmimalloc-2")),
        "{seen:?}"
    );
    assert_eq!(variant(&benchmark, "glibc")["activity"], "nothing-claimed");
    // The program sees the option, so its output is another one.
    assert_eq!(runs_of(&benchmark, name)[0]["stdout_bytes"], 2);
    assert_eq!(runs_of(&benchmark, "glibc")[0]["stdout_bytes"], 1);
}

#[test]
fn standard_input_is_empty_or_the_same_file_for_each_run() {
    let commands = Commands::new();
    let input = commands.write("input", "what it reads\n");
    let bytes = |command: &mut Command| -> Vec<Value> {
        let benchmark = results(&run(command.arg("--json")).succeeded());
        let bytes = runs_of(&benchmark, "a").iter();
        bytes.map(|run| run["stdout_bytes"].clone()).collect()
    };
    assert_eq!(bytes(&mut bench("--variant a=cat --rounds 2")), [0, 0]);
    let mut command = bench("--variant a=cat --rounds 2");
    assert_eq!(bytes(command.arg("--input").arg(input)), [14, 14]);
}

#[test]
fn a_command_that_wants_a_terminal_is_quoted_on_why_it_ended() {
    let mut command = bench("--rounds 1 --variant");
    let outcome = run(command.arg("a=sh -c 'exec < /dev/tty'")).succeeded();
    let outcome = outcome.said(&[
        "a ended with exit code ",
        "its last output was:\n",
        "/dev/tty",
        "\nhint: reheap runs commands without a terminal",
    ]);
    // All variants fail alike, which may be meant; it is said all the same.
    let warning = "the command ends with exit code";
    assert!(outcome.stdout.contains(warning), "{}", outcome.stdout);
}

#[test]
fn a_command_that_works_with_no_variant_is_told_once_and_in_place_of_a_table() {
    let commands = Commands::new();
    let text = "echo >> count\necho 'no such key: threads' >&2\nkill -ABRT $$";
    let script = commands.script("crashing", text);
    let mut command = commands.bench("--rounds 9 --json results.json --variant glibc,mimalloc --");
    let outcome = run(command.arg(script)).ended_with(4);
    assert_eq!(outcome.stdout, "");
    let outcome = outcome.said(&[
        "glibc crashed (SIGABRT); its last output was:\n  no such key: threads\n",
        "reheap: there is nothing to measure: the command works with no variant\n\nhint: ",
    ]);
    assert_eq!(outcome.stderr.matches("no such key").count(), 1);
    // Each variant once, mimalloc to see whether it is active.
    assert_eq!(commands.read("count").lines().count(), 2);
    // What happened is still a result.
    let results: Value = serde_json::from_str(&commands.read("results.json")).unwrap();
    let runs = runs_of(&results["benchmarks"][0], "glibc");
    assert_eq!(runs[0]["outcome"], json!({"signalled": 6}));
    assert_eq!(runs.len(), 1);
}

#[test]
fn a_shell_that_finds_no_program_has_measured_nothing() {
    let mut command = bench("--rounds 9 --variant");
    let outcome = run(command.arg("a=sh -c no-such-command")).ended_with(4);
    assert_eq!(outcome.stdout, "");
    outcome.said(&[
        "a ended with exit code 127; its last output was:",
        "no-such-command: not found",
        "the command does not work",
        "with 127 a shell says that it does not find a program",
    ]);
}

#[test]
fn if_some_values_of_a_parameter_work_the_others_are_results() {
    let mut command = bench("--verbose --rounds 2 -L n=1,2 --variant");
    let outcome = run(command.arg("a=sh -c '[ {n} = 1 ] || kill -ABRT $$'")).ended_with(4);
    let warning = "a: crashed in 1 of 1 run (SIGABRT)";
    assert!(outcome.stdout.contains(warning), "{}", outcome.stdout);
    outcome.did_not_say("nothing to measure");
}

#[test]
fn what_fits_of_a_sweep_is_kept_if_a_later_value_does_not() {
    let commands = Commands::new();
    let mut command = commands.bench("--budget 2 -L n=0.01,1000 --json results.json");
    command.args(["--variant", "a=sleep {n}", "--variant", "b=sleep {n}"]);
    let outcome = run(&mut command).succeeded();
    assert!(
        outcome.stdout.contains("a, b (n=0.01)"),
        "{}",
        outcome.stdout
    );
    outcome.said(&["not measured with n = 1000: one run takes at least"]);
    let results: Value = serde_json::from_str(&commands.read("results.json")).unwrap();
    assert_eq!(results["benchmarks"].as_array().unwrap().len(), 1);
}

#[test]
fn a_sweep_goes_on_with_other_values_if_the_first_does_not_fit() {
    let own: &[&str] = &["--variant", "a=sleep {n}", "--variant", "b=sleep {n}"];
    let preloaded: &[&str] = &["--variant", "glibc,mimalloc", "--", "sh", "-c", "sleep {n}"];
    for variants in [own, preloaded] {
        let mut command = bench("--budget 4 -L n=1000,0.01 --json -");
        let outcome = run(command.args(variants)).succeeded();
        assert_eq!(results(&outcome)["parameters"], json!({"n": "0.01"}));
        outcome.said(&["not measured with n = 1000: one run takes at least"]);
    }

    let mut none = bench("--budget 1 -L n=1000,2000");
    run(none.args(own))
        .ended_with(1)
        .said(&["one run takes at least", "hint: use --budget "]);
}

#[test]
fn own_commands_beside_allocators_share_the_time_with_them() {
    let mut command = bench("--budget 3 --json");
    command.args(["--variant", "own=sleep 0.01", "--variant", "glibc"]);
    command.args(["--variant", "other=sleep 0.01", "--", "sleep", "1000"]);
    let benchmark = results(&run(&mut command).succeeded());
    let left_out = benchmark["left_out"].as_array().unwrap();
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!(left_out[0]["name"], "glibc");
    let reason = left_out[0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("too slow for the time"), "{reason}");
    assert!(!runs_of(&benchmark, "other").is_empty());
}

#[test]
fn a_log_says_what_runs_while_it_runs() {
    let commands = Commands::new();
    commands.fifo();
    // The first run waits until somebody opens the other end; the others do not wait.
    let text = "[ -e begun ] || { touch begun; read line < fifo; }";
    let mut command = commands.bench("--rounds 1 --variant");
    command
        .arg(commands.variant("a", text))
        .stdin(Stdio::null());
    let running = Running::start(&mut command);
    try_until("waiting for a line", running.pid(), || {
        if running.has_said("reheap: warm-up, a runs for ") {
            Ok(())
        } else {
            Err("it said nothing")
        }
    });
    fs::write(commands.path("fifo"), "go on\n").unwrap();
    running.finish(EVENT_DEADLINE).succeeded();
}

/// None of the runs takes two seconds, but both together do.
#[test]
fn a_log_says_what_is_under_way_also_where_nothing_takes_long_by_itself() {
    let commands = Commands::new();
    commands.script(
        "app",
        "echo >> starts; [ $(wc -l < starts) -gt 2 ] || sleep 1.2",
    );
    let mut command = commands.bench("--rounds 1 --variant glibc,mimalloc -- ./app");
    run(&mut command)
        .succeeded()
        .said(&["reheap: trying out glibc"]);
}

#[test]
fn a_huge_budget_is_announced_with_what_ends_the_rounds_sooner() {
    let mut command = bench("--budget 1000000 --precision 1000000 --variant a=true");
    run(command.args(["--variant", "b=true"]))
        .succeeded()
        .said(&["it ends when each interval is narrower than 1000000 %, or after 12 days"]);
}

#[test]
fn too_little_time_is_refused_with_a_time_that_is_enough() {
    let mut command = bench("--budget 1 --variant");
    command.args(["a=sleep 0.5", "--variant", "b=sleep 0.5"]);
    run(&mut command)
        .ended_with(1)
        .said(&["4 rounds of 2 variants take", "hint: use --budget "]);
}

/// What the shell's children read counts as what the shell read, once they have ended (proc_pid_io(5)).
#[test]
fn a_large_executable_is_read_once_for_all_variants() {
    const BYTES: u64 = 64 << 20;
    let commands = Commands::new();
    let source = commands.write(
        "large.c",
        "#include <stdio.h>\n#include <stdlib.h>\n\
         __asm__(\".section .rodata; .fill 8388608, 8, 0x0123456789abcdef; .text\");\n\
         int main(void) { char *block = malloc(9); block[0] = 0; puts(block); free(block); return 0; }\n",
    );
    let large = commands.path("large");
    let mut compile = Command::new("cc");
    compile
        .arg("-fno-builtin")
        .arg(source)
        .arg("-o")
        .arg(&large);
    run(&mut compile).succeeded();
    let mut bench = bench("--rounds 1 --variant glibc,mimalloc,mimalloc[purge_delay=0] --");
    let counting = commands.script("counting", "\"$@\" > /dev/null && cat /proc/$$/io");
    let mut counted = started_by(counting.to_str().unwrap(), bench.arg(large));
    let figures = run(&mut counted).succeeded().stdout;
    let read = figures
        .lines()
        .find_map(|line| line.strip_prefix("rchar: "));
    let read: u64 = read.unwrap().parse().unwrap();
    assert!((BYTES..2 * BYTES).contains(&read), "{read} bytes");
}

#[test]
fn a_command_that_fails_before_it_allocates_is_quoted_on_why() {
    let commands = Commands::new();
    let source = commands.write(
        "early.c",
        "#include <unistd.h>\n\
         int main(void) { write(2, \"usage: early FILE\\n\", 18); return 2; }\n",
    );
    let early = commands.path("early");
    run(Command::new("cc").arg(source).arg("-o").arg(&early)).succeeded();
    run(bench("--rounds 1 --variant glibc,mimalloc --").arg(early))
        .ended_with(1)
        .said(&[
            "it was loaded, but never called",
            "; the command ended with exit code 2, and its last line was `usage: early FILE`",
        ]);
}

#[test]
fn the_exit_code_of_the_baseline_is_that_of_all() {
    let run = |second: &str| {
        let mut command = bench("--rounds 2");
        run(command.args(["--variant", "1=sh -c 'exit 3'", "--variant", second]))
    };
    run("2=sh -c 'exit 3'").succeeded();
    let other = run("2=true").ended_with(4);
    let note = "ended with exit code 0 in 2 of 2 runs";
    assert!(other.stdout.contains(note), "{}", other.stdout);
}

#[test]
fn a_crash_in_some_runs_is_counted_and_is_exit_code_4() {
    let commands = Commands::new();
    let count = commands.path("count").display().to_string();
    let text = format!("echo >> {count}\n[ $(wc -l < {count}) -ne 3 ] || kill -SEGV $$");
    let crashing = commands.variant("sometimes", &text);
    let mut command = bench("--rounds 3 --variant well=true");
    let outcome = run(command.args(["--variant", &crashing])).ended_with(4);
    let note = "crashed in 1 of 3 runs (SIGSEGV)";
    assert!(outcome.stdout.contains(note), "{}", outcome.stdout);
    outcome.said(&["sometimes crashed (SIGSEGV)"]);
}

#[test]
fn a_baseline_that_crashes_is_nothing_to_compare_with_and_survivors_are_shown() {
    let mut command = bench("--verbose --rounds 2 --variant");
    let outcome = run(command.args(["bad=sh -c 'kill -SEGV $$'", "--variant", "good=true"]));
    let table = outcome.ended_with(4).stdout;
    for text in [
        "crashed in 2 of 2 runs (SIGSEGV)",
        "warning: there is nothing to compare with: no run of `bad`, the baseline, counts",
        "\ngood ",
    ] {
        assert!(table.contains(text), "no `{text}` in\n{table}");
    }
    let survivor = table
        .lines()
        .find(|line| line.starts_with("good "))
        .unwrap();
    assert!(survivor.contains("s "), "a time: {survivor}");
    assert!(
        !table.contains("good: "),
        "nothing is wrong with it: {table}"
    );
}

#[test]
fn a_command_that_never_ends_is_ended_and_counted_as_failed() {
    let commands = Commands::new();
    let endless = commands.variant("endless", "echo $$ >> ids\nsleep 1000");
    let mut command = commands.bench("--rounds 1 --time-limit 0.2");
    run(command.args(["--variant", &endless]))
        .ended_with(4)
        .said(&[
            "endless took too long",
            "there is nothing to measure: the command does not work",
            "hint: a command that only needs longer: --time-limit SECONDS",
        ]);
    commands.all_have_ended("ids", 1);

    let script = commands.path("endless");
    let mut command = commands.bench("--rounds 1 --time-limit 0.2 --variant glibc,mimalloc --");
    let outcome = run(command.arg(script)).ended_with(4);
    outcome.said(&["glibc+mimalloc took too long when it was tried out"]);
    commands.all_have_ended("ids", 1 + 2);
}

#[test]
fn what_goes_into_the_background_is_ended() {
    let commands = Commands::new();
    let text = "setsid sleep 1000 > /dev/null 2>&1 &\necho $! >> ids";
    let daemon = commands.variant("daemon", text);
    run(commands.bench("--rounds 1").args(["--variant", &daemon])).succeeded();
    commands.all_have_ended("ids", 3);
}

#[test]
fn memory_does_not_grow_with_what_a_command_prints() {
    let commands = Commands::new();
    // The parent of its parent, the launcher, is reheap.
    let text = "yes | head -c 100000000\n\
        reheap=$(awk '/^PPid/ { print $2 }' /proc/$PPID/status)\n\
        awk '/^VmHWM/ { print $2 }' /proc/$reheap/status > peak";
    let verbose = commands.variant("verbose", text);
    let mut command = commands.bench("--rounds 1 --json");
    let benchmark = results(&run(command.args(["--variant", &verbose])).succeeded());
    let printed = &runs_of(&benchmark, "verbose")[0]["stdout_bytes"];
    assert_eq!(*printed, 100_000_000);
    let peak_kib: u64 = commands.read("peak").trim().parse().unwrap();
    assert!(peak_kib < 50 * 1024, "{peak_kib} KiB");
}

#[test]
fn a_command_that_works_only_once_is_not_timed_on_its_failures() {
    let commands = Commands::new();
    let packs = "ln -s target link && echo linked";
    for (own, others) in [
        (commands.variant("links", packs), "--variant other=true"),
        (commands.variant("links", packs), ""),
    ] {
        let mut command = commands.bench(&format!("--rounds 3 --variant {own} {others}"));
        let outcome = run(&mut command).ended_with(4).said(&[
            ": File exists",
            "the command works only once: its first run succeeded, and those after it ended with exit code 1",
            "hint: remove what a run leaves behind",
        ]);
        assert_eq!(outcome.stdout, "");
        std::fs::remove_file(commands.path("link")).unwrap();
    }
    let again = commands.variant("again", &format!("rm -f link; {packs}"));
    run(commands.bench("--rounds 3 --variant").arg(&again)).succeeded();
}

#[test]
fn other_output_is_told_with_the_option_that_accepts_it() {
    let variants = ["--variant", "a=echo one", "--variant", "b=echo other"];
    let outcome = run(bench("--rounds 2").args(variants)).ended_with(4);
    let named = "`--ignore-output`";
    assert!(outcome.stdout.contains(named), "{}", outcome.stdout);
    let outcome = run(bench("--rounds 2 --ignore-output").args(variants)).succeeded();
    assert!(!outcome.stdout.contains(named), "{}", outcome.stdout);
}

#[test]
fn output_that_is_never_the_same_is_refused_unless_it_is_ignored() {
    let commands = Commands::new();
    let changing = commands.variant("changing", "echo >> count; wc -l < count");
    let mut command = commands.bench("--verbose --rounds 2 --variant");
    let outcome = run(command.arg(&changing)).ended_with(4);
    for text in [
        "the command does not always print the same: 4 different outputs in 4 runs",
        "`--ignore-output`",
    ] {
        assert!(outcome.stdout.contains(text), "{}", outcome.stdout);
    }
    let mut command = commands.bench("--rounds 2 --ignore-output --variant");
    let outcome = run(command.arg(&changing)).succeeded();
    assert!(!outcome.stdout.contains("print"), "{}", outcome.stdout);
}

#[test]
fn one_round_gives_no_interval_and_says_how_many_it_takes() {
    let outcome = run(&mut bench(
        "--verbose --rounds 1 --variant a=true --variant b=true",
    ))
    .succeeded();
    let table = outcome.stdout;
    for text in [
        "not enough data: 1 round, and 4 are needed",
        "Use `--rounds 4` or more, or a command",
        "1 round (as asked)",
    ] {
        assert!(table.contains(text), "no `{text}` in\n{table}");
    }
    let row = table.lines().find(|line| line.starts_with("b ")).unwrap();
    assert!(row.contains('~') && !row.contains('['), "{row}");
}

#[test]
fn a_figure_is_read_from_the_output_or_missed_aloud() {
    let mut command = bench("--rounds 1 --variant");
    command.args(["a=echo rate=1,250.5 MB/s", "--metric", "rate=rate=(\\S+)"]);
    let benchmark = results(&run(command.arg("--json")).succeeded());
    assert_eq!(
        runs_of(&benchmark, "a")[0]["metrics"],
        json!({"rate": 1250.5})
    );
    assert_eq!(benchmark["metrics"]["rate"], "higher");

    let mut command = bench("--rounds 1 --variant");
    command.args(["a=echo other", "--metric", "rate:lower=rate=(\\S+)"]);
    let table = run(&mut command).succeeded().stdout;
    assert!(
        table.contains("no output matches the expression of `rate`"),
        "{table}"
    );
    assert!(table.contains("wall time"), "{table}");

    // The expression matches, but in the wrong place.
    let mut command = bench("--rounds 3 --variant");
    command.args(["a=echo rate: fast", "--metric", "rate=rate: (.*)"]);
    let outcome = run(&mut command).succeeded().said(&[
        "the metric `rate` has no figure: its expression matched `fast` in the output of a, and \
         that contains no number",
    ]);
    assert_eq!(outcome.stderr.matches("`fast`").count(), 1);
}

#[test]
fn each_combination_of_parameters_is_measured_by_itself() {
    let mut command = bench("--rounds 1 --json -L n=1,20 -L end=x,y --variant");
    let outcome = run(command.arg("a=printf %s {n}{end}")).succeeded();
    let results: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let benchmarks = results["benchmarks"].as_array().unwrap().iter();
    let seen: Vec<(Value, Value)> = benchmarks
        .map(|benchmark| {
            let bytes = runs_of(benchmark, "a")[0]["stdout_bytes"].clone();
            (benchmark["parameters"].clone(), bytes)
        })
        .collect();
    let expected = [("1", "x", 2), ("1", "y", 2), ("20", "x", 3), ("20", "y", 3)];
    let expected = expected.map(|(n, end, bytes)| (json!({"n": n, "end": end}), json!(bytes)));
    assert_eq!(seen, expected);
}

#[test]
fn what_a_load_generator_prints_need_not_be_the_same() {
    let commands = Commands::new();
    let server = commands.script("server", "echo it is ready\nsleep 1000");
    let load = commands.script("load", "echo >> count; wc -l < count");
    let mut command = commands.bench("--rounds 1 --ready-line ready --variant glibc");
    command.arg("--server").arg(server).arg("--load").arg(load);
    run(&mut command).succeeded();
    // Without a server of its own a load has the variants' ones.
    let server = commands.variant("own", "echo it is ready\nsleep 1000");
    let mut command = commands.bench("--rounds 1 --ready-line ready --load ./load");
    run(command.args(["--variant", &server])).succeeded();
}

#[test]
fn a_server_that_does_not_get_ready_or_does_not_stay_is_told_before_anything_is_built() {
    let commands = Commands::new();
    let line = "--rounds 1 --ready-within 0.2 --ready-line ready --load true --server";
    let refused = |server: &str| -> Outcome {
        let outcome = run(commands.bench(line).arg(server)).ended_with(1);
        outcome.did_not_say("measuring")
    };
    let silent = commands.script("silent", "echo $$ > ids\necho cannot bind >&2\nsleep 1000");
    refused(&silent.display().to_string()).said(&[
        "no line of its output matched `ready` within 0.2 s; its last output was:\n  cannot bind\n",
        "hint: check what the server prints; a server that needs longer: --ready-within 0.4",
    ]);
    commands.all_have_ended("ids", 1);
    refused("sh -c 'echo no such file >&2; exit 3'").said(&[
        "it ended with exit code 3 before a line of its output matched `ready`; its last output was:\n  no such file\n",
    ]);
    refused("true").said(&[
        "it ended by itself; a server has to stay in the foreground",
        "`--foreground`",
    ]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut command = bench("--rounds 1 --load true --variant glibc --server");
    command.args(["sleep 1000", "--ready-port", &port.to_string()]);
    run(&mut command).ended_with(1).said(&[
        &format!("something listens on port {port} already"),
        "hint: end that program",
    ]);
}

#[test]
fn a_memory_limit_shows_who_survives_or_why_there_is_none() {
    let can_be_set = MemoryLimit::prepare(64 << 20).is_ok();
    let mut command = bench("--rounds 1 --memory-limit 64M --variant");
    let large = "large=dd if=/dev/zero of=/dev/null bs=256M count=1";
    let small = "small=dd if=/dev/zero of=/dev/null bs=1M count=1";
    let outcome = run(command.args([large, "--variant", small]));
    if !can_be_set {
        let refused = outcome.ended_with(1);
        let line = refused.stderr.trim_end();
        assert!(line.starts_with("reheap: cannot limit memory: "), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        return;
    }
    let table = outcome.ended_with(4).stdout;
    assert!(table.contains("was out of memory in 1 of 1 run"), "{table}");
    assert!(
        !table.contains("small: "),
        "nothing is wrong with it: {table}"
    );
}

#[test]
fn ctrl_c_keeps_the_runs_so_far_and_leaves_nothing_running() {
    let commands = Commands::new();
    commands.fifo();
    // One run to warm up, two of the first round; the fourth one hangs.
    let text = "echo >> count\n[ $(wc -l < count) -lt 4 ] && exit\n\
        sleep 1000 &\necho $! > ids\necho begun > fifo\nwait";
    let hanging = commands.variant("hanging", text);
    let file = commands.path("results.json");
    let mut command = commands.bench("--rounds 9 --json results.json");
    command.args(["--variant", &hanging]);
    let outcome = interrupted(&commands, &mut command, Signal::INT).ended_with(130);
    assert!(
        outcome.stdout.contains("1 round (interrupted)"),
        "{}",
        outcome.stdout
    );
    outcome.said(&["interrupted: these are the runs so far"]);
    commands.all_have_ended("ids", 1);
    let results: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let benchmark = &results["benchmarks"][0];
    assert_eq!(benchmark["ended"], "interrupted");
    assert_eq!(runs_of(benchmark, "hanging").len(), 1);
    run(reheap("report").arg(file)).succeeded();
}

#[test]
fn who_presses_it_twice_leaves_nothing_running_either() {
    let commands = Commands::new();
    commands.fifo();
    let text = "trap '' INT TERM\nsleep 1000 &\necho $! > ids\necho begun > fifo\nwait";
    let deaf = commands.variant("deaf", text);
    let mut command = commands.bench("--rounds 1");
    let running = Running::start(command.args(["--variant", &deaf]).stdin(Stdio::null()));
    assert_eq!(running.says_through(&commands.path("fifo")), "begun\n");
    try_until("ending it by Ctrl-C", running.pid(), || {
        kill_process(running.pid(), Signal::INT).unwrap();
        running.has_ended().then_some(()).ok_or("it still runs")
    });
    running.finish(EVENT_DEADLINE).ended_with(130);
    // Nobody is left to wait for what was killed.
    let id = commands.read("ids").trim().parse().unwrap();
    wait_for_end(Pid::from_raw(id).unwrap());
}

#[test]
fn ctrl_c_before_anything_was_measured_says_so() {
    let commands = Commands::new();
    commands.fifo();
    let text = "sleep 1000 &\necho $! > ids\necho begun > fifo\nwait";
    let script = commands.script("hanging", text);
    // While it is looked whether the allocators are active.
    let mut command = commands.bench("--variant glibc,mimalloc --");
    let outcome = interrupted(&commands, command.arg(&script), Signal::TERM).ended_with(143);
    outcome.said(&["interrupted before anything was measured"]);
    commands.all_have_ended("ids", 1);
    // While it warms up.
    let hanging = format!("hanging={}", script.display());
    let mut command = commands.bench("--rounds 1");
    let command = command.args(["--variant", &hanging]);
    let outcome = interrupted(&commands, command, Signal::INT).ended_with(130);
    outcome.said(&["interrupted before the first run ended"]);
    commands.all_have_ended("ids", 1);
}

#[test]
fn a_process_that_has_ended_is_told_from_one_that_runs() {
    assert!(!has_ended(&std::process::id().to_string()));
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    assert!(has_ended(&child.id().to_string()));
}
