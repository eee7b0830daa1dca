//! A Cargo command with another allocator: Cargo does the work, and reheap reads back what it made.
//!
//! reheap gives Cargo a linker, and learns from Cargo's messages which executables there are. It relinks those that
//! Cargo had no reason to repeat, and reads the marker of each executable.

use super::compilers;
use super::config::{self, Config};
use super::default_linker::{rust_lld, usable};
use super::doctests::Doctests;
use super::flags::Flags;
use super::linker;
use super::messages::{self, Artifact, Format, MadeFor};
use super::plan::Plan;
use super::proof::{self, Hints};
use super::records::{self, Linked, When};
use super::workspace::{ByPackage, Workspace};
use anyhow::Context as _;
use reheap_allocators::target::Target;
use reheap_command::choice::{self, Choice, Place, StaticChoice, Wishes};
use reheap_command::env_vars;
use reheap_command::exit;
use reheap_command::ui::{self, Failure};
use reheap_workshop::workshop::{Network, Workshop, refuse_missing};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The Cargo commands that reheap wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `cargo build`
    Build,
    /// `cargo check`
    Check,
    /// `cargo clippy`
    Clippy,
    /// `cargo install`
    Install,
    /// `cargo run`
    Run,
    /// `cargo rustc`
    Rustc,
    /// `cargo test`
    Test,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Check => "check",
            Self::Clippy => "clippy",
            Self::Install => "install",
            Self::Run => "run",
            Self::Rustc => "rustc",
            Self::Test => "test",
        }
    }
}

/// What reheap is going to do, checked before it builds anything.
pub struct Session {
    verb: Verb,
    workshop: Workshop,
    /// What wins over the manifests, the strongest first.
    asked: Vec<Wishes>,
    /// None for what Cargo installs from elsewhere.
    project: Option<Workspace>,
    choices: ByPackage<StaticChoice>,
    target: Target,
    /// Those that the user asks for besides; each has a session of its own.
    further_targets: Vec<String>,
    /// Those that the project chooses besides.
    other_targets: Vec<String>,
    pub(super) config: Config,
    /// Flags for Cargo, without `--target` and `--message-format`.
    pub(super) flags: Flags,
    /// The arguments after them, for the program.
    program_arguments: Vec<OsString>,
    /// The values of the user's `--message-format`.
    message_formats: Vec<String>,
}

/// A program that Cargo built.
pub struct Built {
    pub(super) name: String,
    /// Where it is.
    pub path: PathBuf,
    /// The ID of its package.
    pub(super) package: String,
    /// The directory of its package.
    pub(super) directory: PathBuf,
}

/// How each package is linked.
pub(super) type Plans = ByPackage<Plan>;

/// What Cargo gets in addition to what the user gave it.
pub(super) struct Additions {
    variables: Vec<(String, OsString)>,
    flags: Vec<OsString>,
}

impl Session {
    /// A session for each target that the user asks for. All are checked before the first of them does anything.
    pub fn for_each_target(
        verb: Verb,
        asked: &Wishes,
        arguments: &[OsString],
    ) -> anyhow::Result<Vec<Self>> {
        let first = Self::new(verb, asked, arguments, None)?;
        let further = first.further_targets.clone();
        let further = further.iter();
        let further = further.map(|target| Self::new(verb, asked, arguments, Some(target)));
        let sessions = std::iter::once(Ok(first)).chain(further);
        let sessions: Vec<Self> = sessions.collect::<anyhow::Result<_>>()?;
        if sessions.len() > 1 && !matches!(verb, Verb::Check | Verb::Clippy) {
            // Before anything is built for the first one.
            sessions.iter().try_for_each(Self::check_target)?;
        }
        Ok(sessions)
    }

    /// Fails if the target lacks an allocator that is chosen, or is not installed.
    fn check_target(&self) -> anyhow::Result<()> {
        self.choices
            .try_map(|chosen| Ok(refuse_missing(&chosen.choice, &self.target)?))?;
        self.workshop.libc_of_rust(&self.target)?;
        Ok(())
    }

