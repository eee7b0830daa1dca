//! The parts of an image: bytes, and the digest that names them.
//!
//! Manifests are a few kilobytes, layers can be gigabytes. So a blob is bytes in memory, or a region of a file: of one
//! without a name for what reheap makes, of an archive for what it reads.

use oci_spec::image::Digest;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::str::FromStr as _;
use std::sync::Arc;

/// Bytes that never change.
#[derive(Debug, Clone)]
pub struct Blob {
    digest: Digest,
    size_bytes: u64,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    Memory(Arc<[u8]>),
    File(Region),
}

/// Bytes in a file that nothing is known of yet.
#[derive(Debug, Clone)]
pub struct Region {
    file: Arc<File>,
    offset: u64,
    size_bytes: u64,
}

impl Region {
    /// A part of a file.
    ///
    /// # Errors
    /// When the file ends before.
    pub fn new(file: Arc<File>, offset: u64, size_bytes: u64) -> io::Result<Self> {
        let end = offset.checked_add(size_bytes);
        if end.is_some_and(|end| file.metadata().is_ok_and(|there| end <= there.len())) {
            Ok(Self {
                file,
                offset,
                size_bytes,
            })
        } else {
            Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file ends before",
            ))
        }
    }

    /// How long it is.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// This region as a blob, once its digest is known.
    pub fn named(self, digest: Digest) -> Blob {
        Blob {
            digest,
            size_bytes: self.size_bytes,
            place: Place::File(self),
        }
    }

    /// Reads it from its beginning.
    pub fn reader(&self) -> impl Read + '_ {
        RegionReader {
            region: self,
            read_bytes: 0,
        }
    }

    /// Its first bytes, as many as there are.
    pub(crate) fn beginning(&self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader().take(count).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The file, and where the bytes begin in it.
    pub(crate) fn place(&self) -> (&File, u64) {
        (&self.file, self.offset)
    }
}

struct RegionReader<'a> {
    region: &'a Region,
    read_bytes: u64,
}

impl Read for RegionReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let region = self.region;
        let left = usize::try_from(region.size_bytes - self.read_bytes).unwrap_or(usize::MAX);
        let count = buffer.len().min(left);
        let offset = region.offset + self.read_bytes;
        let read = region.file.read_at(&mut buffer[..count], offset)?;
        self.read_bytes += read as u64;
        Ok(read)
    }
}

impl Blob {
    /// A blob in memory.
    pub fn of_bytes(bytes: Vec<u8>) -> Self {
        Self {
            digest: digest_of(Sha256::new_with_prefix(&bytes)),
            size_bytes: bytes.len() as u64,
            place: Place::Memory(bytes.into()),
        }
    }

    /// A region of a file, whose digest is known.
    pub fn in_file(file: Arc<File>, offset: u64, size_bytes: u64, digest: Digest) -> Self {
        let region = Region {
            file,
            offset,
            size_bytes,
        };
        region.named(digest)
    }

    /// Its name, `sha256:…`.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The digits of its name.
    pub(crate) fn hash(&self) -> &str {
        self.digest.digest()
    }

    /// How long it is.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads it from its beginning.
    pub fn reader(&self) -> Box<dyn Read + '_> {
        match &self.place {
            Place::Memory(bytes) => Box::new(&bytes[..]),
            Place::File(region) => Box::new(region.reader()),
        }
    }

    /// The bytes from there on, as many as fit; none at its end.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.place {
            Place::Memory(bytes) => {
                let start = bytes
                    .len()
                    .min(usize::try_from(offset).unwrap_or(usize::MAX));
                (&bytes[start..]).read(buffer)
            }
            Place::File(region) => {
                let mut reader = RegionReader {
                    region,
                    read_bytes: offset.min(region.size_bytes),
                };
                reader.read(buffer)
            }
        }
    }

    /// All of it, for what is known to be small.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader().read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Passes bytes on, and knows their digest and number.
pub(crate) struct Hashed<W> {
    to: W,
    hash: Sha256,
    written_bytes: u64,
}

impl<W> Hashed<W> {
    pub(crate) fn new(to: W) -> Self {
        Self {
            to,
            hash: Sha256::new(),
            written_bytes: 0,
        }
    }

    /// Where the bytes went, their digest and their number.
    pub(crate) fn finish(self) -> (W, Digest, u64) {
        (self.to, digest_of(self.hash), self.written_bytes)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.written_bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.to.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.written_bytes += read as u64;
        Ok(read)
    }
}

fn digest_of(hash: Sha256) -> Digest {
    let text = format!("sha256:{}", hex::encode(hash.finalize()));
    Digest::from_str(&text).expect("64 hexadecimal digits are a digest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_the_same_from_memory_and_from_the_middle_of_a_file() {
        let in_memory = Blob::of_bytes(b"abc".to_vec());
        // FIPS 180-2, B.1
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(in_memory.digest().as_ref(), abc);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"..abc..", 0).unwrap();
        let in_file = Blob::in_file(Arc::new(file), 2, 3, in_memory.digest().clone());
        for blob in [in_memory, in_file] {
            for _ in 0..2 {
                let mut text = String::new();
                blob.reader().read_to_string(&mut text).unwrap();
                assert_eq!(text, "abc");
            }
        }
    }
}
