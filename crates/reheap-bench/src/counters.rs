//! Hardware counters of one run.
//!
//! They are opened on this thread, switched off, to be inherited and to be switched on by `execve`. So they count from
//! the launcher's first instruction on, in all that it starts, and nothing of this process; the launcher's own hundred
//! instructions are part of the figure. Opening them on the command instead would take a handshake with a process that
//! has not begun yet.
//!
//! Only user space is counted, which `perf_event_paranoid` 2, the usual setting, allows everybody.

use crate::results::Counters;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware};
use perf_event::{Builder, Counter};
use std::io;

/// Counters of what this thread starts from now on.
pub(crate) struct Open {
    instructions: Option<Counter>,
    cycles: Option<Counter>,
    cache_misses: Option<Counter>,
    tlb_misses: Option<Counter>,
}

impl Open {
    pub(crate) fn new() -> Open {
        let tlb_misses = Cache {
            which: CacheId::DTLB,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        };
        Open {
            instructions: open(Hardware::INSTRUCTIONS).ok(),
            cycles: open(Hardware::CPU_CYCLES).ok(),
            cache_misses: open(Hardware::CACHE_MISSES).ok(),
            tlb_misses: open(tlb_misses).ok(),
        }
    }

    /// What was counted; processes that have not ended are part of it.
    pub(crate) fn read(self) -> Counters {
        Counters {
            instructions: self.instructions.and_then(value),
            cycles: self.cycles.and_then(value),
            cache_misses: self.cache_misses.and_then(value),
            tlb_misses: self.tlb_misses.and_then(value),
        }
    }
}

/// Why hardware counters cannot be read here; none if they can.
pub(crate) fn missing_because() -> Option<String> {
    open(Hardware::INSTRUCTIONS).err().map(reason)
}

fn reason(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => {
            "the processor shows none, as in most virtual machines".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "the system forbids it (sysctl kernel.perf_event_paranoid, or a container)".to_owned()
        }
        _ => format!("perf_event_open: {error}"),
    }
}

fn open(event: impl Event) -> io::Result<Counter> {
    Builder::new(event)
        .inherit(true)
        .enable_on_exec(true)
        .build()
}

/// The count; if the kernel had to share the counter out, what it would have been over all the time.
fn value(mut counter: Counter) -> Option<u64> {
    let read = counter.read_count_and_time().ok()?;
    if read.time_running == read.time_enabled {
        return Some(read.count);
    }
    let share = read.time_running as f64 / read.time_enabled as f64;
    (share > 0.0).then(|| (read.count as f64 / share) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;
    use std::hint::black_box;
    use std::process::Command;

    #[test]
    fn what_a_started_command_and_its_children_do_is_counted_and_nothing_else() {
        // Page faults are counted by the kernel on every machine, in the same way. dd touches 64 MiB.
        let counter = match open(Software::PAGE_FAULTS) {
            Ok(counter) => counter,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
                return;
            }
        };
        black_box(vec![1_u8; 256 << 20]);
        let script = "dd if=/dev/zero of=/dev/null bs=64M count=1; true";
        let done = Command::new("/bin/sh").args(["-c", script]).output();
        assert!(done.unwrap().status.success());
        let faults = value(counter).unwrap();
        assert!((100..40_000).contains(&faults), "{faults} faults");
    }

    #[test]
    fn each_error_of_the_kernel_has_its_reason() {
        // ENOENT, EOPNOTSUPP, EACCES, EPERM and EMFILE (errno(3)).
        let expected = [
            (2, "the processor shows none"),
            (95, "the processor shows none"),
            (13, "the system forbids it"),
            (1, "the system forbids it"),
            (24, "perf_event_open: "),
        ];
        for (number, start) in expected {
            let reason = reason(io::Error::from_raw_os_error(number));
            assert!(reason.starts_with(start), "{number}: {reason}");
        }
    }
}
