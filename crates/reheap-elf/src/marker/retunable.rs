//! Another tuning for a preload that is linked already.
//!
//! The environment does not reach every program that a preload is for (`enable`, a container image), so its tuning is in
//! the library. A machine that has only prebuilt libraries has no linker to put it there. So in a preload the tuning is
//! in the note, which can be found without a symbol, and each part has a fixed size.

use super::{Marker, WORDS, WORDS_OFFSET, find, text};
use crate::Architecture;
use crate::baked::{Baked, add_pointer, defined_symbol};
use object::write::{Object, SectionId};

// Only processors with 64-bit addresses have preloads.
const WORD_BYTES: usize = 8;
/// The size of each part: the marker's text, the bytes, the string.
const PART_BYTES: usize = 1024;
const PARTS: usize = 3;
/// The size of the note's description in a preload. Files that are kept somewhere change their names with it.
pub const PRELOAD_DESCRIPTION_BYTES: usize = WORDS * WORD_BYTES + PARTS * PART_BYTES;
const BYTES_PART: usize = 1;
const STRING_PART: usize = 2;

/// Why a library has the tuning that it has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetuneError {
    /// The tuning does not fit into the room that there is.
    #[error("its tuning is too long: {bytes} bytes, and there is room for {}", PART_BYTES - 1)]
    TooLong {
        /// The length of the part that is too long.
        bytes: usize,
    },
    /// The library is not one of reheap's preloads.
    #[error("it has no marker of a preload")]
    NotAPreload,
}

/// What is behind the words of the note.
pub(super) fn parts(marker: &Marker, tuning: &[Baked]) -> Result<Vec<u8>, RetuneError> {
    let (mut bytes_part, mut string_part): (&[u8], &[u8]) = (&[], &[]);
    for baked in tuning {
        match baked {
            Baked::Bytes { bytes, .. } => bytes_part = bytes,
            Baked::StringPointer { text, .. } => string_part = text.as_bytes(),
        }
    }
    let mut parts = vec![0; PARTS * PART_BYTES];
    let text = text(marker);
    let given = [text.as_slice(), bytes_part, string_part];
    for (part, place) in given.into_iter().zip(parts.chunks_exact_mut(PART_BYTES)) {
        // A part ends with a zero, because C and `parse_description` read it as a string.
        if part.len() >= PART_BYTES {
            return Err(RetuneError::TooLong { bytes: part.len() });
        }
        place[..part.len()].copy_from_slice(part);
    }
    Ok(parts)
}

/// The symbols by which the allocator and its glue find their parts.
pub(super) fn add_symbols(
    object: &mut Object<'static>,
    note: SectionId,
    tuning: &[Baked],
    architecture: Architecture,
) {
    let place = |part: usize| (WORDS_OFFSET + WORDS * WORD_BYTES + part * PART_BYTES) as u64;
    for baked in tuning {
        match baked {
            Baked::Bytes { symbol, .. } => {
                let symbol = defined_symbol(symbol, note, place(BYTES_PART), PART_BYTES as u64);
                object.add_symbol(symbol);
            }
            Baked::StringPointer { symbol, .. } => {
                add_pointer(object, symbol, (note, place(STRING_PART)), architecture);
            }
        }
    }
}

/// The bytes of a preload with another marker and another tuning.
///
/// # Errors
/// When the library has no room for them.
pub fn retune(library: &[u8], marker: &Marker, tuning: &[Baked]) -> Result<Vec<u8>, RetuneError> {
    let parts = parts(marker, tuning)?;
    let note = find(library).ok().flatten();
    let description = note.map(|note| note.description);
    let description = description
        .filter(|description| description.len() == PRELOAD_DESCRIPTION_BYTES)
        .ok_or(RetuneError::NotAPreload)?;
    let mut retuned = library.to_vec();
    retuned[description][WORDS * WORD_BYTES..].copy_from_slice(&parts);
    Ok(retuned)
}
