//! Makes what performs a trace: the plan, and the replayer with an allocator in it or in front of it.

use crate::choice::Choice;
use crate::env_vars;
use crate::preloading;
use crate::program::Program;
use crate::project::proof::{self, Proof};
use crate::pulse;
use crate::ui::Failure;
use crate::workshop::Workshop;
use anyhow::Context as _;
use reheap_allocators::cache::{CacheError, sha256};
use reheap_allocators::compiler::{Compiler, Language, LinkError, Pie, Purpose, Search};
use reheap_allocators::program;
use reheap_allocators::target::Target;
use reheap_profile::replay::{self, COMPILER_FLAGS, Options, Plan, SOURCE, Speed, Touch};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The replayer as a dynamic program.
const REPLAYER: program::Program = program::replayer(SOURCE, &COMPILER_FLAGS);

/// How a trace is performed.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct PerformingArguments {
    /// What to write of each block of a trace: nothing, the first byte and the last, also a byte of each
    /// page, or all of it [default: pages]
    #[arg(long, value_name = "WHAT")]
    touch: Option<TouchName>,
    /// When to make a trace's calls: as soon as possible, or not before the recorded time [default: max]
    #[arg(long, value_name = "SPEED")]
    speed: Option<SpeedName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TouchName {
    None,
    Ends,
    Pages,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SpeedName {
    Max,
    Recorded,
}

impl PerformingArguments {
    /// The same for the crate that does it.
    pub(crate) fn options(self) -> Options {
        Options {
            touch: match self.touch {
                Some(TouchName::None) => Touch::None,
                Some(TouchName::Ends) => Touch::Ends,
                Some(TouchName::Pages) | None => Touch::Pages,
                Some(TouchName::All) => Touch::All,
            },
            speed: match self.speed {
                Some(SpeedName::Max) | None => Speed::Max,
                Some(SpeedName::Recorded) => Speed::Recorded,
            },
        }
    }
}

/// A trace in place of a command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TraceArguments {
    /// Make the calls of this trace of `reheap profile --trace`, instead of running a command
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "server"])]
    trace: Option<PathBuf>,
    #[command(flatten)]
    performing: PerformingArguments,
}

impl TraceArguments {
    /// The plan of the trace, if there is one.
    pub(crate) fn prepare(&self) -> anyhow::Result<Option<Prepared>> {
        let PerformingArguments { touch, speed } = self.performing;
        match &self.trace {
            Some(trace) => Ok(Some(prepare(trace, &self.performing.options())?)),
            None if touch.is_some() || speed.is_some() => {
                let text = "--touch and --speed are about a trace";
                Err(Failure::usage(text).hint("name one: --trace <file>").into())
            }
            None => Ok(None),
        }
    }
}

impl Prepared {
    /// The command that performs it with what is preloaded.
    pub(crate) fn words(&self, workshop: &Workshop) -> anyhow::Result<Vec<OsString>> {
        let program = dynamic(workshop)?;
        Ok(vec![program.into(), self.file.clone().into()])
    }
}

/// A plan in a directory of its own, which is removed with this.
pub(crate) struct Prepared {
    /// What reports call it.
    pub(crate) name: String,
    pub(crate) plan: Plan,
    pub(crate) file: PathBuf,
    pub(crate) directory: tempfile::TempDir,
}

/// Makes the plan of a trace.
pub(crate) fn prepare(trace: &Path, options: &Options) -> anyhow::Result<Prepared> {
    let directory = tempfile::Builder::new().prefix("reheap-replay-").tempdir();
    let directory = directory.context("cannot make a temporary directory")?;
    let file = directory.path().join("plan");
    let shown = trace.display();
    let work = || replay::prepare(trace, options, &file);
    let plan = pulse::while_spinning(&format!("reading {shown}"), work);
    let plan = plan.with_context(|| format!("cannot replay `{shown}`"))?;
    let name = trace.file_name().unwrap_or(trace.as_os_str()).display();
    Ok(Prepared {
        name: format!("replay of {name}"),
        plan,
        file,
        directory,
    })
}

