//! Divides a plan into epochs, which bound how far threads drift apart.

use super::{Live, NO_EPOCH, ReplayError};

/// The epochs so far.
#[derive(Debug)]
pub(super) struct Epochs {
    /// The number of the epoch that is being planned.
    number: u32,
    /// How many calls this epoch has, and how many bytes they allocated.
    calls: u64,
    bytes: u64,
    /// An epoch ends after so many bytes.
    bytes_max: u64,
    /// By epoch, what was live at its end.
    live: Vec<Live>,
    /// By epoch, how many threads take part.
    participants: Vec<u32>,
}

impl Epochs {
    /// For a process with so much live memory at its peak.
    pub(super) fn new(peak: Live) -> Self {
        Self {
            number: 0,
            calls: 0,
            bytes: 0,
            bytes_max: (256 << 10).max(peak.bytes / 32),
            live: Vec::new(),
            participants: vec![0],
        }
    }

    /// The number of the epoch that is being planned.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Another thread takes part.
    pub(super) fn join(&mut self) {
        self.participants[self.number as usize] += 1;
    }

    /// Counts a call that allocated so much.
    pub(super) fn count(&mut self, bytes: u64) {
        self.calls += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// An epoch ends after some calls or some bytes: by then threads that run side by side have made calls together, and
    /// what is live is close to what was.
    pub(super) fn is_over(&self) -> bool {
        let threads = u64::from(self.participants[self.number as usize]);
        let has_calls = self.calls >= 8192.max(1024 * threads);
        let has_bytes = self.bytes >= self.bytes_max && self.calls >= 64 * threads;
        has_calls || has_bytes
    }

    /// Begins the next epoch, with so much live.
    pub(super) fn begin_next(&mut self, live: Live) -> Result<(), ReplayError> {
        let next = self.number + 1; // it never was `NO_EPOCH`, the largest number
        if next == NO_EPOCH {
            return Err(ReplayError::TooLarge);
        }
        self.number = next;
        (self.calls, self.bytes) = (0, 0);
        self.live.push(live);
        self.participants.push(0);
        Ok(())
    }

    /// What was live at the end of each epoch, and how many threads took part in it.
    pub(super) fn finish(mut self, live: Live) -> (Vec<Live>, Vec<u32>) {
        // Nobody is in an epoch that began with the last call.
        self.participants.retain(|threads| *threads > 0);
        if self.live.len() < self.participants.len() {
            self.live.push(live);
        }
        (self.live, self.participants)
    }
}
