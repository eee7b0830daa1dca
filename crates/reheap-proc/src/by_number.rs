//! What is told of a process by its number, for those who look often or at many. Between two looks the number may have
//! become another process's: see [`crate::process`] for those whom that would harm.

use crate::stat::Stat;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::iter;
use std::path::PathBuf;
use std::time::Duration;

/// Whether a process has not ended; a zombie has, unless it is only the first thread that has ended.
pub fn is_there(pid: u32) -> bool {
    let runs = |tid| Stat::of_thread(pid, tid).is_some_and(|stat| !stat.has_ended());
    runs(pid) || threads(pid).into_iter().any(runs)
}

/// Whether a process is that one, or has it among those that forked it. Where a parent has ended, nothing tells.
pub fn descends_from(pid: u32, first: u32) -> bool {
    // While one looks, processes end, and others get their numbers.
    const GENERATIONS_MAX: usize = 1000;
    let mut line =
        iter::successors(Some(pid), |pid| Stat::of(*pid)?.parent()).take(GENERATIONS_MAX);
    line.any(|pid| pid == first)
}

/// Whether there is a process of that number, and be it a zombie.
pub fn exists(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).is_ok_and(|exists| exists)
}

/// What a process executes; `None` where that cannot be told, or was deleted.
pub fn program(pid: u32) -> Option<PathBuf> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let is_deleted = program
        .as_os_str()
        .as_encoded_bytes()
        .ends_with(b" (deleted)");
    (!is_deleted).then_some(program)
}

/// What the system calls a process: at first the name by which its file was executed.
pub fn name(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned()).filter(|name| !name.is_empty())
}

/// Whether a process names files as this one does.
pub fn has_common_root(pid: u32) -> bool {
    let root = |pid: &str| fs::read_link(format!("/proc/{pid}/root"));
    matches!((root(&pid.to_string()), root("self")), (Ok(there), Ok(here)) if there == here)
}

/// What can be seen of a process that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// What it executes; only its name where another user's file is not told. `None` if it has ended.
    pub program: Option<PathBuf>,
    /// When it was forked, in ticks since the system's start: with its number, this tells processes apart.
    pub born: u64,
    /// CPU time, in ticks.
    pub ticks: u64,
    /// Whether it has ended, and nobody has waited for it yet.
    pub has_ended: bool,
}

/// Looks at a process; `None` if it is gone.
pub fn seen(pid: u32) -> Option<Seen> {
    let stat = Stat::of(pid)?;
    let (born, ticks) = (stat.born(), stat.user_ticks() + stat.system_ticks());
    let has_ended = stat.has_ended();
    let program = match fs::read_link(format!("/proc/{pid}/exe")) {
        Ok(program) => Some(program),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(stat.name.into()),
        Err(_) => None,
    };
    Some(Seen {
        program,
        born,
        ticks,
        has_ended,
    })
}

/// So many ticks of CPU time.
pub fn time_of(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU time and page faults so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that needed one.
    pub major_faults: u64,
    /// CPU time in the program.
    pub user_ticks: u64,
    /// CPU time in the kernel.
    pub system_ticks: u64,
}

impl Usage {
    /// What was used after `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            user_ticks: self.user_ticks.saturating_sub(before.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(before.system_ticks),
        }
    }
}

/// How many threads of a process run, or could.
pub fn running_threads(pid: u32) -> u64 {
    let tids = threads(pid).into_iter();
    tids.filter(|tid| Stat::of_thread(pid, *tid).is_some_and(|stat| stat.state == b'R'))
        .count() as u64
}

/// The numbers of the threads that are there now.
pub fn threads(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The names of the threads that are there now.
pub fn thread_names(pid: u32, names: &mut BTreeMap<u32, String>) {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return;
    };
    for task in tasks.flatten() {
        let tid = task.file_name().to_str().and_then(|name| name.parse().ok());
        if let (Some(tid), Ok(name)) = (tid, fs::read_to_string(task.path().join("comm"))) {
            names.insert(tid, name.trim_end().to_owned());
        }
    }
}

/// What a process has used.
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = Stat::of(pid)?;
    Some(Usage {
        minor_faults: stat.minor_faults(),
        major_faults: stat.major_faults(),
        user_ticks: stat.user_ticks(),
        system_ticks: stat.system_ticks(),
    })
}

/// The resident memory of a process in bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