    /// What the user and the project ask for, checked: for this target, or for the first that is asked for.
    pub(super) fn new(
        verb: Verb,
        asked: &Wishes,
        arguments: &[OsString],
        only: Option<&str>,
    ) -> anyhow::Result<Self> {
        let asked = vec![asked.clone(), Wishes::of_environment_for_static()?];
        let directory = std::env::current_dir().context("cannot find the current directory")?;
        let mut flags = Flags::new(arguments);
        let program_arguments = flags.split_off(match verb {
            Verb::Run => flags.first_word(),
            _ => flags.double_dash(),
        });
        let of_config = match verb {
            // It does not depend on the directory where the user types it (`cargo help install`, "Configuration
            // Discovery").
            Verb::Install => match flags.values("--path").pop() {
                Some(path) => directory.join(path),
                None => config::cargo_home(&directory).unwrap_or_default(),
            },
            _ => directory,
        };
        let config = Config::read(&of_config, &flags.values("--config"))?;
        let targets_of_flags = flags.take_values("--target");
        if flags.has(&["--target"]) {
            // Cargo would not see that it is there: reheap gives it a target of its own.
            let text = "`--target` has no value";
            let hint = "name a target: --target x86_64-unknown-linux-musl";
            return Err(Failure::usage(text).hint(hint).into());
        }
        let mut targets = asked_targets(targets_of_flags, &config);
        let further_targets = match only {
            Some(only) => {
                targets = vec![only.to_owned()];
                Vec::new()
            }
            None => targets.split_off(targets.len().min(1)),
        };
        let mut target = choice::musl_target(targets.first().map(String::as_str))?;
        let project = project(verb, &flags)?;
        let choices = match &project {
            Some(project) => project.choices(&asked, &flags)?,
            None => ByPackage::same_for_all(StaticChoice::of(&asked)?),
        };
        if let Some(project) = project.as_ref().filter(|_| targets.is_empty()) {
            targets = project.targets(&flags)?;
            target = choice::musl_target(targets.first().map(String::as_str))?;
        }
        let network = if flags.has(&["--offline", "--frozen"]) {
            Network::Forbidden
        } else {
            Network::AsConfigured
        };
        let session = Self {
            verb,
            workshop: Workshop::new(network).with_rustc(config.rustc()),
            asked,
            project,
            choices,
            target,
            further_targets,
            other_targets: targets.split_off(targets.len().min(1)),
            config,
            message_formats: flags.take_values("--message-format"),
            flags,
            program_arguments,
        };
        if matches!(verb, Verb::Install | Verb::Run) {
            session.refuse_further_targets(verb.name())?;
        }
        Ok(session)
    }

    /// Fails if the user asks for several targets.
    fn refuse_further_targets(&self, what: &str) -> Result<(), Failure> {
        if self.further_targets.is_empty() {
            return Ok(());
        }
        let text = format!("cannot {what} for more than one target at a time");
        let hint = format!("choose one: --target {}", self.triple());
        Err(Failure::usage(text).hint(hint))
    }

