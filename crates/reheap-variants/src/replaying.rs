//! Makes what performs a trace: the plan, and the replayer with an allocator in it or in front of it.

use crate::own_program::{self, Preloaded};
use anyhow::Context as _;
use reheap_allocators::program;
use reheap_command::choice::Choice;
use reheap_command::pulse;
use reheap_command::ui::Failure;
use reheap_static::project::proof::Proof;
use reheap_trace::replay::{
    self, COMPILER_FLAGS, Options, Plan, ReplayError, SOURCE, Speed, Touch,
};
use reheap_workshop::workshop::Workshop;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// The replayer as a dynamic program.
const REPLAYER: program::Program = program::replayer(SOURCE, &COMPILER_FLAGS);

/// How a trace is performed.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct PerformingArguments {
    /// The part of each block of a trace to write: nothing, the first byte and the last, also a byte of each
    /// page, or all of it [default: pages]
    #[arg(long, value_name = "WHAT")]
    touch: Option<TouchName>,
    /// Make a trace's calls as soon as possible, or not before the recorded time [default: max]
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
    /// The arguments as options of the replayer.
    pub fn options(self) -> Options {
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
pub struct TraceArguments {
    /// Make the calls of this trace of `reheap profile --trace`, instead of running a command
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "server"])]
    trace: Option<PathBuf>,
    #[command(flatten)]
    performing: PerformingArguments,
}

impl TraceArguments {
    /// The plan of the trace, if there is one.
    pub fn prepare(&self) -> anyhow::Result<Option<Prepared>> {
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
    pub fn words(&self, workshop: &Workshop) -> anyhow::Result<Vec<OsString>> {
        let program = dynamic(workshop)?;
        Ok(vec![program.into(), self.file.path().into()])
    }
}

/// A plan that can be performed.
pub struct Prepared {
    /// What reports call it.
    pub name: String,
    /// What is performed.
    pub plan: Plan,
    /// The trace's plan as a file for the replayer.
    pub file: UnnamedFile,
}

/// A file that processes which reheap starts can open, and that is gone with reheap, whatever ends that: it is in no
/// directory.
pub struct UnnamedFile(File);

impl UnnamedFile {
    /// An empty one.
    pub fn new() -> anyhow::Result<Self> {
        let file = tempfile::tempfile().context("cannot make a temporary file")?;
        Ok(Self(file))
    }

    /// Where others find it while this exists.
    pub fn path(&self) -> PathBuf {
        let (process, descriptor) = (std::process::id(), self.0.as_raw_fd());
        format!("/proc/{process}/fd/{descriptor}").into()
    }

    /// What they wrote.
    pub fn read(mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Makes the plan of a trace.
pub fn prepare(trace: &Path, options: &Options) -> anyhow::Result<Prepared> {
    let file = UnnamedFile::new()?;
    let cannot = || format!("cannot replay `{}`", trace.display());
    let empty = file.0.try_clone().with_context(cannot)?;
    let work = || replay::prepare(trace, options, empty);
    let plan = pulse::while_spinning(&format!("reading {}", trace.display()), work);
    let plan = plan.map_err(|error| refusal(trace, &error))?;
    let name = trace.file_name().unwrap_or(trace.as_os_str()).display();
    Ok(Prepared {
        name: format!("replay of {name}"),
        plan,
        file,
    })
}

fn refusal(trace: &Path, error: &ReplayError) -> Failure {
    let failure = Failure::failed(format!("cannot replay `{}`: {error}", trace.display()));
    match error {
        ReplayError::NotAFile => failure.hint("write the trace to a file first: it is read twice"),
        ReplayError::LongPlan { .. } => failure.hint("use another directory: TMPDIR=<directory>"),
        ReplayError::LittleMemory { .. } => {
            failure.hint("do not write to all pages of the blocks: --touch ends")
        }
        _ => failure,
    }
}

/// A replayer that is ready to run, with the variables to set.
pub struct Replayer {
    /// The executable.
    pub program: PathBuf,
    /// What it needs of it.
    pub environment: Vec<(OsString, OsString)>,
    /// The file name of what malloc must be in; `None` if anything will do.
    pub malloc_in: Option<OsString>,
}

impl Replayer {
    /// One whose allocator was seen in it.
    pub fn of_static(program: PathBuf) -> Self {
        Self {
            program,
            environment: Vec::new(),
            malloc_in: None,
        }
    }
}

/// The dynamic replayer with an allocator preloaded.
pub fn preloaded(choice: &Choice, workshop: &Workshop) -> anyhow::Result<Replayer> {
    let Preloaded {
        program,
        environment,
        malloc_in,
    } = own_program::preloaded(&REPLAYER, choice, workshop)?;
    Ok(Replayer {
        program,
        environment,
        malloc_in,
    })
}

/// The dynamic replayer, for the libc of this system's programs.
fn dynamic(workshop: &Workshop) -> anyhow::Result<PathBuf> {
    own_program::dynamic(&REPLAYER, workshop)
}

/// The static replayer, with an allocator in its libc, and what shows that.
pub fn linked(choice: &Choice, workshop: &Workshop) -> anyhow::Result<(PathBuf, Proof)> {
    own_program::linked(&REPLAYER, choice, workshop)
}
