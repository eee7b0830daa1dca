//! What runs beside the command: it looks at memory and at the threads at regular intervals, and keeps what a process
//! wrote down when it ends.

use crate::cpu::Cpu;
use crate::curve::Curve;
use crate::hooks_clock::HooksClock;
use crate::others::{Other, Others, Starts};
use crate::profile::{Access, Live, Lost, Measured, Peak, Point, Process, Sites, TimeShares};
use crate::recording::{How, LiveNow, Place, Recording, STEP_BYTES, Sample, Whereabouts};
use crate::samples::{Batch, ProcessId, Sampler};
use crate::tracer::Tracer;
use reheap_proc::by_number::{self, Usage};
use reheap_proc::stat::Stat;
use reheap_trace::TraceError;
use reheap_trace::ring::Clock;
use reheap_trace::writer::Written;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two looks.
pub const INTERVAL: Duration = Duration::from_millis(1);
/// All threads are looked at once in so many looks, and those inside the allocator each time.
const LOOKS_PER_CENSUS: u64 = 10;
/// More threads than this are not looked at each by itself.
const THREADS_MAX: u64 = 256;

/// Watches the processes of a command.
#[derive(Debug)]
pub struct Observer {
    recording: Arc<Recording>,
    tracer: Option<Tracer>,
    /// It runs until the watching ends.
    clock: Option<HooksClock>,
    start: Instant,
    /// When the last look began. What reheap does after that is not the command's time.
    over: Option<Duration>,
    looks: u64,
    watched: BTreeMap<Place, Watched>,
    /// The processes that ended, with their numbers.
    ended: Vec<(ProcessId, Process)>,
    others: Others,
    /// How many processes have numbers that nobody knows.
    hidden: u32,
    /// The first process of the command.
    root: Option<u32>,
    processes: ProcessId,
    sampler: Option<Sampler>,
    cpu: Option<Cpu>,
    injected: Injected,
    /// What processes had used before they were watched: one that was attached to, and those that execute another program.
    before: HashMap<u32, Usage>,
}

/// What was put into the code of a program that takes no preload.
#[derive(Debug, Clone)]
pub struct Injected {
    /// How its functions were found.
    pub access: Access,
    /// As [`Process::not_counted`].
    pub not_counted: Vec<String>,
    /// Where the hooks are in the process.
    pub hooks: Range<u64>,
    /// Where the functions are that they are in front of.
    pub functions: Vec<u64>,
}

impl Default for Injected {
    fn default() -> Self {
        Self {
            access: Access::Symbols,
            not_counted: Vec::new(),
            hooks: 0..0,
            functions: Vec::new(),
        }
    }
}

fn point(live: LiveNow, now: Duration, resident_bytes: Option<u64>) -> Point {
    Point {
        seconds: now.as_secs_f64(),
        live: live.live,
        allocations: live.allocations,
        resident_bytes,
    }
}

/// A process that is being watched.
#[derive(Debug)]
struct Watched {
    number: ProcessId,
    /// Its number, as it wrote it down.
    pid: u32,
    /// Its number in this process's `/proc`. A process in a PID namespace with a `/proc` of its own has none, and all that
    /// the kernel tells is missing.
    in_proc: Option<u32>,
    /// What it executes, as this process sees it.
    program: Option<PathBuf>,
    /// What it executes, as the process itself wrote it down.
    file: PathBuf,
    name: Option<String>,
    began: f64,
    curve: Curve,
    highest: LiveAt,
    usage: Option<Usage>,
    /// What it had used before it was watched.
    before: Usage,
    names: BTreeMap<u32, String>,
    looks: u64,
    censuses: u64,
    running: u64,
    inside: u64,
    in_hooks: u64,
    /// How long threads waited in the allocator, and when one looked last.
    waited: Duration,
    looked: Duration,
    /// Sampled stacks that found no room here.
    lost_stacks: u64,
    /// What looking at resident memory took last time, and when that was.
    resident: (Duration, Duration),
}

