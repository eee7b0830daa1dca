//! `reheap profile` of programs that know how often they allocate.

use crate::common;
use crate::common::{reheap, run};
use serde_json::Value;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The size of the blocks in `profiled.c`.
const MARK: u64 = 70000;

/// Ways to link a program: with each libc, dynamic and static, and by reheap.
const WAYS: [&str; 6] = [
    "cc",
    "musl-gcc",
    "cc -static",
    "cc -static-pie",
    "musl-gcc -static",
    "reheap cc -s",
];

/// Then only the first program of a command has hooks.
fn is_static(way: &str) -> bool {
    way.contains("-static") || way.contains("reheap")
}

struct Profiled {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Profiled {
    fn new(way: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("profiled");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/c/profiled.c");
        let (compiler, flags) = way.split_once(' ').unwrap_or((way, ""));
        let mut command = match compiler {
            "reheap" => reheap(flags),
            _ => Command::new(compiler),
        };
        if compiler != "reheap" {
            command.args(flags.split_whitespace());
        }
        command
            .args(["-O1", "-fno-builtin", "-pthread"])
            .arg(source)
            .arg("-o")
            .arg(&program);
        run(&mut command).succeeded();
        Self { directory, program }
    }

    fn command(&self, arguments: &[&str]) -> (Command, PathBuf) {
        let json = self.directory.path().join("profile.json");
        let mut command = reheap("profile -o");
        command
            .arg(&json)
            .arg("--")
            .arg(&self.program)
            .args(arguments);
        (command, json)
    }

    /// The profile of a run that must succeed.
    fn profile(&self, arguments: &[&str]) -> Value {
        let (mut command, json) = self.command(arguments);
        run(&mut command).succeeded();
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
    }
}

fn processes(profile: &Value) -> &[Value] {
    profile["processes"].as_array().unwrap()
}

/// How many blocks of [`MARK`] bytes a process asked for.
fn marked(process: &Value) -> u64 {
    let sizes = process["counts"]["sizes"].as_array().unwrap();
    let bucket = sizes.iter().find(|bucket| {
        (bucket["from"].as_u64().unwrap()..=bucket["to"].as_u64().unwrap()).contains(&MARK)
    });
    bucket.map_or(0, |bucket| bucket["blocks"].as_u64().unwrap())
}

fn calls(process: &Value, function: &str) -> u64 {
    process["counts"]["calls"][function].as_u64().unwrap_or(0)
}

#[test]
fn the_calls_of_64_threads_are_counted_exactly() {
    for way in WAYS {
        let profile = Profiled::new(way).profile(&["threads", "64", "2000", "64"]);
        let [process] = processes(&profile) else {
            panic!("{profile:#}");
        };
        assert_eq!(marked(process), 64 * 2000);
        assert!(process["threads"].as_array().unwrap().len() >= 64);
        assert_eq!(process["lost"]["calls"], 0);
        assert_eq!(process["lost"]["blocks"], 0);
    }
}

#[test]
fn ten_thousand_threads_one_after_another_are_counted() {
    let profile = Profiled::new("cc").profile(&["threads", "10000", "3", "50"]);
    assert_eq!(marked(&processes(&profile)[0]), 30000);
}

#[test]
fn blocks_that_another_thread_frees_are_told() {
    for way in WAYS {
        let profile = Profiled::new(way).profile(&["handed over"]);
        let process = &processes(&profile)[0];
        let others = &process["counts"]["freed_by_another_thread"];
        assert!(others["blocks"].as_u64().unwrap() >= 1000, "{others}");
        assert!(others["bytes"].as_u64().unwrap() >= 1000 * MARK);
        let peak = process["peak"]["live"]["bytes"].as_u64().unwrap();
        let within = process["peak"]["within_bytes"].as_u64().unwrap();
        assert!(
            peak + within >= 1000 * MARK && peak < 1001 * MARK + within,
            "{peak}"
        );
    }
}

#[test]
fn every_function_is_counted_by_itself() {
    for way in WAYS {
        let profile = Profiled::new(way).profile(&["functions"]);
        let process = &processes(&profile)[0];
        let counts = &process["counts"];
        for (function, least) in [("malloc", 4), ("calloc", 1), ("realloc", 2), ("free", 6)] {
            assert!(calls(process, function) >= least, "{function}: {counts}");
        }
        assert_eq!(counts["failed"], 1);
        assert_eq!(counts["zero_size"], 1);
        assert_eq!(process.get("not_counted"), None);
        assert_eq!(calls(process, "aligned_alloc"), 1);
        assert_eq!(calls(process, "posix_memalign"), 1);
        assert_eq!(counts["alignments"]["4096"], 1);
        assert_eq!(counts["alignments"]["256"], 1);
        let realloc = &counts["realloc"];
        let both = realloc["in_place"].as_u64().unwrap() + realloc["moved"].as_u64().unwrap();
        assert!(both >= 2, "{realloc}");
        assert!(process["live_at_end"]["bytes"].as_u64().unwrap() >= MARK);
    }
}

#[test]
fn a_static_program_that_allocates_nothing_was_watched() {
    let profile = Profiled::new("musl-gcc -static").profile(&["nothing"]);
    let [process] = processes(&profile) else {
        panic!("{profile:#}");
    };
    assert_eq!(process["counts"]["allocations"], 0);
    assert!(profile["unseen"].is_null(), "{profile:#}");
}

#[test]
fn a_forked_child_is_a_process_of_its_own() {
    for way in WAYS {
        let profile = Profiled::new(way).profile(&["forks"]);
        let [parent, child] = processes(&profile) else {
            panic!("{profile:#}");
        };
        assert_eq!((marked(parent), marked(child)), (1010, 100));
        assert_eq!(child["parent"], parent["pid"]);
    }
}

#[test]
fn the_child_of_a_child_is_watched_as_its_parents_are() {
    for (way, access) in [("musl-gcc", "preload"), ("musl-gcc -static", "symbols")] {
        let profile = Profiled::new(way).profile(&["generations"]);
        let ways = processes(&profile).iter().map(|process| &process["access"]);
        assert_eq!(ways.collect::<Vec<_>>(), [access; 3]);
    }
}

#[test]
fn a_child_has_what_its_parent_had_at_the_fork() {
    for way in WAYS {
        let profile = Profiled::new(way).profile(&["late"]);
        let [_, child] = processes(&profile) else {
            panic!("{profile:#}");
        };
        let peak = &child["peak"];
        let within = peak["within_bytes"].as_u64().unwrap();
        let bytes = peak["live"]["bytes"].as_u64().unwrap();
        assert!(bytes + within >= 100 * MARK, "{peak}");
        assert_eq!(child["live_at_end"]["bytes"], 0);
    }
}

/// A library with a malloc that nobody knows.
fn wrapper(profiled: &Profiled) -> PathBuf {
    let source = profiled.directory.path().join("wrapper.c");
    let code = "#include <stddef.h>
        void *__libc_malloc(size_t); void __libc_free(void *);
        void *malloc(size_t size) { return __libc_malloc(size); }
        void free(void *block) { __libc_free(block); }";
    fs::write(&source, code).unwrap();
    let library = profiled.directory.path().join("libwrapper.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-fno-builtin"]).arg(&source);
    run(cc.arg("-o").arg(&library)).succeeded();
    library
}

