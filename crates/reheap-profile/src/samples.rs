//! Makes call sites of sampled stacks, in a thread of its own: to read the tables of a large program takes longer than the
//! time between two looks, and the observer is the hooks' clock.

use crate::profile::Sites;
use crate::recording::Sample;
use crate::stacks::{Modules, Registers, SiteId, SiteTable, Symbols, Unwinder, Weight};
use reheap_graft::Processor;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

/// Each sample takes up to 16 KiB.
const WAITING_MAX: usize = 2048;
/// What a process leaves when it ends cannot wait in its ring, so more of that may wait here.
const WAITING_AT_ENDS_MAX: usize = 8192;

/// A process, by the number that the observer gave it.
pub(crate) type ProcessId = usize;

/// The thread that unwinds.
#[derive(Debug)]
pub(crate) struct Sampler {
    work: Sender<Work>,
    /// Samples that wait for the thread.
    waiting: Arc<AtomicUsize>,
    thread: JoinHandle<HashMap<ProcessId, Sites>>,
}

#[derive(Debug)]
enum Work {
    Samples(Batch),
    /// The process has no more.
    Ended(ProcessId),
}

/// Samples of one process.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) process: ProcessId,
    /// Its number, if it is known.
    pub(crate) pid: Option<u32>,
    /// What was mapped at the first sample, in case the process is gone.
    pub(crate) maps: Vec<u8>,
    pub(crate) samples: Vec<Sample>,
}

impl Sampler {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (work, received) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let of_thread = Arc::clone(&waiting);
        let unwind = move || unwind(&received, &of_thread);
        Ok(Self {
            work,
            waiting,
            thread: thread::Builder::new().spawn(unwind)?,
        })
    }

    /// Whether so many samples wait that more would only take memory.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > WAITING_MAX
    }

    /// Whether so many samples wait that not even one of a process that ends may be added.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > WAITING_AT_ENDS_MAX
    }

    pub(crate) fn take(&self, batch: Batch) {
        self.waiting
            .fetch_add(batch.samples.len(), Ordering::Relaxed);
        self.send(Work::Samples(batch));
    }

    /// All samples of the process were passed.
    pub(crate) fn end(&self, process: ProcessId) {
        self.send(Work::Ended(process));
    }

    fn send(&self, work: Work) {
        // Only a panic ends the thread before, and `finish` passes that on.
        let _ = self.work.send(work);
    }

    /// The call sites of each process.
    pub(crate) fn finish(self) -> HashMap<ProcessId, Sites> {
        drop(self.work);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn unwind(work: &Receiver<Work>, waiting: &AtomicUsize) -> HashMap<ProcessId, Sites> {
    let mut all = All::default();
    for work in work {
        match work {
            Work::Samples(batch) => {
                let samples = batch.samples.len();
                all.take(batch);
                waiting.fetch_sub(samples, Ordering::Relaxed);
            }
            Work::Ended(process) => all.end(process),
        }
    }
    all.finish()
}

/// The samples of all processes so far.
#[derive(Default)]
struct All {
    modules: Modules,
    running: HashMap<ProcessId, Sampled>,
    ended: HashMap<ProcessId, SiteTable>,
}

impl All {
    fn take(&mut self, batch: Batch) {
        let sampled = self
            .running
            .entry(batch.process)
            .or_insert_with(|| Sampled::new(&mut self.modules, &batch));
        for sample in batch.samples {
            sampled.add(&mut self.modules, sample);
        }
    }

    fn end(&mut self, process: ProcessId) {
        let sampled = self.running.remove(&process);
        self.ended
            .extend(sampled.map(|stacks| (process, stacks.finish())));
    }

    fn finish(mut self) -> HashMap<ProcessId, Sites> {
        let running: Vec<ProcessId> = self.running.keys().copied().collect();
        running.into_iter().for_each(|process| self.end(process));
        let mut symbols = Symbols::new();
        let sites = self.ended.into_iter().map(|(process, table)| {
            let sites = table.sites(|address| symbols.frames(&self.modules, address));
            (process, sites)
        });
        sites.collect()
    }
}

/// The samples of one process so far.
struct Sampled {
    unwinder: Unwinder,
    table: SiteTable,
    /// In the order of addresses: sums of fractions depend on the order.
    live: BTreeMap<u64, (SiteId, Weight)>,
}

impl Sampled {
    fn new(modules: &mut Modules, batch: &Batch) -> Self {
        let processor = Processor::native();
        Self {
            unwinder: Unwinder::from_maps(modules, processor, &batch.maps, batch.pid),
            table: SiteTable::new(),
            live: BTreeMap::new(),
        }
    }

    fn add(&mut self, modules: &mut Modules, sample: Sample) {
        match sample {
            Sample::Allocated {
                block,
                size,
                every,
                registers,
                stack,
            } => {
                let registers = Registers::parse(registers);
                let stack = self.unwinder.unwind(modules, &registers, &stack);
                let weight = Weight::of_sample(size, every);
                let site = self.table.allocated(&stack.addresses, weight);
                self.live.insert(block, (site, weight));
            }
            Sample::Freed { block } => {
                self.live.remove(&block);
            }
        }
    }

    fn finish(mut self) -> SiteTable {
        for (site, weight) in self.live.into_values() {
            self.table.is_live(site, weight);
        }
        self.table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_process_that_ended_only_its_call_sites_are_kept() {
        let mut all = All::default();
        let registers = [0x1234, 0x7000, 0x7000];
        for process in 0..100 {
            let (block, size, stack) = (8, 100, Vec::new());
            let allocated = Sample::Allocated {
                block,
                size,
                every: 1000,
                registers,
                stack,
            };
            let batch = Batch {
                process,
                pid: None,
                maps: b"1000-2000 r-xp 00000000 00:00 0 [code]\n".to_vec(),
                samples: vec![allocated],
            };
            all.take(batch);
            all.end(process);
            all.end(process); // once more changes nothing
        }
        assert!(all.running.is_empty());
        let sites = all.finish();
        assert_eq!(sites.len(), 100);
        assert!(
            sites
                .values()
                .all(|site| *site == sites[&0] && site.stacks.len() == 1)
        );
    }
}