/// The most live memory that was seen by looking.
#[derive(Debug, Clone, Copy, Default)]
struct LiveAt {
    live: Live,
    seconds: f64,
}

impl Observer {
    /// With nothing to watch yet.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(recording: Recording) -> io::Result<Self> {
        let sampler = recording.takes_samples().then(Sampler::start).transpose()?;
        Ok(Self {
            recording: Arc::new(recording),
            tracer: None,
            clock: None,
            start: Instant::now(),
            over: None,
            looks: 0,
            watched: BTreeMap::new(),
            ended: Vec::new(),
            others: Others::default(),
            hidden: 0,
            root: None,
            processes: 0,
            sampler,
            cpu: None,
            injected: Injected::default(),
            before: HashMap::new(),
        })
    }

    /// Writes every call into that file from now on. The recording was made with this clock.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn trace(&mut self, clock: Clock, file: File) -> io::Result<()> {
        self.tracer = Some(Tracer::start(Arc::clone(&self.recording), clock, file)?);
        Ok(())
    }

    /// The command begins now.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn begin(&mut self) -> io::Result<()> {
        self.start = Instant::now();
        self.clock = Some(HooksClock::start(Arc::clone(&self.recording), self.start)?);
        Ok(())
    }

    /// To be called when the command has ended and can still be seen: its last figures, and those of all that ended with
    /// it.
    pub fn look_last(&mut self) {
        self.over = Some(self.elapsed());
        self.notice_processes();
        if self.root.is_some() {
            self.others.look(&programs(&self.watched));
        }
        self.notice_ends();
    }

    /// The command's first process, with which the search for programs without hooks begins.
    pub fn begins_with(&mut self, pid: u32) {
        self.root = Some(pid);
        self.others.begin(pid);
    }

    /// The time since the command began.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Says what was put into the code of a program: how its functions were found, and which were not.
    pub fn injected(&mut self, injected: Injected) {
        if let Some(cpu) = &self.cpu {
            cpu.hooks_are_at(injected.hooks.clone(), injected.functions.clone());
        }
        self.injected = injected;
    }

    /// The command is this process, which has just begun or has just got its hooks: samples where its CPU time goes from
    /// now on. If the system does not allow that, the looks at its threads tell it.
    pub fn sample_cpu_time(&mut self, pid: u32) {
        self.cpu = Cpu::start(pid).ok();
        self.injected(self.injected.clone());
    }

    /// From now on a process that has run for some time is watched: only what it uses from now on counts.
    pub fn attaches_to(&mut self, pid: u32) {
        self.before
            .extend(by_number::usage(pid).map(|usage| (pid, usage)));
    }

    /// Whether a process has not ended.
    pub fn is_there(pid: u32) -> bool {
        by_number::is_there(pid)
    }

    /// What the processes write into.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// To be called once in each [`INTERVAL`].
    pub fn look(&mut self) {
        let now = self.elapsed();
        self.looks += 1;
        if self.looks.is_multiple_of(4) || self.watched.is_empty() {
            self.notice_processes();
        }
        for (place, watched) in &mut self.watched {
            watched.look(&self.recording, *place, now);
            if let Some(sampler) = &self.sampler {
                watched.pass_samples(&self.recording, *place, sampler);
            }
        }
        if self.looks.is_multiple_of(16) {
            self.notice_ends();
        }
        if self.root.is_some() && self.others.is_due() {
            self.others.look(&programs(&self.watched));
        }
    }

    /// How many threads are in a hook, or in what it calls.
    pub fn inside(&self) -> u64 {
        let places = self.recording.taken();
        let slots = places.flat_map(|place| self.recording.slots(place));
        slots
            .filter(|slot| slot.whereabouts() != Whereabouts::Program)
            .count() as u64
    }

    fn notice_processes(&mut self) {
        let new: Vec<Place> = self
            .recording
            .taken()
            .filter(|place| !self.watched.contains_key(place))
            .collect();
        // A process that executes one program after another may have taken several.
        for place in self.recording.in_order(new) {
            let pid = self.recording.pid(place);
            let in_proc = Some(pid).filter(|pid| self.is_of_command(*pid));
            // The same process with another program: what it was before has ended.
            let mut before = self.watched.iter();
            let before = before.find(|(_, other)| in_proc.is_some() && other.in_proc == in_proc);
            if let Some(before) = before.map(|(place, _)| *place) {
                let usage = self.end(before, Some(self.recording.began(place)));
                self.before.extend(usage.map(|usage| (pid, usage)));
            }
            let mut watched = Watched::new(self.processes, in_proc, &self.recording, place);
            self.processes += 1;
            if let Some(pid) = in_proc {
                watched.before = self.before.remove(&pid).unwrap_or_default();
                self.others.has_hooks(pid, &watched.file);
            } else {
                self.hidden += 1;
            }
            self.watched.insert(place, watched);
        }
    }

    /// Whether the process of that number has the hooks, or had them and is gone. A zombie is no more than somebody's
    /// child, and a daemon has only the recording.
    fn is_of_command(&self, pid: u32) -> bool {
        let descends = |first| by_number::descends_from(pid, first);
        self.root.is_some_and(descends)
            || self.recording.is_mapped_by(pid)
            || !by_number::exists(pid)
    }

    fn notice_ends(&mut self) {
        let mut became = Vec::new();
        let mut gone = |watched: &Watched| {
            let Some(pid) = watched.in_proc else {
                return false; // nothing tells
            };
            if !by_number::is_there(pid) {
                return true;
            }
            let other = watched.other_program(pid);
            became.extend(other.as_ref().map(|_| pid));
            other.is_some()
        };
        let ended: Vec<Place> = self
            .watched
            .iter()
            .filter(|(_, w)| gone(w))
            .map(|(place, _)| *place)
            .collect();
        let now = self.elapsed().as_secs_f64();
        for place in ended {
            let pid = self.watched[&place].in_proc;
            let usage = self.end(place, Some(now));
            if let Some(pid) = pid.filter(|pid| became.contains(pid)) {
                self.others.became(pid);
                self.before.extend(usage.map(|usage| (pid, usage)));
            }
        }
    }

    /// Keeps what the process wrote down, and gives its place away. What it has used.
    fn end(&mut self, place: Place, ended: Option<f64>) -> Option<Usage> {
        let mut watched = self.watched.remove(&place)?;
        watched.add_point(&self.recording, place, self.elapsed());
        if let Some(sampler) = &self.sampler {
            watched.pass_last_samples(&self.recording, place, sampler);
            sampler.end(watched.number);
        }
        let (number, usage) = (watched.number, watched.usage);
        if let (Some(cpu), Some(pid)) = (&self.cpu, watched.in_proc) {
            cpu.end(pid, number);
        }
        self.ended.push((
            number,
            watched.finish(&self.recording, place, ended, &self.injected),
        ));
        let is_released = self.tracer.as_ref().is_some_and(|tracer| tracer.end(place));
        if !is_released {
            // If it cannot be emptied, it stays taken, and there is one place less.
            let _ = self.recording.release(place);
        }
        usage
    }

    /// Ends the watching.
    pub fn finish(mut self) -> Observed {
        let seconds = self.over.unwrap_or_else(|| self.elapsed());
        self.notice_processes();
        self.notice_ends();
        self.recording.close();
        while let Some(place) = self.watched.keys().next().copied() {
            // Where nothing tells, it is not claimed that it goes on.
            let goes_on = self.watched[&place]
                .in_proc
                .is_some_and(by_number::is_there);
            let ended = (!goes_on).then_some(seconds.as_secs_f64());
            self.end(place, ended);
        }
        let mut sites = self.sampler.map(Sampler::finish).unwrap_or_default();
        let mut tallies = self.cpu.map(Cpu::finish).unwrap_or_default();
        let with_sites = |(number, mut process): (ProcessId, Process)| {
            process.sites = sites.remove(&number).unwrap_or_default();
            let allocated = Live {
                blocks: process.counts.allocations,
                bytes: process.counts.requested_bytes,
            };
            process.sites.limit(allocated, process.live_at_end);
            if let (Some(tally), Some(time)) = (tallies.remove(&number), &mut process.time) {
                tally.correct(time);
            }
            process
        };
        let mut processes: Vec<Process> = self.ended.into_iter().map(with_sites).collect();
        processes.sort_by(|a, b| a.began.total_cmp(&b.began).then(a.pid.cmp(&b.pid)));
        inherit_access(&mut processes);
        let first = processes
            .iter()
            .find(|process| Some(process.pid) == self.root);
        let starts = without_the_first(self.recording.starts(), first);
        Observed {
            others: self.others.finish(starts),
            uncounted_starts: self.recording.programs_refused(),
            refused: self.recording.refused(),
            hidden: self.hidden,
            traced: self.tracer.map(Tracer::finish),
            processes,
            time: seconds,
        }
    }
}