#[test]
fn the_allocator_is_that_of_a_preload_behind_the_hooks() {
    let profiled = Profiled::new("cc");
    let allocators = |preload: &Path| {
        let (mut command, json) = profiled.command(&["forks"]);
        run(command.env("LD_PRELOAD", preload)).succeeded();
        let profile: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
        let all = processes(&profile).iter();
        all.map(|process| process["allocator"].clone())
            .collect::<Vec<_>>()
    };
    let library = wrapper(&profiled);
    assert_eq!(allocators(&library), ["libwrapper.so", "libwrapper.so"]);
    assert_eq!(allocators(Path::new("")), ["glibc", "glibc"]);
}

#[test]
fn a_program_with_a_preload_in_front_of_the_hooks_is_named() {
    let profiled = Profiled::new("cc");
    let json = profiled.directory.path().join("profile.json");
    let mut command = reheap("profile -o");
    command.arg(&json).args(["--", "sh", "-c"]);
    command.arg("LD_PRELOAD=\"$1:$LD_PRELOAD\" \"$0\"; true");
    command.arg(&profiled.program).arg(wrapper(&profiled));
    run(&mut command).succeeded();
    let profile: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(processes(&profile).len(), 1, "{profile:#}"); // the shell
    let unseen = &profile["unseen"][0];
    let reason = "its calls of malloc go to libwrapper.so, which LD_PRELOAD names before the hooks";
    assert_eq!(unseen["reason"], reason);
    assert_eq!(unseen["times"], 1);
}

