//! Runs one command and says what it cost.
//!
//! The command is started by a launcher of two pages, because its peak memory would otherwise include that of the
//! program that started it; `sys.rs` tells why. It has a process group of its own and no terminal: a terminal's Ctrl-C
//! reaches reheap alone, and a program that asks for a terminal is told that there is none instead of being stopped.
//! When the command has ended, everything that it left running is ended too.

use crate::counters;
use crate::memory_limit::MemoryLimit;
use crate::metrics::{Metric, Readings};
pub use crate::output::Output;
use crate::output::{OnLine, Source};
use crate::results::{Cost, Counters, Outcome};
use crate::running::{Ended, Running};
use crate::sys::{self, Report};
use reheap_proc::tree::kill_own_descendants;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a command that was asked to end has for it.
const GRACE: Duration = Duration::from_secs(1);

/// A command to measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The path of the executable file. It is not searched for in `PATH`.
    pub program: PathBuf,
    /// The arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// Environment variables in addition to, or in place of, those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// The file that it gets as standard input, opened anew for each run; `/dev/null` if there is none.
    pub input: Option<PathBuf>,
    /// What happens to it before its first instruction, if anything does.
    pub preparation: Option<Preparation>,
}

/// Starts a launcher whose command is prepared before its first instruction.
pub trait Prepare: Debug + Send + Sync {
    /// Starts the launcher, and says how long the command had to wait.
    ///
    /// # Errors
    /// When the command cannot be prepared. Nothing runs then.
    fn start(&self, launcher: Command) -> io::Result<(Child, Duration)>;
}

/// A way to prepare a command.
#[derive(Clone, Debug)]
pub struct Preparation(pub Arc<dyn Prepare>);

impl PartialEq for Preparation {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Preparation {}

/// When a run is ended before its time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// How long it may take.
    pub time: Option<Duration>,
    /// How much memory it may use.
    pub memory: Option<&'a MemoryLimit>,
    /// Set when somebody presses Ctrl-C. It is seen within 50 ms.
    pub interrupted: Option<&'a AtomicBool>,
}

/// A run that has ended, in whatever way.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
    /// The program that ended so: of a server under a load, one of both.
    pub program: PathBuf,
    /// What it cost.
    pub cost: Cost,
    /// Hardware counters, where there are any.
    pub counters: Option<Counters>,
    /// The metrics that were found in its output.
    pub metrics: BTreeMap<String, f64>,
    /// Of the metrics whose expressions matched, but nowhere a number: the text that they matched.
    pub metrics_without_number: BTreeMap<String, String>,
    /// Whether it ended by itself and left programs running, which were ended then.
    pub left_running: bool,
    /// What it wrote to standard output.
    pub stdout: Output,
    /// What it wrote to standard error.
    pub stderr: Output,
}

