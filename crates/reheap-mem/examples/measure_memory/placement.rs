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
        // A string ends where the block does; blocks do not care.
        let last = size - 1;
        match function.shape {
            Shape::FindLast => self.from[from] = WANTED,
            Shape::Find => self.from[from + last] = WANTED,
            _ => {}
        }
        if !matches!(function.shape, Shape::Copy | Shape::Move | Shape::Set) {
            self.from[from + size] = 0;
            self.to[to + size] = 0;
        }
        let (source, target) = (
            self.from[from..].as_ptr() as usize,
            self.to[to..].as_mut_ptr() as usize,
        );
        match function.shape {
            Shape::Copy | Shape::CopyString => [target, source, size],
            Shape::Move => [source + 1 + to % 64, source, size],
            Shape::Set => [target, usize::from(FILL), size],
            Shape::Compare => [target, source, size],
            Shape::Find | Shape::FindLast => [source, usize::from(WANTED), size],
            Shape::Length => [source, size, 0],
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