#[test]
fn a_process_goes_on_when_its_first_thread_has_ended() {
    for way in ["cc", "cc -static"] {
        let profile = Profiled::new(way).profile(&["outlived"]);
        assert_eq!(marked(&processes(&profile)[0]), 2_000_000);
    }
}

#[test]
fn how_long_blocks_live_is_known_beside_hundreds_of_processes() {
    let profile = Profiled::new("cc").profile(&["beside", "600"]);
    assert_eq!(processes(&profile).len(), 601);
    let lifetimes = profile["processes"][0]["counts"]["lifetimes"].as_array();
    let below_20_ms = lifetimes.unwrap().iter().filter(|bucket| {
        let below = bucket["below_seconds"].as_f64();
        below.is_some_and(|seconds| seconds < 0.02)
    });
    let blocks: u64 = below_20_ms
        .map(|bucket| bucket["blocks"].as_u64().unwrap())
        .sum();
    // On a busy machine, the clock may be late as well.
    assert!(blocks <= 5, "{lifetimes:?}");
}

#[test]
fn a_program_that_is_executed_is_a_process_of_its_own() {
    for way in WAYS {
        let profiled = Profiled::new(way);
        let program = profiled.program.to_str().unwrap();
        let profile = profiled.profile(&["exec", program, "threads", "2", "50", "2"]);
        if is_static(way) {
            assert_eq!(marked(&processes(&profile)[0]), 11);
            continue;
        }
        let [before, after] = processes(&profile) else {
            panic!("{profile:#}");
        };
        assert_eq!((marked(before), marked(after)), (11, 100));
        assert_eq!(before["pid"], after["pid"]);
    }
}

#[test]
fn what_a_killed_program_did_is_known() {
    for way in WAYS {
        let profiled = Profiled::new(way);
        let (mut command, json) = profiled.command(&["killed"]);
        run(&mut command).ended_with(128 + 9);
        let profile: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        assert_eq!(marked(&processes(&profile)[0]), 12345);
        assert_eq!(profile["ending"]["killed"], 9);
    }
}

#[test]
fn the_exit_code_is_the_commands_own() {
    let profiled = Profiled::new("cc");
    run(&mut profiled.command(&["fails"]).0).ended_with(9);
    run(&mut reheap("profile -- /no/such/program")).ended_with(127);
    run(&mut reheap("profile -- /dev/null")).ended_with(126);
}

#[test]
fn a_program_without_descriptors_with_another_user_and_root_is_counted_with_its_child() {
    for way in WAYS {
        let profile = Profiled::new(way).profile(&["alone"]);
        let [parent, child] = processes(&profile) else {
            panic!("{profile:#}");
        };
        assert_eq!((marked(parent), marked(child)), (20, 30));
    }
}

#[test]
fn a_program_that_limits_its_system_calls_lives() {
    for way in WAYS {
        let profile = Profiled::new(way).profile(&["limited"]);
        assert_eq!(marked(&processes(&profile)[0]), 2005);
    }
}

#[test]
fn allocations_before_main_and_in_signal_handlers_count() {
    for way in WAYS {
        let profiled = Profiled::new(way);
        let (mut command, json) = profiled.command(&["signals"]);
        run(command.env("BEFORE_MAIN", "1")).succeeded();
        let profile: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        assert_eq!(marked(&processes(&profile)[0]), 57);
    }
}

#[test]
fn allocations_before_all_constructors_count() {
    for way in ["cc", "cc -static"] {
        let profiled = Profiled::new(way);
        let (mut command, json) = profiled.command(&["functions"]);
        run(command.env("BEFORE_CONSTRUCTORS", "1")).succeeded();
        let profile: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        let with = marked(&processes(&profile)[0]);
        let without = marked(&processes(&profiled.profile(&["functions"]))[0]);
        assert_eq!(with - without, 5, "{way}");
    }
}

#[test]
fn what_the_command_prints_is_its_own() {
    let mut command = reheap("profile -- sh -c");
    command.arg("echo out; echo err >&2; cat");
    let outcome = common::run_with_input(&mut command, b"in\n").succeeded();
    assert_eq!(outcome.stdout, "out\nin\n");
    assert!(outcome.stderr.starts_with("err\n"), "{}", outcome.stderr);
}