/// Why a command could not be measured. A command that fails was measured: see [`Finished::outcome`].
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no launcher for this processor.
    #[error("cannot measure commands on this processor: only x86_64 and aarch64 are supported")]
    UnsupportedArchitecture,
    /// The launcher could not be put into memory.
    #[error("cannot prepare the launcher of measured commands: {0}")]
    Prepare(io::Error),
    /// The file for standard input cannot be read.
    #[error("cannot open the input `{}` of `{}`: {reason}", input.display(), program.display())]
    Input {
        /// The command's program.
        program: PathBuf,
        /// The file.
        input: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The kernel refused to execute the launcher, or its arguments.
    #[error("cannot start the launcher of `{}`: {reason}", program.display())]
    Launch {
        /// The command's program.
        program: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The kernel refused to execute the program.
    #[error("cannot start `{}`: {reason}", program.display())]
    Start {
        /// The command's program.
        program: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// Its output could not be read, or it could not be waited for.
    #[error("cannot follow `{}`: {reason}", program.display())]
    Follow {
        /// The command's program.
        program: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// A process that the command left does not end, not even when it is killed.
    #[error("cannot end what `{}` left running", program.display())]
    StillRunning {
        /// The command's program.
        program: PathBuf,
    },
    /// The launcher ended without a report, because somebody killed it.
    #[error("cannot measure `{}`: its launcher ended early ({status})", program.display())]
    NoReport {
        /// The command's program.
        program: PathBuf,
        /// How the launcher ended.
        status: ExitStatus,
    },
    /// Somebody pressed Ctrl-C. Nothing of the command runs any more.
    #[error("interrupted")]
    Interrupted,
}

/// Kills everything that this process has started, whatever runs it, without waiting: for a program that ends at once.
pub fn kill_everything() {
    kill_own_descendants();
}

/// Starts commands and measures them.
#[derive(Debug)]
pub struct Launcher {
    /// Open as long as there are runs.
    _executable: File,
    path: String,
    no_counters_because: Option<String>,
}

impl Launcher {
    /// Puts the launcher into memory, ready for any number of runs.
    ///
    /// # Errors
    /// If there is none for this processor, or no file can be made in memory.
    pub fn new() -> Result<Launcher, RunError> {
        let bytes = sys::launcher().ok_or(RunError::UnsupportedArchitecture)?;
        let mut executable = executable_in_memory().map_err(RunError::Prepare)?;
        executable.write_all(bytes).map_err(RunError::Prepare)?;
        Ok(Launcher {
            path: path_for_a_child(&executable),
            _executable: executable,
            no_counters_because: counters::missing_because(),
        })
    }

    /// Why there are no hardware counters here; none if there are.
    pub fn no_counters_because(&self) -> Option<&str> {
        self.no_counters_because.as_deref()
    }

    /// Runs a command to its end, and reads these metrics from its output. It has ended when the command itself has:
    /// what it left running in the background is ended.
    ///
    /// # Errors
    /// If the command or its input cannot be opened or started, if somebody pressed Ctrl-C, if the launcher was killed,
    /// or if something that the command left running cannot be ended. However the command itself ends is a result and
    /// no error.
    pub fn run(
        &self,
        command: &CommandLine,
        limits: &Limits<'_>,
        metrics: &[Metric],
    ) -> Result<Finished, RunError> {
        self.run_until(command, limits, metrics, &|| None)
    }

    /// Runs the command until it ends, or until `stop` says how long it still has to end. A command that was stopped has
    /// not failed.
    pub(crate) fn run_until(
        &self,
        command: &CommandLine,
        limits: &Limits<'_>,
        metrics: &[Metric],
        stop: &dyn Fn() -> Option<Duration>,
    ) -> Result<Finished, RunError> {
        let mut readings = Readings::default();
        let mut on_line = |source: Source, line: &[u8]| readings.read(metrics, source, line);
        let on_line: Option<&mut OnLine<'_>> = match metrics {
            [] => None,
            _ => Some(&mut on_line),
        };
        let (_, finished) = self.follow(command, limits, on_line, stop)?;
        let (metrics, metrics_without_number) = readings.finish();
        Ok(Finished {
            metrics,
            metrics_without_number,
            ..finished
        })
    }

    /// Runs the command and gives each line of its output to `on_line`. It reads no metrics.
    pub(crate) fn follow<'a>(
        &self,
        command: &CommandLine,
        limits: &Limits<'_>,
        on_line: Option<&'a mut OnLine<'a>>,
        stop: &dyn Fn() -> Option<Duration>,
    ) -> Result<(Ending, Finished), RunError> {
        let kills_before = limits.memory.map_or(0, MemoryLimit::kills);
        let counters = match self.no_counters_because {
            None => Some(counters::Open::new()),
            Some(_) => None,
        };
        let (running, waited) = self.start(command, limits, on_line)?;
        let (ending, ended) =
            follow_to_the_end(running, limits, stop).map_err(|reason| match reason.kind() {
                io::ErrorKind::TimedOut => RunError::StillRunning {
                    program: command.program.clone(),
                },
                _ => RunError::Follow {
                    program: command.program.clone(),
                    reason,
                },
            })?;
        let report = report_of(command, &ended)?;
        if ending == Ending::Interrupted {
            return Err(RunError::Interrupted);
        }
        let was_killed = limits.memory.map_or(0, MemoryLimit::kills) > kills_before;
        let finished = Finished {
            outcome: match ending {
                Ending::OutOfTime => Outcome::TimedOut,
                _ if was_killed => Outcome::OutOfMemory,
                _ => outcome(report.wait_status),
            },
            program: command.program.clone(),
            cost: cost(&report, waited, ended.mean_rss_bytes),
            counters: counters.map(counters::Open::read),
            metrics: BTreeMap::new(),
            metrics_without_number: BTreeMap::new(),
            left_running: ending == Ending::ByItself && report.is_something_left,
            stdout: ended.stdout,
            stderr: ended.stderr,
        };
        Ok((ending, finished))
    }

    fn start<'a>(
        &self,
        command: &CommandLine,
        limits: &Limits<'_>,
        on_line: Option<&'a mut OnLine<'a>>,
    ) -> Result<(Running<'a>, Duration), RunError> {
        let input = readable_input(command)?;
        let launch = |reason: io::Error| RunError::Launch {
            program: command.program.clone(),
            reason,
        };
        let (report, report_end) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| launch(error.into()))?;
        let mut launcher = Command::new(&self.path);
        launcher
            .arg0("reheap-launcher")
            .arg(input)
            .arg(&command.program)
            .args(&command.arguments)
            .envs(
                command
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .stdin(report_end)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(memory) = limits.memory {
            memory.apply_to(&mut launcher).map_err(launch)?;
        }
        let (launcher, waited) = match &command.preparation {
            Some(preparation) => preparation.0.start(launcher),
            None => launcher.spawn().map(|launcher| (launcher, Duration::ZERO)),
        }
        .map_err(launch)?;
        let running = Running::new(launcher, report, on_line).map_err(launch)?;
        Ok((running, waited))
    }
}

/// How a command came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    ByItself,
    OutOfTime,
    Interrupted,
    Stopped(Duration),
}

