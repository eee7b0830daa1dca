//! Memory limits that hold; or, where none can be set, the reason.

use reheap_bench::memory_limit::{MemoryLimit, NoMemoryLimit};
use reheap_bench::results::Outcome;
use reheap_bench::run::{CommandLine, Finished, Launcher, Limits};
use std::fs;

const MIB: u64 = 1024 * 1024;

/// dd with a buffer of this size, which it fills.
fn touch(mebibytes: u64, memory: Option<&MemoryLimit>) -> Finished {
    let block = format!("bs={mebibytes}M");
    let arguments = ["if=/dev/zero", "of=/dev/null", "count=1", &block];
    let command = CommandLine {
        program: "/bin/dd".into(),
        arguments: arguments.iter().map(Into::into).collect(),
        ..CommandLine::default()
    };
    let limits = Limits {
        memory,
        ..Limits::default()
    };
    Launcher::new()
        .unwrap()
        .run(&command, &limits, &[])
        .unwrap()
}

/// A limit, or nothing on a system where none can be made by hand either; what it says then has to be of use.
fn limit(bytes: u64) -> Option<MemoryLimit> {
    let refusal = match MemoryLimit::prepare(bytes) {
        Ok(limit) => return Some(limit),
        Err(refusal) => refusal,
    };
    let reason = refusal.to_string();
    assert!(reason.starts_with("cannot limit memory: "), "{reason}");
    assert!(reason.contains("/sys/fs/cgroup"), "{reason}");
    let by_hand = match &refusal {
        NoMemoryLimit::NoController => {
            let mut hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten();
            hierarchies.any(|hierarchy| {
                hierarchy
                    .unwrap()
                    .path()
                    .join("memory.limit_in_bytes")
                    .exists()
            })
        }
        NoMemoryLimit::Refused { directory, .. } => {
            let control = directory.join("cgroup.subtree_control");
            let made = if control.exists() {
                fs::write(control, "+memory")
            } else {
                fs::create_dir(directory.join("by-hand"))
            };
            made.is_ok()
        }
    };
    assert!(!by_hand, "{reason}");
    None
}

#[test]
fn a_command_that_needs_more_is_out_of_memory_and_the_next_one_runs() {
    let limit = limit(64 * MIB);
    let too_large = touch(256, limit.as_ref());
    let small = touch(16, limit.as_ref());
    assert_eq!(small.outcome, Outcome::Exited(0));
    match limit {
        Some(_) => {
            assert_eq!(too_large.outcome, Outcome::OutOfMemory);
            // Pages of files that others use too are not charged to it.
            let peak = too_large.cost.peak_rss_bytes;
            assert!(peak < 96 * MIB, "{peak} bytes");
        }
        None => assert_eq!(too_large.outcome, Outcome::Exited(0)),
    }
}
