//! Copies what a file or directory has besides its name, bytes, mode and owner: times and extended attributes.
//!
//! reheap keeps a file that it replaces under another name (see `Stage::Original` in reheap-preload), and brings it back
//! as it was. The file in its place gets the attributes that let others read it.

use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, fgetxattr, flistxattr, fsetxattr, futimens};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// Whether the new file gets the attribute too. It does not get those about the old bytes (IMA's signatures), or those
/// for the file system's own use (`trusted.overlay`).
fn belongs_to_the_name(attribute: &str) -> bool {
    attribute.starts_with("user.") || attribute == "system.posix_acl_access" || is_label(attribute)
}

fn is_label(attribute: &str) -> bool {
    attribute == "security.selinux" || attribute.starts_with("security.SMACK64")
}

/// Gives a new file the attributes of the one that it replaces.
pub fn copy(from: &File, to: &File) -> io::Result<()> {
    for name in names(from)? {
        if !belongs_to_the_name(&name) {
            continue;
        }
        let set = value(from, &name)
            .and_then(|value| fsetxattr(to, &*name, &value, rustix::fs::XattrFlags::empty()));
        match set {
            // Only a policy may allow it. A new file has the label that the policy gives to one in this directory.
            Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP) if is_label(&name) => {}
            set => set?,
        }
    }
    Ok(())
}

/// Gives a file the times of another.
pub fn copy_times(from: &File, to: &File) -> io::Result<()> {
    let metadata = from.metadata()?;
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    Ok(futimens(to, &times)?)
}

/// The names of the attributes of a file; none where the file system has no attributes.
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

/// A time as the system takes it.
pub const fn time(seconds: i64, nanoseconds: i64) -> Timespec {
    Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    }
}

/// Sets when a directory was modified, unless it was then.
pub fn set_time(directory: &File, modified: Timespec) -> io::Result<()> {
    let metadata = directory.metadata()?;
    if time(metadata.mtime(), metadata.mtime_nsec()) == modified {
        return Ok(());
    }
    let times = Timestamps {
        last_access: time(0, UTIME_OMIT),
        last_modification: modified,
    };
    Ok(futimens(directory, &times)?)
}
