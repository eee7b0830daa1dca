//! Runs one command and says what it cost.
//!
//! The command is started by a launcher of two pages, because its peak memory would otherwise include that of the
//! program that started it; `sys.rs` tells why. It gets an empty standard input, its output is kept.

use crate::sys::{self, Report};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

/// A command to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The path of the executable file. It is not searched for in `PATH`.
    pub program: PathBuf,
    /// The arguments after the program's name.
    pub arguments: Vec<OsString>,
    /// Environment variables in addition to, or in place of, those of this process.
    pub environment: Vec<(OsString, OsString)>,
}

/// What one run of a command cost. Processes that the command started and waited for are part of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// From before the process was made until its end was noticed.
    pub wall_seconds: f64,
    /// CPU time in the program's own code, of all threads.
    pub user_seconds: f64,
    /// CPU time in the kernel, of all threads.
    pub system_seconds: f64,
    /// The largest resident set: of the largest process, if there were several. Linux counts pages for each processor
    /// by itself and adds them up in steps of 32 (since 6.2), so this is off by up to 128 KiB a processor.
    pub peak_rss_bytes: u64,
    /// Page faults that needed no input or output.
    pub minor_faults: u64,
    /// Page faults that had to wait for a disk.
    pub major_faults: u64,
    /// How often the command gave up the CPU by waiting.
    pub voluntary_context_switches: u64,
    /// How often the kernel took the CPU from the command.
    pub involuntary_context_switches: u64,
}

impl Measurement {
    /// User and system time together.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// One run of a command: what it cost, how it ended and what it printed.
#[derive(Clone, Debug)]
pub struct Run {
    /// What the run cost.
    pub measurement: Measurement,
    /// How the command ended.
    pub status: ExitStatus,
    /// What the command wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What the command wrote to its standard error.
    pub stderr: Vec<u8>,
}

/// Why a command could not be measured. A command that fails was measured: see [`Run::status`].
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no launcher for this processor.
    #[error("cannot measure commands on this processor: only x86_64 and aarch64 are supported")]
    UnsupportedArchitecture,
    /// The launcher could not be put into memory.
    #[error("cannot prepare the launcher of measured commands: {0}")]
    Prepare(#[source] io::Error),
    /// The kernel refused to execute the launcher, or its arguments.
    #[error("cannot start the launcher of `{}`: {reason}", program.display())]
    Launch {
        /// The command's program.
        program: PathBuf,
        /// What the system said.
        #[source]
        reason: io::Error,
    },
    /// The kernel refused to execute the program.
    #[error("cannot start `{}`: {reason}", program.display())]
    Start {
        /// The command's program.
        program: PathBuf,
        /// What the system said.
        #[source]
        reason: io::Error,
    },
    /// The launcher ended without a report, because somebody killed it or no process could be made.
    #[error("cannot measure `{}`: its launcher ended early ({status})", program.display())]
    NoReport {
        /// The command's program.
        program: PathBuf,
        /// How the launcher ended.
        status: ExitStatus,
    },
}

/// Starts commands and measures them.
#[derive(Debug)]
pub struct Launcher {
    executable: File,
}

impl Launcher {
    /// Puts the launcher into memory, ready for any number of runs.
    pub fn new() -> Result<Launcher, RunError> {
        let bytes = sys::launcher().ok_or(RunError::UnsupportedArchitecture)?;
        let mut executable = executable_in_memory().map_err(RunError::Prepare)?;
        executable.write_all(bytes).map_err(RunError::Prepare)?;
        Ok(Launcher { executable })
    }

    /// Runs a command to its end.
    ///
    /// That includes the end of its output: a process that outlives the command and keeps its standard output or error
    /// open keeps this function waiting.
    pub fn run(&self, command: &CommandLine) -> Result<Run, RunError> {
        let program = || command.program.clone();
        let report = memfd_create("reheap-report", MemfdFlags::CLOEXEC)
            .map(File::from)
            .map_err(|errno| RunError::Prepare(errno.into()))?;
        let output = Command::new(format!("/proc/self/fd/{}", self.executable.as_raw_fd()))
            .arg0("reheap-launcher")
            .arg("/dev/null")
            .arg(&command.program)
            .args(&command.arguments)
            .envs(
                command
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .stdin(report.try_clone().map_err(RunError::Prepare)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .map_err(|reason| RunError::Launch {
                program: program(),
                reason,
            })?;
        let mut bytes = [0; Report::BYTES];
        if report.read_exact_at(&mut bytes, 0).is_err() {
            return Err(RunError::NoReport {
                program: program(),
                status: output.status,
            });
        }
        let report = Report::parse(&bytes);
        if report.exec_error != 0 {
            let reason = io::Error::from_raw_os_error(report.exec_error);
            return Err(RunError::Start {
                program: program(),
                reason,
            });
        }
        Ok(Run {
            measurement: measurement(&report),
            status: ExitStatus::from_raw(report.wait_status),
            stdout: output.stdout,
            stderr: output.stderr,
        })
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

fn measurement(report: &Report) -> Measurement {
    Measurement {
        wall_seconds: report.wall.as_secs_f64(),
        user_seconds: report.user.as_secs_f64(),
        system_seconds: report.system.as_secs_f64(),
        peak_rss_bytes: report.peak_rss_kib * 1024,
        minor_faults: report.minor_faults,
        major_faults: report.major_faults,
        voluntary_context_switches: report.voluntary_context_switches,
        involuntary_context_switches: report.involuntary_context_switches,
    }
}
