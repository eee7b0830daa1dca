//! The slots of the replayer's table: which are empty, and who may use them.

use super::{ReplayError, WINDOW};
use std::collections::VecDeque;

/// A thread keeps so many empty slots for itself.
const OWN_SLOTS_MAX: usize = 1024;

/// A slot with a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) number: u32,
    /// Another thread takes the block.
    pub(super) is_shared: bool,
}

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    count: u32,
    /// Empty slots that any thread may use.
    free: Vec<u32>,
    /// Epochs, and slots that were emptied in them. Threads may still look into these slots.
    emptied: VecDeque<(u32, u32)>,
    /// By thread, the slots that it emptied, the latest last.
    own: Vec<VecDeque<u32>>,
}

impl Slots {
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Adds a thread, which has no slots yet.
    pub(super) fn add_thread(&mut self) {
        self.own.push(VecDeque::new());
    }

    /// A slot for a block that the thread makes.
    pub(super) fn fill(&mut self, thread: u32, is_shared: bool) -> Result<Slot, ReplayError> {
        let kept = if is_shared {
            None
        } else {
            self.own[thread as usize].pop_back()
        };
        let number = match kept {
            Some(number) => number,
            None => self.another()?,
        };
        Ok(Slot { number, is_shared })
    }

    /// A slot that nobody looks into.
    fn another(&mut self) -> Result<u32, ReplayError> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        let slot = self.count;
        self.count = slot.checked_add(1).ok_or(ReplayError::TooLarge)?;
        Ok(slot)
    }

    /// A thread took the block of a slot.
    pub(super) fn empty(&mut self, thread: u32, slot: Slot, epoch: u32) {
        if slot.is_shared {
            self.emptied.push_back((epoch, slot.number));
            return;
        }
        let own = &mut self.own[thread as usize];
        own.push_back(slot.number);
        if own.len() > OWN_SLOTS_MAX {
            let oldest = own.drain(..OWN_SLOTS_MAX / 2);
            self.emptied.extend(oldest.map(|slot| (epoch, slot)));
        }
    }

    /// A thread has ended, and needs no slots any more.
    pub(super) fn end_thread(&mut self, thread: u32, epoch: u32) {
        let own = std::mem::take(&mut self.own[thread as usize]);
        self.emptied.extend(own.iter().map(|slot| (epoch, *slot)));
    }

    /// An epoch begins. Whoever is in it knows that epochs further back than the window are over.
    pub(super) fn release(&mut self, now: u32) {
        let over = |epoch: u32| epoch + WINDOW < now;
        while let Some((_, slot)) = self.emptied.pop_front_if(|(epoch, _)| over(*epoch)) {
            self.free.push(slot);
        }
    }
}