/// What was seen.
#[derive(Debug)]
pub struct Observed {
    /// In the order in which they began. Those that have not ended go on, without being watched.
    pub processes: Vec<Process>,
    /// Programs that ran without hooks.
    pub others: Vec<Other>,
    /// How often a program was started that found no place among those that are counted.
    pub uncounted_starts: u32,
    /// How many processes found no place.
    pub refused: u32,
    /// Of how many processes the kernel told nothing, because nobody knows their numbers.
    pub hidden: u32,
    /// What of a trace was written, if there is one.
    pub traced: Option<Result<Written, TraceError>>,
    /// How long it was watched.
    pub time: Duration,
}

/// What each watched process executes.
fn programs(watched: &BTreeMap<Place, Watched>) -> BTreeMap<u32, PathBuf> {
    let watched = watched.values();
    let with_file = watched.filter_map(|process| Some((process.in_proc?, process.file.clone())));
    with_file.collect()
}

/// reheap itself started the first program, which no hook counted.
fn without_the_first(mut starts: Vec<Starts>, first: Option<&Process>) -> Vec<Starts> {
    let is_first =
        |starts: &&mut Starts| first.is_some_and(|first| first.program == starts.program);
    if let Some(starts) = starts.iter_mut().find(is_first) {
        starts.loaded = starts.loaded.saturating_sub(1);
    }
    starts
}

