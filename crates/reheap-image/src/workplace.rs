//! Where an image is made before it appears: files without names beside it, and the wish to stop.
//!
//! Layers are compressed before it is known how long they become, so they need a place. That is the file system that
//! the image goes to: `/tmp` is memory on many machines, and a full disk then stops the command before it replaces
//! anything. The files have no names, so they are gone whatever ends the process.

use crate::error::{EndOfWork, ImageError};
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where files go while they have no name, and whether to stop.
#[derive(Debug)]
pub struct Workplace<'a> {
    /// `None` for that of the system.
    directory: Option<PathBuf>,
    interrupted: &'a AtomicBool,
}

impl<'a> Workplace<'a> {
    /// In a directory, until the flag is set.
    pub fn new(directory: Option<PathBuf>, interrupted: &'a AtomicBool) -> Self {
        Self {
            directory,
            interrupted,
        }
    }

    /// A file that nobody else sees.
    pub(crate) fn file(&self) -> Result<File, ImageError> {
        match &self.directory {
            Some(directory) => {
                tempfile::tempfile_in(directory).map_err(ImageError::io("write in", directory))
            }
            None => tempfile::tempfile().map_err(ImageError::io(
                "write in",
                Path::new("the temporary directory"),
            )),
        }
    }

    /// Reads exactly that much, in pieces, and stops when the flag is set.
    pub(crate) fn read<R: Read>(&self, from: R, size: u64) -> Reading<'_, R> {
        Reading {
            from: from.take(size),
            interrupted: self.interrupted,
        }
    }

    /// Reads to the end, and stops when the flag is set.
    pub(crate) fn until_end<R: Read>(&self, from: R) -> UntilEnd<'_, R> {
        UntilEnd {
            from,
            interrupted: self.interrupted,
        }
    }

    /// Fails when the flag is set.
    pub(crate) fn go_on(&self) -> Result<(), ImageError> {
        if self.interrupted.load(Ordering::SeqCst) {
            Err(ImageError::Interrupted)
        } else {
            Ok(())
        }
    }
}

/// A reader of known length.
pub(crate) struct Reading<'a, R> {
    from: io::Take<R>,
    interrupted: &'a AtomicBool,
}

impl<R: Read> Read for Reading<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.interrupted.load(Ordering::SeqCst) {
            return Err(io::Error::other(EndOfWork));
        }
        match self.from.read(buffer)? {
            0 if self.from.limit() > 0 && !buffer.is_empty() => {
                Err(io::Error::other("it shrank while reheap read it"))
            }
            bytes => Ok(bytes),
        }
    }
}

/// A reader of any length.
pub(crate) struct UntilEnd<'a, R> {
    from: R,
    interrupted: &'a AtomicBool,
}

impl<R: Read> Read for UntilEnd<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.interrupted.load(Ordering::SeqCst) {
            Err(io::Error::other(EndOfWork))
        } else {
            self.from.read(buffer)
        }
    }
}

/// Copies, and leaves out blocks of zeros.
pub(crate) fn copy_with_holes(from: &mut impl Read, to: &mut File) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; _];
    let mut piece = vec![0; ZEROS.len()];
    loop {
        let count = from.read(&mut piece)?;
        if count == 0 {
            let end = to.stream_position()?;
            return to.set_len(end);
        }
        // Comparing slices is memcmp, many times as fast as looking at each byte.
        if piece[..count] == ZEROS[..count] {
            to.seek(SeekFrom::Current(count as i64))?;
        } else {
            to.write_all(&piece[..count])?
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_holes_where_nothing_but_zeros_was() {
        let mut bytes = vec![0; 1 << 20];
        bytes[700_000] = 7;
        let mut copy = tempfile::tempfile().unwrap();
        copy_with_holes(&mut bytes.as_slice(), &mut copy).unwrap();
        copy.rewind().unwrap();
        let mut read = Vec::new();
        copy.read_to_end(&mut read).unwrap();
        assert!(read == bytes);
    }
}
