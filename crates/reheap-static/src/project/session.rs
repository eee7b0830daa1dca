//! A Cargo command with another allocator: Cargo does the work, and reheap reads back what it made.
//!
//! A [`Request`] is what the user types. Together with Cargo's configuration and the manifests it becomes a
//! [`ResolvedProject`], which plans the links. A [`CargoRun`] does them, and proves what came of them.

use super::additions::Additions;
use super::built::Built;
use super::cargo_run::CargoRun;
use super::messages;
use super::metadata::Metadata;
use super::plan::Plan;
use super::request::{Request, Verb};
use super::resolved::ResolvedProject;
use super::targets::Targets;
use anyhow::Context as _;
use reheap_command::choice::{Choice, Place, Wishes};
use reheap_command::env_vars;
use reheap_command::exit;
use reheap_command::ui::Failure;
use reheap_workshop::workshop::Workshop;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A command for one target, checked before reheap builds anything.
pub struct Session {
    request: Request,
    project: ResolvedProject,
    targets: Targets,
}

impl Session {
    /// A session for each target that the user asks for. All are checked before the first of them does anything.
    pub fn for_each_target(
        verb: Verb,
        asked: &Wishes,
        arguments: &[OsString],
    ) -> anyhow::Result<Vec<Self>> {
        let mut sessions = vec![Self::new(Request::new(verb, asked, arguments)?)?];
        for triple in sessions[0].targets.further.clone() {
            sessions.push(sessions[0].for_target(&triple)?);
        }
        if sessions.len() > 1 && !verb.only_checks() {
            // Before anything is built for the first one.
            sessions
                .iter()
                .try_for_each(|session| session.project.check_target())?;
        }
        Ok(sessions)
    }

    /// A session that builds executables to be measured, in the release profile unless a flag names another. The
    /// allocator is chosen afterwards, by [`Self::plan_for`].
    pub fn for_measuring(flags: &[OsString]) -> anyhow::Result<Self> {
        let request = Request::new(Verb::Build, &Wishes::none(Place::Flags), flags)?;
        let mut session = Self::new(request)?;
        session.targets.refuse_further("measure")?;
        let flags = &mut session.request.flags;
        if !flags.has(&["-r", "--release", "--profile"]) {
            flags.push("--release");
        }
        Ok(session)
    }

    /// The flags for Cargo, as a user types them.
    pub fn cargo_flags(&self) -> String {
        let flags = self.request.flags.words().iter();
        let flags = flags.map(|word| word.to_string_lossy().into_owned());
        let targets = self.request.targets.iter();
        let targets = targets.map(|triple| format!("--target={triple}"));
        shell_words::join(flags.chain(targets))
    }

    /// What the user and the project ask for, checked: for the first target that the user asks for.
    fn new(request: Request) -> anyhow::Result<Self> {
        let (project, targets) = ResolvedProject::new(&request)?;
        if matches!(request.verb, Verb::Install | Verb::Run) {
            targets.refuse_further(request.verb.name())?;
        }
        Ok(Self {
            request,
            project,
            targets,
        })
    }

    /// The same command for another target.
    pub(super) fn for_target(&self, triple: &str) -> anyhow::Result<Self> {
        Self::new(self.request.for_target(triple))
    }

    /// Does what the command says.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let (verb, flags) = (self.request.verb, &self.request.flags);
        if verb.only_checks() {
            return self.check_sources();
        }
        let run = self.cargo_run()?;
        match verb {
            Verb::Install => run.install(),
            // rustdoc compiles doctests and runs them at once: there is nothing to build first.
            Verb::Test if flags.has(&["--doc"]) => run.start(),
            Verb::Run | Verb::Test => {
                let (code, _) = run.build()?;
                if code != ExitCode::SUCCESS || flags.has(&["--no-run"]) {
                    return Ok(code);
                }
                run.start()
            }
            _ => {
                run.notes().other_targets(self.other_targets());
                Ok(run.build()?.0)
            }
        }
    }

    /// Cargo as it links each package with what is chosen for it.
    fn cargo_run(&self) -> anyhow::Result<CargoRun<'_>> {
        CargoRun::new(&self.request, &self.project, self.project.plans()?)
    }

    /// Cargo checks the sources for the target. Nothing is linked, so this needs no allocator.
    fn check_sources(&self) -> anyhow::Result<ExitCode> {
        let additions = Additions::without_linker(&self.project)?;
        let name = self.request.verb.name();
        let status = additions
            .cargo(name, &self.request, self.triple())
            .args(self.request.words_of_message_formats())
            .args(&self.request.program_arguments)
            .status();
        Ok(exit::passed_on(status.context("cannot start Cargo")?))
    }

    /// Builds the static executables, proves them, and names them. If Cargo fails, this is its exit code.
    pub(super) fn build_programs(&self) -> anyhow::Result<Result<Vec<Built>, ExitCode>> {
        let (code, artifacts) = self.cargo_run()?.build()?;
        if code != ExitCode::SUCCESS {
            return Ok(Err(code));
        }
        Ok(Ok(Built::all(artifacts, self.triple())))
    }

    /// Builds the static executables, with musl's own allocator.
    pub fn executables(&self) -> anyhow::Result<Vec<Built>> {
        let plans = self.project.plans_with(&Choice::of("stock", &[])?)?;
        let run = CargoRun::new(&self.request, &self.project, plans)?;
        self.executables_of(run.cargo("build"), self.triple())
    }

    /// Builds the same executables for the glibc of this machine, with Cargo alone.
    pub fn executables_for_glibc(&self) -> anyhow::Result<Vec<Built>> {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut cargo = env_vars::cargo();
        cargo
            .args(["build", "--target", &triple])
            .args(self.request.flags.words());
        self.executables_of(cargo, &triple)
    }

    /// What a build makes for a target.
    fn executables_of(&self, cargo: Command, triple: &str) -> anyhow::Result<Vec<Built>> {
        let (status, artifacts) = messages::read(cargo, &self.request.message_format(), &[])?;
        if !status.success() {
            // Cargo has already said why.
            return Err(Failure::failed("Cargo could not build the project").into());
        }
        Ok(Built::all(artifacts, triple))
    }

    /// How to link a program with a choice other than its own.
    pub fn plan_for(&self, built: &Built, choice: &Choice) -> anyhow::Result<Plan> {
        let own = self.project.choices.of(&built.directory)?;
        self.project.plan(choice, own.stack_size_bytes)
    }

    /// The choice for a program's package.
    pub fn choice_for(&self, built: &Built) -> anyhow::Result<Choice> {
        Ok(self.project.choices.of(&built.directory)?.choice)
    }

    /// Where the link of an executable of Cargo's is recorded.
    pub fn records(&self, executable: &Path) -> anyhow::Result<PathBuf> {
        self.project.records(executable, &self.request)
    }

    /// What builds allocators for the project.
    pub fn workshop(&self) -> &Workshop {
        &self.project.workshop
    }

    /// The arguments that follow `--`.
    pub fn program_arguments(&self) -> &[OsString] {
        self.request.program_arguments.get(1..).unwrap_or_default()
    }

    /// The triple of the musl target.
    pub fn triple(&self) -> &str {
        self.project.triple()
    }

    /// The targets that the project chooses, and that this session does not build for.
    pub(super) fn other_targets(&self) -> &[String] {
        &self.targets.of_project
    }

    /// What Cargo knows about the packages that it built.
    pub(super) fn metadata(&self) -> anyhow::Result<Metadata> {
        Metadata::read(&self.request.flags, self.triple())
    }
}
