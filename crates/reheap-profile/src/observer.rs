//! What runs beside the command: it looks at memory and at the threads at regular intervals, and keeps what a process
//! wrote down when it ends.
//!
//! Here is the loop. [`processes`] has the processes that are watched, and [`watched`] what is known of each: [`identity`],
//! [`memory`], [`resident`], [`threads`]. [`instruments`] record besides.

mod identity;
mod injected;
mod instruments;
mod memory;
mod observed;
mod processes;
mod resident;
mod threads;
mod watched;

pub use injected::Injected;
pub use observed::Observed;

use crate::hooks_clock::HooksClock;
use crate::others::Others;
use crate::recording::{Place, Recording, Whereabouts};
use crate::tracer::Tracer;
use identity::Identity;
use instruments::Instruments;
use processes::Processes;
use reheap_proc::by_number::{self, Usage};
use reheap_trace::ring::Clock;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watched::{Blocks, End};

/// The time between two looks.
pub const INTERVAL: Duration = Duration::from_millis(1);

/// Watches the processes of a command.
#[derive(Debug)]
pub struct Observer {
    recording: Arc<Recording>,
    time: Time,
    looks: u64,
    processes: Processes,
    others: Others,
    instruments: Instruments,
}

/// The time that a command takes.
#[derive(Debug)]
struct Time {
    start: Instant,
    /// When the last look began. What reheap does after that is not the command's time.
    over: Option<Duration>,
    /// The clock that the hooks read; it runs until the watching ends.
    clock: Option<HooksClock>,
}

