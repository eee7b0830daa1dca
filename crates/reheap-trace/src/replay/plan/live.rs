//! Blocks of the program while they are live.

use super::Live;
use crate::{AddressHasher, Block};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Each block that is live, with its size and with what else is known of it.
#[derive(Debug)]
pub(super) struct LiveBlocks<T> {
    blocks: HashMap<Block, (u64, T), BuildHasherDefault<AddressHasher>>,
    now: Live,
}

impl<T> Default for LiveBlocks<T> {
    fn default() -> Self {
        Self {
            blocks: HashMap::default(),
            now: Live::default(),
        }
    }
}

impl<T> LiveBlocks<T> {
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// How much is live.
    pub(super) fn now(&self) -> Live {
        self.now
    }

    /// A block begins to live. In a trace that lost calls, another may still be there.
    pub(super) fn insert(&mut self, block: Block, size: u64, known: T) {
        if let Some((lost, _)) = self.blocks.insert(block, (size, known)) {
            self.now.remove(lost);
        }
        self.now.add(size);
    }

    /// A block ends. Its size and what was known of it, if it was live.
    pub(super) fn remove(&mut self, block: &Block) -> Option<(u64, T)> {
        let (size, known) = self.blocks.remove(block)?;
        self.now.remove(size);
        Some((size, known))
    }

    /// Forgets all blocks, to give back memory, and says how many there were.
    pub(super) fn forget(&mut self) -> usize {
        std::mem::take(&mut self.blocks).len()
    }
}
