//! What the tests share: the functions, and memory whose ends are guarded.
#![allow(
    dead_code,
    reason = "each test file is a crate of its own and uses its part of this module"
)]

pub(crate) mod assembled;
pub(crate) mod guarded;

/// Bytes that do not repeat within any distance that a copy may go wrong by.
pub(crate) fn numbered(length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

/// How far the offsets of a test are apart that goes through all pairs of them: in an emulator not each has its turn.
pub(crate) const STRIDE: usize = if cfg!(target_arch = "x86_64") { 1 } else { 7 };
