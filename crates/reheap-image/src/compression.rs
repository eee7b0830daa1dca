//! How layers are compressed: told from their first bytes, because media types are not always true.

use std::io::{self, Read};

/// How layers are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Every registry and engine reads it.
    Gzip,
    /// Smaller, and unpacked faster; engines since 2021 read it.
    Zstd,
}

/// The first bytes of what is compressed (RFC 1952, RFC 8878).
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How a layer is compressed that begins with these four bytes, if it is.
pub(crate) fn compression_of(first_bytes: &[u8]) -> Option<Compression> {
    match () {
        () if first_bytes.starts_with(GZIP) => Some(Compression::Gzip),
        () if first_bytes.starts_with(ZSTD) => Some(Compression::Zstd),
        () => None,
    }
}

/// A layer's archive: what is compressed as its first bytes say, unpacked.
///
/// # Errors
/// When the decoder cannot be set up.
pub fn unpacked<'a>(
    first_bytes: &[u8],
    stored: impl io::BufRead + 'a,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match compression_of(first_bytes) {
        Some(Compression::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(stored)),
        Some(Compression::Zstd) => Box::new(zstd::Decoder::with_buffer(stored)?),
        None => Box::new(stored),
    })
}
