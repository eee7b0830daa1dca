//! Whether there is room for a replay: memory for what reheap knows of each block and for the blocks, and a disk for the
//! plan. A trace of a kilobyte can say that a million blocks are in use, so nothing of this follows from the file's size.

use super::{Options, ReplayError, Touch};
use rustix::fs::fstatvfs;
use std::fs::{self, File};
use std::path::Path;

/// What reheap needs for a block that is in use, at most: a hash map that grows has two tables for a while.
pub(super) const BYTES_PER_BLOCK: u64 = 128;

/// What there is, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) memory: u64,
    /// For the plan.
    pub(super) disk: u64,
}

impl Room {
    /// What there is now. What the system does not tell is enough.
    pub(super) fn now(plan: &File) -> Self {
        let disk = fstatvfs(plan).ok().filter(|disk| disk.f_blocks > 0);
        let disk = disk.map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        Self {
            memory: available_memory().min(memory_limit()),
            disk: disk.unwrap_or(u64::MAX),
        }
    }

    /// Refuses a trace in which so many blocks are in use. Half of the memory is for others, such as the replayer.
    pub(super) fn check_blocks(self, blocks: u64) -> Result<(), ReplayError> {
        let needed = blocks.saturating_mul(BYTES_PER_BLOCK);
        if needed > self.memory / 2 {
            Err(ReplayError::TooManyBlocks {
                blocks,
                available: self.memory,
            })
        } else {
            Ok(())
        }
    }

    /// Refuses a plan of so many bytes.
    pub(super) fn check_plan(self, needed: u64) -> Result<(), ReplayError> {
        let available = self.disk;
        if needed > available {
            Err(ReplayError::LongPlan { needed, available })
        } else {
            Ok(())
        }
    }

    /// Refuses blocks of so many bytes, if each of their pages is to be written.
    pub(super) fn check_peak(self, needed: u64, options: &Options) -> Result<(), ReplayError> {
        let available = self.memory;
        let all_pages = matches!(options.touch, Touch::Pages | Touch::All);
        if all_pages && needed > available {
            Err(ReplayError::LittleMemory { needed, available })
        } else {
            Ok(())
        }
    }
}

/// What programs can get without harm (proc_meminfo(5)).
fn available_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    let available =
        kibibytes("MemAvailable:").map(|free| free + kibibytes("SwapFree:").unwrap_or(0));
    available.map_or(u64::MAX, |kibibytes| kibibytes.saturating_mul(1024))
}

/// The lowest limit of the cgroups that this process is in, as containers have it. What they use already is not taken off,
/// because most of it may be cached files.
fn memory_limit() -> u64 {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = own.lines().flat_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next().unwrap_or_default();
        let path = fields.next().unwrap_or_default().trim_start_matches('/');
        // Of version 2 or version 1 (cgroups(7)).
        let (root, name) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        };
        let is_of_memory = controllers.is_empty()
            || controllers
                .split(',')
                .any(|controller| controller == "memory");
        let places = Path::new(path).ancestors().filter(move |_| is_of_memory);
        places.filter_map(move |place| {
            let limit = fs::read_to_string(Path::new(root).join(place).join(name)).ok()?;
            limit.trim().parse().ok()
        })
    });
    limits.min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_what_it_has() {
        let room = Room::now(&tempfile::tempfile().unwrap());
        let range = 1 << 20..1 << 50;
        assert!(
            range.contains(&room.memory) && range.contains(&room.disk),
            "{room:?}"
        );
    }
}
