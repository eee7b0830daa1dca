//! The parts of an image: bytes, and the digest that names them.
//!
//! Manifests are a few kilobytes, layers can be gigabytes. So a blob is bytes in memory, or a region of a file: of one
//! without a name for what reheap makes, of an archive for what it reads.

use oci_spec::image::Digest;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
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
    File { file: Arc<File>, offset: u64 },
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
        Self {
            digest,
            size_bytes,
            place: Place::File { file, offset },
        }
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
    pub fn reader(&self) -> impl Read + '_ {
        Reader {
            blob: self,
            read_bytes: 0,
        }
    }
}

/// Readers of one file do not share a position.
struct Reader<'a> {
    blob: &'a Blob,
    read_bytes: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.blob.size_bytes - self.read_bytes;
        let bytes = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..bytes];
        let read = match &self.blob.place {
            Place::Memory(bytes) => {
                let mut rest = &bytes[self.read_bytes as usize..];
                rest.read(buffer)?
            }
            Place::File { file, offset } => file.read_at(buffer, offset + self.read_bytes)?,
        };
        self.read_bytes += read as u64;
        Ok(read)
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

fn digest_of(hash: Sha256) -> Digest {
    let mut text = "sha256:".to_owned();
    for byte in hash.finalize() {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
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
