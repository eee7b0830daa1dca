//! Runs commands with little memory, for real: in a cgroup, as containers do.
//!
//! `setrlimit` cannot do it. RLIMIT_RSS has no effect since Linux 2.4, and RLIMIT_AS limits addresses: allocators
//! reserve many of them and touch few, so they would fail in an order that has nothing to do with memory.
//!
//! A cgroup takes rights: those of root, or a part of the tree that was delegated to the user. There are two kinds
//! (cgroups(7)): one tree for everything, version 2; or a tree for memory alone, version 1, on older systems and some
//! virtual machines. Swap is off in either, or a limit would be a matter of the disk's speed.
//!
//! Rejected: `systemd-run --user --scope`, which would help users whose shell is in a part of the tree that is not
//! theirs. A scope is gone when its last process ends, and with it the count of processes that were out of memory.
//! (Not tried: to start reheap itself in a delegated scope.)

use crate::sys;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// The start of the names of cgroups that are made here; the process and a number follow.
const PREFIX: &str = "reheap-bench-";

/// A cgroup with a memory limit, for any number of runs, one after another. It is removed when this is dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    directory: PathBuf,
    version: Version,
}

/// Why no memory limit can be set.
#[derive(Debug, thiserror::Error)]
pub enum NoMemoryLimit {
    /// There is no cgroup file system with a memory controller.
    #[error("cannot limit memory: no memory controller is mounted below `/sys/fs/cgroup`")]
    NoController,
    /// No cgroup could be made in the places where one would help.
    #[error("cannot limit memory: cannot make a cgroup in `{}`: {reason}", directory.display())]
    Refused {
        /// The place that was tried last.
        directory: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl MemoryLimit {
    /// Makes a cgroup whose processes together have this much memory.
    ///
    /// # Errors
    /// If this system has no cgroups for memory, or this user may make none.
    pub fn prepare(bytes: u64) -> Result<MemoryLimit, NoMemoryLimit> {
        let mut refused = NoMemoryLimit::NoController;
        for (version, parent) in parents() {
            remove_stale(&parent);
            match make(version, &parent, bytes) {
                Ok(limit) => return Ok(limit),
                // Another place has the controller, or none.
                Err(reason) if reason.kind() == io::ErrorKind::Unsupported => {}
                Err(reason) => {
                    refused = NoMemoryLimit::Refused {
                        directory: parent,
                        reason,
                    };
                }
            }
        }
        Err(refused)
    }

    /// How many processes the kernel ended in it for want of memory.
    pub(crate) fn kills(&self) -> u64 {
        let events = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let text = fs::read_to_string(self.directory.join(events)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Lets a process join before it becomes its program.
    pub(crate) fn apply_to(&self, command: &mut Command) -> io::Result<()> {
        // 0 is the process that writes.
        sys::write_before_exec(command, self.processes()?, b"0");
        Ok(())
    }

    fn processes(&self) -> io::Result<File> {
        let path = self.directory.join("cgroup.procs");
        OpenOptions::new().write(true).open(path)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // What could not be removed is removed by the next call that finds its process gone.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Where a cgroup may be made, the best place first: below the cgroup of this process, then below those above it,
/// because a cgroup of version 2 with processes in it cannot have others with limits below it.
fn parents() -> Vec<(Version, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    parents_in(&mounts, &own)
}

fn parents_in(mounts: &str, own: &str) -> Vec<(Version, PathBuf)> {
    let mut parents = Vec::new();
    for mount in mounts.lines() {
        let mut fields = mount.split(' ').skip(1);
        let (Some(root), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let version = match kind {
            "cgroup2" => Version::Two,
            "cgroup" if options.split(',').any(|option| option == "memory") => Version::One,
            _ => continue,
        };
        let root = Path::new(root);
        let inside = own_path(own, version)
            .unwrap_or("/")
            .trim_start_matches('/');
        let places = Path::new(inside).ancestors();
        parents.extend(places.map(|place| (version, root.join(place))));
    }
    parents
}

/// The path in a line `4:memory:/path`, or `0::/path` for version 2.
fn own_path(own: &str, version: Version) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let fits = match version {
            Version::One => controllers.split(',').any(|name| name == "memory"),
            Version::Two => controllers.is_empty(),
        };
        fits.then_some(path)
    })
}

fn make(version: Version, parent: &Path, bytes: u64) -> io::Result<MemoryLimit> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if version == Version::Two {
        enable_memory_below(parent)?;
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let directory = parent.join(format!("{PREFIX}{}-{number}", process::id()));
    fs::create_dir(&directory)?;
    // From here on it is removed if something fails.
    let limit = MemoryLimit { directory, version };
    let set = |file: &str, value: &str| fs::write(limit.directory.join(file), value);
    let bytes = bytes.to_string();
    match version {
        Version::One => {
            set("memory.limit_in_bytes", &bytes)?;
            // The file is missing where the kernel does not count swap; then it may not swap at all.
            set("memory.memsw.limit_in_bytes", &bytes)
                .or_else(|_| set("memory.swappiness", "0"))?;
        }
        Version::Two => {
            set("memory.max", &bytes)?;
            // The file is missing where there is no swap.
            if limit.directory.join("memory.swap.max").exists() {
                set("memory.swap.max", "0")?;
            }
        }
    }
    // To write the file is not enough: moving takes rights also in the cgroup that is above both the old and the new
    // one (cgroups(7), "Cgroups delegation containment"). So a process tries it.
    sys::write_in_child(limit.processes()?, b"0")?;
    Ok(limit)
}

fn enable_memory_below(parent: &Path) -> io::Result<()> {
    let control = parent.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&control)?;
    if enabled.split_whitespace().any(|name| name == "memory") {
        return Ok(());
    }
    let available = fs::read_to_string(parent.join("cgroup.controllers"))?;
    if !available.split_whitespace().any(|name| name == "memory") {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "it has no memory controller",
        ));
    }
    fs::write(control, "+memory")
}

/// Removes cgroups of processes that were killed before they could do it.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if let Some(owner) = owner
            && !Path::new("/proc").join(owner).exists()
        {
            // Refused as long as processes are in it, which is right.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_1: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
    const VERSION_2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";

    fn places(mounts: &str, own: &str) -> Vec<String> {
        let places = parents_in(mounts, own).into_iter();
        let shown =
            places.map(|(version, directory)| format!("{version:?} {}", directory.display()));
        shown.collect()
    }

    #[test]
    fn the_tree_of_version_1_that_is_for_memory_is_found() {
        assert_eq!(
            places(VERSION_1, "7:cpu:/other\n4:memory:/a/b\n0::/\n"),
            [
                "One /sys/fs/cgroup/memory/a/b",
                "One /sys/fs/cgroup/memory/a",
                "One /sys/fs/cgroup/memory/"
            ]
        );
    }

    #[test]
    fn in_version_2_the_cgroups_above_are_tried_too() {
        assert_eq!(
            places(VERSION_2, "0::/user.slice/app.slice\n"),
            [
                "Two /sys/fs/cgroup/user.slice/app.slice",
                "Two /sys/fs/cgroup/user.slice",
                "Two /sys/fs/cgroup/"
            ]
        );
    }

    #[test]
    fn without_a_cgroup_file_system_that_is_the_reason() {
        assert!(places("proc /proc proc rw 0 0\n", "0::/\n").is_empty());
    }

    #[test]
    fn the_memory_controller_is_switched_on_below_a_cgroup_that_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let control = directory.path().join("cgroup.subtree_control");
        let controllers = directory.path().join("cgroup.controllers");
        fs::write(&controllers, "cpu memory\n").unwrap();
        fs::write(&control, "cpu\n").unwrap();
        enable_memory_below(directory.path()).unwrap();
        assert_eq!(fs::read_to_string(&control).unwrap(), "+memory");

        fs::write(&controllers, "cpu\n").unwrap();
        fs::write(&control, "cpu\n").unwrap();
        let error = enable_memory_below(directory.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_running_one_uses_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut dead = Command::new("/bin/true").spawn().unwrap();
        dead.wait().unwrap();
        let left = directory.path().join(format!("{PREFIX}{}-3", dead.id()));
        let used = directory
            .path()
            .join(format!("{PREFIX}{}-3", process::id()));
        let other = directory.path().join("somebody-elses-1-3");
        for path in [&left, &used, &other] {
            fs::create_dir(path).unwrap();
        }
        remove_stale(directory.path());
        let exist = [left, used, other].map(|path| path.exists());
        assert_eq!(exist, [false, true, true]);
    }

    #[test]
    fn a_limit_is_gone_when_it_is_dropped() {
        let Ok(limit) = MemoryLimit::prepare(64 << 20) else {
            return; // tests/it/memory_limit.rs looks at the reason
        };
        let directory = limit.directory.clone();
        assert!(directory.exists());
        drop(limit);
        assert!(!directory.exists());
    }
}
