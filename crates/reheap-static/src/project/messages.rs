//! Reads what Cargo says about the files that it makes (Cargo book, "External tools", JSON messages).
//!
//! Cargo builds for two machines at once: procedural macros, their tests and build scripts are for the host, whatever
//! `--target` says. Its messages have no field for that. Their kind shows procedural macros; for everything else, the
//! directory tells. The file itself proves nothing, because a wrongly linked one for the target may look like one for
//! the host.

use anyhow::Context as _;
use reheap_command::ui;
use serde::Deserialize;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::thread;

/// What Cargo made of one target of a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Artifact {
    pub(crate) package_id: String,
    manifest_path: PathBuf,
    pub(crate) target: CargoTarget,
    /// The program, if it is one.
    pub(crate) executable: Option<PathBuf>,
    filenames: Vec<PathBuf>,
    profile: Profile,
}

/// A target of a package: a library, a program, a test.
#[derive(Debug, Deserialize)]
pub(crate) struct CargoTarget {
    pub(crate) name: String,
    kind: Vec<String>,
    crate_types: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// What a program was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MadeFor {
    /// The target that the user asked for.
    Target,
    /// This machine, because the compiler loads what is tested there.
    HostAsProceduralMacro,
    /// A target that the package forces, whatever the user asks for.
    AnotherTarget,
}

impl Artifact {
    fn of_message(line: &str) -> Option<Self> {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        if message["reason"] != "compiler-artifact" {
            return None;
        }
        serde_json::from_value(message).ok()
    }

    /// The directory of the package, as [`super::workspace`] names packages.
    pub(crate) fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    /// What a program of these that Cargo made with `--target <triple>` was made for.
    pub(crate) fn made_for(&self, executable: &Path, triple: &str) -> MadeFor {
        if self.target.kind.iter().any(|kind| kind == "proc-macro") {
            return MadeFor::HostAsProceduralMacro;
        }
        if executable
            .ancestors()
            .any(|directory| directory.ends_with(triple))
        {
            MadeFor::Target
        } else {
            MadeFor::AnotherTarget
        }
    }

    /// Whether this is an example, which may be a library.
    pub(crate) fn is_example(&self) -> bool {
        self.target.kind.iter().any(|kind| kind == "example")
    }

    /// Whether this is a library whose shared form rustc left out: it makes none for a target that links statically.
    pub(crate) fn lacks_its_shared_library(&self) -> bool {
        let is_shared = |kind: &String| kind == "cdylib" || kind == "dylib";
        let is_file = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "so");
        !self.profile.test
            && self.target.crate_types.iter().any(is_shared)
            && !self.filenames.iter().any(is_file)
    }
}

/// What Cargo is told to print, and what of it the user sees.
pub(crate) struct Format {
    for_cargo: String,
    /// The user asked for the messages themselves.
    is_forwarded: bool,
}

impl Format {
    /// What the values of the user's `--message-format` ask for.
    pub(crate) fn of(given: &[String]) -> Self {
        let (for_cargo, is_forwarded) = match given.join(",").as_str() {
            "" | "human" => ("json-render-diagnostics".to_owned(), false),
            "short" => (
                "json-render-diagnostics,json-diagnostic-short".to_owned(),
                false,
            ),
            // Also what is not a message: Cargo says so.
            other => (other.to_owned(), true),
        };
        Self {
            for_cargo,
            is_forwarded,
        }
    }

    /// Whether the messages go to standard output as they are.
    pub(crate) fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }
}

