//! Which pages of a process are in memory: `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// How many entries are read at a time.
const ENTRIES: usize = 16384;

/// An open pagemap. It belongs to the program that ran when it was opened.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    page_bytes: u64,
}

/// Whether a page is in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Residence {
    /// It is not.
    #[default]
    Absent,
    /// It is also another process's, or another page's: the page of zeros, which a program gets that only reads, is shared
    /// in the same way and is not resident memory.
    Shared,
    /// It is, and nobody shares it.
    Own,
}

impl Pagemap {
    /// That of a process.
    ///
    /// # Errors
    /// When the process has ended, or is another user's.
    pub fn open(pid: u32) -> io::Result<Self> {
        Ok(Self {
            file: File::open(format!("/proc/{pid}/pagemap"))?,
            page_bytes: rustix::param::page_size() as u64,
        })
    }

    /// The pages of a range, in order. There are fewer where address space ends.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn pages(&self, range: Range<u64>) -> io::Result<Vec<Residence>> {
        let mut pages = Vec::new();
        self.read(range, |residence| pages.push(residence))?;
        Ok(pages)
    }

    /// How much of a range is in memory, in bytes.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn resident_bytes(&self, range: Range<u64>) -> io::Result<u64> {
        let mut resident = 0;
        self.read(range, |residence| {
            resident += u64::from(residence != Residence::Absent);
        })?;
        Ok(resident * self.page_bytes)
    }

    fn read(&self, range: Range<u64>, mut page: impl FnMut(Residence)) -> io::Result<()> {
        let (mut next, end) = (range.start / self.page_bytes, range.end / self.page_bytes);
        let mut entries = vec![0; 8 * ENTRIES.min(end.saturating_sub(next) as usize)];
        while next < end {
            let wanted = entries.len().min(8 * (end - next) as usize);
            let read = self.file.read_at(&mut entries[..wanted], next * 8)?;
            let (words, _) = entries[..read].as_chunks::<8>();
            if words.is_empty() {
                break;
            }
            for word in words {
                page(residence(u64::from_le_bytes(*word)));
            }
            next += words.len() as u64;
        }
        Ok(())
    }
}

fn residence(entry: u64) -> Residence {
    const PRESENT: u64 = 1 << 63;
    const EXCLUSIVE: u64 = 1 << 56;
    match (entry & PRESENT, entry & EXCLUSIVE) {
        (0, _) => Residence::Absent,
        (_, 0) => Residence::Shared,
        _ => Residence::Own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_written_to_are_own_and_others_are_not() {
        let page = rustix::param::page_size();
        let mut memory = vec![0_u8; 64 * page];
        let begin = memory.as_ptr().addr().next_multiple_of(page);
        let first = begin - memory.as_ptr().addr();
        memory[first + 2 * page] = 1;
        let range = begin as u64..(begin + 8 * page) as u64;
        let pagemap = Pagemap::open(std::process::id()).unwrap();
        let pages = pagemap.pages(range.clone()).unwrap();
        assert_eq!(pages.len(), 8);
        assert_eq!(pages[2], Residence::Own);
        let resident = pages.iter().filter(|page| **page != Residence::Absent);
        let resident = resident.count() * page;
        assert_eq!(pagemap.resident_bytes(range).unwrap(), resident as u64);
    }
}
