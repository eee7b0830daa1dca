//! The processes of a command that have no hooks.
//!
//! Two things show them. The hooks stand in front of the functions that start programs, and count (`hooks/programs.c`):
//! that misses nothing that a program with hooks starts by its libc, however short, and tells nothing of what it did.
//! And the observer looks at the children of the command's processes: that misses what ends within milliseconds, and
//! tells CPU time. Each has what the other lacks: static programs start others past the hooks.
//!
//! Rejected: ptrace(2), under which programs that trace others fail; the kernel's process connector, taskstats and
//! acct(2), which take rights; perf events, which most distributions forbid; adopting orphans (PR_SET_CHILD_SUBREAPER),
//! because daemons look who their parent is.

use reheap_proc::by_number::{self, Seen};
use reheap_proc::tree;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time between two looks at all processes.
const STEP: Duration = Duration::from_millis(8);
/// Looking may take one part in so many of a processor's time.
const SHARE: u32 = 50;
/// More threads of one process than this are not asked for their children.
const THREADS_MAX: usize = 64;

/// A program that ran without hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// Its file; only its name where the kernel does not tell more.
    pub program: PathBuf,
    /// How often it ran, as far as that was seen.
    pub times: u64,
    /// How often it was started without LD_PRELOAD naming the hooks.
    pub without_variable: u64,
    /// The CPU time that was seen; there may have been more.
    pub cpu: Duration,
    /// How many of these processes had not ended when the watching did.
    pub running: u64,
}

/// How often a program's file was started, and loaded the hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Starts {
    pub(crate) program: PathBuf,
    pub(crate) started: u64,
    pub(crate) loaded: u64,
    pub(crate) without_variable: u64,
}

/// One program in one process.
#[derive(Debug)]
struct Run {
    pid: u32,
    program: PathBuf,
    born: u64,
    /// What its process had used before it executed this program, and has used until now.
    ticks: (u64, u64),
    /// The process that forked it, where that was seen before another exec.
    parent: Option<u32>,
    runs: bool,
}

/// Looks at the processes without hooks.
#[derive(Debug, Default)]
pub(crate) struct Others {
    root: Option<u32>,
    /// What each process executes now.
    now: BTreeMap<u32, Run>,
    /// What was executed before.
    over: Vec<Run>,
    /// Processes with hooks, and what they executed. What they forked has hooks too, though it may never call one.
    hooked: BTreeSet<(u32, PathBuf)>,
    /// When it last looked, and the CPU time that this took.
    looked: Option<(Instant, Duration)>,
}

impl Others {
    /// The command's first process.
    pub(crate) fn begin(&mut self, root: u32) {
        self.root = Some(root);
    }

    /// The command's first process, once there is one.
    pub(crate) fn root(&self) -> Option<u32> {
        self.root
    }

    /// A process has hooks. It may have been seen before it got them, and may execute something else by now.
    pub(crate) fn has_hooks(&mut self, pid: u32, program: &Path) {
        // Nothing told the hooks what they are in, where /proc is missing.
        let is_it = |run: &Run| {
            run.pid == pid && (program.as_os_str().is_empty() || run.program == program)
        };
        if self.now.get(&pid).is_some_and(is_it) {
            self.now.remove(&pid);
        } else if let Some(index) = self.over.iter().position(is_it) {
            self.over.swap_remove(index);
        }
        self.hooked.insert((pid, program.to_owned()));
    }

    /// A process that had hooks executes another program.
    pub(crate) fn became(&mut self, pid: u32) {
        if let Some(seen) = by_number::seen(pid) {
            let ticks = seen.ticks;
            self.note(pid, seen, None, ticks);
        }
    }

    /// Whether it is time to look again.
    pub(crate) fn is_due(&self) -> bool {
        let looked = self.looked;
        looked.is_none_or(|(at, took)| at.elapsed() >= STEP.max(took * SHARE))
    }

