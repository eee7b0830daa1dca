//! The events of a command: one for each CPU, which all threads and children that it makes from then on inherit, and for
//! a process that has run for some time one more for each of its threads.
//!
//! The clock of a task needs no hardware counters, so this works in virtual machines, and for an ordinary user up to
//! `kernel.perf_event_paranoid` 2; from 2 on without samples in the kernel.

use super::record::{self, REGISTERS_ASKED, Record, SAMPLE_TYPE, SAMPLE_TYPE_WITH_KERNEL};
use super::sys::{self, Attributes, Ring};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::{fs, mem};

/// CPU time between two samples of a thread.
pub(crate) const PERIOD_NANOSECONDS: u64 = 1_000_000;
/// How much of a stack is copied. An allocator's frames are at its lower end: jemalloc's take up to 2 KiB.
const STACK_BYTES: u64 = 4096;
/// As much as an ordinary user may lock for each CPU (`kernel.perf_event_mlock_kb`) without one page.
const RING_PAGES_MAX: usize = 128;
/// With less than this, a look that comes late finds a full ring.
const RING_PAGES_MIN: usize = 8;
/// Descriptors of this process that are not events.
const OTHER_DESCRIPTORS: u64 = 64;

/// The events and their rings.
#[derive(Debug)]
pub(super) struct Events {
    rings: Vec<Ring>,
    /// Those that write into the ring of another.
    _others: Vec<OwnedFd>,
    /// Whether time in the kernel is sampled too.
    pub(super) kernel: bool,
}

impl Events {
    /// Of a process that has these threads.
    ///
    /// # Errors
    /// When the system does not allow it: `kernel.perf_event_paranoid`, seccomp, or no memory for the rings.
    pub(super) fn open(tids: &[u32]) -> io::Result<Self> {
        let cpus = cpus()?;
        make_room(tids.len() as u64 * cpus.len() as u64);
        match Self::with(tids, &cpus, true) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                Self::with(tids, &cpus, false)
            }
            opened => opened,
        }
    }

    fn with(tids: &[u32], cpus: &[u32], kernel: bool) -> io::Result<Self> {
        let attributes = attributes(kernel);
        let (mut rings, mut others) = (Vec::new(), Vec::new());
        let mut pages = RING_PAGES_MAX;
        for cpu in cpus {
            let mut of_cpu: Option<Ring> = None;
            for tid in tids {
                let event = match sys::open(&attributes, *tid, *cpu) {
                    Ok(event) => event,
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(error),
                };
                match &of_cpu {
                    Some(ring) => {
                        ring.share(&event)?;
                        others.push(event);
                    }
                    None => of_cpu = Some(ring(&event, &mut pages)?),
                }
            }
            rings.extend(of_cpu);
        }
        Ok(Self {
            rings,
            _others: others,
            kernel,
        })
    }

    /// What has happened since the last call, in order of time.
    pub(super) fn take(&mut self) -> Vec<Record> {
        let sample_type = sample_type(self.kernel);
        let mut records: Vec<(u64, Record)> = self
            .rings
            .iter_mut()
            .flat_map(|ring| record::parse(&ring.take(), sample_type))
            .collect();
        records.sort_by_key(|(time, _)| *time);
        records.into_iter().map(|(_, record)| record).collect()
    }
}

fn sample_type(kernel: bool) -> u64 {
    if kernel {
        SAMPLE_TYPE_WITH_KERNEL
    } else {
        SAMPLE_TYPE
    }
}

fn attributes(kernel: bool) -> Attributes {
    const SOFTWARE: u64 = 1;
    const TASK_CLOCK: u64 = 1;
    const INHERIT: u64 = 1 << 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const MMAP: u64 = 1 << 8;
    const COMM: u64 = 1 << 9;
    const TASK: u64 = 1 << 13;
    const SAMPLE_ID_ALL: u64 = 1 << 18;
    const EXCLUDE_CALL_CHAIN_USER: u64 = 1 << 22;
    const MMAP2: u64 = 1 << 23;
    const COMM_EXEC: u64 = 1 << 24;
    let mut flags = INHERIT | EXCLUDE_HYPERVISOR | MMAP | MMAP2 | COMM | COMM_EXEC | TASK;
    flags |= SAMPLE_ID_ALL | EXCLUDE_CALL_CHAIN_USER;
    if !kernel {
        flags |= EXCLUDE_KERNEL;
    }
    let mut attributes: Attributes = [0; 14];
    attributes[0] = SOFTWARE | (mem::size_of::<Attributes>() as u64) << 32;
    attributes[1] = TASK_CLOCK;
    attributes[2] = PERIOD_NANOSECONDS;
    attributes[3] = sample_type(kernel);
    attributes[5] = flags;
    attributes[10] = REGISTERS_ASKED;
    attributes[11] = STACK_BYTES;
    attributes
}

/// A ring of at most that many pages, and of fewer where the user may not lock so many.
fn ring(event: &OwnedFd, pages: &mut usize) -> io::Result<Ring> {
    loop {
        match Ring::map(event, *pages) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                if *pages == RING_PAGES_MIN {
                    return Err(error);
                }
                *pages /= 2;
            }
            mapped => return mapped,
        }
    }
}

/// A thread that has ended, or a CPU that is switched off.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}

/// The numbers of the CPUs that run.
fn cpus() -> io::Result<Vec<u32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    });
    Ok(ranges.flatten().collect())
}

/// Each event takes a descriptor.
fn make_room(events: u64) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = events + OTHER_DESCRIPTORS;
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: limit
                .maximum
                .map_or(Some(wanted), |maximum| Some(maximum.min(wanted))),
            maximum: limit.maximum,
        };
        // If it cannot be raised, opening fails, and that is told.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}
