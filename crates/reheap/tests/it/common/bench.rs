//! What the tests of `reheap bench` share: commands in a directory of their own, and what its JSON says.

use super::command::{EVENT_DEADLINE, Running, make_fifo};
use super::{Outcome, reheap};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `reheap bench` with these arguments.
pub(crate) fn bench(line: &str) -> Command {
    let mut command = reheap(&format!("bench {line}"));
    command.env_remove("LD_PRELOAD");
    command
}

/// Commands to measure, in a directory in which they also leave what they saw.
pub(crate) struct Commands {
    directory: tempfile::TempDir,
}

impl Commands {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// A script for `sh`.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let script = self.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        script
    }

    /// A script for `sh` as a value of `--variant`.
    pub(crate) fn variant(&self, name: &str, text: &str) -> String {
        format!("{name}={}", self.script(name, text).display())
    }

    /// Something to wait at, called `fifo`.
    pub(crate) fn fifo(&self) {
        make_fifo(&self.path("fifo"));
    }

    /// `reheap bench` in the directory.
    pub(crate) fn bench(&self, line: &str) -> Command {
        let mut command = bench(line);
        command.current_dir(self.directory.path());
        command
    }

    /// Checks that none runs of the processes whose ids, this many, stand in a file.
    #[track_caller]
    pub(crate) fn all_have_ended(&self, file: &str, count: usize) {
        let ids = self.read(file);
        assert_eq!(ids.lines().count(), count, "{ids}");
        for id in ids.lines() {
            assert!(has_ended(id), "{id} still runs");
        }
    }
}

/// Whether a process has ended: one that nobody has waited for yet has ended too.
pub(crate) fn has_ended(id: &str) -> bool {
    match fs::read_to_string(Path::new("/proc").join(id).join("stat")) {
        Err(_) => true,
        // The state stands behind the name, which is in brackets.
        Ok(stat) => stat.rsplit(')').next().unwrap().starts_with(" Z"),
    }
}

/// The one benchmark of the JSON on standard output.
#[track_caller]
pub(crate) fn results(outcome: &Outcome) -> Value {
    let results: Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error} in {}{}", outcome.stdout, outcome.stderr));
    let benchmarks = results["benchmarks"].as_array().unwrap();
    assert_eq!(benchmarks.len(), 1);
    benchmarks[0].clone()
}

/// A variant of a benchmark.
#[track_caller]
pub(crate) fn variant<'a>(benchmark: &'a Value, name: &str) -> &'a Value {
    let variants = benchmark["variants"].as_array().unwrap();
    let found = variants.iter().find(|variant| variant["name"] == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {variants:?}"))
}

/// The runs of a variant.
#[track_caller]
pub(crate) fn runs_of<'a>(benchmark: &'a Value, name: &str) -> &'a [Value] {
    variant(benchmark, name)["runs"].as_array().unwrap()
}

/// Starts it, and sends it this signal when the command has written into the fifo.
pub(crate) fn interrupted(commands: &Commands, command: &mut Command, signal: Signal) -> Outcome {
    let running = Running::start(command.stdin(Stdio::null()));
    assert_eq!(running.says_through(&commands.path("fifo")), "begun\n");
    kill_process(running.pid(), signal).unwrap();
    running.finish(EVENT_DEADLINE)
}
