//! What records besides the looks at processes: sampled stacks, the CPU's samples, and the trace. Each has threads of its
//! own.

use super::injected::Injected;
use super::watched::Watched;
use crate::cpu::Cpu;
use crate::profile::{Live, Process};
use crate::recording::{Place, Recording, Sample};
use crate::samples::{Batch, ProcessId, Sampler};
use crate::tracer::Tracer;
use std::io;

/// What records besides the looks at processes.
#[derive(Debug)]
pub(super) struct Instruments {
    pub(super) tracer: Option<Tracer>,
    sampler: Option<Sampler>,
    pub(super) cpu: Option<Cpu>,
    pub(super) injected: Injected,
}

impl Instruments {
    /// The instruments that the recording asks for.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn new(recording: &Recording) -> io::Result<Self> {
        Ok(Self {
            tracer: None,
            sampler: recording.takes_samples().then(Sampler::start).transpose()?,
            cpu: None,
            injected: Injected::default(),
        })
    }

    /// Says what was put into the code of a program.
    pub(super) fn injected(&mut self, injected: Injected) {
        self.injected = injected;
        self.tell_where_hooks_are();
    }

    /// Samples the CPU time of a process, if the system allows that.
    pub(super) fn sample_cpu_time(&mut self, pid: u32) {
        self.cpu = Cpu::start(pid).ok();
        self.tell_where_hooks_are();
    }

    fn tell_where_hooks_are(&self) {
        if let Some(cpu) = &self.cpu {
            let Injected {
                hooks, functions, ..
            } = &self.injected;
            cpu.hooks_are_at(hooks.clone(), functions.clone());
        }
    }

    /// Waits until the CPU's samples so far are looked at. The hooks in a process must be there until then: a thread that
    /// they called is known by them.
    pub(super) fn catch_up(&self) {
        if let Some(cpu) = &self.cpu {
            cpu.catch_up();
        }
    }

    /// Passes on the stacks that were sampled in a process. What finds no room in the ring is counted as lost.
    pub(super) fn pass_samples(&self, recording: &Recording, place: Place, process: &Watched) {
        if let Some(sampler) = self.sampler.as_ref().filter(|sampler| !sampler.is_behind()) {
            let samples = recording.take_samples(place);
            pass(sampler, recording, place, process, samples);
        }
    }

    /// The process has ended: there will be no more of it.
    pub(super) fn end(&self, recording: &Recording, place: Place, process: &mut Watched) {
        if let Some(sampler) = &self.sampler {
            process.lost_stacks += pass_last(sampler, recording, place, process);
            sampler.end(process.number);
        }
        if let (Some(cpu), Some(pid)) = (&self.cpu, process.identity.in_proc) {
            cpu.end(pid, process.number);
        }
    }

    /// Gives away the place of a process that has ended. With a trace, that happens when its calls are written.
    pub(super) fn release(&self, recording: &Recording, place: Place) {
        let is_left_to_tracer = self.tracer.as_ref().is_some_and(|tracer| tracer.end(place));
        if !is_left_to_tracer {
            // If it cannot be emptied, it stays taken, and there is one place less.
            let _ = recording.release(place);
        }
    }

    /// Ends the samples, and adds them to the processes.
    pub(super) fn complete(&mut self, ended: Vec<(ProcessId, Process)>) -> Vec<Process> {
        let mut sites = self.sampler.take().map(Sampler::finish).unwrap_or_default();
        let mut tallies = self.cpu.take().map(Cpu::finish).unwrap_or_default();
        let complete = |(number, mut process): (ProcessId, Process)| {
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
        ended.into_iter().map(complete).collect()
    }
}

/// Passes on what is left. The ring goes away with the process, so all that is in it must be passed now. Gives the
/// stacks that found no room.
fn pass_last(sampler: &Sampler, recording: &Recording, place: Place, process: &Watched) -> u64 {
    let mut lost = 0;
    loop {
        let samples = recording.take_samples(place);
        if samples.is_empty() {
            return lost;
        }
        if sampler.is_full() {
            let stacks = samples.iter().filter(|sample| sample.is_stack());
            lost += stacks.count() as u64;
        } else {
            pass(sampler, recording, place, process, samples);
        }
    }
}

fn pass(
    sampler: &Sampler,
    recording: &Recording,
    place: Place,
    process: &Watched,
    samples: Vec<Sample>,
) {
    if !samples.is_empty() {
        sampler.take(Batch {
            process: process.number,
            pid: process.identity.in_proc,
            maps: recording.maps(place),
            samples,
        });
    }
}
