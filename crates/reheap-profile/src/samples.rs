//! Makes call sites of sampled stacks, in a thread of its own: to read the tables of a large program takes longer than the
//! time between two looks, and the observer is the hooks' clock.

use crate::profile::Sites;
use crate::recording::Sample;
use crate::stacks::{Machine, Modules, Registers, SiteId, SiteTable, Symbols, Unwinder, Weight};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

/// Each sample takes up to 16 KiB.
const WAITING_MAX: usize = 2048;
/// What a process leaves when it ends cannot wait in its ring, so more of that may wait here.
const WAITING_AT_ENDS_MAX: usize = 8192;

/// A process, by the number that the observer gave it.
pub(crate) type ProcessId = usize;

/// The thread that unwinds.
#[derive(Debug)]
pub(crate) struct Sampler {
    batches: Sender<Batch>,
    /// Samples that wait for the thread.
    waiting: Arc<AtomicUsize>,
    thread: JoinHandle<HashMap<ProcessId, Sites>>,
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
    pub(crate) fn start(every: u64) -> Self {
        let (batches, received) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let of_thread = Arc::clone(&waiting);
        let thread = std::thread::spawn(move || work(&received, every, &of_thread));
        Self {
            batches,
            waiting,
            thread,
        }
    }

    /// Whether so many samples wait that more would only take memory.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > WAITING_MAX
    }

    /// The same for what cannot wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > WAITING_AT_ENDS_MAX
    }

    pub(crate) fn take(&self, batch: Batch) {
        self.waiting
            .fetch_add(batch.samples.len(), Ordering::Relaxed);
        // Only a panic ends the thread before, and `finish` passes that on.
        let _ = self.batches.send(batch);
    }

    /// The call sites of each process.
    pub(crate) fn finish(self) -> HashMap<ProcessId, Sites> {
        drop(self.batches);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn work(batches: &Receiver<Batch>, every: u64, waiting: &AtomicUsize) -> HashMap<ProcessId, Sites> {
    let mut modules = Modules::new();
    let mut processes: HashMap<ProcessId, Sampled> = HashMap::new();
    for batch in batches {
        let sampled = processes
            .entry(batch.process)
            .or_insert_with(|| Sampled::new(&mut modules, &batch));
        for sample in batch.samples {
            sampled.add(&mut modules, sample, every);
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let mut symbols = Symbols::new();
    let sites = processes.into_iter().map(|(process, sampled)| {
        let sites = sampled
            .finish()
            .sites(|address| symbols.frames(&modules, address));
        (process, sites)
    });
    sites.collect()
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
        let machine = Machine::native();
        Self {
            unwinder: Unwinder::from_maps(modules, machine, &batch.maps, batch.pid),
            table: SiteTable::new(),
            live: BTreeMap::new(),
        }
    }

    fn add(&mut self, modules: &mut Modules, sample: Sample, every: u64) {
        match sample {
            Sample::Allocated {
                block,
                size,
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
