//! `cargo reheap build`, `run`, `test` and `install`: Cargo's own commands, linked with a derived libc.
//!
//! Cargo does all the work; reheap gives it a linker, reads its messages to learn which executables there are, replays
//! links that Cargo had no reason to do again, and reads the marker of each executable back.

mod flags;
mod messages;

use crate::cargo_config::{self, Config};
use crate::doctests::Doctests;
use crate::env_vars;
use crate::link::{self, Linked, Plan, When};
use crate::setup::{self, Choice, ChoiceArguments, Network};
use crate::ui::{self, Failure};
use anyhow::Context as _;
use flags::Flags;
use messages::{Artifact, Format, MadeFor};
use reheap_allocators::compiler::{self, Language, Purpose};
use reheap_allocators::target::Target;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

pub(crate) use flags::separate;

/// What glibc gives threads that do not choose; musl's 128 KiB are too few for programs that were never run with it.
const DEFAULT_STACK_BYTES: u64 = 8 << 20;

/// The arguments that reheap adds to a Cargo command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CargoArguments {
    #[command(flatten)]
    choice: ChoiceArguments,
    /// The stack of threads that do not choose their own size, in bytes; 0 for musl's default of 128 KiB
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_STACK_BYTES)]
    stack_size: u64,
    /// Flags of the Cargo command, all of them, anywhere; after `--` those of the program
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CARGO FLAGS"
    )]
    cargo: Vec<OsString>,
}

/// The Cargo commands that reheap wraps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Build,
    Run,
    Test,
    Install,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Run => "run",
            Self::Test => "test",
            Self::Install => "install",
        }
    }
}

/// What is going to be done, checked before anything is built.
pub(crate) struct Session {
    verb: Verb,
    choice: Choice,
    target: Target,
    config: Config,
    /// Flags for Cargo, without `--target` and `--message-format`.
    flags: Flags,
    /// What stands behind them, for the program.
    program_arguments: Vec<OsString>,
    /// The values of the user's `--message-format`.
    message_formats: Vec<String>,
    stack_size_bytes: u64,
}

/// What Cargo gets in addition to what the user gave it.
struct Additions {
    variables: Vec<(String, OsString)>,
    flags: Vec<OsString>,
}

/// Runs one of the commands.
pub(crate) fn run(verb: Verb, arguments: &CargoArguments) -> anyhow::Result<ExitCode> {
    let session = Session::new(verb, arguments)?;
    let plan = session.plan_for(&session.choice)?;
    let additions = session.additions(&plan)?;
    match verb {
        Verb::Build => session.build(&plan, &additions),
        Verb::Install => session.install(&plan, &additions),
        // rustdoc compiles doctests and runs them at once: there is nothing to build first.
        Verb::Test if session.flags.has(&["--doc"]) => session.start(&additions),
        Verb::Run | Verb::Test => {
            let code = session.build(&plan, &additions)?;
            if code != ExitCode::SUCCESS || session.flags.has(&["--no-run"]) {
                return Ok(code);
            }
            session.start(&additions)
        }
    }
}

impl Session {
    fn new(verb: Verb, arguments: &CargoArguments) -> anyhow::Result<Self> {
        let choice = arguments.choice.check()?;
        Self::of(verb, choice, &arguments.cargo, arguments.stack_size)
    }

