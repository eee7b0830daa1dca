//! `reheap profile` of commands that start programs without hooks: each is named, and nothing else is.

use crate::common::{Outcome, compile_for_32_bits, reheap, run};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs from one source: dynamic, static, and for 32 bits.
struct Workers {
    directory: tempfile::TempDir,
}

impl Workers {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/c/worker.c");
        for (name, flags) in [("dynamic", "-O1"), ("static", "-static")] {
            let mut cc = Command::new("cc");
            cc.args(["-fno-builtin", "-w", flags]).arg(&source);
            run(cc.arg("-o").arg(directory.path().join(name))).succeeded();
        }
        compile_for_32_bits(&source, &directory.path().join("narrow"));
        Self { directory }
    }

    fn program(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// Profiles that command line of a shell, in the directory of the programs.
    fn shell(&self, line: &str) -> (Value, Outcome) {
        self.profile(&["sh".as_ref(), "-c".as_ref(), line.as_ref()])
    }

    fn profile(&self, words: &[&Path]) -> (Value, Outcome) {
        let mut command = reheap("profile -o profile.json --");
        let command = command.args(words).current_dir(self.directory.path());
        let outcome = run(command).succeeded();
        let json = std::fs::read_to_string(self.directory.path().join("profile.json")).unwrap();
        (serde_json::from_str(&json).unwrap(), outcome)
    }
}

/// What is said of the programs that were not watched: file name, how often, why.
fn unseen(profile: &Value) -> Vec<(String, u64, String)> {
    let unseen = profile["unseen"].as_array().cloned().unwrap_or_default();
    let told = unseen.iter().map(|unseen| {
        let program = unseen["program"].as_str().unwrap();
        let name = program.rsplit('/').next().unwrap().to_owned();
        let reason = unseen["reason"].as_str().unwrap().to_owned();
        (name, unseen["times"].as_u64().unwrap(), reason)
    });
    told.collect()
}

#[test]
fn each_program_that_runs_without_hooks_is_named_with_the_reason() {
    let workers = Workers::new();
    let told = |line| {
        let (profile, _) = workers.shell(line);
        let [(name, times, reason)] = &unseen(&profile)[..] else {
            panic!("{line}: {:#}", profile["unseen"]);
        };
        (name.clone(), *times, reason.clone())
    };
    let (name, times, reason) = told("for i in 1 2 3; do ./static 0; done; ./dynamic 0");
    assert_eq!((name.as_str(), times), ("static", 3));
    assert!(reason.contains("it is static"), "{reason}");
    let (name, times, reason) = told("env -i ./dynamic 0; ./dynamic 0; ./dynamic 0");
    assert_eq!((name.as_str(), times), ("dynamic", 1));
    assert!(reason.contains("without LD_PRELOAD"), "{reason}");
    let (name, times, reason) = told("REHEAP_PROFILE=/no/such/file ./dynamic 0; ./dynamic 0");
    assert_eq!((name.as_str(), times), ("dynamic", 1));
    assert!(reason.contains("could not open"), "{reason}");
}

#[test]
fn a_static_program_that_works_is_named_with_its_time() {
    let workers = Workers::new();
    let (profile, outcome) = workers.shell("./static 0.5; true");
    let cpu = profile["unseen"][0]["cpu_seconds"].as_f64();
    assert!(cpu.is_some_and(|cpu| cpu > 0.0), "{:#}", profile["unseen"]);
    assert!(outcome.stderr.contains("of CPU time"), "{}", outcome.stderr);
}

#[test]
fn a_static_program_that_a_static_program_starts_is_named() {
    let workers = Workers::new();
    std::fs::copy(workers.program("static"), workers.program("second")).unwrap();
    let words = [
        &workers.program("static"),
        Path::new("starts"),
        &workers.program("second"),
        Path::new("0.5"),
    ];
    let (profile, _) = workers.profile(&words);
    let told = unseen(&profile);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].0.as_str(), told[0].1), ("second", 1));
}

#[test]
fn programs_with_hooks_are_not_named() {
    let workers = Workers::new();
    let line = "for i in 1 2 3 4 5 6 7 8 9; do ./dynamic 0; done; (./dynamic 0; true) | cat; exec ./dynamic starts ./dynamic 0";
    let (profile, _) = workers.shell(line);
    assert_eq!(unseen(&profile), [], "{:#}", profile["unseen"]);
    std::fs::write(
        workers.program("Makefile"),
        "all: a b c\na b c:\n\t./dynamic 0.01\n",
    )
    .unwrap();
    let (profile, _) = workers.profile(&["make".as_ref(), "-j2".as_ref()]);
    assert_eq!(unseen(&profile), [], "{:#}", profile["unseen"]);
}