    /// Looks at all children of the processes that are watched. Each of these comes with its program.
    pub(crate) fn look(&mut self, watched: &BTreeMap<u32, PathBuf>) {
        let (now, cpu_time) = (Instant::now(), cpu_time_of_this_thread());
        let mut done = BTreeSet::new();
        let known = self.now.keys().chain(self.root.iter()).copied();
        let mut open: Vec<(u32, Option<u32>)> = known.map(|pid| (pid, None)).collect();
        open.extend(watched.keys().map(|pid| (*pid, None)));
        while let Some((pid, parent)) = open.pop() {
            if !done.insert(pid) {
                continue;
            }
            if !watched.contains_key(&pid) {
                self.look_at(pid, parent);
            }
            let children = tree::children(pid, THREADS_MAX).unwrap_or_default();
            open.extend(children.into_iter().map(|child| (child, Some(pid))));
        }
        self.looked = Some((now, cpu_time_of_this_thread().saturating_sub(cpu_time)));
    }

    fn look_at(&mut self, pid: u32, parent: Option<u32>) {
        match by_number::seen(pid) {
            Some(seen) => self.note(pid, seen, parent, 0),
            None => {
                if let Some(mut run) = self.now.remove(&pid) {
                    run.runs = false;
                    self.keep(run);
                }
            }
        }
    }

    /// A process was seen, as the child of that one.
    fn note(&mut self, pid: u32, seen: Seen, parent: Option<u32>, before: u64) {
        let Seen {
            program,
            born,
            ticks,
            has_ended,
        } = seen;
        if let Some(run) = self.now.get_mut(&pid).filter(|run| run.born == born) {
            // Nothing tells what a zombie executed.
            if program
                .as_ref()
                .is_none_or(|program| *program == run.program)
            {
                run.ticks.1 = ticks;
                run.runs = !has_ended;
                return;
            }
        }
        let earlier = self.now.remove(&pid);
        let before = match &earlier {
            Some(run) if run.born == born => run.ticks.1,
            _ => before,
        };
        earlier.into_iter().for_each(|run| self.keep(run));
        if let Some(program) = program {
            let ticks = (before, ticks);
            self.now.insert(
                pid,
                Run {
                    pid,
                    program,
                    born,
                    ticks,
                    parent,
                    runs: !has_ended,
                },
            );
        }
    }

    fn keep(&mut self, run: Run) {
        if self.is_fork_with_hooks(&run) {
            self.hooked.insert((run.pid, run.program));
        } else {
            self.over.push(run);
        }
    }

    fn is_fork_with_hooks(&self, run: &Run) -> bool {
        let parent = run.parent.map(|parent| (parent, run.program.clone()));
        parent.is_some_and(|parent| self.hooked.contains(&parent))
    }

    /// Takes out the forks of processes with hooks, and theirs.
    fn drop_forks(&mut self) {
        loop {
            let before = self.over.len();
            let over = std::mem::take(&mut self.over);
            over.into_iter().for_each(|run| self.keep(run));
            if self.over.len() == before {
                return;
            }
        }
    }

    /// What was seen, together with what the hooks counted.
    pub(crate) fn finish(mut self, starts: Vec<Starts>) -> Vec<Other> {
        let now = std::mem::take(&mut self.now);
        now.into_values().for_each(|run| self.keep(run));
        self.drop_forks();
        let mut others: BTreeMap<PathBuf, Other> = BTreeMap::new();
        for starts in starts {
            let missed = starts
                .started
                .saturating_sub(starts.loaded)
                .max(starts.without_variable);
            if missed > 0 {
                let other = entry(&mut others, starts.program);
                other.times += missed;
                other.without_variable += starts.without_variable;
            }
        }
        let mut seen: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for run in self.over {
            *seen.entry(run.program.clone()).or_default() += 1;
            let other = entry(&mut others, run.program);
            other.cpu += by_number::time_of(run.ticks.1.saturating_sub(run.ticks.0));
            other.running += u64::from(run.runs);
        }
        for (program, times) in seen {
            let other = entry(&mut others, program);
            other.times = other.times.max(times);
        }
        others.into_values().collect()
    }
}

fn entry(others: &mut BTreeMap<PathBuf, Other>, program: PathBuf) -> &mut Other {
    others.entry(program.clone()).or_insert(Other {
        program,
        times: 0,
        without_variable: 0,
        cpu: Duration::ZERO,
        running: 0,
    })
}

/// Not the time that passes: where others have the processors, that says nothing of what looking costs.
fn cpu_time_of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