    fn of(
        verb: Verb,
        mut choice: Choice,
        arguments: &[OsString],
        stack_size_bytes: u64,
    ) -> anyhow::Result<Self> {
        let directory = std::env::current_dir().context("cannot find the current folder")?;
        let mut flags = Flags::new(arguments);
        let program_arguments = flags.split_off(match verb {
            Verb::Run => flags.first_word(),
            Verb::Build | Verb::Test | Verb::Install => flags.double_dash(),
        });
        let project = match verb {
            // It is no matter of the folder where it is typed (`cargo help install`, "Configuration Discovery").
            Verb::Install => match flags.values("--path").pop() {
                Some(path) => directory.join(path),
                None => cargo_config::cargo_home().unwrap_or_default(),
            },
            Verb::Build | Verb::Run | Verb::Test => directory,
        };
        let config = Config::read(&project, &flags.values("--config"))?;
        let targets = flags.take_values("--target");
        if targets.len() > 1 {
            return Err(Failure::usage("one `--target` at a time").into());
        }
        // A configured glibc target says what `cargo build` makes, not that a static executable is not wanted.
        let configured = || {
            config
                .build_target()
                .filter(|triple| triple.contains("musl"))
        };
        let triple = targets.into_iter().next().or_else(configured);
        if flags.has(&["--offline", "--frozen"]) {
            choice.network = Network::Forbidden;
        }
        let session = Self {
            verb,
            choice,
            target: setup::target(triple.as_deref())?,
            config,
            message_formats: flags.take_values("--message-format"),
            flags,
            program_arguments,
            stack_size_bytes,
        };
        if verb != Verb::Install {
            session.find_project()?;
        }
        Ok(session)
    }

    /// Fails before anything is built where there is no Cargo project.
    fn find_project(&self) -> anyhow::Result<()> {
        let mut locate = cargo();
        locate.arg("locate-project");
        if let Some(manifest) = self.flags.values("--manifest-path").pop() {
            locate.args(["--manifest-path", &manifest]);
        }
        let output = locate.output().context("cannot start Cargo")?;
        if output.status.success() {
            return Ok(());
        }
        let reason = String::from_utf8_lossy(&output.stderr)
            .trim()
            .trim_start_matches("error: ")
            .to_owned();
        let failure = Failure::failed(format!("cannot build a Cargo project here: {reason}"));
        Err(failure
            .hint("run it in the folder of a project, or give --manifest-path")
            .into())
    }

    /// A session that builds executables to be measured, in the release profile unless a flag names another. The
    /// allocator is chosen afterwards, by [`Self::plan_for`].
    pub(crate) fn for_measuring(flags: &[OsString]) -> anyhow::Result<Self> {
        let stock = Choice::of("stock", &[])?;
        let mut session = Self::of(Verb::Build, stock, flags, DEFAULT_STACK_BYTES)?;
        if !session.flags.has(&["-r", "--release", "--profile"]) {
            session.flags.push("--release");
        }
        Ok(session)
    }

    /// What stands behind `--`.
    pub(crate) fn program_arguments(&self) -> &[OsString] {
        self.program_arguments.get(1..).unwrap_or_default()
    }

    /// The triple of the musl target.
    pub(crate) fn triple(&self) -> &str {
        self.target.triple()
    }

    /// Builds the static executables.
    pub(crate) fn executables(&self) -> anyhow::Result<Vec<PathBuf>> {
        let additions = self.additions(&self.plan_for(&self.choice)?)?;
        self.executables_of(self.cargo("build", &additions), self.target.triple())
    }

    /// Builds the same executables for the glibc of this machine, with Cargo alone.
    pub(crate) fn executables_for_glibc(&self) -> anyhow::Result<Vec<PathBuf>> {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut cargo = cargo();
        cargo
            .args(["build", "--target", &triple])
            .args(self.flags.words());
        self.executables_of(cargo, &triple)
    }

    /// What a build makes for a target.
    fn executables_of(&self, cargo: Command, triple: &str) -> anyhow::Result<Vec<PathBuf>> {
        let (status, artifacts) = messages::read(cargo, &self.message_format())?;
        if !status.success() {
            // Cargo has said why.
            return Err(Failure::failed("Cargo could not build the project").into());
        }
        let of_target = |artifact: Artifact| {
            let executable = artifact.executable.clone()?;
            (artifact.made_for(&executable, triple) == MadeFor::Target).then_some(executable)
        };
        Ok(artifacts.into_iter().filter_map(of_target).collect())
    }

