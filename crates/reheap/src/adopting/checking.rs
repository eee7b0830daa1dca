//! Runs `cargo check` for this machine's target and all others that are installed, to see that an edited project still
//! builds.
//!
//! A target may fail without the edit, too: a C library is missing, or the code is for another system. That is only
//! found out where the check fails, because most do not, and a check may take minutes.

use anyhow::Context as _;
use reheap_command::env_vars;
use reheap_command::interrupt;
use reheap_command::pulse;
use reheap_command::ui::Failure;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often it is seen whether somebody pressed Ctrl-C.
const PAUSE: Duration = Duration::from_millis(50);

/// What is checked.
pub(super) struct Check {
    /// Where the workspace is.
    pub(super) root: PathBuf,
    pub(super) packages: Vec<String>,
    /// The packages as `name@1.0.0`, by which Cargo tells them from dependencies with the same names.
    pub(super) specs: Vec<String>,
    /// Cargo's flag for what of them: `--bins` or `--lib`.
    pub(super) targets: &'static str,
    pub(super) feature: Option<String>,
    pub(super) is_offline: bool,
    pub(super) interrupted: Arc<AtomicBool>,
}

/// A target to check.
pub(super) struct Goal {
    pub(super) triple: String,
    /// Whether Cargo gets no `--target`, because it is this machine's own: Cargo uses another directory with the flag
    /// than without, and what a user has built would be built again.
    is_without_flag: bool,
    /// Whether the user builds for it, as far as is known. Others are only installed.
    pub(super) has_to_work: bool,
}

/// The targets to check: those that the user named or configured, or else this machine's own, and all others of Linux
/// that are installed.
pub(super) fn goals(
    root: &Path,
    named: &[String],
    configured: &[String],
) -> anyhow::Result<Vec<Goal>> {
    let goal = |triple: &String, is_without_flag, has_to_work| Goal {
        triple: triple.clone(),
        is_without_flag,
        has_to_work,
    };
    let mut goals = Vec::new();
    if configured.is_empty() {
        goals.push(goal(&host(root)?, true, true));
    }
    let installed = installed(root)?;
    let is_installed = |triple: &&String| installed.contains(triple);
    let wanted = configured.iter().chain(named.iter().filter(is_installed));
    let wanted: Vec<&String> = wanted.collect();
    let others = installed.iter().filter(|triple| triple.contains("-linux-"));
    for triple in wanted.iter().copied().chain(others) {
        if !goals.iter().any(|goal| goal.triple == *triple) {
            goals.push(goal(triple, false, wanted.contains(&triple)));
        }
    }
    Ok(goals)
}

/// How a check ended.
pub(super) enum Checked {
    Passed,
    Failed {
        /// Cargo's words.
        words: String,
        /// The C compiler that failed, if that was the reason.
        compiler: Option<String>,
    },
    /// The crate is built from C, and there is no C compiler of this name for that target.
    NoCompiler(String),
}

impl Checked {
    fn of_failure(output: &str) -> Self {
        // The words of the crate `cc`, which the build scripts of all these crates use.
        let named_behind = |words| {
            let (_, rest) = output.split_once(words)?;
            let (tool, _) = rest.split_once('"')?.1.split_once('"')?;
            Some(tool.to_owned())
        };
        match named_behind("failed to find tool ") {
            Some(tool) => Self::NoCompiler(tool),
            None => Self::Failed {
                words: without_chatter(output),
                compiler: named_behind("cc-rs: command did not execute successfully"),
            },
        }
    }
}

/// Cargo's words without what a failed build script told Cargo.
fn without_chatter(output: &str) -> String {
    let mut is_chatter = false;
    let lines = output.split_inclusive('\n').filter(|line| {
        is_chatter = match line.trim() {
            "--- stdout" => true,
            "--- stderr" => false,
            _ => is_chatter,
        };
        !is_chatter
    });
    lines.collect()
}

impl Check {
    /// Checks the project for one target, with the change.
    pub(super) fn run(&self, goal: &Goal) -> anyhow::Result<Checked> {
        let words = format!("cargo check for {}", goal.triple);
        self.run_with(goal, self.feature.as_deref(), &words)
    }

    /// Checks the project for one target as it was before the change: without the new feature.
    pub(super) fn run_without_change(&self, goal: &Goal) -> anyhow::Result<Checked> {
        let words = format!("cargo check for {} without the change", goal.triple);
        self.run_with(goal, None, &words)
    }

