//! Where the threads of a watched process are, as looks at them show: which part of its time is the allocator's.

use crate::profile::{Measured, TimeShares};
use crate::recording::{Place, Recording, Whereabouts};
use reheap_proc::by_number::{self, Usage};
use reheap_proc::stat::Stat;
use std::collections::BTreeMap;
use std::time::Duration;

/// All threads are looked at once in so many looks, and those inside the allocator each time.
const LOOKS_PER_CENSUS: u64 = 10;
/// More threads than this are not looked at each by itself.
const THREADS_MAX: u64 = 256;

/// What looks at the threads of a process have shown.
#[derive(Debug)]
pub(super) struct ThreadLooks {
    looks: u64,
    /// When the last look was.
    looked: Duration,
    censuses: u64,
    running: u64,
    inside: u64,
    in_hooks: u64,
    /// How long threads waited in the allocator.
    waited: Duration,
}

impl ThreadLooks {
    /// No look yet, at a process that began then.
    pub(super) fn new(began: Duration) -> Self {
        Self {
            looks: 0,
            looked: began,
            censuses: 0,
            running: 0,
            inside: 0,
            in_hooks: 0,
            waited: Duration::ZERO,
        }
    }

    /// Where the threads are: in the allocator, in the hooks or not, running or waiting.
    pub(super) fn look(
        &mut self,
        pid: Option<u32>,
        recording: &Recording,
        place: Place,
        now: Duration,
    ) {
        // On a busy machine a look may come late.
        let since = now.saturating_sub(self.looked);
        self.looked = now;
        let Some(pid) = pid else { return };
        self.looks += 1;
        let busy: Vec<(u32, Whereabouts)> = recording
            .slots(place)
            .take(THREADS_MAX as usize)
            .map(|slot| (slot.tid(), slot.whereabouts()))
            .filter(|(_, whereabouts)| *whereabouts != Whereabouts::Program)
            .collect();
        for (tid, whereabouts) in busy {
            let is_inside = whereabouts == Whereabouts::Allocator;
            match Stat::of_thread(pid, tid).map(|stat| stat.state) {
                // Nobody knows its number: the slot has that of a thread before it, or one in another namespace.
                Some(b'R') | None if is_inside => self.inside += 1,
                Some(b'R') | None => self.in_hooks += 1,
                Some(b'S' | b'D') if is_inside => self.waited += since,
                _ => {}
            }
        }
        if self.looks % LOOKS_PER_CENSUS == 1 {
            self.censuses += 1;
            self.running += by_number::running_threads(pid);
        }
    }

    /// Divides what the process has used: into the allocator's time and the rest.
    pub(super) fn time(&self, usage: Usage) -> TimeShares {
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        // Each census stands for the looks until the next.
        let all = self.running * self.looks / self.censuses.max(1);
        let in_allocator = self.inside.min(all);
        let in_hooks = self.in_hooks.min(all - in_allocator);
        TimeShares {
            user_seconds: usage.user_ticks as f64 / per_second,
            system_seconds: usage.system_ticks as f64 / per_second,
            measured: Measured::Looks,
            samples: all - in_hooks,
            in_hooks: Some(in_hooks),
            in_allocator,
            in_kernel: None,
            in_kernel_for_allocator: None,
            in_memory_functions: None,
            memory_functions: BTreeMap::new(),
            in_page_faults: None,
            waited_seconds: self.waited.as_secs_f64(),
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
        }
    }
}
