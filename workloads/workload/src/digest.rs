//! A number that stands for what a workload computed.
//!
//! Hash functions that anybody should rely on take a noticeable part of the time that is measured. This one only has to
//! differ when an allocator broke something, so it mixes eight bytes with one multiplication.

use std::fmt;
use std::iter::Sum;

/// An odd number without pattern: the golden ratio as a fraction of 2^64.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The digest of bytes, the same on every machine. It is printed with 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut digest = Digest(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            digest.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        digest.add(u64::from_le_bytes(last));
        digest
    }

    /// The digest of what was added before, and then this number.
    pub fn add(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(FACTOR).rotate_left(29);
    }
}

/// A sum does not depend on the order, so it is the same however threads share the work.
impl Sum for Digest {
    fn sum<I: Iterator<Item = Digest>>(digests: I) -> Digest {
        Digest(digests.fold(0, |sum, digest| sum.wrapping_add(digest.0)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_the_length_count() {
        let text = *b"nineteen bytes long";
        for index in 0..text.len() {
            let mut other = text;
            other[index] ^= 1;
            assert_ne!(Digest::of(&text), Digest::of(&other), "byte {index}");
        }
        assert_ne!(Digest::of(b""), Digest::of(b"\0"));
        assert_ne!(Digest::of(b"12345678"), Digest::of(b"12345678\0"));
    }

    #[test]
    fn a_sum_does_not_depend_on_the_order() {
        let digests = [b"one", b"two", b"six"].map(|text| Digest::of(text));
        let backwards = digests.into_iter().rev().sum::<Digest>();
        assert_eq!(digests.into_iter().sum::<Digest>(), backwards);
    }
}
