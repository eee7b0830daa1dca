//! What Linux tells of a running process, in /proc (proc(5)).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::iter;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// Whether a process has not ended; a zombie has, unless it is only the first thread that has ended.
pub(crate) fn is_there(pid: u32) -> bool {
    let runs = |tid| thread_state(pid, tid).is_some_and(|state| !matches!(state, b'Z' | b'X'));
    runs(pid) || threads(pid).into_iter().any(runs)
}

/// Whether a process is that one, or has it among those that forked it. Where a parent has ended, nothing tells.
pub(crate) fn descends_from(pid: u32, first: u32) -> bool {
    // While one looks, processes end, and others get their numbers.
    const GENERATIONS_MAX: usize = 1000;
    let mut line = iter::successors(Some(pid), |pid| parent(*pid)).take(GENERATIONS_MAX);
    line.any(|pid| pid == first)
}

fn parent(pid: u32) -> Option<u32> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let rest = std::str::from_utf8(after_name(&line)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Whether there is a process of that number, and be it a zombie.
pub(crate) fn exists(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).is_ok_and(|exists| exists)
}

/// What a process executes; `None` where that cannot be told, or was deleted.
pub(crate) fn program(pid: u32) -> Option<PathBuf> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let is_deleted = program
        .as_os_str()
        .as_encoded_bytes()
        .ends_with(b" (deleted)");
    (!is_deleted).then_some(program)
}

/// What the system calls a process: at first the name by which its file was executed.
pub(crate) fn name(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned()).filter(|name| !name.is_empty())
}

/// Whether a process names files as this one does.
pub(crate) fn has_common_root(pid: u32) -> bool {
    let root = |pid: &str| fs::read_link(format!("/proc/{pid}/root"));
    matches!((root(&pid.to_string()), root("self")), (Ok(there), Ok(here)) if there == here)
}

/// What can be seen of a process that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What it executes; only its name where another user's file is not told. `None` if it has ended.
    pub(crate) program: Option<PathBuf>,
    /// When it was forked, in ticks since the system's start: with its number, this tells processes apart.
    pub(crate) born: u64,
    /// CPU time, in ticks.
    pub(crate) ticks: u64,
    /// It has ended, and nobody has waited for it yet.
    pub(crate) has_ended: bool,
}

/// Looks at a process; `None` if it is gone.
pub(crate) fn seen(pid: u32) -> Option<Seen> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let rest = after_name(&line)?;
    let has_ended = matches!(rest.first()?, b'Z' | b'X');
    let fields: Vec<&str> = std::str::from_utf8(rest)
        .ok()?
        .split_ascii_whitespace()
        .collect();
    // proc_pid_stat(5): the state is field 3.
    let field = |number: usize| -> Option<u64> { fields.get(number - 3)?.parse().ok() };
    let program = match fs::read_link(format!("/proc/{pid}/exe")) {
        Ok(program) => Some(program),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let start = memchr::memchr(b'(', &line)? + 1;
            let name = line.get(start..memchr::memrchr(b')', &line)?)?;
            Some(PathBuf::from(OsString::from_vec(name.to_vec())))
        }
        Err(_) => None,
    };
    Some(Seen {
        program,
        born: field(22)?,
        ticks: field(14)? + field(15)?,
        has_ended,
    })
}

/// So many ticks of CPU time.
pub(crate) fn time_of(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The children of a process; of one with many threads, those of its first.
pub(crate) fn children(pid: u32, threads_max: usize) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).ok();
    let lists = tasks
        .take(threads_max)
        .filter_map(|task| of_task(task.ok()?));
    lists
        .flat_map(|list| {
            let pids = list.split_ascii_whitespace().map(str::parse);
            pids.flatten().collect::<Vec<u32>>()
        })
        .collect()
}

/// CPU time and page faults so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
}

impl Usage {
    /// What was used after `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            user_ticks: self.user_ticks.saturating_sub(before.user_ticks),
            system_ticks: self.system_ticks.saturating_sub(before.system_ticks),
        }
    }
}

/// The state of a thread: `R` runs or could, `S` and `D` wait.
pub(crate) fn thread_state(pid: u32, tid: u32) -> Option<u8> {
    let line = fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    after_name(&line)?.first().copied()
}

/// How many threads of a process run, or could.
pub(crate) fn running_threads(pid: u32) -> u64 {
    let tids = threads(pid).into_iter();
    tids.filter(|tid| thread_state(pid, *tid) == Some(b'R'))
        .count() as u64
}

/// The numbers of the threads that are there now.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The names of the threads that are there now.
pub(crate) fn thread_names(pid: u32, names: &mut BTreeMap<u32, String>) {
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
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = std::str::from_utf8(after_name(&line)?).ok()?;
    // proc_pid_stat(5): the state is field 3.
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    Some(Usage {
        minor_faults: field(10)?,
        major_faults: field(12)?,
        user_ticks: field(14)?,
        system_ticks: field(15)?,
    })
}

/// What follows the name, which may contain anything, in a line of `stat`.
fn after_name(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memrchr(b')', line)?;
    line.get(end + 2..)
}

/// The resident memory of a process in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// How much of a range of a process's memory is resident, in bytes.
///
/// # Errors
/// When the process has ended, or is another user's.
pub(crate) fn resident_within(pid: u32, start: u64, bytes: u64) -> io::Result<u64> {
    const PRESENT: u64 = 1 << 63; // Documentation/admin-guide/mm/pagemap.rst
    const ENTRIES: u64 = 16384;
    let page = rustix::param::page_size() as u64;
    let file = File::open(format!("/proc/{pid}/pagemap"))?;
    let (mut resident, mut next, end) = (0, start / page, (start + bytes) / page);
    let mut entries = vec![0; 8 * ENTRIES as usize];
    while next < end {
        let wanted = 8 * (end - next).min(ENTRIES) as usize;
        let read = file.read_at(&mut entries[..wanted], next * 8)?;
        let (words, _) = entries[..read].as_chunks::<8>();
        if words.is_empty() {
            break;
        }
        let present = words
            .iter()
            .filter(|word| u64::from_le_bytes(**word) & PRESENT != 0);
        resident += present.count() as u64 * page;
        next += words.len() as u64;
    }
    Ok(resident)
}
