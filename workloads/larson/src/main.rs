//! A server whose threads replace blocks at random, end, and leave their blocks to the next thread.
//!
//! After P. Larson and M. Krishnan, "Memory allocation for long-running server applications", ISMM 1998. An allocator
//! that ties a block to the thread that allocated it gets most of its frees from others here. An operation is one
//! replacement: a block freed, another allocated and touched.

use std::hint::black_box;
use std::io;
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::thread;
use workload::Workload;

const BLOCKS_PER_THREAD: usize = 256;
const SIZE_BYTES_MIN: u64 = 8;
const SIZE_BYTES_MAX: u64 = 512;
/// Threads that follow one another and share the work of each that is asked for.
const SESSIONS: u64 = 8;

const LARSON: Workload = Workload {
    name: "larson",
    about: "Replaces blocks of 8 to 512 bytes at random, on threads that end and leave their blocks to others.",
    operations: "replacements",
    amount: NonZeroU64::new(4_000_000).unwrap(),
    file: None,
};

fn main() -> ExitCode {
    workload::run(LARSON, |arguments| {
        arguments.on_threads(serve)?;
        Ok(None)
    })
}

/// Does this share on one thread after the other.
fn serve(replacements: u64) -> io::Result<()> {
    let mut session = Session::new();
    for number in 0..SESSIONS {
        // The first ones take one more each if it does not come out even.
        let count = (replacements + SESSIONS - 1 - number) / SESSIONS;
        let thread = thread::Builder::new().spawn(move || session.after(count))?;
        session = thread
            .join()
            .map_err(|_| io::Error::other("a thread panicked"))?;
    }
    Ok(())
}

/// What one thread leaves to the next.
struct Session {
    blocks: Vec<Vec<u8>>,
    random: u64,
}

impl Session {
    fn new() -> Self {
        Self {
            blocks: vec![Vec::new(); BLOCKS_PER_THREAD],
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn after(mut self, replacements: u64) -> Self {
        for _ in 0..replacements {
            let random = self.next_random();
            let size_bytes = SIZE_BYTES_MIN + random % (SIZE_BYTES_MAX - SIZE_BYTES_MIN + 1);
            let slot = (random >> 32) as usize % BLOCKS_PER_THREAD;
            // Freed first, as a server frees a request's memory before it takes the next request.
            self.blocks[slot] = Vec::new();
            let mut block = Vec::with_capacity(size_bytes as usize);
            block.push(random as u8);
            self.blocks[slot] = black_box(block);
        }
        self
    }

    /// Marsaglia's xorshift64.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
