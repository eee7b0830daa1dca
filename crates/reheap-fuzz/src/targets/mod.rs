//! The targets, by what they read.

pub(crate) mod elf;
pub(crate) mod image;
pub(crate) mod program;
pub(crate) mod text;
pub(crate) mod trace;

/// Two inputs in one: the first is behind its length, in 32 bits, little-endian.
fn two(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    Some(rest.split_at(length.min(rest.len())))
}
