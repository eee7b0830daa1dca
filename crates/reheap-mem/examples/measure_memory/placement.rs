//! Where the blocks lie that the functions are called with.

use crate::functions::{Call, Function, Shape};
use std::fmt;

/// Which calls make up a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// One size, several offsets.
    Spread,
    /// Sizes up to this one in an order that branch predictors cannot learn by heart.
    Mixed,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spread => "spread",
            Self::Mixed => "mixed",
        })
    }
}

/// The memory for all calls.
pub(crate) struct Room {
    from: Vec<u8>,
    to: Vec<u8>,
}

const LENGTH: usize = 68 << 20;
const FILL: u8 = b'x';
const WANTED: u8 = b'w';
const NEEDLE: &[u8; 8] = b"wanted; ";
const SET_WITHOUT: &[u8; 3] = b"; \0";
const SET_WITH: &[u8; 11] = b"0123456xyz\0";
/// A wide character that memset cannot write.
const WIDE: usize = 0x1_f600;

impl Room {
    pub(crate) fn new() -> Self {
        Self {
            from: vec![FILL; LENGTH],
            to: vec![FILL; LENGTH],
        }
    }

    /// Writes what the calls will read, and makes their arguments.
    pub(crate) fn prepare(
        &mut self,
        function: &Function,
        size: usize,
        placement: Placement,
    ) -> Vec<Call> {
        // What calls of before have left. The rest is still as it was made.
        let used = (size + (4 << 20)).min(LENGTH);
        self.from[..used].fill(FILL);
        self.to[..used].fill(FILL);
        let count = match placement {
            Placement::Mixed => 2048,
            Placement::Spread => (16384 / (size + 192)).clamp(1, 16),
        };
        let mut random = Random(0x1234_5678_9abc_def1);
        let mut position = 64;
        let mut calls = Vec::new();
        for _ in 0..count {
            let size = match placement {
                Placement::Spread => size,
                Placement::Mixed => 1 + random.below(size),
            };
            let (from, to) = (position + random.below(64), position + random.below(64));
            calls.push(self.call(function, from, to, size));
            position = (position + size + 192).next_multiple_of(64);
        }
        calls
    }

    fn call(&mut self, function: &Function, from: usize, to: usize, size: usize) -> Call {
        let shape = function.shape;
        let is_wide = matches!(
            shape,
            Shape::WideLength | Shape::WideCompare | Shape::WideSet
        );
        let unit = if is_wide { 4 } else { 1 };
        let (from, to, size) = (from / unit * unit, to / unit * unit, size / unit * unit);
        // A string ends where the block does; blocks do not care.
        let last = size.saturating_sub(1);
        let needle = size.min(NEEDLE.len());
        match shape {
            Shape::FindLast => self.from[from] = WANTED,
            Shape::Find | Shape::CopyUpTo => self.from[from + last] = WANTED,
            Shape::Substring | Shape::Subblock => {
                self.from[from + size - needle..][..needle].copy_from_slice(&NEEDLE[..needle]);
                self.to[to..][..needle].copy_from_slice(&NEEDLE[..needle]);
                self.to[to + needle] = 0;
            }
            Shape::SpanWithout => self.to[to..][..SET_WITHOUT.len()].copy_from_slice(SET_WITHOUT),
            Shape::SpanWith => self.to[to..][..SET_WITH.len()].copy_from_slice(SET_WITH),
            _ => {}
        }
        if !matches!(shape, Shape::Copy | Shape::Move | Shape::Set) {
            self.from[from + size..][..unit].fill(0);
        }
        if shape == Shape::Compare {
            self.to[to + size] = 0;
        }
        let (source, target) = (
            self.from[from..].as_ptr() as usize,
            self.to[to..].as_mut_ptr() as usize,
        );
        match shape {
            Shape::Copy | Shape::CopyString => [target, source, size, 0],
            Shape::Move => [source + 1 + to % 64, source, size, 0],
            Shape::Set => [target, usize::from(FILL), size, 0],
            Shape::Compare => [target, source, size, 0],
            Shape::Find | Shape::FindLast => [source, usize::from(WANTED), size, 0],
            Shape::Length => [source, size, 0, 0],
            Shape::Substring | Shape::SpanWithout | Shape::SpanWith => [source, target, 0, 0],
            Shape::Subblock => [source, size, target, needle],
            Shape::CopyUpTo => [target, source, usize::from(WANTED), size],
            Shape::WideLength => [source, 0, 0, 0],
            Shape::WideCompare => [target, source, size / 4, 0],
            Shape::WideSet => [target, WIDE, size / 4, 0],
        }
    }
}

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
