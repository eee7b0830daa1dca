//! Runs a command, watches it for a while, and then ends it and everything that it started.
//!
//! This process adopts orphans (prctl(2), "child subreaper"), so everything that the command starts stays below it,
//! daemons too. The kernel tells it how the command and the orphans end. For all others it tells their parents, and the
//! watch in them writes that down (`reheap_allocators::watch`). If a parent has no watch, reheap may still see a death
//! before the parent asks for it. If the process that died had the library of the watch, reheap knows that it did not
//! exit in order.

use crate::census::Census;
use anyhow::Context as _;
use reheap_allocators::watch::{Seen, Started, Watch};
use reheap_bench::results::Outcome;
use reheap_command::interrupt;
use reheap_proc::stat::Stat;
use reheap_proc::tree::{descendants, number, signal_descendants};
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, waitpid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a program may need to end when reheap asks it to.
const GRACE: Duration = Duration::from_secs(5);
/// The kernel may need a while to free the memory of a process, but not this long.
const KILL_FOR: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(5);
/// Signals that a program causes itself and that reheap never sends.
const FAULTS: [Signal; 7] = [
    Signal::ABORT,
    Signal::SEGV,
    Signal::BUS,
    Signal::ILL,
    Signal::FPE,
    Signal::TRAP,
    Signal::SYS,
];

/// What a run showed.
#[derive(Debug)]
pub(super) struct Observed {
    /// The process of the command.
    pub(super) command: u32,
    /// How the command itself ended, if it did so before reheap asked it to.
    pub(super) end: Option<Outcome>,
    /// Whether something of it was still running, so that reheap ended it.
    pub(super) was_ended: bool,
    pub(super) time: Duration,
    pub(super) deaths: Vec<Death>,
    /// The name of the program that the command executed last, if that had no watch.
    pub(super) became: Option<Name>,
    /// Processes that are gone, and nobody knows how they ended.
    pub(super) lost: Vec<Lost>,
}

/// A program's name, as far as the kernel keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(pub(super) PathBuf);

impl Name {
    pub(super) fn is_of(&self, program: &Path) -> bool {
        let name = program.file_name().unwrap_or_default().as_bytes();
        name[..name.len().min(NAME_BYTES)] == *self.0.as_os_str().as_bytes()
    }
}

/// A process that ended like a crash: without the functions that end a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Lost {
    pub(super) process: u32,
    pub(super) program: PathBuf,
}

/// A process that died by a signal that reheap did not send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Death {
    pub(super) process: Option<u32>,
    /// The process's program, or its parent's where only that is known.
    pub(super) program: PathBuf,
    pub(super) is_of_child: bool,
    pub(super) signal: i32,
}

impl Death {
    /// Whether a death in another run is the same problem.
    ///
    /// If a libc's checks end a program by SIGABRT, another allocator may notice the same error later, by SIGSEGV. If
    /// somebody sends a signal, it may come before the process runs the intended program. So only the signal counts
    /// then.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_same = self.program.file_name() == other.program.file_name();
        // Only a path is certain to be a program's name.
        let is_vague = |death: &Self| death.is_of_child || !death.program.is_absolute();
        let may_be_same = is_same || is_vague(self) || is_vague(other);
        if self.is_fault() {
            other.is_fault() && may_be_same
        } else {
            other.signal == self.signal
        }
    }

    /// Whether the process caused it itself.
    pub(super) fn is_fault(&self) -> bool {
        is_fault(self.signal)
    }
}

fn is_fault(signal: i32) -> bool {
    FAULTS.iter().any(|fault| fault.as_raw() == signal)
}

/// A command to watch.
pub(super) struct Run<'a> {
    pub(super) command: Command,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) watch: Watch,
    pub(super) time: Duration,
    pub(super) interrupted: &'a AtomicBool,
}

impl Run<'_> {
    /// Starts it, watches it, and ends it.
    ///
    /// # Errors
    /// If it cannot start, or the user pressed Ctrl-C; then nothing of it is still running.
    pub(super) fn observe(self, mut census: Option<&mut Census>) -> anyhow::Result<Observed> {
        set_child_subreaper(Some(getpid()))
            .context("cannot adopt the command's orphaned processes")?;
        let mut command = self.command;
        let shown = PathBuf::from(command.get_program());
        let child = command
            .envs(self.environment)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run `{}`", shown.display()))?;
        let started = Instant::now();
        let mut family = Family::of(child.id());
        let mut is_left = true;
        while is_left && started.elapsed() < self.time {
            if self.interrupted.load(Ordering::Relaxed) {
                family.end(); // here, so that the error comes when all is done
                return Err(interrupt::failure("interrupted").into());
            }
            std::thread::sleep(INTERVAL);
            is_left = family.look(census.as_deref_mut());
        }
        let time = started.elapsed();
        let seen_before = self.watch.seen()?;
        let gone = gone(&family, &seen_before);
        let end = family.ends.get(&family.command).copied();
        let ends_before = family.ends.clone();
        family.end();
        let seen = self.watch.seen()?;
        Ok(Observed {
            command: family.command,
            end: end.map(outcome),
            was_ended: is_left,
            time,
            deaths: deaths(&ends_before, &family, &seen_before, &seen),
            became: became(&family, &seen),
            lost: lost(&gone, &seen),
        })
    }
}