/// Whether a process's name is not that of its file, and says more. The kernel keeps 15 bytes of it.
fn is_another_name(name: &str, file: &Path) -> bool {
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    match name.len() {
        15.. => !file.starts_with(name),
        _ => file != name && name != "exe", // of /proc/self/exe
    }
}

/// A forked child has its hooks from its parent, which began before it.
fn inherit_access(processes: &mut [Process]) {
    let mut known: HashMap<u32, Access> = HashMap::new();
    for process in processes {
        if let Some(access) = process.parent.and_then(|parent| known.get(&parent)) {
            process.access = *access;
        }
        known.insert(process.pid, process.access);
    }
}

impl Watched {
    fn new(number: ProcessId, in_proc: Option<u32>, recording: &Recording, place: Place) -> Self {
        let file = recording.program(place);
        let began = recording.began(place);
        // It may execute another program by now. Its own path of it says so, unless it has another root.
        let program = |pid| {
            if by_number::has_common_root(pid) {
                Some(file.clone()).filter(|file| file.is_absolute())
            } else {
                by_number::program(pid)
            }
        };
        let name = in_proc.and_then(by_number::name);
        Self {
            number,
            pid: recording.pid(place),
            in_proc,
            program: in_proc.and_then(program),
            name: name.filter(|name| is_another_name(name, &file)),
            file,
            began,
            curve: Curve::new(),
            highest: LiveAt::default(),
            usage: None,
            before: Usage::default(),
            names: BTreeMap::new(),
            looks: 0,
            censuses: 0,
            running: 0,
            inside: 0,
            in_hooks: 0,
            waited: Duration::ZERO,
            looked: Duration::from_secs_f64(began),
            lost_stacks: 0,
            resident: (Duration::ZERO, Duration::ZERO),
        }
    }

