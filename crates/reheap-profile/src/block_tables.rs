//! What the hooks know of each block of a process, read from outside: `hooks/blocks.c` has the layout.
//!
//! The process goes on meanwhile. So what changes while this is read may be seen before or after, or both.

use crate::heap_pages::Block;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use reheap_proc::pagemap::{Pagemap, Residence};
use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};

/// Address space for which the directory has an entry, and which its entries take.
const CHUNK_BYTES: u64 = 64 << 20;
const ENTRY_BYTES: usize = 16;
const LIVE: u64 = 1;
const SIZE_SHIFT: u32 = 16;
const ADDRESS_BITS: u32 = if cfg!(target_arch = "aarch64") {
    48
} else {
    47
};
const DIRECTORY_ENTRIES: u64 = 1 << (ADDRESS_BITS - 26);
/// How much of the tables is read at a time.
const READ_BYTES: usize = 1 << 20;

/// The tables of a process.
#[derive(Debug)]
pub(crate) struct BlockTables<'a> {
    pub(crate) pid: u32,
    pub(crate) pagemap: &'a Pagemap,
    /// Where the directory is in the process.
    pub(crate) directory: u64,
    pub(crate) page_bytes: usize,
}

/// A piece of address space in which blocks were, and where its tables are.
#[derive(Debug)]
pub(crate) struct Chunk {
    number: u64,
    /// Of blocks at even multiples of 8 bytes, and at odd ones.
    tables: [Option<u64>; 2],
}

impl Chunk {
    /// Its first address.
    pub(crate) fn start(&self) -> u64 {
        self.number * CHUNK_BYTES
    }
}

impl BlockTables<'_> {
    /// All pieces of address space in which blocks were, in order.
    ///
    /// # Errors
    /// When the process has ended, or the system does not let its memory be read.
    pub(crate) fn chunks(&self) -> io::Result<Vec<Chunk>> {
        let mut tables: BTreeMap<u64, [Option<u64>; 2]> = BTreeMap::new();
        for (half, first) in [0, DIRECTORY_ENTRIES].into_iter().enumerate() {
            for (number, distance) in self.distances(first)? {
                let table = distance.wrapping_add(number * CHUNK_BYTES);
                tables.entry(number).or_default()[half] = Some(table);
            }
        }
        let chunks = tables.into_iter();
        Ok(chunks
            .map(|(number, tables)| Chunk { number, tables })
            .collect())
    }

    /// The pieces that have a table, and how far that is from them, in one half of the directory.
    fn distances(&self, first: u64) -> io::Result<Vec<(u64, u64)>> {
        let start = self.directory + 8 * first;
        let words_of_page = (self.page_bytes / 8) as u64;
        let mut found = Vec::new();
        let pages = self.pagemap.pages(start..start + 8 * DIRECTORY_ENTRIES)?;
        for (page, residence) in (0..).zip(pages) {
            if residence == Residence::Absent {
                continue;
            }
            let mut bytes = vec![0; self.page_bytes];
            self.read(start + page * self.page_bytes as u64, &mut bytes)?;
            let (words, _) = bytes.as_chunks::<8>();
            let distances = words.iter().map(|word| u64::from_ne_bytes(*word));
            let numbered = (page * words_of_page..).zip(distances);
            found.extend(numbered.filter(|(_, distance)| *distance != 0));
        }
        Ok(found)
    }

    /// The blocks of a piece in the order of their addresses: those that are live, and at each other address the latest
    /// that was freed.
    ///
    /// # Errors
    /// When the process has ended, or the system does not let its memory be read.
    pub(crate) fn blocks(&self, chunk: &Chunk, block: &mut impl FnMut(Block)) -> io::Result<()> {
        let pages = |table: Option<u64>| {
            let pages =
                table.map(|table| self.pagemap.pages(table..table.wrapping_add(CHUNK_BYTES)));
            pages.transpose().map(Option::unwrap_or_default)
        };
        let resident = [pages(chunk.tables[0])?, pages(chunk.tables[1])?];
        let step = READ_BYTES / self.page_bytes;
        let mut bytes = [Vec::new(), Vec::new()];
        for first in (0..CHUNK_BYTES as usize / self.page_bytes).step_by(step) {
            for half in 0..2 {
                let pages = &resident[half];
                let pages = pages.get(first..(first + step).min(pages.len()));
                let table = chunk.tables[half].unwrap_or(0);
                self.read_pages(table, first, pages.unwrap_or(&[]), &mut bytes[half])?;
            }
            let start = chunk.start() + (first * self.page_bytes) as u64;
            entries(start, &bytes, block);
        }
        Ok(())
    }

    /// The pages of a table from `first` on, zeros for those that are not in memory: reading these would put pages of zeros
    /// there. Nothing if none is.
    fn read_pages(
        &self,
        table: u64,
        first: usize,
        resident: &[Residence],
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        bytes.clear();
        if resident.iter().all(|page| *page == Residence::Absent) {
            return Ok(());
        }
        bytes.resize(READ_BYTES, 0);
        let mut at = 0;
        for run in resident.chunk_by(|a, b| (*a == Residence::Absent) == (*b == Residence::Absent))
        {
            let place = at * self.page_bytes..(at + run.len()) * self.page_bytes;
            if run[0] != Residence::Absent {
                let from = table.wrapping_add((first * self.page_bytes + place.start) as u64);
                self.read(from, &mut bytes[place])?;
            }
            at += run.len();
        }
        Ok(())
    }

    fn read(&self, from: u64, bytes: &mut [u8]) -> io::Result<()> {
        let wanted = bytes.len();
        let there = RemoteIoVec {
            base: from as usize,
            len: wanted,
        };
        let read = process_vm_readv(
            Pid::from_raw(self.pid as i32),
            &mut [IoSliceMut::new(bytes)],
            &[there],
        )?;
        if read == wanted {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

/// The blocks of a piece of address space: those at even multiples of 8 bytes, and those at odd ones.
fn entries(start: u64, [even, odd]: &[Vec<u8>; 2], block: &mut impl FnMut(Block)) {
    let mut entry = |address: u64, entry: Option<&[u8; ENTRY_BYTES]>| {
        let word = entry.map_or(0, |entry| {
            let (word, _) = entry
                .split_first_chunk()
                .expect("an entry begins with a word");
            u64::from_ne_bytes(*word)
        });
        if word != 0 {
            block(Block {
                address,
                bytes: word >> SIZE_SHIFT,
                is_live: word & LIVE != 0,
            });
        }
    };
    let (even, odd) = (even.as_chunks().0, odd.as_chunks().0);
    for at in 0..even.len().max(odd.len()) {
        let address = start + (at * ENTRY_BYTES) as u64;
        entry(address, even.get(at));
        entry(address + 8, odd.get(at));
    }
}