#[test]
fn every_call_is_in_the_trace_and_can_be_performed_again() {
    for way in WAYS {
        let profiled = Profiled::new(way);
        let trace = profiled.directory.path().join("calls.trace");
        let mut command = reheap("profile --trace");
        command.arg(&trace).arg("--").arg(&profiled.program);
        run(command.args(["threads", "8", "5000", "4"])).succeeded();
        let replay = run(reheap("replay -a stock --json").arg(&trace)).succeeded();
        let replay: Value = serde_json::from_str(&replay.stdout).unwrap();
        let calls = replay["calls"].as_u64().unwrap();
        assert!(calls >= 2 * 8 * 5000, "{replay:#}");
    }
}

/// Most of the time of such a command is reheap's, which must empty what each thread shares with it.
#[test]
fn the_time_of_a_command_is_without_that_of_its_trace() {
    let profiled = Profiled::new("cc");
    let files = ["profile.json", "calls.rht"].map(|name| profiled.directory.path().join(name));
    let mut command = reheap("profile -o");
    command.args([&files[0], Path::new("--trace"), &files[1]]);
    command.arg("--").arg(&profiled.program);
    run(command.args(["threads", "200", "2000", "200"])).succeeded();
    let profile = fs::read_to_string(&files[0]).unwrap();
    let profile: Value = serde_json::from_str(&profile).unwrap();
    let ended = processes(&profile)[0]["ended"].as_f64();
    assert!(profile["seconds"].as_f64() <= ended, "{profile:#}");
}

#[test]
fn a_command_that_cannot_run_leaves_the_files_of_earlier_ones() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["old.json", "old.rht"].map(|name| directory.path().join(name));
    for file in &files {
        fs::write(file, "old").unwrap();
    }
    let mut command = reheap("profile -o");
    command.args([&files[0], Path::new("--trace"), &files[1]]);
    run(command.args(["--", "./no-such-program"])).ended_with(127);
    for file in &files {
        assert_eq!(fs::read_to_string(file).unwrap(), "old");
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
}

/// A program that allocates until it is killed.
struct Running(Child);

impl Running {
    fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        let mut running = Self(
            command
                .arg("forever")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut line = [0; 6];
        running
            .0
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut line)
            .unwrap();
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It runs until it is killed, and is ours.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_process_is_left_as_it_was() {
    for way in WAYS {
        let profiled = Profiled::new(way);
        let mut process = Running::start(&profiled.program);
        let id = process.0.id().to_string();
        let maps = || std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
        let before = maps();
        let json = profiled.directory.path().join("profile.json");
        let mut command = reheap("profile --seconds 0.5 -o");
        command.arg(&json).arg("--pid").arg(&id);
        run(&mut command).succeeded();
        // musl maps memory for each block of this program and unmaps it: there are two states.
        let as_before = (0..1000).any(|_| maps() == before);
        let profile: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        assert!(marked(&processes(&profile)[0]) > 0, "{way}: {profile:#}");
        assert_eq!(profile["ending"], "detached");
        assert!(as_before, "{way}: {before}\nand now\n{}", maps());
        assert!(
            process.0.try_wait().unwrap().is_none(),
            "{way}: it has ended"
        );
    }
}

#[test]
fn a_heap_budget_is_held_against_the_profile_and_an_earlier_one() {
    let profiled = Profiled::new("cc");
    let old = profiled.directory.path().join("old.json");
    let with = |flags: &str, times: &str| {
        let mut command = reheap(&format!("profile {flags}"));
        command.arg("--against").arg(&old).arg("-o");
        command
            .arg(profiled.directory.path().join("new.json"))
            .arg("--");
        command
            .arg(&profiled.program)
            .args(["threads", "1", times, "1"]);
        run(&mut command)
    };
    let mut command = reheap("profile -o");
    command.arg(&old).arg("--").arg(&profiled.program);
    run(command.args(["threads", "1", "1000", "1"])).succeeded();
    with("--fail-if calls>+5% --fail-if peak<10GiB", "1000").ended_with(3);
    with("--fail-if calls>+5%", "1000").succeeded();
    with("--fail-if calls>+5%", "2000")
        .ended_with(3)
        .said(&["violated: calls > +5"]);
    run(&mut reheap("profile --fail-if calls>+5% -- true"))
        .ended_with(2)
        .said(&["--against"]);
    run(&mut reheap("profile -o one --trace one -- true"))
        .ended_with(2)
        .said(&["`one` is to be written twice"]);
    let new = profiled.directory.path().join("new.json");
    let diff = run(reheap("profile diff").args([&old, &new])).succeeded();
    assert!(diff.stdout.contains("calls"), "{}", diff.stdout);
}
