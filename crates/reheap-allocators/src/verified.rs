//! A prebuilt file that can be used: what the parts of this crate get that would otherwise build it.

use crate::cache::CacheError;
use reheap_elf::archive::{self, Member};
use std::io;
use std::path::PathBuf;

/// A prebuilt file whose bytes are those of the manifest.
#[derive(Debug, Clone)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl Found {
    /// The files in an archive.
    pub(crate) fn members(&self) -> Result<Vec<Member>, CacheError> {
        let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        archive::read(&self.bytes)
            .map_err(damaged)
            .map_err(CacheError::new("read", &self.path))
    }
}
