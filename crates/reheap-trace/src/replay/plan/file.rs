//! Writes the file of a plan.

use super::operation::{OPERATION_BYTES, Operation};
use super::{ReplayError, WINDOW};
use crate::replay::Touch;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};

const MAGIC: &[u8; 8] = b"reheappl";
const FORMAT: u32 = 1;
const HEADER_BYTES: u64 = 80;
const OPERATIONS_PER_BLOCK: usize = 1024;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct PlanFile {
    output: BufWriter<File>,
    written: u64,
    threads: Vec<Operations>,
}

/// The operations of a thread.
#[derive(Debug, Default)]
struct Operations {
    count: u64,
    /// Operations that are not in the file yet.
    waiting: Vec<u8>,
    /// Where blocks of the others are in the file.
    blocks: Vec<u64>,
}

/// What the replayer has to know besides the operations.
pub(super) struct Header<'a> {
    pub(super) touch: Touch,
    pub(super) slots: u32,
    pub(super) calls: u64,
    /// By epoch, how many threads take part.
    pub(super) participants: &'a [u32],
}

impl PlanFile {
    pub(super) fn begin(file: File) -> Result<Self, ReplayError> {
        let mut begun = Self {
            output: BufWriter::new(file),
            written: 0,
            threads: Vec::new(),
        };
        begun
            .write(&[0; HEADER_BYTES as usize])
            .map_err(ReplayError::Write)?;
        Ok(begun)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.output.write_all(bytes)
    }

    /// How many threads there are.
    pub(super) fn threads(&self) -> u32 {
        self.threads.len() as u32
    }

    /// Adds a thread, and gives its number.
    pub(super) fn add_thread(&mut self) -> Result<u32, ReplayError> {
        let thread = u32::try_from(self.threads.len()).map_err(|_| ReplayError::TooLarge)?;
        self.threads.push(Operations::default());
        Ok(thread)
    }

    /// Adds a step of a thread.
    pub(super) fn put(&mut self, thread: u32, operation: Operation) -> Result<(), ReplayError> {
        let operations = &mut self.threads[thread as usize];
        operations.count += 1;
        operations.waiting.extend_from_slice(&operation.to_bytes());
        if operations.waiting.len() < OPERATIONS_PER_BLOCK * OPERATION_BYTES {
            return Ok(());
        }
        self.write_block(thread as usize)
            .map_err(ReplayError::Write)
    }

    /// Writes what waits of a thread.
    fn write_block(&mut self, thread: usize) -> io::Result<()> {
        let operations = &mut self.threads[thread];
        operations.blocks.push(self.written);
        let block = std::mem::take(&mut operations.waiting);
        self.write(&block)
    }

    /// Writes what is left, the tables, and the header.
    pub(super) fn finish(mut self, header: &Header<'_>) -> io::Result<()> {
        for thread in 0..self.threads.len() {
            if !self.threads[thread].waiting.is_empty() {
                self.write_block(thread)?;
            }
        }
        let epochs_at = self.written;
        for participants in header.participants {
            self.write(&participants.to_le_bytes())?;
        }
        let padding = self.written % 8;
        self.write(&[0; 8][..padding as usize])?;
        let threads_at = self.written;
        let mut first_block = 0u64;
        for thread in &self.threads {
            self.output.write_all(&thread.count.to_le_bytes())?;
            self.output.write_all(&first_block.to_le_bytes())?;
            first_block += thread.blocks.len() as u64;
        }
        for offset in self.threads.iter().flat_map(|thread| &thread.blocks) {
            self.output.write_all(&offset.to_le_bytes())?;
        }
        let blocks_at = threads_at + self.threads.len() as u64 * 16;
        let places = [epochs_at, threads_at, blocks_at];
        let bytes = header.to_bytes(self.threads(), places);
        self.output.seek(SeekFrom::Start(0))?;
        self.output.write_all(&bytes)?;
        self.output.flush()
    }
}

impl Header<'_> {
    fn to_bytes(&self, threads: u32, [epochs_at, threads_at, blocks_at]: [u64; 3]) -> Vec<u8> {
        let touch = match self.touch {
            Touch::None => 0u32,
            Touch::Ends => 1,
            Touch::Pages => 2,
            Touch::All => 3,
        };
        let mut header = MAGIC.to_vec();
        for number in [FORMAT, touch, threads, WINDOW] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        let numbers = [
            u64::from(self.slots),
            self.participants.len() as u64,
            self.calls,
            epochs_at,
            threads_at,
            blocks_at,
            OPERATIONS_PER_BLOCK as u64,
        ];
        for number in numbers {
            header.extend_from_slice(&number.to_le_bytes());
        }
        assert_eq!(
            header.len() as u64,
            HEADER_BYTES,
            "the header has a fixed size"
        );
        header
    }
}