impl Observer {
    /// With nothing to watch yet.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(recording: Recording) -> io::Result<Self> {
        let time = Time {
            start: Instant::now(),
            over: None,
            clock: None,
        };
        Ok(Self {
            instruments: Instruments::new(&recording)?,
            recording: Arc::new(recording),
            time,
            looks: 0,
            processes: Processes::default(),
            others: Others::default(),
        })
    }

    /// Writes every call into that file from now on. The recording was made with this clock.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn trace(&mut self, clock: Clock, file: File) -> io::Result<()> {
        let tracer = Tracer::start(Arc::clone(&self.recording), clock, file)?;
        self.instruments.tracer = Some(tracer);
        Ok(())
    }

    /// The command begins now.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn begin(&mut self) -> io::Result<()> {
        self.time.start = Instant::now();
        let clock = HooksClock::start(Arc::clone(&self.recording), self.time.start)?;
        self.time.clock = Some(clock);
        Ok(())
    }

    /// The command's first process, with which the search for programs without hooks begins.
    pub fn begins_with(&mut self, pid: u32) {
        self.others.begin(pid);
    }

    /// The time since the command began.
    pub fn elapsed(&self) -> Duration {
        self.time.start.elapsed()
    }

    /// Says what was put into the code of a program: how its functions were found, and which were not.
    pub fn injected(&mut self, injected: Injected) {
        self.instruments.injected(injected);
    }

    /// The command is this process, which has just begun or has just got its hooks: samples where its CPU time goes from
    /// now on. If the system does not allow that, the looks at its threads tell it.
    pub fn sample_cpu_time(&mut self, pid: u32) {
        self.instruments.sample_cpu_time(pid);
    }

    /// From now on a process that has run for some time is watched: only what it uses from now on counts.
    pub fn attaches_to(&mut self, pid: u32) {
        self.processes.counts_from(pid, by_number::usage(pid));
        self.processes.blocks = Blocks::Newer;
    }

    /// Whether a process has not ended.
    pub fn is_there(pid: u32) -> bool {
        by_number::is_there(pid)
    }

    /// What the processes write into.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// How many threads are in a hook, or in what it calls.
    pub fn inside(&self) -> u64 {
        let places = self.recording.taken();
        let slots = places.flat_map(|place| self.recording.slots(place));
        slots
            .filter(|slot| slot.whereabouts() != Whereabouts::Program)
            .count() as u64
    }

    /// To be called once in each [`INTERVAL`].
    pub fn look(&mut self) {
        let now = self.elapsed();
        self.looks += 1;
        if self.looks.is_multiple_of(4) || self.processes.watched.is_empty() {
            self.notice_processes();
        }
        for (place, watched) in &mut self.processes.watched {
            watched.look(&self.recording, *place, now);
            self.instruments
                .pass_samples(&self.recording, *place, watched);
        }
        if self.looks.is_multiple_of(16) {
            self.notice_ends();
        }
        if self.others.is_due() {
            self.look_at_others();
        }
    }

    /// To be called when the command has ended and can still be seen: its last figures, and those of all that ended with
    /// it.
    pub fn look_last(&mut self) {
        self.time.over = Some(self.elapsed());
        self.notice_processes();
        self.look_at_others();
        self.notice_ends();
        let now = self.elapsed();
        for (place, watched) in &mut self.processes.watched {
            watched.look_last(&self.recording, *place, now);
        }
        self.instruments.catch_up();
    }

    /// Looks at the programs without hooks, where there is a process to begin with.
    fn look_at_others(&mut self) {
        if self.others.root().is_some() {
            self.others.look(&self.processes.programs());
        }
    }

    fn notice_processes(&mut self) {
        // A process that executes one program after another may have taken several.
        for place in self.processes.new_in(&self.recording) {
            let pid = self.recording.pid(place);
            let in_proc = Some(pid).filter(|pid| self.is_of_command(*pid));
            // The same process with another program: what it was before has ended.
            if let Some(before) = in_proc.and_then(|pid| self.processes.place_of(pid)) {
                let usage = self.end(before, Some(self.recording.began(place)));
                self.processes.counts_from(pid, usage);
            }
            let identity = Identity::new(in_proc, &self.recording, place);
            if let Some(pid) = in_proc {
                self.others.has_hooks(pid, &identity.file);
            }
            self.processes.watch(place, identity);
        }
    }

    /// Whether the process of that number has the hooks, or had them and is gone. A zombie is no more than somebody's
    /// child, and a daemon has only the recording.
    fn is_of_command(&self, pid: u32) -> bool {
        let descends = |first| by_number::descends_from(pid, first);
        self.others.root().is_some_and(descends)
            || self.recording.is_mapped_by(pid)
            || !by_number::exists(pid)
    }

    fn notice_ends(&mut self) {
        let ends = self.processes.ends();
        let now = self.elapsed().as_secs_f64();
        for (place, end) in ends {
            let usage = self.end(place, Some(now));
            if let End::OfProgram(pid) = end {
                self.others.became(pid);
                self.processes.counts_from(pid, usage);
            }
        }
    }

    /// Keeps what a process wrote down, and gives its place away. Returns what the process has used.
    fn end(&mut self, place: Place, ended: Option<f64>) -> Option<Usage> {
        let mut watched = self.processes.watched.remove(&place)?;
        watched.add_point(&self.recording, place, self.elapsed());
        self.instruments.end(&self.recording, place, &mut watched);
        let (number, usage) = (watched.number, watched.usage);
        let injected = &self.instruments.injected;
        let process = watched.finish(&self.recording, place, ended, injected);
        self.processes.ended.push((number, process));
        self.instruments.release(&self.recording, place);
        usage
    }

    /// Ends the watching.
    pub fn finish(mut self) -> Observed {
        let time = self.time.over.unwrap_or_else(|| self.elapsed());
        self.notice_processes();
        self.notice_ends();
        self.recording.close();
        while let Some((&place, watched)) = self.processes.watched.first_key_value() {
            // Where nothing tells, it is not claimed that it goes on.
            let ended = (!watched.is_there()).then_some(time.as_secs_f64());
            self.end(place, ended);
        }
        let processes = observed::in_order(self.instruments.complete(self.processes.ended));
        let root = self.others.root();
        let first = processes.iter().find(|process| Some(process.pid) == root);
        let starts = observed::without_the_first(self.recording.starts(), first);
        Observed {
            others: self.others.finish(starts),
            uncounted_starts: self.recording.programs_refused(),
            refused: self.recording.refused(),
            hidden: self.processes.hidden,
            traced: self.instruments.tracer.map(Tracer::finish),
            processes,
            time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Cpu;
    use reheap_proc::maps;
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    /// What reheap put into a running process is gone right after the last look, and a thread that is sampled in there is
    /// then nowhere. Here all of the process goes.
    #[test]
    fn after_the_last_look_no_sample_needs_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let hooks = directory.path().join("libreheap-hooks");
        fs::copy("/bin/cat", &hooks).unwrap();
        let mut process = Command::new(&hooks)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // An answer shows that it runs.
        process.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        let answer = process.stdout.as_mut().unwrap();
        answer.read_exact(&mut [0]).unwrap();
        let pid = process.id();
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap();
        let is_its_code = |mapping: &maps::Mapping| {
            mapping.is_executable && mapping.path.ends_with("libreheap-hooks")
        };
        let code = maps::parse(&maps).into_iter().find(is_its_code).unwrap();

        let mut observer = Observer::new(Recording::create(1, None).unwrap()).unwrap();
        observer.instruments.cpu = Some(Cpu::far_behind(pid, code.start));
        observer.look_last();
        process.kill().unwrap();
        process.wait().unwrap();
        let cpu = observer.instruments.cpu.take().unwrap();
        assert_eq!(cpu.samples_in_hooks(pid), 1);
    }
}