    fn run_with(&self, goal: &Goal, feature: Option<&str>, words: &str) -> anyhow::Result<Checked> {
        let mut command = env_vars::cargo();
        command
            .current_dir(&self.root)
            .args(["check", self.targets]);
        for package in &self.specs {
            command.args(["-p", package]);
        }
        if let Some(feature) = feature {
            let features = self
                .packages
                .iter()
                .map(|package| format!("{package}/{feature}"));
            let features: Vec<String> = features.collect();
            command.args(["--features", &features.join(",")]);
        }
        if !goal.is_without_flag {
            command.args(["--target", &goal.triple]);
        }
        if self.is_offline {
            command.arg("--offline");
        }
        let (status, output) = pulse::while_showing(words, || self.wait_for(command))?;
        if status.success() {
            Ok(Checked::Passed)
        } else {
            Ok(Checked::of_failure(&output))
        }
    }

    /// The end of a command, and what it said.
    fn wait_for(&self, mut command: Command) -> anyhow::Result<(ExitStatus, String)> {
        let (reader, writer) = io::pipe().context("cannot make a pipe")?;
        command.stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer);
        let (done, is_done) = mpsc::channel();
        let read = move || {
            let output = io::read_to_string(reader);
            let _ = done.send(()); // nobody waits if it was interrupted
            output.unwrap_or_default()
        };
        let read = thread::Builder::new().spawn(read);
        let read = read.map_err(|error| Failure::no_thread("reads what Cargo says", &error))?;
        let mut child = command.spawn().context("cannot start Cargo")?;
        drop(command); // it has ends of the pipe
        while is_done.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            if self.interrupted.load(Ordering::SeqCst) {
                return Err(self.end(&mut child));
            }
        }
        let status = child.wait().context("cannot wait for Cargo")?;
        if self.interrupted.load(Ordering::SeqCst) {
            return Err(self.end(&mut child));
        }
        Ok((status, read.join().unwrap_or_default()))
    }

    fn end(&self, child: &mut Child) -> anyhow::Error {
        reheap_bench::run::kill_everything();
        let _ = child.wait(); // it was killed
        interrupt::failure("interrupted").into()
    }
}

/// This machine's target.
fn host(root: &Path) -> anyhow::Result<String> {
    let mut rustc = env_vars::rustc();
    // A toolchain may be chosen in the project's directory.
    let output = rustc.current_dir(root).arg("-vV").output();
    let output = output.context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .context("rustc does not say for which machine it is")
}

/// The targets whose standard library is there.
fn installed(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut rustc = env_vars::rustc();
    let output = rustc
        .current_dir(root)
        .args(["--print", "sysroot"])
        .output();
    let output = output.context("cannot start rustc")?;
    let sysroot = String::from_utf8(output.stdout)?;
    let libraries = Path::new(sysroot.trim()).join("lib/rustlib");
    let mut found = Vec::new();
    for entry in fs::read_dir(&libraries)
        .with_context(|| format!("cannot read `{}`", libraries.display()))?
    {
        let entry = entry?;
        if entry.path().join("lib").is_dir() {
            found.extend(entry.file_name().into_string());
        }
    }
    found.sort();
    found.retain(|name| is_triple(name));
    Ok(found)
}

/// Whether it looks like a target; `etc` and components are beside them.
fn is_triple(name: &str) -> bool {
    name.split('-').count() >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_that_is_missing_or_fails_is_named() {
        let of = |output: &str| match Checked::of_failure(output) {
            Checked::NoCompiler(tool) => ("missing", Some(tool)),
            Checked::Failed { compiler, .. } => ("failed", compiler),
            Checked::Passed => panic!("{output}"),
        };
        let output = "cc-rs: failed to find tool \"x-gcc\": No such file or directory (os error 2)";
        assert_eq!(of(output), ("missing", Some("x-gcc".to_owned())));
        let output = "error occurred in cc-rs: command did not execute successfully (status code exit status: 1): \"musl-gcc\" \"-O0\" \"-m32\"";
        assert_eq!(of(output), ("failed", Some("musl-gcc".to_owned())));
        assert_eq!(of("error[E0425]: cannot find \"x\""), ("failed", None));
    }

    #[test]
    fn what_a_build_script_told_cargo_is_left_out() {
        let output = "error: failed\n  --- stdout\n  cargo:x\n  CC = None\n\n  --- stderr\n  why\n";
        assert_eq!(
            without_chatter(output),
            "error: failed\n  --- stderr\n  why\n"
        );
    }
}