    /// What it executes now, if that is something else.
    fn other_program(&self, pid: u32) -> Option<PathBuf> {
        let (before, now) = (self.program.as_ref()?, by_number::program(pid)?);
        (*before != now).then_some(now)
    }

    fn look(&mut self, recording: &Recording, place: Place, now: Duration) {
        self.look_at_threads(recording, place, now);
        if self.curve.is_due(now) {
            self.add_point(recording, place, now);
        } else if self.curve.is_high(recording.roughly_live_bytes(place)) {
            self.curve.raise(point(recording.live(place), now, None));
        }
    }

    fn pass_samples(&self, recording: &Recording, place: Place, sampler: &Sampler) {
        // What finds no room in the ring is counted as lost.
        if !sampler.is_behind() {
            self.pass(recording, place, sampler, recording.take_samples(place));
        }
    }

    /// The ring goes away with the process, so all that is in it must be passed now.
    fn pass_last_samples(&mut self, recording: &Recording, place: Place, sampler: &Sampler) {
        loop {
            let samples = recording.take_samples(place);
            if samples.is_empty() {
                return;
            }
            if sampler.is_full() {
                let stacks = samples.iter().filter(|sample| sample.is_stack());
                self.lost_stacks += stacks.count() as u64;
            } else {
                self.pass(recording, place, sampler, samples);
            }
        }
    }

    fn pass(&self, recording: &Recording, place: Place, sampler: &Sampler, samples: Vec<Sample>) {
        if !samples.is_empty() {
            sampler.take(Batch {
                process: self.number,
                pid: self.in_proc,
                maps: recording.maps(place),
                samples,
            });
        }
    }

    /// Where the threads are: in the allocator, in the hooks or not, running or waiting.
    fn look_at_threads(&mut self, recording: &Recording, place: Place, now: Duration) {
        // On a busy machine a look may come late.
        let since = now.saturating_sub(self.looked);
        self.looked = now;
        let Some(pid) = self.in_proc else { return };
        self.looks += 1;
        let busy: Vec<(u32, Whereabouts)> = recording
            .slots(place)
            .take(THREADS_MAX as usize)
            .map(|slot| (slot.tid(), slot.whereabouts()))
            .filter(|(_, whereabouts)| *whereabouts != Whereabouts::Program)
            .collect();
        for (tid, whereabouts) in busy {
            let is_inside = whereabouts == Whereabouts::Allocator;
            match Stat::of_thread(pid, tid).map(|stat| stat.state) {
                // Nobody knows its number: the slot has that of a thread before it, or one in another namespace.
                Some(b'R') | None if is_inside => self.inside += 1,
                Some(b'R') | None => self.in_hooks += 1,
                Some(b'S' | b'D') if is_inside => self.waited += since,
                _ => {}
            }
        }
        if self.looks % LOOKS_PER_CENSUS == 1 {
            self.censuses += 1;
            self.running += by_number::running_threads(pid);
        }
    }

    fn add_point(&mut self, recording: &Recording, place: Place, now: Duration) {
        let live_now = recording.live(place);
        let (live, seconds) = (live_now.live, now.as_secs_f64());
        if live.bytes > self.highest.live.bytes {
            self.highest = LiveAt { live, seconds };
        }
        let mut resident_bytes = None;
        if let Some(pid) = self.in_proc {
            self.usage = by_number::usage(pid).or(self.usage);
            if self.curve.len().is_multiple_of(16) {
                by_number::thread_names(pid, &mut self.names);
            }
            resident_bytes = self.resident(pid, recording, place, now);
        }
        self.curve.add(point(live_now, now, resident_bytes), now);
    }