/// Every process that died by a signal, once each. Before reheap began to end the run, any signal counts; after that,
/// only one that a process causes itself.
fn deaths(
    ends_before: &BTreeMap<u32, ExitStatus>,
    family: &Family,
    seen_before: &Seen,
    seen: &Seen,
) -> Vec<Death> {
    let mut deaths: Vec<Death> = Vec::new();
    for (process, status) in &family.ends {
        let Some(signal) = status.signal() else {
            continue;
        };
        let name = || family.names.get(process).cloned().unwrap_or_default();
        if is_fault(signal) || ends_before.contains_key(process) {
            let program = seen.program_of(*process);
            deaths.push(Death {
                process: Some(*process),
                program: program.map_or_else(name, PathBuf::from),
                is_of_child: false,
                signal,
            });
        }
    }
    for (at, noted) in seen.deaths.iter().enumerate() {
        let is_known =
            noted.process.is_some() && deaths.iter().any(|death| death.process == noted.process);
        if is_known || at >= seen_before.deaths.len() && !is_fault(noted.signal) {
            continue;
        }
        let own = noted.process.and_then(|process| seen.program_of(process));
        let program = own.or_else(|| seen.program_of(noted.parent));
        deaths.push(Death {
            process: noted.process,
            program: program.map(PathBuf::from).unwrap_or_default(),
            is_of_child: own.is_none(),
            signal: noted.signal,
        });
    }
    deaths
}

/// What the name alone tells about the command's last program. A program that ends by a system call without the libc
/// looks like a crash too, and a program may rename itself. No known program does both.
fn became(family: &Family, seen: &Seen) -> Option<Name> {
    let mut latest = seen.started.iter().rev();
    let started = latest.find(|started| started.process == family.command)?;
    let name = Name(family.names.get(&family.command)?.clone());
    let has_exited = family.ends.get(&family.command)?.code().is_some();
    (has_exited && !started.is_over && !name.is_of(&started.program)).then_some(name)
}

/// The processes that are gone by now, except those whose end is known.
fn gone(family: &Family, seen: &Seen) -> BTreeSet<u32> {
    let is_left: BTreeSet<u32> = descendants(getpid()).into_iter().map(number).collect();
    let is_gone = |process: &u32| !is_left.contains(process) && !family.ends.contains_key(process);
    let processes = seen.started.iter().map(|started| started.process);
    processes.filter(is_gone).collect()
}

/// The processes of `gone` that ended without a report, from themselves or from their parents. The last look decides, because the
/// report may come late.
fn lost(gone: &BTreeSet<u32>, seen: &Seen) -> Vec<Lost> {
    let is_lost = |started: &&Started| !started.is_over && gone.contains(&started.process);
    let lost = seen.started.iter().filter(is_lost).map(|started| Lost {
        process: started.process,
        program: started.program.clone(),
    });
    lost.collect()
}

fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, Some(signal)) => Outcome::Signalled(signal),
        (None, None) => unreachable!("no other status is asked for: {status}"),
    }
}

/// The command and all that it started.
struct Family {
    command: u32,
    /// How the children of this process ended, and the processes that reheap saw before their parents asked.
    ends: BTreeMap<u32, ExitStatus>,
    names: BTreeMap<u32, PathBuf>,
    has_ended: bool,
}

impl Family {
    fn of(command: u32) -> Self {
        Self {
            command,
            ends: BTreeMap::new(),
            names: BTreeMap::new(),
            has_ended: false,
        }
    }

    /// Collects ended processes, and says whether any are left.
    fn look(&mut self, mut census: Option<&mut Census>) -> bool {
        let mut is_left = false;
        for pid in descendants(getpid()) {
            let last = Stat::of(number(pid));
            match waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => {
                    self.note(pid, last, ExitStatus::from_raw(status.as_raw()))
                }
                // Not a child of this process: its parent must ask for it.
                Err(_) if last.as_ref().is_some_and(|last| last.has_ended()) => {
                    is_left = true;
                    if let Some(status) = last.as_ref().and_then(Stat::exit_status) {
                        self.note(pid, last, status);
                    }
                }
                _ => {
                    is_left = true;
                    if let Some(census) = &mut census {
                        census.look(number(pid));
                    }
                }
            }
        }
        is_left
    }

    fn note(&mut self, pid: Pid, last: Option<Stat>, status: ExitStatus) {
        let process = number(pid);
        self.ends.insert(process, status);
        if let Some(last) = last {
            self.names.insert(process, last.name.into());
        }
    }

    /// Ends all that is left, asking first.
    fn end(&mut self) {
        self.has_ended = true;
        signal_descendants(getpid(), Signal::TERM);
        let asked = Instant::now();
        while self.look(None) && asked.elapsed() < GRACE {
            std::thread::sleep(INTERVAL);
        }
        let killed = Instant::now();
        while self.look(None) && killed.elapsed() < KILL_FOR {
            signal_descendants(getpid(), Signal::KILL);
            std::thread::sleep(INTERVAL);
        }
    }
}

impl Drop for Family {
    /// Leaves nothing behind that this run started.
    fn drop(&mut self) {
        if !self.has_ended {
            self.end();
        }
    }
}

/// How much of a program's name the kernel keeps (TASK_COMM_LEN, less the zero at its end).
const NAME_BYTES: usize = 15;