/// Such a process may take a place behind the one that it had before: places are free again when others have ended.
#[test]
fn programs_with_hooks_are_not_named_where_processes_come_and_go() {
    let workers = Workers::new();
    let line = "for i in $(seq 300); do ./dynamic 0 | ./dynamic 0; done";
    let (profile, _) = workers.profile(&["bash".as_ref(), "-c".as_ref(), line.as_ref()]);
    assert_eq!(unseen(&profile), [], "{:#}", profile["unseen"]);
}

#[test]
fn a_process_that_outlives_the_command_is_told() {
    let workers = Workers::new();
    let (profile, outcome) = workers.shell("./dynamic daemon; true");
    run(Command::new("kill").arg(outcome.stdout.trim())).succeeded();
    assert!(
        outcome.stderr.contains("not all processes ended"),
        "{}",
        outcome.stderr
    );
    assert_eq!(unseen(&profile), []);
    let (profile, outcome) = workers.shell("./static daemon; true");
    run(Command::new("kill").arg(outcome.stdout.trim())).succeeded();
    let (_, _, reason) = &unseen(&profile)[0];
    assert!(reason.contains("static"), "{reason}");
}

/// The first process of a PID namespace calls itself 1, as the system's own first process is called outside.
#[test]
fn a_process_in_a_pid_namespace_has_its_own_figures_or_none() {
    let workers = Workers::new();
    let child = |kind: &str| {
        let words = [
            &workers.program("dynamic"),
            Path::new(kind),
            Path::new("0.3"),
        ];
        let (profile, outcome) = workers.profile(&words);
        let processes = profile["processes"].as_array().unwrap();
        assert_eq!(processes.len(), 2, "{kind}");
        let is_child = |process: &&Value| process["parent"].is_u64();
        let child = processes.iter().find(is_child).unwrap().clone();
        assert_eq!(child["name"], Value::Null, "{kind}");
        assert_ne!(child["ended"], Value::Null, "{kind}");
        (child, outcome, profile["unseen"].clone())
    };
    let (namespaced, outcome, unseen) = child("namespace");
    assert_ne!(namespaced["pid"], 1);
    assert!(
        namespaced["time"]["user_seconds"].as_f64() > Some(0.0),
        "{namespaced:#}"
    );
    assert!(
        namespaced["time"]["in_allocator"].as_u64() > Some(0),
        "{namespaced:#}"
    );
    assert_eq!(unseen, Value::Null);
    outcome.did_not_say("PID namespace");

    let (hidden, outcome, unseen) = child("hidden");
    assert_eq!((&hidden["pid"], &hidden["time"]), (&1.into(), &Value::Null));
    assert!(
        hidden["counts"]["calls"]["malloc"].as_u64() > Some(0),
        "{hidden:#}"
    );
    assert_eq!(unseen.as_array().map(Vec::len), Some(1), "{unseen:#}");
    outcome.said(&["1 processes in a PID namespace are without CPU time"]);
}

#[test]
fn a_32_bit_program_runs_unharmed_and_is_named() {
    let workers = Workers::new();
    let line = "./dynamic starts ./narrow 0.3 2>said; ./narrow 0 2>>said; ./dynamic 0";
    for flags in ["", "--trace calls.trace"] {
        let mut command = reheap(&format!("profile {flags} -o profile.json -- sh -c"));
        run(command.arg(line).current_dir(workers.directory.path())).succeeded();
        let said = std::fs::read_to_string(workers.program("said")).unwrap();
        assert_eq!(said, "", "`{flags}` changes what the program says");
        let profile = std::fs::read_to_string(workers.program("profile.json")).unwrap();
        let profile: Value = serde_json::from_str(&profile).unwrap();
        let [(name, times, reason)] = &unseen(&profile)[..] else {
            panic!("{:#}", profile["unseen"]);
        };
        assert_eq!((name.as_str(), *times), ("narrow", 2));
        assert!(reason.contains("it is a 32-bit program"), "{reason}");
        let cpu = profile["unseen"][0]["cpu_seconds"].as_f64();
        assert!(cpu.is_some_and(|cpu| cpu > 0.0), "{:#}", profile["unseen"]);
        let processes = profile["processes"].as_array().unwrap();
        let of_narrow = |process: &&Value| process["program"].as_str().unwrap().ends_with("narrow");
        assert_eq!(processes.iter().find(of_narrow), None);
    }
}

/// The kernel starts it so where binfmt_misc(5) is set up: the emulator has hooks, and hands its variables on.
#[test]
fn an_emulated_program_says_no_more_than_usual() {
    let workers = Workers::new();
    let source = workers.program("nothing.c");
    std::fs::write(&source, "int main(void) { return 7; }\n").unwrap();
    let mut cc = Command::new("aarch64-linux-gnu-gcc");
    run(cc.arg(source).arg("-o").arg(workers.program("emulated"))).succeeded();
    let line = "qemu-aarch64 -L /usr/aarch64-linux-gnu ./emulated 2>said; test $? = 7";
    workers.shell(line);
    let said = std::fs::read_to_string(workers.program("said")).unwrap();
    assert_eq!(said, "");
}