    /// How to link with a choice.
    pub(crate) fn plan_for(&self, choice: &Choice) -> anyhow::Result<Plan> {
        let linker = match self.config.linker(&self.target) {
            Some(linker) => refuse_zigbuild(linker)?,
            None if self.target.triple().starts_with(std::env::consts::ARCH) => "cc".into(),
            // Rust brings a linker for all its targets, and for musl targets everything else that a link needs.
            None => rust_lld()?,
        };
        let libc = setup::libc_of_rust(&self.target)?;
        let cache = setup::cache()?;
        Ok(Plan {
            linker,
            derived: setup::derived_folder(choice, &self.target, &libc, &cache)?,
            stack_size_bytes: self.stack_size_bytes,
            triple: self.target.triple().to_owned(),
        })
    }

    /// What points Cargo to the linker.
    fn additions(&self, plan: &Plan) -> anyhow::Result<Additions> {
        let cache = setup::cache()?;
        let script = link::write_script(&cache.folder("linkers")?, &plan.linker)?;
        let mut flags = Vec::new();
        if self.config.linker_of_flags(&self.target).is_some() {
            let path = toml::Value::String(script.to_string_lossy().into_owned());
            let linker = format!("target.{}.linker={path}", self.target);
            flags.extend(["--config".into(), linker.into()]);
        }
        let mut variables = vec![
            (
                format!("{}_LINKER", self.target.cargo_env_prefix()),
                script.into(),
            ),
            (
                env_vars::LINK_PLAN.to_owned(),
                serde_json::to_string(plan)?.into(),
            ),
        ];
        if let Some(cc) = self.compiler_for_dependencies(&cache)? {
            variables.push((format!("CC_{}", self.target.env_suffix()), cc.into()));
        }
        Ok(Additions { variables, flags })
    }

    /// A C compiler for crates with C code in them, where the user did not name one.
    fn compiler_for_dependencies(
        &self,
        cache: &reheap_allocators::cache::Cache,
    ) -> anyhow::Result<Option<PathBuf>> {
        let target = &self.target;
        let named = [
            format!("CC_{}", target.env_suffix()),
            format!("CC_{target}"),
            "TARGET_CC".to_owned(),
        ];
        if named.iter().any(|name| env_vars::variable(name).is_some()) {
            return Ok(None);
        }
        let search = setup::search();
        match compiler::find(target, Language::C, Purpose::Objects, &search) {
            Ok(compiler) => Ok(Some(compiler.write_wrapper(&cache.folder("compilers")?)?)),
            // Most projects have no C code; those that have will say what is missing.
            Err(_) => Ok(None),
        }
    }

