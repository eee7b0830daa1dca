//! The parts of the file: its header, its chunks, and numbers in as many bytes as they need. All integers are
//! little-endian.
//!
//! | chunk | bytes |
//! | --- | --- |
//! | magic | 4 |
//! | kind | 1, and 3 zeros |
//! | stream | 4 |
//! | length of the payload | 4 |
//! | CRC-32 of kind to length and the payload | 4 |
//! | payload | |

use super::{FORMAT, TICK_NANOSECONDS, TraceError};
use std::io::{self, Read};

pub(super) const MAGIC: [u8; 8] = *b"reheaptr";
pub(super) const FILE_HEADER_BYTES: usize = 16;
const CHUNK_MAGIC: [u8; 4] = *b"RHch";
const CHUNK_HEADER_BYTES: usize = 20;
/// No writer makes a longer payload, so a length above it is damage, and nobody allocates for it.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// What a chunk is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A process begins: [`super::Process`] as JSON.
    Process = 1,
    /// Its events.
    Events = 2,
    /// It ended: [`super::Totals`] as JSON.
    End = 3,
    /// The recording was finished; nothing follows.
    Finished = 4,
}

impl Kind {
    fn of_number(number: u8) -> Option<Self> {
        let all = [Kind::Process, Kind::Events, Kind::End, Kind::Finished];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// What a file begins with.
pub(super) fn file_header() -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&FORMAT.to_le_bytes());
    let tick = u16::try_from(TICK_NANOSECONDS).expect("a tick is below 65 microseconds");
    header[10..12].copy_from_slice(&tick.to_le_bytes());
    let checksum = crc32fast::hash(&header[..12]);
    header[12..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Checks what a file begins with.
pub(super) fn check_file_header(header: &[u8; FILE_HEADER_BYTES]) -> Result<(), TraceError> {
    if header[..8] != MAGIC {
        return Err(TraceError::NotATrace);
    }
    let found = u16::from_le_bytes([header[8], header[9]]);
    if found != FORMAT {
        return Err(TraceError::OtherFormat { found });
    }
    if *header != file_header() {
        let what = "its header is wrong";
        return Err(TraceError::Damaged { offset: 0, what });
    }
    Ok(())
}

/// A whole chunk with its payload.
pub(super) struct Chunk {
    pub(super) kind: Kind,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Chunk {
    /// Its bytes in a file, in one piece: a write that fails or is cut off leaves no part that looks whole.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES + self.payload.len());
        bytes.extend_from_slice(&CHUNK_MAGIC);
        bytes.extend_from_slice(&[self.kind as u8, 0, 0, 0]);
        bytes.extend_from_slice(&self.stream.to_le_bytes());
        let length = u32::try_from(self.payload.len()).expect("payloads are below 16 MiB");
        bytes.extend_from_slice(&length.to_le_bytes());
        let checksum = checksum(&bytes[4..16], &self.payload);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// The next chunk of a file, `offset` bytes from its beginning.
    pub(super) fn read(input: &mut impl Read, offset: u64) -> Result<Found, TraceError> {
        let damaged = |what| TraceError::Damaged { offset, what };
        let mut header = [0; CHUNK_HEADER_BYTES];
        match read_up_to(input, &mut header)? {
            0 => return Ok(Found::EndOfFile),
            CHUNK_HEADER_BYTES => {}
            bytes => return Ok(Found::CutOff(bytes as u64)),
        }
        let word = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        if header[..4] != CHUNK_MAGIC || header[5..8] != [0; 3] {
            return Err(damaged("no chunk begins there"));
        }
        let length = word(12) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(damaged("a chunk says that it is longer than any can be"));
        }
        // Grows with what is really there: a length alone makes nobody allocate.
        let mut payload = Vec::new();
        input.take(length as u64).read_to_end(&mut payload)?;
        if payload.len() < length {
            return Ok(Found::CutOff((CHUNK_HEADER_BYTES + payload.len()) as u64));
        }
        if checksum(&header[4..16], &payload) != word(16) {
            return Err(damaged("the checksum is wrong"));
        }
        let kind = Kind::of_number(header[4]).ok_or_else(|| damaged("a chunk of no known kind"))?;
        let stream = word(8);
        Ok(Found::Chunk(Self {
            kind,
            stream,
            payload,
        }))
    }

    /// How long it is in a file.
    pub(super) fn bytes(&self) -> u64 {
        (CHUNK_HEADER_BYTES + self.payload.len()) as u64
    }
}

/// What is at a place in a file.
pub(super) enum Found {
    Chunk(Chunk),
    EndOfFile,
    /// The beginning of a chunk, of so many bytes.
    CutOff(u64),
}

fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(payload);
    hasher.finalize()
}

/// Reads as much as there is, and says how much that was.
pub(super) fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Appends a number: seven bits a byte, the lowest first; the highest bit says that more follow.
pub(super) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number off the front; `None` if it is cut off or does not fit.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A difference as a small number, whichever its sign.
pub(super) fn folded(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The reverse of [`folded`].
pub(super) fn unfolded(from: u64, folded: u64) -> u64 {
    let difference = (folded >> 1) as i64 ^ -((folded & 1) as i64);
    from.wrapping_add(difference as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(number: u64, other: u64) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            prop_assert_eq!(take_number(&mut &bytes[..]), Some(number));
            prop_assert_eq!(take_number(&mut &bytes[..bytes.len() - 1]), None);
            prop_assert_eq!(unfolded(other, folded(other, number)), number);
        }
    }
}
