//! Which processes are being watched, and which have ended.

use super::identity::Identity;
use super::watched::{Blocks, End, Watched};
use crate::profile::Process;
use crate::recording::{Place, Recording};
use crate::samples::ProcessId;
use reheap_proc::by_number::Usage;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The processes of a command.
#[derive(Debug, Default)]
pub(super) struct Processes {
    pub(super) watched: BTreeMap<Place, Watched>,
    /// Processes that ended, with the numbers that they had here.
    pub(super) ended: Vec<(ProcessId, Process)>,
    /// How many processes have numbers that nobody knows.
    pub(super) hidden: u32,
    /// Which blocks are known, also of those that others forked.
    pub(super) blocks: Blocks,
    next: ProcessId,
    /// What processes had used before they were watched: one that was attached to, and those that execute another program.
    before: HashMap<u32, Usage>,
}

impl Processes {
    /// Processes that are not watched yet, in the order in which they began.
    pub(super) fn new_in(&self, recording: &Recording) -> Vec<Place> {
        let taken = recording.taken();
        let new = taken.filter(|place| !self.watched.contains_key(place));
        recording.in_order(new.collect())
    }

    /// Where the process of this number is watched.
    pub(super) fn place_of(&self, pid: u32) -> Option<Place> {
        let mut watched = self.watched.iter();
        let found = watched.find(|(_, process)| process.identity.in_proc == Some(pid));
        found.map(|(place, _)| *place)
    }

    /// What a process uses counts from here on.
    pub(super) fn counts_from(&mut self, pid: u32, usage: Option<Usage>) {
        self.before.extend(usage.map(|usage| (pid, usage)));
    }

    /// Begins to watch a process.
    pub(super) fn watch(&mut self, place: Place, identity: Identity) {
        let before = match identity.in_proc {
            Some(pid) => self.before.remove(&pid).unwrap_or_default(),
            None => {
                self.hidden += 1;
                Usage::default()
            }
        };
        let watched = Watched::new(self.next, identity, before, self.blocks);
        self.next += 1;
        self.watched.insert(place, watched);
    }

    /// The processes that have ended, or execute another program.
    pub(super) fn ends(&self) -> Vec<(Place, End)> {
        let watched = self.watched.iter();
        let ends = watched.filter_map(|(place, process)| Some((*place, process.end()?)));
        ends.collect()
    }

    /// What each watched process executes.
    pub(super) fn programs(&self) -> BTreeMap<u32, PathBuf> {
        let identities = self.watched.values().map(|process| &process.identity);
        identities
            .filter_map(|identity| Some((identity.in_proc?, identity.file.clone())))
            .collect()
    }
}