    /// Cargo builds; then every executable is linked as planned, and checked.
    fn build(&self, plan: &Plan, additions: &Additions) -> anyhow::Result<ExitCode> {
        let mut cargo = self.cargo(
            match self.verb {
                Verb::Run => "build",
                verb => verb.name(),
            },
            additions,
        );
        if self.verb == Verb::Test && !self.flags.has(&["--no-run"]) {
            cargo.arg("--no-run");
        }
        let (status, artifacts) = messages::read(cargo, &self.message_format())?;
        if !status.success() {
            return Ok(exit_code(status));
        }
        let mut is_replayed = false;
        for artifact in &artifacts {
            self.note_a_missing_library(artifact);
            let Some(path) = &artifact.executable else {
                continue;
            };
            match artifact.made_for(path, self.triple()) {
                MadeFor::Target => is_replayed |= self.link(path, plan)? == When::Again,
                other => self.note_unchecked(path, other)?,
            }
        }
        // Cargo has copied what was there before.
        if is_replayed && self.flags.has(&["--artifact-dir"]) {
            let status = self.cargo("build", additions).status();
            return Ok(exit_code(status.context("cannot start Cargo")?));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Makes sure that an executable is linked as planned, and checks it.
    fn link(&self, executable: &Path, plan: &Plan) -> anyhow::Result<When> {
        let linked = link::ensure(executable, plan, &self.records(executable)?)?;
        self.check(executable, Some(linked))?;
        Ok(linked.when)
    }

    /// Where the link of an executable of Cargo's is recorded.
    pub(crate) fn records(&self, executable: &Path) -> anyhow::Result<PathBuf> {
        link::records_of(executable, self.triple(), || self.build_folder())
    }

    /// The project's folder for what Cargo makes on the way, if it has a project.
    fn build_folder(&self) -> Option<PathBuf> {
        let mut metadata = cargo();
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

    /// Cargo builds and installs; then what is installed is checked.
    fn install(&self, plan: &Plan, additions: &Additions) -> anyhow::Result<ExitCode> {
        let mut cargo = self.cargo("install", additions);
        let temporary = self.temporary_target_folder()?;
        if let Some(folder) = &temporary {
            cargo.arg("--target-dir").arg(folder.path());
        }
        let (status, artifacts) = messages::read(cargo, &self.message_format())?;
        if !status.success() {
            // Cargo has named it as the place where to look for the cause.
            temporary.map(tempfile::TempDir::keep);
            return Ok(exit_code(status));
        }
        let built: Vec<PathBuf> = artifacts.into_iter().filter_map(|a| a.executable).collect();
        if built.is_empty() && !self.flags.has(&["--list"]) {
            self.note("Cargo installed nothing: what was there before keeps its allocator; --force replaces it");
        }
        if self.link_outdated(&built, plan)? {
            let mut again = self.cargo("install", additions);
            let is_forced = self.flags.has(&["-f", "--force"]);
            again.args((!is_forced).then_some("--force"));
            let status = again.status().context("cannot start Cargo")?;
            if !status.success() {
                return Ok(exit_code(status));
            }
        }
        for path in &built {
            let name = path.file_name().context("the executable has no name")?;
            let installed = self.install_root()?.join("bin").join(name);
            let linked = link::look_up(&installed, plan, &self.records(path)?)?;
            self.check(&installed, linked)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Links again what Cargo found built, by another plan, and says whether there was any. That is so only for projects
    /// in a folder, which is where Cargo leaves what it installs.
    fn link_outdated(&self, built: &[PathBuf], plan: &Plan) -> anyhow::Result<bool> {
        let mut is_any = false;
        for path in built.iter().filter(|path| path.exists()) {
            let records = self.records(path)?;
            let linked = link::look_up(path, plan, &records)?;
            if linked.is_some_and(|linked| linked.when == When::Outdated) {
                link::ensure(path, plan, &records)?;
                is_any = true;
            }
        }
        Ok(is_any)
    }

    /// A folder to build in what is installed, where Cargo would take one of its own: that is gone when Cargo ends, and
    /// with it the records of how it was linked.
    fn temporary_target_folder(&self) -> anyhow::Result<Option<tempfile::TempDir>> {
        let names_one = ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"];
        if self.flags.has(&["--path", "--target-dir", "--list"])
            || names_one
                .iter()
                .any(|name| env_vars::variable(name).is_some())
            || self.config.names_target_folder()
        {
            return Ok(None);
        }
        let folder = tempfile::Builder::new()
            .prefix("cargo-reheap-install-")
            .tempdir();
        Ok(Some(folder.context("cannot make a temporary folder")?))
    }

    /// Where Cargo installs (`cargo help install`).
    fn install_root(&self) -> anyhow::Result<PathBuf> {
        let flag = self.flags.values("--root").pop().map(PathBuf::from);
        let root = flag.or_else(|| self.config.install_root());
        std::path::absolute(root.unwrap_or_default()).context("cannot find the current folder")
    }

    /// A command of Cargo for the session's target, with the user's flags.
    fn cargo(&self, command: &str, additions: &Additions) -> Command {
        let mut cargo = cargo();
        cargo.args([command, "--target", self.triple()]);
        cargo.args(self.flags.words()).args(&additions.flags);
        let variables = additions.variables.iter();
        cargo.envs(variables.map(|(name, value)| (name, value)));
        cargo
    }

    fn message_format(&self) -> Format {
        Format::of(&self.message_formats)
    }

    /// Cargo finds nothing left to build, and starts what was built.
    fn start(&self, additions: &Additions) -> anyhow::Result<ExitCode> {
        let mut cargo = self.cargo(self.verb.name(), additions);
        // The messages themselves were printed during the build, if there was one.
        if !self.message_format().is_forwarded() || self.flags.has(&["--doc"]) {
            let formats = self.message_formats.iter();
            cargo.args(formats.flat_map(|format| ["--message-format", format]));
        }
        cargo.args(&self.program_arguments);
        std::io::stdout()
            .flush()
            .context("cannot write to standard output")?;
        if self.verb == Verb::Run {
            let error = std::os::unix::process::CommandExt::exec(&mut cargo);
            return Err(error).context("cannot start Cargo");
        }
        let doctests = Doctests::of(&self.choice)?;
        let (name, value) = doctests.variable()?;
        let status = cargo.env(name, value).status();
        let status = status.context("cannot start Cargo")?;
        if let Some(seen) = doctests.seen()? {
            self.note(&seen);
        }
        Ok(exit_code(status))
    }

    /// Reads an executable back and says what it is, or fails where it is not what was asked for.
    fn check(&self, executable: &Path, linked: Option<Linked>) -> anyhow::Result<()> {
        let proof = crate::proof::of_executable(executable, &self.choice)?;
        let how = match linked.map(|linked| linked.when) {
            Some(When::Again) => ", linked again without compiling",
            _ => "",
        };
        self.note(&format!("{}: {proof}{how}", shown(executable)?));
        let heap = proof.rust_heap(linked.map(|linked| linked.rust_heap));
        if let Some(text) = heap.filter(|_| !self.choice.is_stock()) {
            let name = self.choice.allocator.name;
            self.note(&format!("{text}; its C code and musl use {name}"));
        }
        Ok(())
    }

    /// Says that an executable is not one that reheap has to do with.
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

    /// Says that rustc made no shared library of a crate that asks for one: it warns in words that name no way out, and
    /// Cargo calls the build a success.
    fn note_a_missing_library(&self, artifact: &Artifact) {
        if !artifact.lacks_its_shared_library() {
            return;
        }
        let (name, triple) = (&artifact.target.name, self.triple());
        self.note(&format!(
            "no shared library was made of the crate `{name}`: Rust makes none for {triple}, where it links statically\n\n\
             hint: build it with `cargo build`, for glibc; it uses the allocator of the program that loads it\n"
        ));
    }

    /// Prints a line, unless the user wants none.
    fn note(&self, text: &str) {
        let is_quiet = env_vars::variable("CARGO_TERM_QUIET").is_some_and(|value| value == "true");
        if !is_quiet && !self.flags.has(&["-q", "--quiet"]) {
            ui::note(text);
        }
    }
}

/// How a path is shown.
fn shown(executable: &Path) -> anyhow::Result<String> {
    let directory = std::env::current_dir().context("cannot find the current folder")?;
    let shown = executable.strip_prefix(&directory).unwrap_or(executable);
    Ok(shown.display().to_string())
}

fn cargo() -> Command {
    Command::new(env_vars::program("CARGO", "cargo"))
}

fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(
        status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(ui::FAILED),
    )
}

/// cargo-zigbuild's linker drops `-lc` and Rust's libc.a, and with them the derived one.
fn refuse_zigbuild(linker: PathBuf) -> anyhow::Result<PathBuf> {
    let text = linker.to_string_lossy();
    if text.contains("zigbuild") || text.contains("zigcc") {
        let message = format!(
            "the configured linker `{text}` is cargo-zigbuild's, which ignores a derived libc"
        );
        return Err(Failure::failed(message)
            .hint("build without cargo-zigbuild: cargo reheap build")
            .into());
    }
    Ok(linker)
}

/// The LLD that comes with Rust.
fn rust_lld() -> anyhow::Result<PathBuf> {
    let output = Command::new(env_vars::program("RUSTC", "rustc"))
        .args(["--print", "sysroot", "--print", "host-tuple"])
        .output()
        .context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    let (sysroot, host) = (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    );
    let path = Path::new(sysroot)
        .join("lib/rustlib")
        .join(host)
        .join("bin/rust-lld");
    if path.is_file() {
        return Ok(path);
    }
    let message =
        "there is no linker for another processor: Rust's own, rust-lld, is not installed";
    Err(Failure::failed(message).into())
}
