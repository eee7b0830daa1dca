//! `reheap profile` of commands that start programs without hooks: each is named, and nothing else is.

mod common;

use common::{Outcome, reheap, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two programs from one source, one of them static.
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
