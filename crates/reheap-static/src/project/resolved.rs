//! A project with everything that decides how it is linked: the choices, Cargo's configuration, and the target. From
//! these come the plans of its links.

use super::choices::Choices;
use super::config::Config;
use super::default_linker::{rust_lld, usable};
use super::messages::Artifact;
use super::plan::Plan;
use super::request::Request;
use super::targets::Targets;
use super::workspace::ByPackage;
use super::{locate, records};
use reheap_allocators::target::Target;
use reheap_command::choice::{Choice, StaticChoice};
use reheap_command::env_vars;
use reheap_workshop::workshop::{Network, Workshop, refuse_missing};
use std::path::{Path, PathBuf};

/// What is linked for which target, and what with.
pub(super) struct ResolvedProject {
    pub(super) choices: Choices,
    pub(super) config: Config,
    pub(super) target: Target,
    pub(super) workshop: Workshop,
}

/// How each package is linked.
pub(super) type Plans = ByPackage<Plan>;

impl ResolvedProject {
    /// Looks up what a request leaves open: in Cargo's configuration, and in the project's manifests.
    pub(super) fn new(request: &Request) -> anyhow::Result<(Self, Targets)> {
        let config = locate::config(request)?;
        let mut targets = Targets::asked(request, &config)?;
        let choices = Choices::new(request, locate::workspace(request)?)?;
        if let Some(workspace) = &choices.workspace {
            targets = targets.or_of(workspace, request)?;
        }
        let network = if request.flags.has(&["--offline", "--frozen"]) {
            Network::Forbidden
        } else {
            Network::AsConfigured
        };
        let project = Self {
            choices,
            workshop: Workshop::new(network).with_rustc(config.rustc()),
            config,
            target: targets.built,
        };
        Ok((project, targets))
    }

    /// The triple of the musl target.
    pub(super) fn triple(&self) -> &str {
        self.target.triple()
    }

    /// Fails if the target lacks an allocator that is chosen, or is not installed.
    pub(super) fn check_target(&self) -> anyhow::Result<()> {
        let choices = &self.choices.by_package;
        choices.try_map(|chosen| Ok(refuse_missing(&chosen.choice, &self.target)?))?;
        self.workshop.libc_of_rust(&self.target)?;
        Ok(())
    }

    /// How to link a program with an allocator, and with threads of this stack size.
    pub(super) fn plan(&self, choice: &Choice, stack_size_bytes: u64) -> anyhow::Result<Plan> {
        refuse_missing(choice, &self.target)?;
        let linker = self.linker()?;
        let libc = self.workshop.libc_of_rust(&self.target)?;
        Ok(Plan {
            linker,
            derived: self
                .workshop
                .derived_directory(choice, &self.target, &libc)?,
            stack_size_bytes,
            triple: self.triple().to_owned(),
        })
    }

    /// The linker that would link without reheap.
    fn linker(&self) -> anyhow::Result<PathBuf> {
        match self.config.linker(&self.target)? {
            Some(linker) => Ok(usable(linker, self.workshop.rustc())?),
            None if Target::of_this_machine(self.target.libc()) == Some(self.target) => {
                Ok(env_vars::usual_program("cc"))
            }
            // Rust brings a linker for all its targets, and for musl targets everything else that a link needs.
            None => rust_lld(self.workshop.rustc()),
        }
    }

    /// How to link each package.
    pub(super) fn plans(&self) -> anyhow::Result<Plans> {
        let mut known: Vec<(StaticChoice, Plan)> = Vec::new();
        self.choices.by_package.try_map(|chosen| {
            let is_same = |of: &StaticChoice| {
                of.choice == chosen.choice && of.stack_size_bytes == chosen.stack_size_bytes
            };
            if let Some((_, plan)) = known.iter().find(|(of, _)| is_same(of)) {
                return Ok(plan.clone());
            }
            let plan = self.plan(&chosen.choice, chosen.stack_size_bytes)?;
            known.push((chosen.clone(), plan.clone()));
            Ok(plan)
        })
    }

    /// How to link each package with one allocator, whatever is chosen for it.
    pub(super) fn plans_with(&self, choice: &Choice) -> anyhow::Result<Plans> {
        let choices = &self.choices.by_package;
        choices.try_map(|chosen| self.plan(choice, chosen.stack_size_bytes))
    }

    /// How to link what Cargo made of a package; most packages were thought of before.
    pub(super) fn plan_of(&self, plans: &Plans, artifact: &Artifact) -> anyhow::Result<Plan> {
        if let Some(plan) = plans.of(artifact.directory()) {
            return Ok(plan.clone());
        }
        let chosen = self.choices.of(artifact.directory())?;
        self.plan(&chosen.choice, chosen.stack_size_bytes)
    }

    /// Where the link of an executable of Cargo's is recorded.
    pub(super) fn records(&self, executable: &Path, request: &Request) -> anyhow::Result<PathBuf> {
        let build_directory = || locate::build_directory(&request.flags);
        records::records_of(executable, self.triple(), build_directory)
    }
}