    /// Does what the command says.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        if matches!(self.verb, Verb::Check | Verb::Clippy) {
            return self.check_sources();
        }
        let plans = self.plans()?;
        let additions = self.additions(&plans)?;
        match self.verb {
            Verb::Install => self.install(&plans, &additions),
            // rustdoc compiles doctests and runs them at once: there is nothing to build first.
            Verb::Test if self.flags.has(&["--doc"]) => self.start(&additions),
            Verb::Run | Verb::Test => {
                let (code, _) = self.build(&plans, &additions)?;
                if code != ExitCode::SUCCESS || self.flags.has(&["--no-run"]) {
                    return Ok(code);
                }
                self.start(&additions)
            }
            _ => {
                self.note_other_targets();
                Ok(self.build(&plans, &additions)?.0)
            }
        }
    }

    /// Cargo checks the sources for the target. Nothing is linked, so this needs no allocator.
    fn check_sources(&self) -> anyhow::Result<ExitCode> {
        let mut variables = compilers::variables(&self.workshop, &self.target)?;
        variables.extend(self.flags_for_static_programs()?);
        let additions = Additions {
            variables,
            flags: Vec::new(),
        };
        let mut cargo = self.cargo(self.verb.name(), &additions);
        cargo.args(self.words_of_message_formats());
        let status = cargo.args(&self.program_arguments).status();
        Ok(exit::passed_on(status.context("cannot start Cargo")?))
    }

    /// A session that builds executables to be measured, in the release profile unless a flag names another. The
    /// allocator is chosen afterwards, by [`Self::plan_for`].
    pub fn for_measuring(flags: &[OsString]) -> anyhow::Result<Self> {
        let mut session = Self::new(Verb::Build, &Wishes::none(Place::Flags), flags, None)?;
        session.refuse_further_targets("measure")?;
        if !session.flags.has(&["-r", "--release", "--profile"]) {
            session.flags.push("--release");
        }
        Ok(session)
    }

    /// What builds for it.
    pub fn workshop(&self) -> &Workshop {
        &self.workshop
    }

    /// What follows `--`.
    pub fn program_arguments(&self) -> &[OsString] {
        self.program_arguments.get(1..).unwrap_or_default()
    }

    /// The triple of the musl target.
    pub fn triple(&self) -> &str {
        self.target.triple()
    }

    /// The targets that the project chooses, and that this session does not build for.
    pub(super) fn other_targets(&self) -> &[String] {
        &self.other_targets
    }

    /// The choice for the package in a directory.
    pub(super) fn choice_of(&self, directory: &Path) -> anyhow::Result<StaticChoice> {
        match (self.choices.of(directory), &self.project) {
            (Some(choice), _) => Ok(choice.clone()),
            (None, Some(project)) => project.choice_of(directory, &self.asked),
            (None, None) => Ok(self.choices.others().clone()),
        }
    }

    /// The choice for a program's package.
    pub fn choice_for(&self, built: &Built) -> anyhow::Result<Choice> {
        Ok(self.choice_of(&built.directory)?.choice)
    }

    /// Builds the static executables, with musl's own allocator.
    pub fn executables(&self) -> anyhow::Result<Vec<Built>> {
        let stock = Choice::of("stock", &[])?;
        let plans = self
            .choices
            .try_map(|chosen| self.plan(&stock, chosen.stack_size_bytes))?;
        let cargo = self.cargo("build", &self.additions(&plans)?);
        self.executables_of(cargo, self.target.triple())
    }

    /// Builds the same executables for the glibc of this machine, with Cargo alone.
    pub fn executables_for_glibc(&self) -> anyhow::Result<Vec<Built>> {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut cargo = env_vars::cargo();
        cargo
            .args(["build", "--target", &triple])
            .args(self.flags.words());
        self.executables_of(cargo, &triple)
    }

    /// What a build makes for a target.
    fn executables_of(&self, cargo: Command, triple: &str) -> anyhow::Result<Vec<Built>> {
        let (status, artifacts) = messages::read(cargo, &self.message_format(), &[])?;
        if !status.success() {
            // Cargo has already said why.
            return Err(Failure::failed("Cargo could not build the project").into());
        }
        let of_target = artifacts.into_iter();
        Ok(of_target.filter_map(|a| Built::of(a, triple)).collect())
    }

    /// How to link a program with a choice other than its own.
    pub fn plan_for(&self, built: &Built, choice: &Choice) -> anyhow::Result<Plan> {
        self.plan(choice, self.choice_of(&built.directory)?.stack_size_bytes)
    }

    /// How to link what Cargo made of a package; most packages were thought of before.
    pub(super) fn plan_of(&self, plans: &Plans, artifact: &Artifact) -> anyhow::Result<Plan> {
        if let Some(plan) = plans.of(artifact.directory()) {
            return Ok(plan.clone());
        }
        let chosen = self.choice_of(artifact.directory())?;
        self.plan(&chosen.choice, chosen.stack_size_bytes)
    }

    /// How to link each package.
    fn plans(&self) -> anyhow::Result<Plans> {
        let mut known: Vec<(StaticChoice, Plan)> = Vec::new();
        self.choices.try_map(|chosen| {
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

    fn plan(&self, choice: &Choice, stack_size_bytes: u64) -> anyhow::Result<Plan> {
        refuse_missing(choice, &self.target)?;
        let linker = match self.config.linker(&self.target)? {
            Some(linker) => usable(linker, self.workshop.rustc())?,
            None if Target::of_this_machine(self.target.libc()) == Some(self.target) => {
                env_vars::usual_program("cc")
            }
            // Rust brings a linker for all its targets, and for musl targets everything else that a link needs.
            None => rust_lld(self.workshop.rustc())?,
        };
        let libc = self.workshop.libc_of_rust(&self.target)?;
        Ok(Plan {
            linker,
            derived: self
                .workshop
                .derived_directory(choice, &self.target, &libc)?,
            stack_size_bytes,
            triple: self.target.triple().to_owned(),
        })
    }

    /// What points Cargo to the linker.
    fn additions(&self, plans: &Plans) -> anyhow::Result<Additions> {
        let cache = self.workshop.cache()?;
        let linker = &plans.others().linker;
        let script = linker::write_script(cache, linker)?;
        let path = toml::Value::String(script.to_string_lossy().into_owned());
        let linker = format!("target.{}.linker={path}", self.target);
        // A variable would not win over a flag of the user's, and programs that Cargo starts would inherit it: what they
        // build would be linked by this plan.
        let flags = vec!["--config".into(), linker.into()];
        let mut variables = vec![(
            env_vars::LINK_PLAN.to_owned(),
            serde_json::to_string(&plans.clone().shortened())?.into(),
        )];
        variables.extend(compilers::variables(&self.workshop, &self.target)?);
        variables.extend(self.flags_for_static_programs()?);
        Ok(Additions { variables, flags })
    }

    /// The variable with the Rust flags, where rustc makes dynamic programs unless it is told.
    fn flags_for_static_programs(&self) -> anyhow::Result<Option<(String, OsString)>> {
        let flags = self.config.flags_for_static_programs(&self.target)?;
        Ok(flags.map(|flags| ("CARGO_ENCODED_RUSTFLAGS".to_owned(), flags.into())))
    }

    /// Builds the static executables, proves them, and names them. If Cargo fails, this is its exit code.
    pub(super) fn build_programs(&self) -> anyhow::Result<Result<Vec<Built>, ExitCode>> {
        let plans = self.plans()?;
        let (code, artifacts) = self.build(&plans, &self.additions(&plans)?)?;
        if code != ExitCode::SUCCESS {
            return Ok(Err(code));
        }
        let of_target = artifacts.into_iter();
        let of_target = of_target.filter_map(|a| Built::of(a, self.triple()));
        Ok(Ok(of_target.collect()))
    }

    /// Asks Cargo about the packages that it built.
    pub(super) fn metadata(&self) -> Command {
        let mut metadata = env_vars::cargo();
        metadata.args(["metadata", "--format-version", "1"]);
        metadata.args(["--filter-platform", self.triple()]);
        for flag in ["--manifest-path", "--config", "--lockfile-path"] {
            let values = self.flags.values(flag);
            metadata.args(values.iter().map(|value| format!("{flag}={value}")));
        }
        for flag in ["--features", "-F"] {
            let values = self.flags.values(flag);
            metadata.args(values.iter().map(|value| format!("--features={value}")));
        }
        for flag in [
            "--all-features",
            "--no-default-features",
            "--offline",
            "--locked",
            "--frozen",
        ] {
            metadata.args(self.flags.has(&[flag]).then_some(flag));
        }
        metadata
    }

    /// Cargo builds; then every executable is linked as planned, and checked.
    fn build(
        &self,
        plans: &Plans,
        additions: &Additions,
    ) -> anyhow::Result<(ExitCode, Vec<Artifact>)> {
        let command = match self.verb {
            Verb::Run => "build",
            verb => verb.name(),
        };
        let mut cargo = self.cargo(command, additions);
        if self.verb == Verb::Test && !self.flags.has(&["--no-run"]) {
            cargo.arg("--no-run");
        }
        let for_rustc = match self.verb {
            Verb::Rustc => &self.program_arguments[..],
            _ => &[],
        };
        let (status, artifacts) = messages::read(cargo, &self.message_format(), for_rustc)?;
        if !status.success() {
            return Ok((exit::passed_on(status), artifacts));
        }
        let mut is_relinked = false;
        let mut all_records = BTreeSet::new();
        for artifact in &artifacts {
            self.note_a_missing_library(artifact);
            let Some(path) = &artifact.executable else {
                continue;
            };
            match artifact.made_for(path, self.triple()) {
                MadeFor::Target => {
                    let plan = self.plan_of(plans, artifact)?;
                    let records = self.records(path)?;
                    let linked = records::ensure(path, &plan, &records)?;
                    self.check(path, Some(linked), &self.choice_of(artifact.directory())?)?;
                    is_relinked |= linked.when == When::Relinked;
                    all_records.insert(records);
                }
                other => self.note_unchecked(path, other)?,
            }
        }
        all_records
            .iter()
            .try_for_each(|records| records::remove_stale(records))?;
        // Cargo has copied what was there before.
        if is_relinked && self.flags.has(&["--artifact-dir"]) {
            let mut again = self.cargo(command, additions);
            let status = again.args(for_rustc).status();
            let status = status.context("cannot start Cargo")?;
            return Ok((exit::passed_on(status), artifacts));
        }
        Ok((ExitCode::SUCCESS, artifacts))
    }

    /// Where the link of an executable of Cargo's is recorded.
    pub fn records(&self, executable: &Path) -> anyhow::Result<PathBuf> {
        records::records_of(executable, self.triple(), || self.build_directory())
    }

    /// The project's directory for what Cargo makes on the way, if it has a project.
    fn build_directory(&self) -> Option<PathBuf> {
        let mut metadata = env_vars::cargo();
        metadata.args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ]);
        let manifest = self.flags.values("--manifest-path").pop();
        metadata.args(manifest.map(|path| format!("--manifest-path={path}")));
        let configs = self.flags.values("--config");
        metadata.args(configs.iter().map(|config| format!("--config={config}")));
        let output = metadata.output().ok()?;
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        Some(metadata["build_directory"].as_str()?.into())
    }

    /// A command of Cargo for the session's target, with the user's flags.
    pub(super) fn cargo(&self, command: &str, additions: &Additions) -> Command {
        let mut cargo = env_vars::cargo();
        cargo.args([command, "--target", self.triple()]);
        cargo.args(self.flags.words()).args(&additions.flags);
        let variables = additions.variables.iter();
        cargo.envs(variables.map(|(name, value)| (name, value)));
        cargo
    }

    pub(super) fn message_format(&self) -> Format {
        Format::of(&self.message_formats)
    }

    fn words_of_message_formats(&self) -> impl Iterator<Item = &str> {
        let formats = self.message_formats.iter();
        formats.flat_map(|format| ["--message-format", format])
    }

    /// Cargo finds nothing left to build, and starts what was built.
    fn start(&self, additions: &Additions) -> anyhow::Result<ExitCode> {
        let mut cargo = self.cargo(self.verb.name(), additions);
        // The messages themselves were printed during the build, if there was one.
        if !self.message_format().is_forwarded() || self.flags.has(&["--doc"]) {
            cargo.args(self.words_of_message_formats());
        }
        cargo.args(&self.program_arguments);
        std::io::stdout()
            .flush()
            .context("cannot write to standard output")?;
        if self.verb == Verb::Run {
            let error = std::os::unix::process::CommandExt::exec(&mut cargo);
            return Err(error).context("cannot start Cargo");
        }
        let doctests = Doctests::of(&self.choices)?;
        let (name, value) = doctests.variable()?;
        let status = cargo.env(name, value).status();
        let status = status.context("cannot start Cargo")?;
        if let Some(seen) = doctests.seen()? {
            self.note(&seen);
        }
        Ok(exit::passed_on(status))
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
        let manifest = chosen.manifest.as_ref();
        let source = manifest.map(|path| format!(", chosen in {}", path.display()));
        let source = source.unwrap_or_default();
        let how = match linked.map(|linked| linked.when) {
            Some(When::Relinked) => ", relinked without compiling",
            _ => "",
        };
        self.note(&format!("{}: {proof}{source}{how}", shown(executable)?));
        let heap = proof.rust_heap(linked.map(|linked| linked.rust_heap));
        if let Some(text) = heap.filter(|_| !choice.is_stock()) {
            let name = choice.allocator.name;
            self.note(&format!("{text}; its C code and musl use {name}"));
        }
        Ok(())
    }

    /// Names the targets of the project that another command has to build.
    fn note_other_targets(&self) {
        if let [first, ..] = &self.other_targets[..] {
            let all = self.other_targets.join(", ");
            let built = self.triple();
            self.note(&format!(
                "building for {built}; for {all} as well, add --target {first}"
            ));
        }
    }

    /// Says that reheap has nothing to do with an executable.
    fn note_unchecked(&self, executable: &Path, made_for: MadeFor) -> anyhow::Result<()> {
        let reason = match made_for {
            MadeFor::HostAsProceduralMacro => {
                "tests of a procedural macro run on the host".to_owned()
            }
            MadeFor::Target | MadeFor::AnotherTarget => format!("it is not for {}", self.target),
        };
        self.note(&format!(
            "{}: not checked, because {reason}",
            shown(executable)?
        ));
        Ok(())
    }

    /// Whether the user asks for a library, and not only for programs that need it.
    fn asks_for_library(&self, artifact: &Artifact) -> bool {
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
        let project = self.project.as_ref();
        let is_package_meant = project.is_none_or(|p| p.means(artifact.directory(), &self.flags));
        let is_library_meant = self.flags.has(&["--lib", "--all-targets"])
            || (self.verb != Verb::Run && !self.flags.has(&PROGRAMS));
        artifact.is_example() || (is_package_meant && is_library_meant)
    }

    /// Says that rustc made no shared library of a crate that asks for one: it warns in words that name no way out, and
    /// Cargo calls the build a success.
    fn note_a_missing_library(&self, artifact: &Artifact) {
        if !artifact.lacks_its_shared_library() || !self.asks_for_library(artifact) {
            return;
        }
        let (name, triple) = (&artifact.target.name, self.triple());
        self.note(&format!(
            "Cargo made no shared library of the crate `{name}`: for {triple}, Rust links statically\n\nhint: build \
             it with `cargo build`, for glibc; it uses the allocator of the program that loads it\n"
        ));
    }

    /// Prints a line, unless the user wants none.
    pub(super) fn note(&self, text: &str) {
        let is_quiet = env_vars::variable("CARGO_TERM_QUIET").is_some_and(|value| value == "true");
        if !is_quiet && !self.flags.has(&["-q", "--quiet"]) {
            ui::note(text);
        }
    }
}