fn follow_to_the_end(
    mut running: Running<'_>,
    limits: &Limits<'_>,
    stop: &dyn Fn() -> Option<Duration>,
) -> io::Result<(Ending, Ended)> {
    let ending = follow_until_ending(&mut running, limits, stop)?;
    let grace = match ending {
        Ending::ByItself => Duration::ZERO,
        Ending::OutOfTime | Ending::Interrupted => GRACE,
        Ending::Stopped(grace) => grace,
    };
    if ending != Ending::ByItself {
        running.terminate();
        let until = Instant::now() + grace;
        while !running.has_ended() && Instant::now() < until {
            running.attend(until)?;
        }
    }
    Ok((ending, running.end()?))
}

fn follow_until_ending(
    running: &mut Running<'_>,
    limits: &Limits<'_>,
    stop: &dyn Fn() -> Option<Duration>,
) -> io::Result<Ending> {
    // A limit beyond what the clock can say is none.
    let deadline = limits
        .time
        .and_then(|time| Instant::now().checked_add(time));
    while !running.has_ended() {
        let now = Instant::now();
        if limits
            .interrupted
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
        {
            return Ok(Ending::Interrupted);
        }
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Ok(Ending::OutOfTime);
        }
        if let Some(grace) = stop() {
            return Ok(Ending::Stopped(grace));
        }
        running.attend(deadline.unwrap_or(now + Duration::from_secs(1)))?;
    }
    Ok(Ending::ByItself)
}

/// Whether a terminal or a person asks for the end: SIGHUP, SIGINT and SIGTERM, with their numbers on all Linux.
fn is_interruption(signal: i32) -> bool {
    matches!(signal, 1 | 2 | 15)
}

fn report_of(command: &CommandLine, ended: &Ended) -> Result<Report, RunError> {
    let not_started = |error_code| RunError::Start {
        program: command.program.clone(),
        reason: io::Error::from_raw_os_error(error_code),
    };
    match ended.report {
        // A terminal's Ctrl-C reaches the launcher as well, until it has a process group of its own.
        None if ended.launcher.signal().is_some_and(is_interruption) => Err(RunError::Interrupted),
        None => Err(match ended.launcher.code() {
            Some(error @ 1..255) => not_started(error),
            _ => RunError::NoReport {
                program: command.program.clone(),
                status: ended.launcher,
            },
        }),
        Some(report) if report.exec_error != 0 => Err(not_started(report.exec_error)),
        Some(report) => Ok(report),
    }
}

/// The path of the input, which is opened here once, so that it is not the program that seems to be missing.
fn readable_input(command: &CommandLine) -> Result<&Path, RunError> {
    let Some(input) = &command.input else {
        return Ok(Path::new("/dev/null"));
    };
    match File::open(input) {
        Ok(_) => Ok(input),
        Err(reason) => Err(RunError::Input {
            program: command.program.clone(),
            input: input.clone(),
            reason,
        }),
    }
}

/// A file that only this process sees, and that may be executed.
fn executable_in_memory() -> io::Result<File> {
    // Linux before 6.3 does not know the flag EXEC; later ones may be told to refuse execution without it.
    let name = "reheap-launcher";
    memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
        .or_else(|_| memfd_create(name, MemfdFlags::CLOEXEC))
        .map(File::from)
        .map_err(io::Error::from)
}

/// The path under which a new process executes this file.
///
/// Through this process if the system lets a child look at it. `/proc/self` always works, but the kernel makes the
/// entries of `/proc` again for each new process, which takes 20 µs of each run.
fn path_for_a_child(executable: &File) -> String {
    let file = executable.as_raw_fd();
    let through_this_process = format!("/proc/{}/fd/{file}", process::id());
    let mut trial = Command::new(&through_this_process);
    trial.stdin(Stdio::null()).stdout(Stdio::null());
    // Without a command, the launcher ends at once.
    match trial.stderr(Stdio::null()).status() {
        Ok(_) => through_this_process,
        Err(_) => format!("/proc/self/fd/{file}"),
    }
}

fn outcome(wait_status: i32) -> Outcome {
    let status = ExitStatus::from_raw(wait_status);
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, Some(signal)) => Outcome::Signalled(signal),
        (None, None) => unreachable!("wait4 without options reports only ends: {wait_status}"),
    }
}

/// The time in which the command waited to be prepared does not count.
fn cost(report: &Report, waited: Duration, mean_rss_bytes: Option<u64>) -> Cost {
    Cost {
        wall_seconds: report.wall.saturating_sub(waited).as_secs_f64(),
        user_seconds: report.user.as_secs_f64(),
        system_seconds: report.system.as_secs_f64(),
        peak_rss_bytes: report.peak_rss_kib * 1024,
        mean_rss_bytes,
        minor_faults: report.minor_faults,
        major_faults: report.major_faults,
        voluntary_context_switches: report.voluntary_context_switches,
        involuntary_context_switches: report.involuntary_context_switches,
    }
}
