//! Where the CPU time of the processes goes: samples by the clock of each task, taken by the kernel.
//!
//! ```text
//! Events (rings of the kernel) ─► records ─► Process: where was the thread? ─► Tally
//! ```
//!
//! A sample has registers and a piece of the stack. A thread is in the allocator if a hook called what it runs: then a
//! return address into the hooks is on its stack. That is so for any allocator, with all that it calls, and needs no
//! symbols. Time in the hooks themselves is left out: without them, the program would not have it.
//!
//! Where the system does not let users sample, the observer's looks at the threads have to do (`observer/threads.rs`). They tell
//! no memory functions.
//!
//! One thread empties the rings, and one looks where the samples are: the tables of a large program take longer to read
//! than a ring has room.

mod code;
mod events;
mod faults;
mod flow;
mod frames;
mod memory_functions;
mod process;
mod record;
mod sys;

use crate::profile::{Measured, TimeShares};
use crate::samples::ProcessId;
use crate::stacks::{CodeAddress, Modules};
use events::{Events, PERIOD_NANOSECONDS};
use faults::Faults;
use process::{Files, Process};
use record::Record;
use reheap_proc::by_number;
use reheap_proc::maps;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The time between two looks into the rings.
const PAUSE: Duration = Duration::from_millis(5);
/// How many of them wait to be worked on. With more, the rings get full, and the kernel counts what it lost.
const WAITING_MAX: usize = 256;
/// A program that always begins threads is sampled as well as that goes.
const OPENINGS_MAX: usize = 4;
/// How the library of the hooks is called where it is a preload.
const HOOKS_LIBRARY: &[u8] = b"libreheap-hooks";
/// If nothing tells of this part of the samples whether they are in the allocator, they say too little.
const UNKNOWN_PART_MAX: f64 = 0.02;
/// A part of the CPU time that the kernel knows of has to be in the samples: they end where a process may not be looked
/// into any more.
const PART_SEEN_MIN: f64 = 0.25;
/// With less CPU time than this, the kernel's clocks and the samples may differ.
const SECONDS_TO_COMPARE: f64 = 0.1;

/// The threads that take samples.
#[derive(Debug)]
pub(crate) struct Cpu {
    requests: Sender<Work>,
    thread: JoinHandle<HashMap<ProcessId, Tally>>,
}

#[derive(Debug)]
enum Work {
    Records(Vec<Record>),
    /// Where hooks are in code, and in front of which functions.
    Hooks(Range<u64>, Vec<u64>),
    /// The samples of this process so far are of that which the observer gave a number.
    End(u32, ProcessId),
    /// Someone waits until all that came before is worked on.
    CatchUp(SyncSender<()>),
}

/// Where hooks were put into the code of programs.
#[derive(Debug, Default)]
struct Hooks {
    ranges: Vec<Range<u64>>,
    /// The functions that they are in front of.
    functions: Vec<u64>,
}

/// The samples of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// All but those in the hooks.
    samples: u64,
    hooks: u64,
    kernel: u64,
    allocator: u64,
    kernel_for_allocator: u64,
    /// In the kernel, for page faults.
    faults: u64,
    memory_functions: BTreeMap<String, u64>,
    /// These may be in memory functions.
    hidden: u64,
    /// Nothing tells whether these are in the allocator.
    unknown: u64,
    /// Whether the kernel was sampled too.
    with_kernel: bool,
    with_faults: bool,
    /// Records of any process that found no room.
    lost: u64,
}

