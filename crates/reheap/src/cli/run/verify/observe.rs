//! One run of a command that is watched for a while and then ended, with everything that it started.
//!
//! This process takes in orphans (prctl(2), "child subreaper"), so whatever the command starts stays below it, daemons
//! too. It can be told how the command and orphans end; of all others their parents are told, and the watch writes that
//! down (`reheap_allocators::watch`). Where a parent has no watch in it, a death may still be seen while nobody has
//! asked for it; and where the library of the watch was in the process that died, it is known not to have ended in
//! order.

use super::census::Census;
use crate::interrupt;
use anyhow::Context as _;
use reheap_allocators::watch::{Seen, Started, Watch};
use reheap_bench::process_tree::{descendants, signal_descendants};
use reheap_bench::results::Outcome;
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, waitpid};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a program has to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);
/// The kernel may take a while to give back the memory of a process, but not that long.
const KILL_FOR: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(5);
/// What a program does to itself, and never reheap to it.
const FAULTS: [Signal; 7] = [
    Signal::ABORT,
    Signal::SEGV,
    Signal::BUS,
    Signal::ILL,
    Signal::FPE,
    Signal::TRAP,
    Signal::SYS,
];

/// What was seen of a run.
#[derive(Debug)]
pub(super) struct Observed {
    /// The process of the command.
    pub(super) command: u32,
    /// How the command itself ended, if it did before it was asked to.
    pub(super) end: Option<Outcome>,
    /// Whether something of it was still running, and so was ended.
    pub(super) was_ended: bool,
    pub(super) time: Duration,
    pub(super) deaths: Vec<Death>,
    /// The name of a program that the command executed at last, if the watch was not in that.
    pub(super) became: Option<PathBuf>,
    /// Processes that are gone, of which nobody knows how.
    pub(super) lost: Vec<Lost>,
}

/// A process that ended as one does that crashes: without the functions that end a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Lost {
    pub(super) process: u32,
    pub(super) program: PathBuf,
}

/// A process that died by a signal which reheap did not send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Death {
    pub(super) process: Option<u32>,
    /// Its program, or its parent's where only that is known.
    pub(super) program: PathBuf,
    pub(super) is_of_child: bool,
    pub(super) signal: i32,
}

impl Death {
    /// Whether the other one, of another run, is the same trouble.
    ///
    /// What a libc's checks end by SIGABRT, another allocator may notice later, by SIGSEGV. A signal that somebody
    /// sends may come before the process is the program that is meant, so only the signal counts then.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_same = self.program.file_name() == other.program.file_name();
        // Only a path is sure to be a program's name.
        let is_vague = |death: &Self| death.is_of_child || !death.program.is_absolute();
        let may_be_same = is_same || is_vague(self) || is_vague(other);
        match self.is_fault() {
            true => other.is_fault() && may_be_same,
            false => other.signal == self.signal,
        }
    }

    /// Whether the process brought it upon itself.
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
    /// Starts it, watches, and ends it.
    ///
    /// # Errors
    /// If it cannot be started, or somebody pressed Ctrl-C; nothing of it runs any more then.
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

/// Everything that died by a signal, once each: until the end began by any signal, and after that by one which is
/// nobody else's doing.
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

/// What is known of the command's last program by its name only. One that makes the system call to end without the libc
/// does not end in order either, and one may give itself another name; no program is known that does both.
fn became(family: &Family, seen: &Seen) -> Option<PathBuf> {
    let mut latest = seen.started.iter().rev();
    let started = latest.find(|started| started.process == family.command)?;
    let name = family.names.get(&family.command)?;
    let (known, name_bytes) = (started.program.file_name()?, name.as_os_str());
    let known = known.as_bytes();
    let is_same = known[..known.len().min(NAME_BYTES)] == *name_bytes.as_bytes();
    let has_exited = family.ends.get(&family.command)?.code().is_some();
    (has_exited && !started.is_over && !is_same).then(|| name.clone())
}

/// The processes that are gone by now, except those of which it is known how they ended.
fn gone(family: &Family, seen: &Seen) -> BTreeSet<u32> {
    let is_left: BTreeSet<u32> = descendants(getpid()).into_iter().map(number).collect();
    let is_gone = |process: &u32| !is_left.contains(process) && !family.ends.contains_key(process);
    let processes = seen.started.iter().map(|started| started.process);
    processes.filter(is_gone).collect()
}

/// Those of them that ended without a word, their own or their parents'. What is seen last decides, because one may
/// have been about to say it.
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
    /// How those ended that were this process's children, and those that were seen before their parents asked.
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

    /// Takes in what has ended, and says whether anything is left.
    fn look(&mut self, mut census: Option<&mut Census>) -> bool {
        let mut is_left = false;
        for pid in descendants(getpid()) {
            let last = LastWords::of(pid);
            match waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => {
                    self.note(pid, last, ExitStatus::from_raw(status.as_raw()))
                }
                // No child of this process: its parent is to ask for it.
                Err(_) if last.as_ref().is_some_and(|last| last.is_zombie) => {
                    is_left = true;
                    if let Some(status) = last.as_ref().and_then(|last| last.status) {
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

    fn note(&mut self, pid: Pid, last: Option<LastWords>, status: ExitStatus) {
        let process = number(pid);
        self.ends.insert(process, status);
        if let Some(last) = last {
            self.names.insert(process, last.name);
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
    /// So that nothing that was started for this stays.
    fn drop(&mut self) {
        if !self.has_ended {
            self.end();
        }
    }
}

/// What `/proc/PID/stat` says of a process that may be a zombie (proc(5)).
struct LastWords {
    name: PathBuf,
    is_zombie: bool,
    status: Option<ExitStatus>,
}

impl LastWords {
    fn of(pid: Pid) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (front, rest) = stat.rsplit_once(')')?;
        let (_, name) = front.split_once('(')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            name: name.into(),
            is_zombie: fields.first() == Some(&"Z"),
            status: fields
                .get(EXIT_CODE)
                .and_then(|text| Some(ExitStatus::from_raw(text.parse().ok()?))),
        })
    }
}

/// What the kernel keeps of a program's name (TASK_COMM_LEN, less the zero at its end).
const NAME_BYTES: usize = 15;
/// The 52nd field, counted from the third.
const EXIT_CODE: usize = 49;

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