    /// Resident memory without that of the hooks. Looking at the hooks' tables takes time, so it may take at most a
    /// hundredth of all.
    fn resident(
        &mut self,
        pid: u32,
        recording: &Recording,
        place: Place,
        now: Duration,
    ) -> Option<u64> {
        let (took, at) = self.resident;
        if took * 100 > now.saturating_sub(at) {
            return None;
        }
        let begin = Instant::now();
        let resident = by_number::resident_bytes(pid).filter(|bytes| *bytes > 0)?;
        let (tables, bytes) = recording.tables(place);
        let ours =
            by_number::resident_within(pid, tables, bytes).ok()? + recording.shared_bytes(place);
        self.resident = (begin.elapsed(), now);
        Some(resident.saturating_sub(ours))
    }

    fn finish(
        self,
        recording: &Recording,
        place: Place,
        ended: Option<f64>,
        injected: &Injected,
    ) -> Process {
        let now = recording.live(place);
        let mut threads = recording.threads(place);
        for thread in &mut threads {
            thread.name = self.names.get(&thread.tid).cloned();
        }
        let how = recording.how(place);
        Process {
            pid: self.pid,
            parent: recording.forked_by(place),
            program: recording.program(place),
            name: self.name.clone(),
            access: match how {
                How::Injected => injected.access,
                How::Preloaded | How::Forked => Access::Preload,
            },
            allocator: None,
            malloc_file: recording.malloc_file(place),
            is_bypassed: recording.is_bypassed(place),
            began: self.began,
            ended,
            counts: recording.counts(place),
            peak: self.peak(&now),
            live_at_end: Live {
                blocks: now.live.blocks.saturating_sub(now.inherited.blocks),
                bytes: now.live.bytes.saturating_sub(now.inherited.bytes),
            },
            time: self.time(),
            curve: self.curve.points(),
            threads,
            sites: Sites::default(),
            lost: Lost {
                stacks: recording.lost(place).stacks + self.lost_stacks,
                ..recording.lost(place)
            },
            not_counted: match how {
                How::Injected => injected.not_counted.clone(),
                How::Preloaded | How::Forked => Vec::new(),
            },
        }
    }

    /// The higher of what the threads told and what was seen by looking.
    fn peak(&self, now: &LiveNow) -> Peak {
        let within_bytes = now.threads * STEP_BYTES;
        if now.peak_bytes > self.highest.live.bytes {
            let live = Live {
                blocks: now.peak_blocks,
                bytes: now.peak_bytes,
            };
            return Peak {
                live,
                seconds: now.peak_seconds,
                within_bytes,
            };
        }
        Peak {
            live: self.highest.live,
            seconds: self.highest.seconds,
            within_bytes,
        }
    }

    fn time(&self) -> Option<TimeShares> {
        let usage = self.usage?.since(self.before);
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        // Each census stands for the looks until the next.
        let all = self.running * self.looks / self.censuses.max(1);
        let in_allocator = self.inside.min(all);
        let in_hooks = self.in_hooks.min(all - in_allocator);
        Some(TimeShares {
            user_seconds: usage.user_ticks as f64 / per_second,
            system_seconds: usage.system_ticks as f64 / per_second,
            measured: Measured::Looks,
            samples: all - in_hooks,
            in_hooks: Some(in_hooks),
            in_allocator,
            in_kernel: None,
            in_kernel_for_allocator: None,
            in_memory_functions: None,
            memory_functions: BTreeMap::new(),
            in_page_faults: None,
            waited_seconds: self.waited.as_secs_f64(),
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
        })
    }
}
