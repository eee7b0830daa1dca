//! `cargo reheap build`, `run`, `test` and `install`: Cargo's own commands, linked with a derived libc.
//!
//! Cargo does all the work; reheap gives it a linker, reads its messages to learn which executables there are, replays
//! links that Cargo had no reason to do again, and reads the marker of each executable back.

use crate::link::{self, Linked, Plan, RustHeap};
use crate::setup::{self, Choice, ChoiceArguments, Network};
use crate::ui::{self, Failure};
use crate::{cargo_config, env_vars};
use anyhow::Context as _;
use reheap_allocators::compiler::{self, Language, Purpose};
use reheap_allocators::target::Target;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

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

/// Puts the flags that reheap's command defines in front and `--` behind them, so that every other flag is Cargo's.
pub(crate) fn separate(command: &clap::Command, arguments: &[OsString]) -> Vec<OsString> {
    let (mut own, mut cargo) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if text == "--" {
            cargo.push(argument.clone());
            cargo.extend(rest.by_ref().cloned());
        } else if text == "-h" || text == "--help" {
            own.push(argument.clone());
        } else if let Some((flag, value)) = own_flag(command, &text) {
            own.push(argument.clone());
            let values = flag.get_num_args().unwrap_or_default();
            let next = rest.peek().map(|next| next.to_string_lossy());
            let is_value = |next: &str| next == "-" || !next.starts_with('-');
            let takes_next = values.min_values() > 0
                || (values.max_values() > 0 && next.is_some_and(|next| is_value(&next)));
            if value.is_none() && takes_next {
                own.extend(rest.next().cloned());
            }
        } else {
            cargo.push(argument.clone());
        }
    }
    own.push("--".into());
    own.extend(cargo);
    own
}

/// The flag of a command that an argument is, with the value that stands in the same argument.
fn own_flag<'a>(command: &'a clap::Command, text: &str) -> Option<(&'a clap::Arg, Option<String>)> {
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (long, None),
        };
        let flag = command.get_arguments().find(|a| a.get_long() == Some(name));
        return flag.map(|flag| (flag, value));
    }
    let mut characters = text.strip_prefix('-')?.chars();
    let short = characters.next()?;
    let value = Some(characters.as_str().to_owned()).filter(|value| !value.is_empty());
    let flag = command
        .get_arguments()
        .find(|a| a.get_short() == Some(short));
    flag.map(|flag| (flag, value))
}

/// What is going to be done, checked before anything is built.
pub(crate) struct Session {
    verb: Verb,
    choice: Choice,
    target: Target,
    /// Flags for Cargo, without `--target` and `--message-format`.
    flags: Vec<OsString>,
    /// What stands behind `--`.
    program_arguments: Vec<OsString>,
    /// The user's `--message-format`.
    message_format: Option<String>,
    stack_size_bytes: u64,
}

