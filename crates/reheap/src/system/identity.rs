//! Which folder is meant, whatever its name says.
//!
//! `--root` is for a system that does not run. One that does can be named in many ways: a link to `/`, `/proc/PID/root`, a
//! bind mount, a path with `..` in it. A name tells nothing, so folders are compared by device and inode, which a bind
//! mount and another mount namespace leave as they are. Comparing `/` alone is not enough: an image that has this
//! system's `/etc` or `/usr/local` mounted in it would change this system too, and delete the libraries that it loads.
//!
//! What cannot be told: a file system that shows the same files by other numbers, such as sshfs, or the upper folder of
//! an overlay that `/` is made of.

use super::{LIBRARIES, PROFILE_FOLDER};
use crate::ui::Failure;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What tells a folder from others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    /// The mount by which it is seen, where the kernel tells: the same folder in another mount namespace can have other
    /// folders mounted below it.
    mount: Option<String>,
}

impl Identity {
    pub(crate) fn of(folder: &OwnedFd) -> io::Result<Self> {
        let metadata = File::from(folder.try_clone()?).metadata()?;
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", folder.as_raw_fd()));
        let info = info.unwrap_or_default();
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            mount: mount.map(|number| number.trim().to_owned()),
        })
    }

    fn is_same_folder(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// A handle on a folder, by which nothing can be read.
pub(crate) fn path_handle(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(folder, flags, Mode::empty())?)
}

/// A system that runs, and where its files are for this process.
struct Running {
    name: &'static str,
    files: &'static str,
}

/// For a process in a chroot or a container, the system that process 1 runs in can be another one than its own. Whoever
/// may not look at process 1 cannot tell.
const RUNNING: [Running; 2] = [
    Running {
        name: "this system",
        files: "/",
    },
    Running {
        name: "the system that process 1 runs in",
        files: "/proc/1/root",
    },
];

/// Refuses a root folder that is a running system's, or shares with one a folder that a change would write to.
/// `its` tells which folder of the root a path leads to, and `instead` is what to type for this system.
///
/// # Errors
/// The first such folder.
pub(crate) fn check_is_not_running(
    its: impl Fn(&str) -> io::Result<Identity>,
    shown: &Path,
    instead: &str,
) -> anyhow::Result<()> {
    let ways = [LIBRARIES, PROFILE_FOLDER].map(|folder| Path::new(folder).ancestors());
    let mut folders: Vec<&str> = ways
        .into_iter()
        .flatten()
        .filter_map(Path::to_str)
        .collect();
    folders.sort(); // outer ones first: what is in them is shared for that reason
    for system in &RUNNING {
        let Some(folder) = folders
            .iter()
            .find(|folder| is_shared(its(folder), system, folder))
        else {
            continue;
        };
        let name = system.name;
        let why = match *folder {
            "/" => format!("it is the root folder of {name}"),
            folder => format!("its `{folder}` is the `{folder}` of {name}"),
        };
        let hint = match (*folder, system.files) {
            ("/", "/") => format!("--root is for other systems; for this one: {instead}"),
            ("/", _) => format!("start reheap in that system, without --root: {instead}"),
            (folder, _) => format!(
                "a change there would change {name} too: unmount `{}` first",
                shown.join(folder.trim_start_matches('/')).display()
            ),
        };
        let text = format!("cannot use `{}` as a root folder: {why}", shown.display());
        return Err(Failure::failed(text).hint(hint).into());
    }
    Ok(())
}

/// Whether a folder of the root is the same one as that of a system. One that either of them lacks is not.
fn is_shared(its: io::Result<Identity>, system: &Running, folder: &str) -> bool {
    let theirs = Path::new(system.files).join(folder.trim_start_matches('/'));
    let theirs = path_handle(&theirs).and_then(|handle| Identity::of(&handle));
    its.is_ok_and(|its| theirs.is_ok_and(|theirs| its.is_same_folder(&theirs)))
}
