//! What the tests share: the functions, and memory whose ends are guarded.

pub(crate) mod assembled;
pub(crate) mod guarded;

/// Bytes that do not repeat within any distance that a copy may go wrong by.
pub(crate) fn numbered(length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

/// How far the offsets of a test are apart that goes through all pairs of them. In an emulator not each has its turn,
/// unless somebody has the time: `make test-targets`.
pub(crate) fn stride() -> usize {
    let every =
        cfg!(target_arch = "x86_64") || std::env::var_os("REHEAP_TEST_EVERY_OFFSET").is_some();
    if every { 1 } else { 7 }
}
