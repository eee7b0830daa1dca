//! A process that is being watched: what looks at it have shown, and what it wrote down itself.

use super::identity::Identity;
use super::injected::Injected;
use super::memory::LiveMemory;
use super::resident::ResidentLooks;
use super::threads::ThreadLooks;
use crate::profile::{Access, Live, Lost, Process, ResidentParts, Sites};
use crate::recording::{How, Place, Recording};
use crate::samples::ProcessId;
use reheap_proc::by_number::{self, Usage};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A process that is being watched.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) number: ProcessId,
    pub(super) identity: Identity,
    memory: LiveMemory,
    resident: ResidentLooks,
    blocks: Blocks,
    threads: ThreadLooks,
    /// The names of threads, by number.
    names: BTreeMap<u32, String>,
    /// What the process has used since it began.
    pub(super) usage: Option<Usage>,
    /// What the process had used before it was watched.
    before: Usage,
    /// Sampled stacks that found no room with the sampler.
    pub(super) lost_stacks: u64,
}

/// Which of a process's live blocks the hooks know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Blocks {
    #[default]
    All,
    /// Not those from before a process was attached to.
    Newer,
}

/// What has ended, of a process that was watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    OfProcess,
    /// The process of this number executes another program.
    OfProgram(u32),
}

impl Watched {
    /// A process that had used so much before.
    pub(super) fn new(
        number: ProcessId,
        identity: Identity,
        before: Usage,
        blocks: Blocks,
    ) -> Self {
        Self {
            number,
            memory: LiveMemory::new(),
            resident: ResidentLooks::default(),
            blocks,
            threads: ThreadLooks::new(Duration::from_secs_f64(identity.began)),
            identity,
            names: BTreeMap::new(),
            usage: None,
            before,
            lost_stacks: 0,
        }
    }

    /// Whether the kernel still has the process. Nothing tells of one without a number.
    pub(super) fn is_there(&self) -> bool {
        self.identity.in_proc.is_some_and(by_number::is_there)
    }

    /// What has ended of the process, if anything, and if that can be told.
    pub(super) fn end(&self) -> Option<End> {
        let pid = self.identity.in_proc?;
        if !by_number::is_there(pid) {
            return Some(End::OfProcess);
        }
        let is_another = self.identity.executes_another_program(pid);
        is_another.then_some(End::OfProgram(pid))
    }

    pub(super) fn look(&mut self, recording: &Arc<Recording>, place: Place, now: Duration) {
        self.threads
            .look(self.identity.in_proc, recording, place, now);
        if self.memory.is_due(now) {
            self.add_point(recording, place, now);
        } else {
            self.memory.raise(recording, place, now);
        }
        if let Some(pid) = self.identity.in_proc {
            self.resident.look(pid, recording, place, now);
        }
    }

    /// Looks where its resident memory is, before nobody looks any more.
    pub(super) fn look_last(&mut self, recording: &Arc<Recording>, place: Place, now: Duration) {
        if let Some(pid) = self.identity.in_proc.filter(|_| self.is_there()) {
            self.resident.look_now(pid, recording, place, now);
        }
    }

    /// Looks at all that changes slowly.
    pub(super) fn add_point(&mut self, recording: &Recording, place: Place, now: Duration) {
        if let Some(pid) = self.identity.in_proc {
            self.usage = by_number::usage(pid).or(self.usage);
            if self.memory.points().is_multiple_of(16) {
                by_number::thread_names(pid, &mut self.names);
            }
        }
        self.memory
            .add_point(self.identity.in_proc, recording, place, now);
    }

    /// All that is known of the process.
    pub(super) fn finish(
        self,
        recording: &Recording,
        place: Place,
        ended: Option<f64>,
        injected: &Injected,
    ) -> Process {
        let now = recording.live(place);
        let mut threads = recording.threads(place);
        for thread in &mut threads {
            thread.name = self.names.get(&thread.tid).cloned();
        }
        let (access, not_counted) = match recording.how(place) {
            How::Injected => (injected.access, injected.not_counted.clone()),
            How::Preloaded | How::Forked => (Access::Preload, Vec::new()),
        };
        let usage = self.usage.map(|usage| usage.since(self.before));
        let lost = recording.lost(place);
        let is_each_block_known = self.blocks == Blocks::All
            && lost.blocks == 0
            && lost.calls == 0
            && not_counted.is_empty();
        let known = |parts: ResidentParts| {
            if is_each_block_known {
                parts
            } else {
                parts.with_unknown_blocks()
            }
        };
        let (most, last) = self.resident.into_parts();
        Process {
            pid: self.identity.pid,
            parent: recording.forked_by(place),
            program: recording.program(place),
            name: self.identity.name,
            access,
            allocator: None,
            malloc_file: recording.malloc_file(place),
            is_bypassed: recording.is_bypassed(place),
            began: self.identity.began,
            ended,
            counts: recording.counts(place),
            peak: self.memory.peak(&now),
            live_at_end: Live {
                blocks: now.live.blocks.saturating_sub(now.inherited.blocks),
                bytes: now.live.bytes.saturating_sub(now.inherited.bytes),
            },
            time: usage.map(|usage| self.threads.time(usage)),
            curve: self.memory.into_points(),
            resident_most: most.map(known),
            resident_last: last.map(known),
            threads,
            sites: Sites::default(),
            lost: Lost {
                stacks: lost.stacks + self.lost_stacks,
                ..lost
            },
            not_counted,
        }
    }
}
