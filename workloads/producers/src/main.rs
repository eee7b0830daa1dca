//! Pairs of threads, of which one allocates and the other frees.
//!
//! No block is freed by the thread that allocated it, so every free has to find its way to another thread's heap. Each
//! thread that is asked for is a producer, and has a consumer beside it. An operation is one block: allocated and
//! touched by the one, freed by the other.

use std::hint::black_box;
use std::io;
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::thread;
use workload::Workload;

const SIZE_BYTES_MAX: usize = 512;
/// Large enough that the queue between the threads takes little of the time.
const BLOCKS_PER_BATCH: u64 = 64;
const BATCHES_IN_QUEUE: usize = 16;

const PRODUCERS: Workload = Workload {
    name: "producers",
    about: "Allocates blocks of 1 to 512 bytes on each thread, and frees them on a second thread for each.",
    operations: "blocks",
    amount: NonZeroU64::new(4_000_000).unwrap(),
    file: None,
};

fn main() -> ExitCode {
    workload::run(PRODUCERS, |arguments| {
        arguments.on_threads(produce)?;
        Ok(None)
    })
}

fn produce(mut blocks: u64) -> io::Result<()> {
    let (sender, receiver) = sync_channel(BATCHES_IN_QUEUE);
    let consumer = thread::Builder::new().spawn(move || receiver.into_iter().for_each(drop))?;
    while blocks > 0 {
        let count = blocks.min(BLOCKS_PER_BATCH);
        blocks -= count;
        let sizes_bytes = (1..=SIZE_BYTES_MAX).cycle().step_by(37);
        let batch: Vec<Vec<u8>> = sizes_bytes.take(count as usize).map(block).collect();
        sender
            .send(batch)
            .map_err(|_| io::Error::other("a consumer ended early"))?;
    }
    drop(sender);
    consumer
        .join()
        .map_err(|_| io::Error::other("a thread panicked"))
}

fn block(size_bytes: usize) -> Vec<u8> {
    let mut block = Vec::with_capacity(size_bytes);
    block.push(1);
    black_box(block)
}