/// Runs Cargo and gives everything that it names in its messages. The messages themselves go to standard output if the
/// user asked for them. `last` are words that follow all others, such as those behind `--`.
///
/// What Cargo says on standard error is passed on, long lines without their middle: of a link that failed, rustc prints
/// the whole command, which may have megabytes. Only Cargo itself can write to a terminal with its progress bar, so there
/// it does.
pub(crate) fn read(
    mut cargo: Command,
    format: &Format,
    last: &[OsString],
) -> anyhow::Result<(ExitStatus, Vec<Artifact>)> {
    if !std::io::stderr().is_terminal() {
        cargo.stderr(Stdio::piped());
    }
    let mut child = cargo
        .args(["--message-format", &format.for_cargo])
        .args(last)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start Cargo")?;
    let stderr = child.stderr.take();
    let messages = BufReader::new(child.stdout.take().expect("standard output was piped"));
    let artifacts = thread::scope(|scope| {
        let pass_on = |stderr| thread::Builder::new().spawn_scoped(scope, || pass_on(stderr));
        stderr
            .map(pass_on)
            .transpose()
            .context("cannot read what Cargo says")?;
        artifacts_of(messages, format)
    })?;
    let status = child.wait().context("cannot wait for Cargo")?;
    Ok((status, artifacts))
}

fn artifacts_of(messages: impl BufRead, format: &Format) -> anyhow::Result<Vec<Artifact>> {
    let mut artifacts = Vec::new();
    for line in messages.lines() {
        let line = line.context("cannot read Cargo's messages")?;
        if format.is_forwarded || !line.starts_with('{') {
            ui::data(&format!("{line}\n"))?;
        }
        artifacts.extend(Artifact::of_message(&line));
    }
    Ok(artifacts)
}

/// Prints what Cargo says, line by line.
fn pass_on(stderr: ChildStderr) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    // An error ends it as the end does: there is nothing more to be had.
    while lines
        .read_until(b'\n', &mut line)
        .is_ok_and(|bytes| bytes > 0)
    {
        ui::passed_on(&String::from_utf8_lossy(&line));
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(target: serde_json::Value, executable: &str, files: &[&str]) -> Artifact {
        let message = serde_json::json!({
            "reason": "compiler-artifact", "package_id": "app", "manifest_path": "/p/Cargo.toml", "target": target, "profile": { "test": false },
            "executable": executable, "filenames": files,
        });
        Artifact::of_message(&message.to_string()).unwrap()
    }

    #[test]
    fn programs_of_the_target_are_below_its_directory_wherever_that_is() {
        const TRIPLE: &str = "x86_64-unknown-linux-musl";
        let bin = serde_json::json!({ "name": "app", "kind": ["bin"], "crate_types": ["bin"] });
        let mac = serde_json::json!({ "name": "mac", "kind": ["proc-macro"], "crate_types": ["proc-macro"] });
        for (target, path, made_for) in [
            (
                &bin,
                "/p/target/x86_64-unknown-linux-musl/debug/app",
                MadeFor::Target,
            ),
            (
                &bin,
                "/b/x86_64-unknown-linux-musl/debug/build/app/1f/out/app",
                MadeFor::Target,
            ),
            (
                &bin,
                "/p/target/wasm32-wasip1/debug/app.wasm",
                MadeFor::AnotherTarget,
            ),
            (
                &mac,
                "/p/target/debug/deps/mac-1f",
                MadeFor::HostAsProceduralMacro,
            ),
            (
                &mac,
                "/x86_64-unknown-linux-musl/target/debug/deps/mac-1f",
                MadeFor::HostAsProceduralMacro,
            ),
        ] {
            let artifact = artifact(target.clone(), path, &[path]);
            let found = artifact.made_for(Path::new(path), TRIPLE);
            assert_eq!(found, made_for, "{path}");
        }
    }

    #[test]
    fn a_shared_library_is_missed_where_it_was_asked_for_and_is_not_there() {
        let of = |kinds: &[&str], files: &[&str]| {
            let target = serde_json::json!({ "name": "plug", "kind": kinds, "crate_types": kinds });
            artifact(target, "", files).lacks_its_shared_library()
        };
        assert!(of(&["cdylib", "rlib"], &["/t/libplug.rlib"]));
        assert!(of(&["dylib"], &[]));
        assert!(!of(&["cdylib"], &["/t/libplug.so"]));
        assert!(!of(&["rlib"], &["/t/libplug.rlib"]));
    }
}
