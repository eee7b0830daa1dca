//! A run of Cargo with reheap's linker, and the proof of what it makes.
//!
//! reheap learns from Cargo's messages which executables there are. It relinks those that Cargo had no reason to repeat,
//! and reads the marker of each executable.

use super::additions::Additions;
use super::doctests::Doctests;
use super::messages::{self, Artifact, MadeFor};
use super::notes::{Notes, shown};
use super::plan::Plan;
use super::proof::{self, Hints};
use super::records::{self, Linked, When};
use super::request::{Request, Verb};
use super::resolved::{Plans, ResolvedProject};
use anyhow::Context as _;
use reheap_command::choice::StaticChoice;
use reheap_command::exit;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A run of Cargo that links by these plans.
pub(super) struct CargoRun<'a> {
    pub(super) request: &'a Request,
    pub(super) project: &'a ResolvedProject,
    plans: Plans,
    additions: Additions,
}

impl<'a> CargoRun<'a> {
    /// Makes ready what the plans need.
    pub(super) fn new(
        request: &'a Request,
        project: &'a ResolvedProject,
        plans: Plans,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            additions: Additions::with_linker(project, &plans)?,
            request,
            project,
            plans,
        })
    }

    /// A command of Cargo with the user's flags.
    pub(super) fn cargo(&self, command: &str) -> Command {
        let triple = self.project.triple();
        self.additions.cargo(command, self.request, triple)
    }

    pub(super) fn notes(&self) -> Notes<'_> {
        Notes {
            request: self.request,
            triple: self.project.triple(),
        }
    }

    /// How to link what Cargo made of a package.
    pub(super) fn plan_of(&self, artifact: &Artifact) -> anyhow::Result<Plan> {
        self.project.plan_of(&self.plans, artifact)
    }

    /// Where the link of an executable of Cargo's is recorded.
    pub(super) fn records(&self, executable: &Path) -> anyhow::Result<PathBuf> {
        self.project.records(executable, self.request)
    }

    /// Cargo builds; then every executable is linked as planned, and checked.
    pub(super) fn build(&self) -> anyhow::Result<(ExitCode, Vec<Artifact>)> {
        let flags = &self.request.flags;
        let command = match self.request.verb {
            Verb::Run => "build",
            verb => verb.name(),
        };
        let mut cargo = self.cargo(command);
        if self.request.verb == Verb::Test && !flags.has(&["--no-run"]) {
            cargo.arg("--no-run");
        }
        let for_rustc = match self.request.verb {
            Verb::Rustc => &self.request.program_arguments[..],
            _ => &[],
        };
        let format = self.request.message_format();
        let (status, artifacts) = messages::read(cargo, &format, for_rustc)?;
        if !status.success() {
            return Ok((exit::passed_on(status), artifacts));
        }
        let is_relinked = self.link_and_check(&artifacts)?;
        // Cargo has copied what was there before.
        if is_relinked && flags.has(&["--artifact-dir"]) {
            let again = self.cargo(command).args(for_rustc).status();
            let status = again.context("cannot start Cargo")?;
            return Ok((exit::passed_on(status), artifacts));
        }
        Ok((ExitCode::SUCCESS, artifacts))
    }

    /// Links every executable as planned, checks it, and says whether one had to be linked again.
    fn link_and_check(&self, artifacts: &[Artifact]) -> anyhow::Result<bool> {
        let choices = &self.project.choices;
        let mut is_relinked = false;
        let mut all_records = BTreeSet::new();
        for artifact in artifacts {
            self.notes().missing_library(artifact, choices);
            let Some(path) = &artifact.executable else {
                continue;
            };
            match artifact.made_for(path, self.project.triple()) {
                MadeFor::Target => {
                    let plan = self.plan_of(artifact)?;
                    let records = self.records(path)?;
                    let linked = records::ensure(path, &plan, &records)?;
                    self.check(path, Some(linked), &choices.of(artifact.directory())?)?;
                    is_relinked |= linked.when == When::Relinked;
                    all_records.insert(records);
                }
                other => self.notes().unchecked(path, other)?,
            }
        }
        all_records
            .iter()
            .try_for_each(|records| records::remove_stale(records))?;
        Ok(is_relinked)
    }

    /// Reads an executable back and says what it is, or fails if it is not what the user asked for.
    pub(super) fn check(
        &self,
        executable: &Path,
        linked: Option<Linked>,
        chosen: &StaticChoice,
    ) -> anyhow::Result<()> {
        let choice = &chosen.choice;
        let proof = proof::of_executable(executable, choice, Hints::OF_CARGO)?;
        let source = match &chosen.manifest {
            Some(path) => format!(", chosen in {}", path.display()),
            None => String::new(),
        };
        let how = match linked.map(|linked| linked.when) {
            Some(When::Relinked) => ", relinked without compiling",
            _ => "",
        };
        let name = shown(executable)?;
        self.notes().say(&format!("{name}: {proof}{source}{how}"));
        let heap = proof.rust_heap(linked.map(|linked| linked.rust_heap));
        if let Some(text) = heap.filter(|_| !choice.is_stock()) {
            let allocator = choice.allocator.name;
            self.notes()
                .say(&format!("{text}; its C code and musl use {allocator}"));
        }
        Ok(())
    }

    /// Cargo finds nothing left to build, and starts what was built.
    pub(super) fn start(&self) -> anyhow::Result<ExitCode> {
        let request = self.request;
        let mut cargo = self.cargo(request.verb.name());
        // The messages themselves were printed during the build, if there was one.
        if !request.message_format().is_forwarded() || request.flags.has(&["--doc"]) {
            cargo.args(request.words_of_message_formats());
        }
        cargo.args(&request.program_arguments);
        std::io::stdout()
            .flush()
            .context("cannot write to standard output")?;
        if request.verb == Verb::Run {
            return Err(cargo.exec()).context("cannot start Cargo");
        }
        let doctests = Doctests::of(&self.project.choices.by_package)?;
        let (name, value) = doctests.variable()?;
        let ended = cargo.env(name, value).status();
        let status = ended.context("cannot start Cargo")?;
        if let Some(seen) = doctests.seen()? {
            self.notes().say(&seen);
        }
        Ok(exit::passed_on(status))
    }
}
