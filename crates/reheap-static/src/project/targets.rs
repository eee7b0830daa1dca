//! Chooses the target that a command builds for, out of those that the user or else the project names.

use super::config::Config;
use super::request::Request;
use super::workspace::Workspace;
use reheap_allocators::target::Target;
use reheap_command::choice;
use reheap_command::ui::Failure;
use std::collections::BTreeSet;

/// The target that a session builds for, and those that are left to others.
pub(super) struct Targets {
    pub(super) built: Target,
    /// Whether the user asks for this target.
    is_asked: bool,
    /// Further targets that the user asks for; each has a session of its own.
    pub(super) further: Vec<String>,
    /// Further targets that the project chooses; another command has to build them.
    pub(super) of_project: Vec<String>,
}

impl Targets {
    /// The targets that the user asks for, else that of this machine.
    pub(super) fn asked(request: &Request, config: &Config) -> anyhow::Result<Self> {
        let asked = asked_targets(request, config);
        Ok(Self {
            built: choice::musl_target(asked.first().map(String::as_str))?,
            is_asked: !asked.is_empty(),
            further: asked.into_iter().skip(1).collect(),
            of_project: Vec::new(),
        })
    }

    /// The targets that the project chooses, where the user asks for none.
    pub(super) fn or_of(self, project: &Workspace, request: &Request) -> anyhow::Result<Self> {
        if self.is_asked {
            return Ok(self);
        }
        let chosen = project.targets(&request.flags)?;
        Ok(Self {
            built: choice::musl_target(chosen.first().map(String::as_str))?,
            of_project: chosen.into_iter().skip(1).collect(),
            ..self
        })
    }

    /// Fails if the user asks for several targets.
    pub(super) fn refuse_further(&self, what: &str) -> Result<(), Failure> {
        if self.further.is_empty() {
            return Ok(());
        }
        let text = format!("cannot {what} for more than one target at a time");
        let hint = format!("choose one: --target {}", self.built.triple());
        Err(Failure::usage(text).hint(hint))
    }
}

/// The targets that the user asks for, each once, by flags or else by the configuration; none for that of this machine.
fn asked_targets(request: &Request, config: &Config) -> Vec<String> {
    let mut asked = request.targets.clone();
    if asked.is_empty() {
        // A configured glibc target says what `cargo build` makes, not that a static executable is not wanted.
        asked = config.build_targets();
        asked.retain(|triple| triple.contains("musl"));
    }
    let mut seen = BTreeSet::new();
    asked.retain(|triple| seen.insert(triple.clone()));
    asked
}
