//! Threads that allocate, fill and drop vectors of 1 to 1,000 bytes, over and over.
//!
//! An allocator that takes one lock for all threads is slower here with two threads than with one. An operation is one
//! vector: allocated, filled, dropped.

use std::hint::black_box;
use std::io;
use std::num::NonZeroU64;
use std::process::ExitCode;
use workload::Workload;

const SIZE_BYTES_MAX: usize = 1000;

const CHURN: Workload = Workload {
    name: "churn",
    about: "Allocates, fills and drops vectors of growing size, 1 to 1000 bytes, on several threads.",
    operations: "vectors",
    amount: NonZeroU64::new(4_000_000).unwrap(),
    file: None,
};

fn main() -> ExitCode {
    workload::run(CHURN, |arguments| {
        arguments.on_threads(churn)?;
        Ok(None)
    })
}

fn churn(vectors: u64) -> io::Result<()> {
    let sizes_bytes = (1..=SIZE_BYTES_MAX).cycle();
    for (_, size_bytes) in (0..vectors).zip(sizes_bytes) {
        // The bottom bit is set because a vector of zeros would come from calloc, which need not fill it.
        black_box(vec![black_box(size_bytes as u8 | 1); size_bytes]);
    }
    Ok(())
}
