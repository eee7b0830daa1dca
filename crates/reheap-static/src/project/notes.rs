//! What reheap says about a build besides what Cargo says.

use super::choices::Choices;
use super::messages::{Artifact, MadeFor};
use super::request::{Request, Verb};
use anyhow::Context as _;
use reheap_command::env_vars;
use reheap_command::ui;
use std::path::Path;

/// Prints lines about the build for a target.
#[derive(Clone, Copy)]
pub(super) struct Notes<'a> {
    pub(super) request: &'a Request,
    pub(super) triple: &'a str,
}

impl Notes<'_> {
    /// Prints a line, unless the user wants none.
    pub(super) fn say(self, text: &str) {
        let is_quiet = env_vars::variable("CARGO_TERM_QUIET").is_some_and(|value| value == "true");
        if !is_quiet && !self.request.flags.has(&["-q", "--quiet"]) {
            ui::note(text);
        }
    }

    /// Names the targets of the project that another command has to build.
    pub(super) fn other_targets(self, others: &[String]) {
        if let [first, ..] = others {
            let all = others.join(", ");
            let built = self.triple;
            self.say(&format!(
                "building for {built}; for {all} as well, add --target {first}"
            ));
        }
    }

    /// Says that reheap has nothing to do with an executable.
    pub(super) fn unchecked(self, executable: &Path, made_for: MadeFor) -> anyhow::Result<()> {
        let reason = match made_for {
            MadeFor::HostAsProceduralMacro => {
                "tests of a procedural macro run on the host".to_owned()
            }
            MadeFor::Target | MadeFor::AnotherTarget => format!("it is not for {}", self.triple),
        };
        self.say(&format!(
            "{}: not checked, because {reason}",
            shown(executable)?
        ));
        Ok(())
    }

    /// Says that rustc made no shared library of a crate that asks for one: it warns in words that name no way out, and
    /// Cargo calls the build a success.
    pub(super) fn missing_library(self, artifact: &Artifact, choices: &Choices) {
        if !artifact.lacks_its_shared_library() || !self.asks_for_library(artifact, choices) {
            return;
        }
        let (name, triple) = (&artifact.target.name, self.triple);
        self.say(&format!(
            "Cargo made no shared library of the crate `{name}`: for {triple}, Rust links statically\n\nhint: build \
             it with `cargo build`, for glibc; it uses the allocator of the program that loads it\n"
        ));
    }

    /// Whether the user asks for a library, and not only for programs that need it.
    fn asks_for_library(self, artifact: &Artifact, choices: &Choices) -> bool {
        const PROGRAMS: [&str; 8] = [
            "--bin",
            "--bins",
            "--example",
            "--examples",
            "--test",
            "--tests",
            "--bench",
            "--benches",
        ];
        let is_package_meant = choices.means(artifact.directory(), self.request);
        let flags = &self.request.flags;
        let is_library_meant = flags.has(&["--lib", "--all-targets"])
            || (self.request.verb != Verb::Run && !flags.has(&PROGRAMS));
        artifact.is_example() || (is_package_meant && is_library_meant)
    }
}

/// How a path is shown.
pub(super) fn shown(executable: &Path) -> anyhow::Result<String> {
    let directory = std::env::current_dir().context("cannot find the current directory")?;
    let relative = executable.strip_prefix(&directory).unwrap_or(executable);
    Ok(relative.display().to_string())
}