impl Built {
    /// What Cargo made, if it is a program for the target.
    fn of(artifact: Artifact, triple: &str) -> Option<Self> {
        let path = artifact.executable.clone()?;
        (artifact.made_for(&path, triple) == MadeFor::Target).then(|| Self {
            directory: artifact.directory().to_owned(),
            name: artifact.target.name,
            path,
            package: artifact.package_id,
        })
    }
}

/// The project of a command. Fails before anything is built where there is none.
fn project(verb: Verb, flags: &Flags) -> anyhow::Result<Option<Workspace>> {
    let named = match verb {
        Verb::Install => match flags.values("--path").pop() {
            Some(path) => Some(Path::new(&path).join("Cargo.toml")),
            None => return Ok(None),
        },
        _ => flags.values("--manifest-path").pop().map(PathBuf::from),
    };
    let mut locate = env_vars::cargo();
    locate.arg("locate-project");
    locate.args(
        named
            .iter()
            .flat_map(|path| ["--manifest-path".as_ref(), path.as_os_str()]),
    );
    let output = locate.output().context("cannot start Cargo")?;
    if !output.status.success() {
        // Cargo says what is wrong with the path.
        if verb == Verb::Install {
            return Ok(None);
        }
        let reason = String::from_utf8_lossy(&output.stderr);
        let reason = reason.trim().trim_start_matches("error: ");
        let failure = Failure::failed(format!("cannot build a Cargo project here: {reason}"));
        let hint = "run it in the directory of a project, or give --manifest-path";
        return Err(failure.hint(hint).into());
    }
    let located: serde_json::Value = serde_json::from_slice(&output.stdout)
        .context("cannot read what `cargo locate-project` printed")?;
    let manifest = PathBuf::from(located["root"].as_str().unwrap_or_default());
    let mut metadata = env_vars::cargo();
    metadata.args(["metadata", "--format-version", "1", "--manifest-path"]);
    metadata.arg(&manifest);
    for flag in ["--config", "-Z"] {
        let values = flags.values(flag);
        metadata.args(values.iter().flat_map(|value| [flag, value]));
    }
    Ok(Some(Workspace::read(metadata, &manifest)?))
}

/// The targets that the user asks for, each once, by flags or else by the configuration; none for that of this machine.
fn asked_targets(of_flags: Vec<String>, config: &Config) -> Vec<String> {
    let mut asked = of_flags;
    if asked.is_empty() {
        // A configured glibc target says what `cargo build` makes, not that a static executable is not wanted.
        asked = config.build_targets();
        asked.retain(|triple| triple.contains("musl"));
    }
    let mut seen = BTreeSet::new();
    asked.retain(|triple| seen.insert(triple.clone()));
    asked
}

/// How a path is shown.
fn shown(executable: &Path) -> anyhow::Result<String> {
    let directory = std::env::current_dir().context("cannot find the current directory")?;
    let shown = executable.strip_prefix(&directory).unwrap_or(executable);
    Ok(shown.display().to_string())
}