/// Runs one of the commands.
pub(crate) fn run(verb: Verb, arguments: &CargoArguments) -> anyhow::Result<ExitCode> {
    let session = Session::new(verb, arguments)?;
    let plan = session.plan_for(&session.choice)?;
    let environment = session.environment(&plan)?;
    match verb {
        Verb::Build | Verb::Install => session.build(&plan, &environment),
        Verb::Run | Verb::Test => {
            let code = session.build(&plan, &environment)?;
            if code != ExitCode::SUCCESS {
                return Ok(code);
            }
            session.start(&environment)
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
        let mut flags = arguments.to_vec();
        let end = flags.iter().position(|f| f == "--").unwrap_or(flags.len());
        let program_arguments = flags.split_off(end);
        let targets = take_values(&mut flags, "--target");
        if targets.len() > 1 {
            return Err(Failure::usage("one `--target` at a time").into());
        }
        let configured = match targets.into_iter().next() {
            Some(triple) => Some(triple),
            // A configured glibc target says what `cargo build` makes, not that a static executable is not wanted.
            None => {
                cargo_config::build_target(&directory)?.filter(|triple| triple.contains("musl"))
            }
        };
        let message_format = take_values(&mut flags, "--message-format").pop();
        if flags
            .iter()
            .any(|flag| flag == "--offline" || flag == "--frozen")
        {
            choice.network = Network::Forbidden;
        }
        let session = Self {
            verb,
            choice,
            target: setup::target(configured.as_deref())?,
            flags,
            program_arguments,
            message_format,
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
        let mut flags = self.flags.clone();
        if let Some(manifest) = take_values(&mut flags, "--manifest-path").pop() {
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
        let names_profile = |flag: &OsString| {
            let flag = flag.to_string_lossy();
            flag == "--release" || flag == "-r" || flag.starts_with("--profile")
        };
        if !session.flags.iter().any(names_profile) {
            session.flags.push("--release".into());
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
        let environment = self.environment(&self.plan_for(&self.choice)?)?;
        let mut executables = Vec::new();
        let status = self.run_cargo(&environment, |path| {
            executables.push(path);
            Ok(())
        })?;
        built(status)?;
        Ok(executables)
    }

    /// Builds the same executables for the glibc of this machine, with Cargo alone.
    pub(crate) fn executables_for_glibc(&self) -> anyhow::Result<Vec<PathBuf>> {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut cargo = cargo();
        cargo.args(["build", "--target", &triple]).args(&self.flags);
        let mut executables = Vec::new();
        let status = read_messages(cargo, self.message_format.as_deref(), |path| {
            executables.push(path);
            Ok(())
        })?;
        built(status)?;
        Ok(executables)
    }

    /// How to link with a choice.
    pub(crate) fn plan_for(&self, choice: &Choice) -> anyhow::Result<Plan> {
        let directory = std::env::current_dir().context("cannot find the current folder")?;
        let linker = match cargo_config::linker(&self.target, &directory)? {
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

    /// The variables that Cargo gets in addition to the user's.
    fn environment(&self, plan: &Plan) -> anyhow::Result<Vec<(String, OsString)>> {
        let cache = setup::cache()?;
        let script = link::write_script(&cache.folder("linkers")?, &plan.linker)?;
        let mut environment = vec![
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
            environment.push((format!("CC_{}", self.target.env_suffix()), cc.into()));
        }
        Ok(environment)
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
    fn build(&self, plan: &Plan, environment: &[(String, OsString)]) -> anyhow::Result<ExitCode> {
        let mut executables = Vec::new();
        let status = self.run_cargo(environment, |path| {
            // What Cargo installs it links anew, in a folder that is gone afterwards.
            if self.verb == Verb::Install {
                return self.check(&path, None);
            }
            executables.push(path);
            Ok(())
        })?;
        if !status.success() {
            return Ok(exit_code(status));
        }
        for path in executables {
            let linked = link::ensure(&path, plan)?;
            self.check(&path, Some(linked))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Cargo does its work for the session's target, and every executable that it names is handed on.
    fn run_cargo(
        &self,
        environment: &[(String, OsString)],
        found: impl FnMut(PathBuf) -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitStatus> {
        let mut cargo = cargo();
        cargo.arg(match self.verb {
            Verb::Run => "build",
            verb => verb.name(),
        });
        if self.verb == Verb::Test {
            cargo.arg("--no-run");
        }
        cargo.args(["--target", self.target.triple()]);
        cargo.args(&self.flags);
        cargo.envs(environment.iter().map(|(name, value)| (name, value)));
        read_messages(cargo, self.message_format.as_deref(), found)
    }

    /// Cargo finds nothing left to build, and starts what was built.
    fn start(&self, environment: &[(String, OsString)]) -> anyhow::Result<ExitCode> {
        let mut cargo = cargo();
        cargo
            .arg(self.verb.name())
            .args(["--target", self.target.triple()]);
        cargo.args(&self.flags).args(&self.program_arguments);
        cargo.envs(environment.iter().map(|(name, value)| (name, value)));
        std::io::stdout()
            .flush()
            .context("cannot write to standard output")?;
        let error = std::os::unix::process::CommandExt::exec(&mut cargo);
        Err(error).context("cannot start Cargo")
    }

    /// Reads an executable back and says what it is, or fails where it is not what was asked for.
    fn check(&self, executable: &Path, linked: Option<Linked>) -> anyhow::Result<()> {
        let proof = crate::proof::of_executable(executable, &self.choice)?;
        if self
            .flags
            .iter()
            .any(|flag| flag == "-q" || flag == "--quiet")
        {
            return Ok(());
        }
        let how = match linked {
            Some(Linked { replayed: true, .. }) => ", linked again without compiling",
            _ => "",
        };
        let directory = std::env::current_dir().context("cannot find the current folder")?;
        let shown = executable
            .strip_prefix(&directory)
            .unwrap_or(executable)
            .display();
        ui::note(&format!("{shown}: {proof}{how}"));
        if linked.is_some_and(|l| l.rust_heap == RustHeap::Own) && !self.choice.is_stock() {
            let name = self.choice.allocator.name;
            ui::note(&format!(
                "its Rust code uses the program's own #[global_allocator]; its C code and musl use {name}"
            ));
        }
        Ok(())
    }
}

/// Starts Cargo and hands on every executable that it names in its messages. The messages themselves go to standard output
/// in the JSON form that the user asked for, if any.
fn read_messages(
    mut cargo: Command,
    message_format: Option<&str>,
    mut found: impl FnMut(PathBuf) -> anyhow::Result<()>,
) -> anyhow::Result<ExitStatus> {
    let forwarded = message_format.filter(|format| format.starts_with("json"));
    let format = forwarded.unwrap_or("json-render-diagnostics");
    let mut child = cargo
        .args(["--message-format", format])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start Cargo")?;
    let messages = BufReader::new(child.stdout.take().expect("standard output was piped"));
    for line in messages.lines() {
        let line = line.context("cannot read Cargo's messages")?;
        match executable_of(&line) {
            Some(path) => found(path)?,
            None if forwarded.is_none() && !line.starts_with('{') => {
                ui::data(&format!("{line}\n"))?
            }
            None => {}
        }
        if forwarded.is_some() {
            ui::data(&format!("{line}\n"))?;
        }
    }
    child.wait().context("cannot wait for Cargo")
}

fn cargo() -> Command {
    Command::new(env_vars::program("CARGO", "cargo"))
}

/// Cargo has said why it failed.
fn built(status: ExitStatus) -> anyhow::Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(Failure::failed("Cargo could not build the project").into())
}

fn exit_code(status: ExitStatus) -> ExitCode {
    ExitCode::from(
        status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(ui::FAILED),
    )
}

/// Removes every `flag value` and `flag=value`, and gives the values.
fn take_values(flags: &mut Vec<OsString>, flag: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut kept = Vec::new();
    let mut rest = std::mem::take(flags).into_iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if text == flag {
            values.extend(
                rest.next()
                    .map(|value| value.to_string_lossy().into_owned()),
            );
        } else if let Some(value) = text.strip_prefix(flag).and_then(|t| t.strip_prefix('=')) {
            values.push(value.to_owned());
        } else {
            kept.push(argument);
        }
    }
    *flags = kept;
    values
}

/// The executable in one of Cargo's messages (Cargo book, "External tools", artifact messages).
fn executable_of(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" {
        return None;
    }
    message["executable"].as_str().map(PathBuf::from)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(arguments: &[&str]) -> Vec<OsString> {
        arguments.iter().map(OsString::from).collect()
    }

    #[derive(clap::Parser)]
    struct OfTheTest {
        #[command(flatten)]
        choice: ChoiceArguments,
        #[arg(long, num_args = 0..=1)]
        json: Option<String>,
        #[arg(long)]
        offline_too: bool,
    }

    fn separated(arguments: &[&str]) -> Vec<OsString> {
        let mut command = <OfTheTest as clap::CommandFactory>::command();
        command.build();
        separate(&command, &strings(arguments))
    }

    #[test]
    fn own_flags_are_found_anywhere_before_the_double_dash() {
        let given = [
            "--release",
            "-a",
            "jemalloc",
            "-p",
            "x",
            "--tuning=narenas=2",
            "--",
            "-a",
            "b",
        ];
        let expected = [
            "-a",
            "jemalloc",
            "--tuning=narenas=2",
            "--",
            "--release",
            "-p",
            "x",
            "--",
            "-a",
            "b",
        ];
        assert_eq!(separated(&given), strings(&expected));
    }

    #[test]
    fn a_flag_takes_the_next_argument_only_where_it_has_a_value() {
        assert_eq!(
            separated(&["--offline-too", "--json", "f.json", "-q"]),
            strings(&["--offline-too", "--json", "f.json", "--", "-q"])
        );
        assert_eq!(
            separated(&["--json", "--release", "-anew", "x"]),
            strings(&["--json", "-anew", "--", "--release", "x"])
        );
    }

    #[test]
    fn values_are_taken_in_both_spellings() {
        let mut flags = strings(&["--target", "a", "-p", "x", "--target=b"]);
        assert_eq!(take_values(&mut flags, "--target"), ["a", "b"]);
        assert_eq!(flags, strings(&["-p", "x"]));
    }
}
