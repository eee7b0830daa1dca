//! Patterns that are not in the program that searches for them.
//!
//! reheap inspects itself, and programs that contain this crate. Neither may look like a program with every allocator in
//! it. It is not enough to store a pattern in pieces and to join them when the search begins: an optimiser may do that
//! while it compiles, and then the executable has the pattern after all.
//!
//! So no code of this crate ever makes a plain pattern. rustc masks each one when it evaluates constants. That comes
//! before any optimisation, and only the result goes into the executable. The search masks what it searches in: the
//! bytes of a file, which no compiler knows.

/// What each byte is combined with. Any number but 0 would do.
const MASK: u8 = 0xa5;

/// A pattern, masked while rustc compiles: `masked!(b"text")`.
macro_rules! masked {
    ($plain:expr) => {{
        const PLAIN: &[u8] = $plain;
        const MASKED: [u8; PLAIN.len()] = $crate::identify::masked::pattern(PLAIN);
        &MASKED as &[u8]
    }};
}
pub(super) use masked;

/// What the macro calls. A call anywhere else could happen when the program runs.
pub(super) const fn pattern<const N: usize>(plain: &[u8]) -> [u8; N] {
    let mut masked = [0; N];
    let mut index = 0;
    while index < N {
        masked[index] = plain[index] ^ MASK;
        index += 1;
    }
    masked
}

/// Bytes of a file, masked as the patterns are. Each is at its old place.
#[derive(Default)]
pub(super) struct Masked(Vec<u8>);

impl Masked {
    #[cfg(test)]
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut masked = Self::default();
        masked.fill(bytes);
        masked
    }

    /// Holds these bytes instead, in the same memory.
    pub(super) fn fill(&mut self, bytes: &[u8]) {
        self.0.clear();
        self.0.extend(bytes.iter().map(|byte| byte ^ MASK));
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