impl Cpu {
    /// Begins to sample a process, with all threads and children that it makes from now on.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub(crate) fn start(pid: u32) -> io::Result<Self> {
        let events = events_of(pid)?;
        // The kernel tells of what is mapped from now on. The process may be gone before its first sample is looked at.
        let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let threads = by_number::threads(pid).len();
        let begun = Process::begun(maps::parse(&maps), threads);
        let worker = Worker {
            processes: HashMap::from([(pid, begun)]),
            ..Worker::default()
        };
        let kernel = events.kernel;
        let (requests, received) = mpsc::channel();
        let (work, waiting) = mpsc::sync_channel(WAITING_MAX);
        let read = move || read(events, &received, &work);
        let work = move || worker.work(&waiting, kernel);
        // If there is no second thread, the first one ends with `requests`.
        thread::Builder::new().spawn(read)?;
        let thread = thread::Builder::new().spawn(work)?;
        Ok(Self { requests, thread })
    }

    /// Tells where hooks are in code, and in front of which functions.
    pub(crate) fn hooks_are_at(&self, hooks: Range<u64>, functions: Vec<u64>) {
        self.send(Work::Hooks(hooks, functions));
    }

    /// The process has ended, or has become another.
    pub(crate) fn end(&self, pid: u32, number: ProcessId) {
        self.send(Work::End(pid, number));
    }

    /// Waits until all samples so far are looked at, while what they show is still mapped.
    pub(crate) fn catch_up(&self) {
        let (done, waits) = mpsc::sync_channel(0);
        self.send(Work::CatchUp(done));
        // Only a panic ends the thread before, and `finish` passes that on.
        let _ = waits.recv();
    }

    fn send(&self, request: Work) {
        // Only a panic ends the thread before, and `finish` passes that on.
        let _ = self.requests.send(request);
    }

    /// What was seen of each process.
    pub(crate) fn finish(self) -> HashMap<ProcessId, Tally> {
        drop(self.requests);
        let tallies = self.thread.join();
        tallies.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
impl Cpu {
    /// One that has a sample of a process to look at, at that address, and very much before it.
    pub(crate) fn far_behind(pid: u32, program_counter: u64) -> Self {
        let (requests, waiting) = mpsc::channel();
        let thread = thread::spawn(move || Worker::default().work(&waiting, false));
        let cpu = Self { requests, thread };
        let registers = crate::stacks::Registers {
            program_counter,
            stack_pointer: 0,
            frame_pointer: 0,
        };
        cpu.send(Work::Records(vec![Record::Lost(1); 2_000_000]));
        cpu.send(Work::Records(vec![Record::Sample(record::Sample {
            pid,
            in_kernel: false,
            kernel: Vec::new(),
            registers: Some(registers),
            stack: Vec::new(),
        })]));
        cpu
    }

    /// How many samples of the process were in the hooks.
    pub(crate) fn samples_in_hooks(self, pid: u32) -> u64 {
        self.end(pid, 0);
        self.finish()[&0].hooks
    }
}

/// The events of all threads. A thread that begins while they are opened may have none, so then they are opened again.
fn events_of(pid: u32) -> io::Result<Events> {
    let mut tids = by_number::threads(pid);
    for _ in 1..OPENINGS_MAX {
        let events = Events::open(&tids)?;
        let now = by_number::threads(pid);
        if now.iter().all(|tid| tids.contains(tid)) {
            return Ok(events);
        }
        tids = now;
    }
    Events::open(&tids)
}

impl Hooks {
    fn has(&self, modules: &Modules, address: CodeAddress) -> bool {
        let module = modules.get(address.module);
        if module.elf.is_none() {
            // Then the offset is the address.
            return self
                .ranges
                .iter()
                .any(|range| range.contains(&address.offset));
        }
        let name = module.path.file_name().unwrap_or_default();
        name.as_bytes().starts_with(HOOKS_LIBRARY)
    }
}

/// Empties the rings before they are full, whatever the other thread does meanwhile.
fn read(mut events: Events, requests: &Receiver<Work>, work: &SyncSender<Work>) {
    loop {
        let request = requests.recv_timeout(PAUSE);
        let records = events.take();
        // Only a panic ends the other thread before.
        let _ = work.send(Work::Records(records));
        let _ = match request {
            Ok(request) => work.send(request),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => Ok(()),
        };
    }
}

#[derive(Default)]
struct Worker {
    hooks: Hooks,
    files: Files,
    processes: HashMap<u32, Process>,
    lost: u64,
    ended: HashMap<ProcessId, Tally>,
}

impl Worker {
    fn work(mut self, received: &Receiver<Work>, kernel: bool) -> HashMap<ProcessId, Tally> {
        // What comes meanwhile waits.
        let faults = kernel.then(Faults::of_this_kernel).flatten();
        for work in received {
            match work {
                Work::Hooks(range, functions) => {
                    self.hooks.ranges.push(range);
                    self.hooks.functions.extend(functions);
                }
                Work::Records(records) => {
                    for record in records {
                        self.note(record, faults.as_ref());
                    }
                }
                Work::End(pid, number) => {
                    let tally = self.take_tally(pid);
                    let tally = Tally {
                        with_kernel: kernel,
                        with_faults: faults.is_some(),
                        lost: self.lost,
                        ..tally
                    };
                    self.ended.insert(number, tally);
                }
                Work::CatchUp(done) => {
                    let _ = done.send(());
                }
            }
        }
        self.ended
    }

    fn note(&mut self, record: Record, faults: Option<&Faults>) {
        match record {
            Record::Sample(sample) => {
                let process = self.processes.entry(sample.pid).or_default();
                process.count(&mut self.files, &self.hooks, faults, sample.pid, &sample);
            }
            Record::Mapped { pid, mapping } => {
                self.processes.entry(pid).or_default().mapped(mapping);
            }
            Record::Forked { pid, parent } => {
                let child = self.processes.get(&parent).map(Process::forked);
                self.processes.insert(pid, child.unwrap_or_default());
            }
            Record::ThreadBegan { pid } => self.processes.entry(pid).or_default().thread_began(),
            Record::ThreadEnded { pid } => self.thread_ended(pid),
            Record::Executed { pid } => self.processes.entry(pid).or_default().executed(),
            Record::Lost(records) => self.lost += records,
        }
    }

    /// The observer may ask for the samples of a process that has ended.
    fn thread_ended(&mut self, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.thread_ended();
        if process.has_ended() && process.tally == Tally::default() {
            self.processes.remove(&pid);
        }
    }

    fn take_tally(&mut self, pid: u32) -> Tally {
        let Some(process) = self.processes.get_mut(&pid) else {
            return Tally::default();
        };
        let tally = std::mem::take(&mut process.tally);
        if process.has_ended() {
            self.processes.remove(&pid);
        }
        tally
    }
}

impl Tally {
    /// Puts what the samples show in place of what the looks show; leaves that as it is where the samples show too little.
    pub(crate) fn correct(self, time: &mut TimeShares) {
        let seconds = |samples: u64| (samples * PERIOD_NANOSECONDS) as f64 / 1e9;
        // What found no room is not seen, but did not end early.
        let all = self.samples + self.hooks + self.lost;
        let (seen, there) = if self.with_kernel {
            (seconds(all), time.user_seconds + time.system_seconds)
        } else {
            (seconds(all), time.user_seconds)
        };
        let is_whole = there < SECONDS_TO_COMPARE || seen > there * PART_SEEN_MIN;
        let few = |samples: u64| samples as f64 <= self.samples as f64 * UNKNOWN_PART_MAX;
        let is_empty = self.samples == 0 && self.lost > 0;
        if !is_whole || is_empty || !few(self.unknown) {
            return; // a program that nobody may look into, for example
        }
        let memory = self.memory_functions.values().sum();
        time.in_memory_functions = few(self.hidden).then_some(memory);
        let (kernel, for_allocator) = if self.with_kernel {
            (self.kernel, self.kernel_for_allocator)
        } else {
            let kernel = self.kernel_samples(time);
            (kernel, self.estimated_for_allocator(time).min(kernel))
        };
        time.measured = if self.with_kernel {
            Measured::Samples
        } else {
            Measured::UserSamples
        };
        time.samples = self.samples - self.kernel + kernel;
        time.in_hooks = None;
        time.in_allocator = self.allocator - self.kernel_for_allocator + for_allocator;
        (time.in_kernel, time.in_kernel_for_allocator) = (Some(kernel), Some(for_allocator));
        time.in_page_faults = self.with_faults.then_some(self.faults);
        time.memory_functions = self.memory_functions;
    }

    /// How many samples the kernel's time would be, where it may not be sampled.
    fn kernel_samples(&self, time: &TimeShares) -> u64 {
        match self.lost {
            // The kernel knows the sum well, but many kernels divide it by what they see at each tick of a clock.
            0 => {
                let all = periods(time.user_seconds + time.system_seconds);
                all.saturating_sub(self.samples + self.hooks)
            }
            _ => periods(time.system_seconds),
        }
    }

    /// What the kernel did for the allocator where it may not be sampled: the looks see threads in the allocator with the
    /// kernel's part, and the samples without it.
    fn estimated_for_allocator(&self, looks: &TimeShares) -> u64 {
        let part = looks.in_allocator as f64 / looks.samples.max(1) as f64;
        let all = looks.user_seconds + looks.system_seconds;
        periods(part * all).saturating_sub(self.allocator)
    }
}

fn periods(seconds: f64) -> u64 {
    (seconds * 1e9 / PERIOD_NANOSECONDS as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Sample;
    use reheap_proc::maps::Mapping;

    #[test]
    fn of_processes_that_ended_only_their_samples_are_kept_until_the_observer_has_them() {
        let mut worker = Worker::default();
        let mapping = Mapping {
            start: 0x1000,
            end: 0x2000,
            is_executable: true,
            offset: 0,
            inode: 0,
            path: "[code]".into(),
            ..Mapping::default()
        };
        let sample = |pid| {
            Record::Sample(Sample {
                pid,
                in_kernel: false,
                kernel: Vec::new(),
                registers: None,
                stack: Vec::new(),
            })
        };
        let (parent, first) = (u32::MAX, u32::MAX - 10_000); // no process has such numbers
        worker
            .processes
            .insert(parent, Process::begun(Vec::new(), 1));
        for pid in first..parent {
            let mapping = mapping.clone();
            let sampled = (pid % 2 == 0).then(|| sample(pid));
            let begins = [
                Record::Forked { pid, parent },
                Record::Executed { pid },
                Record::Mapped { pid, mapping },
                Record::ThreadBegan { pid },
                Record::ThreadEnded { pid },
            ];
            let records = begins.into_iter().chain(sampled);
            for record in records.chain([Record::ThreadEnded { pid }]) {
                worker.note(record, None);
            }
        }
        assert_eq!(worker.processes.len(), 1 + 5_000);
        for pid in first..parent {
            assert_eq!(worker.take_tally(pid).samples, u64::from(pid % 2 == 0));
        }
        assert_eq!(worker.processes.len(), 1);
    }

    #[test]
    fn a_process_goes_on_without_its_first_thread() {
        let mut worker = Worker::default();
        let mapping = maps::parse(b"1000-2000 r-xp 00000000 00:00 0 [code]\n");
        let pid = u32::MAX;
        worker.processes.insert(pid, Process::begun(mapping, 1));
        worker.note(Record::ThreadBegan { pid }, None);
        worker.note(Record::ThreadEnded { pid }, None);
        assert!(!worker.processes[&pid].has_ended());
        worker.note(Record::ThreadEnded { pid }, None);
        assert!(worker.processes.is_empty());
    }
}
