//! What a file or folder carries beside its name, bytes, mode and owner, and what of it survives a change.
//!
//! A file that gives way to another is kept under a name of its own (see [`super::disk::Stage::Original`]), and comes back
//! as it was. The file in its place gets the attributes by which others may read it.
//!
//! A folder's time of modification tells when somebody last put a name into it or took one out. Putting ours in and taking
//! it out again shall leave no trace, so both commands set the times back to what they found. Rejected: setting them back
//! in `disable` alone, which would need a record of both times, and which change in between was whose.

use super::disk::Disk;
use super::{LIBRARIES, PROFILE_FOLDER};
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, fgetxattr, flistxattr, fsetxattr, futimens};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Whether the file that takes another's place has the attribute too. Not those that say something of the bytes, which
/// are others then (IMA's signatures), or that a file system keeps its own books with (`trusted.overlay`).
fn belongs_to_the_name(attribute: &str) -> bool {
    attribute.starts_with("user.") || attribute == "system.posix_acl_access" || is_label(attribute)
}

fn is_label(attribute: &str) -> bool {
    attribute == "security.selinux" || attribute.starts_with("security.SMACK64")
}

/// Gives a new file the attributes of the one whose place it takes.
pub(super) fn copy(from: &File, to: &File) -> io::Result<()> {
    for name in names(from)? {
        if !belongs_to_the_name(&name) {
            continue;
        }
        let set = value(from, &name)
            .and_then(|value| fsetxattr(to, &*name, &value, rustix::fs::XattrFlags::empty()));
        match set {
            // Only a policy may allow it. A new file has the label that the policy gives to one in this folder.
            Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP) if is_label(&name) => {}
            set => set?,
        }
    }
    Ok(())
}

/// Gives a file the times of another.
pub(super) fn copy_times(from: &File, to: &File) -> io::Result<()> {
    let metadata = from.metadata()?;
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    Ok(futimens(to, &times)?)
}

/// None where the file system has no attributes.
fn names(file: &File) -> io::Result<Vec<String>> {
    let list = whole(|bytes| flistxattr(file, bytes));
    let list = match list {
        Err(Errno::NOTSUP) => Vec::new(),
        list => list?,
    };
    let names = list
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    Ok(names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect())
}

fn value(file: &File, name: &str) -> Result<Vec<u8>, Errno> {
    whole(|bytes| fgetxattr(file, name, bytes))
}

/// Reads as many bytes as there are, up to the most that the kernel allows (xattr(7): 64 KiB).
fn whole(read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; 64 << 10];
    let count = read(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

const fn time(seconds: i64, nanoseconds: i64) -> Timespec {
    Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    }
}

/// When the folders that a change works in were modified, before it.
#[derive(Debug)]
pub(crate) struct FolderTimes(BTreeMap<String, Timespec>);

impl FolderTimes {
    pub(crate) fn of(disk: &Disk) -> Self {
        let ways = [LIBRARIES, PROFILE_FOLDER].map(|folder| Path::new(folder).ancestors());
        let folders = ways.into_iter().flatten().filter_map(Path::to_str);
        let times = folders.filter_map(|folder| {
            let metadata = disk.root.open_folder(folder).ok()?.metadata().ok()?;
            Some((
                folder.to_owned(),
                time(metadata.mtime(), metadata.mtime_nsec()),
            ))
        });
        Self(times.collect())
    }

    /// Sets those of the folders that are still there.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn restore(&self, disk: &Disk) -> anyhow::Result<()> {
        self.0
            .iter()
            .try_for_each(|(folder, time)| disk.set_folder_time(folder, *time))
    }
}

/// Sets when a folder was modified, unless it was then.
pub(super) fn set_time(folder: &File, modified: Timespec) -> io::Result<()> {
    let metadata = folder.metadata()?;
    if time(metadata.mtime(), metadata.mtime_nsec()) == modified {
        return Ok(());
    }
    let times = Timestamps {
        last_access: time(0, UTIME_OMIT),
        last_modification: modified,
    };
    Ok(futimens(folder, &times)?)
}
