//! Reads an open file only where bytes are needed, so a file of any size needs little memory.

use reheap_elf::source::{ReadError, Source};
use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// A regular file, or a part of one.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    start: u64,
    size: u64,
}

impl OpenFile {
    /// # Errors
    /// If its size is not told.
    pub fn new(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        Self::part(file, 0, size)
    }

    /// # Errors
    /// If the file ends before.
    pub(crate) fn part(file: File, start: u64, size: u64) -> io::Result<Self> {
        let end = start.checked_add(size);
        if end.is_none_or(|end| end > i64::MAX as u64) || end > Some(file.metadata()?.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Self { file, start, size })
    }

    /// How many bytes can be read.
    pub fn size_bytes(&self) -> u64 {
        self.size
    }
}

impl Source for OpenFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let read = self.file.read_exact_at(buffer, self.start + offset);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ReadError("it shrank while reheap read it".to_owned()),
            _ => ReadError(error.to_string()),
        })
    }

    fn next_data(&self, offset: u64) -> u64 {
        match rustix::fs::seek(&self.file, SeekFrom::Data(self.start + offset)) {
            Ok(data) => (data - self.start).min(self.size),
            Err(rustix::io::Errno::NXIO) => self.size, // nothing but a hole
            Err(_) => offset,                          // a file system that does not tell
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_told_and_a_file_that_shrinks_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"data", 1 << 30).unwrap();
        file.set_len(2 << 30).unwrap();
        let opened = OpenFile::new(file.try_clone().unwrap()).unwrap();
        assert_eq!(opened.next_data(0), 1 << 30);
        assert_eq!(opened.next_data((1 << 30) + (1 << 20)), 2 << 30);
        let part = OpenFile::part(file.try_clone().unwrap(), 1 << 20, 1 << 30).unwrap();
        assert_eq!(part.next_data(0), (1 << 30) - (1 << 20));
        assert!(OpenFile::part(file.try_clone().unwrap(), 1 << 30, (1 << 30) + 1).is_err());
        let mut bytes = [1; 6];
        opened.read_at((1 << 30) - 2, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0\0data");
        file.set_len(1 << 30).unwrap();
        let error = opened.read_at(1 << 30, &mut bytes).unwrap_err();
        assert_eq!(error.to_string(), "it shrank while reheap read it");
    }
}