#[test]
fn a_32_bit_program_is_refused_as_the_first_one() {
    let workers = Workers::new();
    let source = workers.program("stop.c");
    std::fs::write(&source, "void _start(void) { for (;;); }\n").unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-m32", "-static", "-nostdlib"]).arg(source);
    run(cc.arg("-o").arg(workers.program("stop"))).succeeded();
    for program in ["narrow", "stop"] {
        let mut command = reheap("profile --");
        let outcome = run(command.arg(workers.program(program)).arg("0")).ended_with(1);
        let text = format!("{program}`: it is a 32-bit program for i686, and the hooks are for");
        outcome.said(&["cannot profile `", &text]);
    }
}

#[test]
fn a_running_32_bit_process_is_refused_and_goes_on() {
    let workers = Workers::new();
    let mut daemon = Command::new(workers.program("narrow"));
    let pid = run(daemon.arg("daemon")).succeeded().stdout;
    let pid = pid.trim();
    let refused = run(&mut reheap(&format!("profile --seconds 1 --pid {pid}"))).ended_with(1);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    run(Command::new("kill").arg(pid)).succeeded();
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
    let text = format!("cannot profile process {pid}: ");
    refused.said(&[&text, "it is a 32-bit executable"]);
}

/// Root would open whatever a process of somebody else says that its libraries are.
#[test]
fn a_process_of_another_user_is_refused_before_anything_else_is_asked() {
    let workers = Workers::new();
    let is_root = rustix::process::geteuid().is_root();
    let (pid, user) = if is_root {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(workers.directory.path(), mode).unwrap();
        let mut daemon = Command::new("setpriv");
        daemon.args(["--reuid=65534", "--clear-groups"]);
        daemon.arg(workers.program("narrow")).arg("daemon");
        (run(&mut daemon).succeeded().stdout, 65534)
    } else {
        ("1".to_owned(), 0)
    };
    let pid = pid.trim();
    let refused = run(&mut reheap(&format!("profile --seconds 1 --pid {pid}"))).ended_with(1);
    if is_root {
        run(Command::new("kill").arg(pid)).succeeded();
    }
    refused.said(&[&format!(
        "cannot profile process {pid}: it runs as the user {user}, and"
    )]);
}

#[test]
fn rust_code_with_an_allocator_of_its_own_is_watched_past_malloc() {
    let place = tempfile::tempdir().unwrap();
    let manifest = "tests/programs/rust/own_mimalloc/Cargo.toml";
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest);
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--locked", "--target-dir"])
        .arg(place.path());
    run(cargo.arg("--manifest-path").arg(manifest)).succeeded();
    let program = place.path().join("debug/own_mimalloc");
    let report = place.path().join("profile.json");
    let profile = |words: &[&Path]| -> Value {
        let mut command = reheap("profile -o");
        run(command.arg(&report).arg("--").args(words)).succeeded();
        serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap()
    };
    let alone = profile(&[&program]);
    assert_eq!(alone["processes"][0]["allocator"], "mimalloc");
    assert_eq!(alone["processes"][0]["access"], "symbols");
    // Each of its 2,000 strings is one block.
    let calls = alone["processes"][0]["counts"]["calls"]
        .as_object()
        .unwrap();
    let calls: u64 = calls.values().filter_map(Value::as_u64).sum();
    assert!(calls > 4_000, "{alone:#}");
    assert_eq!(unseen(&alone), []);

    let by_shell = profile(&[Path::new("env"), &program]);
    let told = unseen(&by_shell);
    let [(name, 1, reason)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(name, "own_mimalloc");
    assert!(reason.contains("calls mimalloc past malloc"), "{reason}");
}

#[test]
fn a_dynamic_program_with_a_malloc_of_its_own_is_counted() {
    const SOURCE: &str = "#include <stddef.h>\nstatic char heap[1 << 20]; static size_t used;\n\
        void *malloc(size_t size) { void *block = heap + used; used += (size + 15) & -16ul; return block; }\n\
        void free(void *block) { (void)block; }\n\
        void *calloc(size_t count, size_t size) { return malloc(count * size); }\n\
        void *realloc(void *block, size_t size) { (void)block; return malloc(size); }\n\
        int main(void) { for (int i = 0; i < 1000; i++) { char *block = malloc(10); *block = 1; free(block); } }\n";
    let workers = Workers::new();
    let (source, program) = (workers.program("own.c"), workers.program("own"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-fno-builtin").arg(&source).arg("-o").arg(&program);
    run(&mut cc).succeeded();
    let (profile, _) = workers.profile(&[&program]);
    let calls = &profile["processes"][0]["counts"]["calls"];
    assert_eq!(
        (&calls["malloc"], &calls["free"]),
        (&1000.into(), &1000.into())
    );
    assert_eq!(unseen(&profile), []);
}