/// A replayer that is ready to run, with the variables to set.
pub(crate) struct Replayer {
    pub(crate) program: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The file name of what malloc must be in; `None` if anything will do.
    pub(crate) malloc_in: Option<OsString>,
}

impl Replayer {
    /// One whose allocator was seen in it.
    pub(crate) fn of_static(program: PathBuf) -> Self {
        Self {
            program,
            environment: Vec::new(),
            malloc_in: None,
        }
    }
}

/// The dynamic replayer with an allocator preloaded.
pub(crate) fn preloaded(choice: &Choice, workshop: &Workshop) -> anyhow::Result<Replayer> {
    let program = dynamic(workshop)?;
    let resolved = Program::resolve(program.as_os_str())?;
    let library = preloading::library(choice, &resolved, workshop)?;
    let malloc_in = library.as_deref().and_then(Path::file_name);
    Ok(Replayer {
        program,
        malloc_in: malloc_in.map(OsStr::to_owned),
        environment: preloading::environment(choice, library.as_deref()),
    })
}

/// The dynamic replayer, for the libc of this system's programs.
fn dynamic(workshop: &Workshop) -> anyhow::Result<PathBuf> {
    let libc = preloading::libc_of_this_system()?;
    let target = Target::of_this_machine(libc).context("there is no replayer for this machine")?;
    workshop.program(&REPLAYER, &target)
}

/// The static replayer, with an allocator in its libc, and what shows that.
pub(crate) fn linked(choice: &Choice, workshop: &Workshop) -> anyhow::Result<(PathBuf, Proof)> {
    let target = crate::choice::musl_target(None)?;
    let compiler = workshop.compiler(&target, Language::C, Purpose::Programs)?;
    let original = match compiler.original_libc(workshop.search()) {
        Err(LinkError::NoLibcOfItsOwn { .. }) => workshop.libc_of_rust(&target)?,
        result => result?,
    };
    let directory = match workshop.derived_directory(choice, &target, &original)? {
        Some(directory) => directory,
        None => original.parent().unwrap_or(Path::new(".")).to_owned(),
    };
    let scripts = workshop.cache()?.directory("compilers")?;
    let arguments = compiler.link_arguments(&directory, Pie::Yes, &scripts)?;
    let program = compile(&target, &compiler, &arguments, workshop)?;
    let proof = proof::of_executable(&program, choice)?;
    Ok((program, proof))
}

/// A static replayer from the cache, or linked now.
fn compile(
    target: &Target,
    compiler: &Compiler,
    arguments: &[OsString],
    workshop: &Workshop,
) -> anyhow::Result<PathBuf> {
    let mut ingredients = format!("{SOURCE}\n{COMPILER_FLAGS:?}\n{}\n", compiler.identity);
    // The derived libc's directory, whose name says what is in it.
    ingredients.push_str(&format!("{arguments:?}"));
    let name = format!(
        "replayer-{target}-{}",
        &sha256(ingredients.as_bytes())[..16]
    );
    let make = |directory: &Path| -> Result<(), Failed> {
        let source = directory.join("replayer.c");
        fs::write(&source, SOURCE).map_err(|error| Failed(error.into()))?;
        let mut command = compiler.command_in(&Search::new(env_vars::all()));
        command.args(arguments).args(COMPILER_FLAGS).arg(&source);
        command.arg("-o").arg(directory.join("replayer"));
        run(&mut command).map_err(Failed)
    };
    let entry = workshop.cache()?.entry("replayers", &name, make);
    Ok(entry.map_err(|Failed(error)| error)?.join("replayer"))
}

/// An error on the way through the cache, which adds its own.
struct Failed(anyhow::Error);

impl From<CacheError> for Failed {
    fn from(error: CacheError) -> Self {
        Failed(error.into())
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().display().to_string();
    let output = command.output();
    let output = output.with_context(|| format!("cannot start `{program}`"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let text = format!("cannot compile the replayer with `{program}`: {said}");
    Err(Failure::failed(text.trim_end()).into())
}
