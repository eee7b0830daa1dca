//! How large the stack of a program's threads is: the size in the header `PT_GNU_STACK`, which musl reads when it starts.

use crate::error::ElfError;
use crate::source::{Source, View};
use crate::tables::Tables;
use object::elf;

/// Where a program states the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackSize {
    /// The size; 0 leaves it to the libc.
    pub bytes: u64,
    /// Where the number is in the file.
    pub offset: u64,
    word_bytes: usize,
    is_little_endian: bool,
}

/// The size that a linked file states; `None` if it has no such header.
///
/// # Errors
/// When the bytes are not ELF, are damaged, or cannot be read.
pub fn size<S: Source + ?Sized>(source: &S) -> Result<Option<StackSize>, ElfError> {
    let tables = Tables::of(View::of(&source))?;
    let mut segments = tables.segments();
    let mut index = 0;
    while let Some(segment) = segments.next()? {
        if segment.kind == elf::PT_GNU_STACK {
            return Ok(Some(StackSize {
                bytes: segment.memory_bytes,
                offset: tables.place_of_memory_bytes(index),
                word_bytes: tables.format.word_bytes(),
                is_little_endian: tables.format.is_little_endian,
            }));
        }
        index += 1;
    }
    Ok(None)
}

impl StackSize {
    /// A size as the file states it.
    pub fn encoded(&self, bytes: u64) -> Vec<u8> {
        if self.is_little_endian {
            bytes.to_le_bytes()[..self.word_bytes].to_vec()
        } else {
            bytes.to_be_bytes()[8 - self.word_bytes..].to_vec()
        }
    }
}
