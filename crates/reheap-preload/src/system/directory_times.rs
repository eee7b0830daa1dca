//! Keeps the modification times of the directories that a change works in.
//!
//! A directory's modification time tells when somebody last added or removed a name. Adding ours and removing it must
//! leave no trace, so both commands set the times back to what they found. Rejected: setting them back in `disable`
//! alone. That would need a record of both times, and of who made which change in between.

use super::attributes::time;
use super::disk::Disk;
use super::{LIBRARIES, PROFILE_DIRECTORY};
use rustix::fs::Timespec;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// When the directories that a change works in were modified, before it.
#[derive(Debug)]
pub(crate) struct DirectoryTimes(BTreeMap<String, Timespec>);

impl DirectoryTimes {
    pub(crate) fn of(disk: &Disk) -> Self {
        let ways = [LIBRARIES, PROFILE_DIRECTORY].map(|directory| Path::new(directory).ancestors());
        let directories = ways.into_iter().flatten().filter_map(Path::to_str);
        let times = directories.filter_map(|directory| {
            let metadata = disk.root.open_directory(directory).ok()?.metadata().ok()?;
            Some((
                directory.to_owned(),
                time(metadata.mtime(), metadata.mtime_nsec()),
            ))
        });
        Self(times.collect())
    }

    /// Sets those of the directories that are still there.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn restore(&self, disk: &Disk) -> anyhow::Result<()> {
        self.0
            .iter()
            .try_for_each(|(directory, time)| disk.set_directory_time(directory, *time))
    }
}
