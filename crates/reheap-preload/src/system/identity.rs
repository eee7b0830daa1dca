//! Identifies a directory, whatever its name says.
//!
//! `--root` is for a system that does not run. A running system has many names: a link to `/`, `/proc/PID/root`, a bind
//! mount, a path with `..` in it. A name tells nothing, so reheap compares directories by device and inode. A bind
//! mount and another mount namespace do not change these. Comparing `/` alone is not enough: an image that has this
//! system's `/etc` or `/usr/local` mounted in it would change this system too, and delete the libraries that it loads.
//!
//! reheap cannot recognise two cases: a file system that shows the same files by other numbers, such as sshfs, or the
//! upper directory of an overlay that `/` is made of.

use super::{LIBRARIES, PROFILE_DIRECTORY};
use reheap_command::ui::Failure;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What tells a directory from others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    /// The mount by which it is seen, where the kernel tells: the same directory in another mount namespace can have
    /// other directories mounted below it.
    mount: Option<String>,
}

impl Identity {
    pub(crate) fn of(directory: &OwnedFd) -> io::Result<Self> {
        let metadata = File::from(directory.try_clone()?).metadata()?;
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", directory.as_raw_fd()));
        let info = info.unwrap_or_default();
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            mount: mount.map(|number| number.trim().to_owned()),
        })
    }

    pub(crate) fn is_same_directory(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// A handle on a directory, by which nothing can be read.
pub(crate) fn path_handle(directory: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(directory, flags, Mode::empty())?)
}

/// A system that runs, and where its files are for this process.
struct Running {
    name: &'static str,
    files: &'static str,
}

/// The systems that run. For a process in a chroot or a container, the system that process 1 runs in can be another one than its own. A user
/// who may not inspect process 1 cannot tell.
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

/// Refuses a root directory that is a running system's, or shares with one a directory that a change would write to.
/// `its` tells which directory of the root a path leads to, and `instead` is what to type for this system.
///
/// # Errors
/// The first such directory.
pub(crate) fn check_is_not_running(
    its: impl Fn(&str) -> io::Result<Identity>,
    shown: &Path,
    instead: &str,
) -> anyhow::Result<()> {
    let ways = [LIBRARIES, PROFILE_DIRECTORY].map(|directory| Path::new(directory).ancestors());
    let mut directories: Vec<&str> = ways
        .into_iter()
        .flatten()
        .filter_map(Path::to_str)
        .collect();
    directories.sort(); // outer ones first: what is in them is shared for that reason
    for system in &RUNNING {
        let Some(directory) = directories
            .iter()
            .find(|directory| is_shared(its(directory), system, directory))
        else {
            continue;
        };
        let name = system.name;
        let why = match *directory {
            "/" => format!("it is the root directory of {name}"),
            directory => format!("its `{directory}` is the `{directory}` of {name}"),
        };
        let hint = match (*directory, system.files) {
            ("/", "/") => format!("--root is for other systems; for this one: {instead}"),
            ("/", _) => format!("start reheap in that system, without --root: {instead}"),
            (directory, _) => format!(
                "a change there would change {name} too: unmount `{}` first",
                shown.join(directory.trim_start_matches('/')).display()
            ),
        };
        let text = format!(
            "cannot use `{}` as a root directory: {why}",
            shown.display()
        );
        return Err(Failure::failed(text).hint(hint).into());
    }
    Ok(())
}

/// Whether a directory of the root is the same one as that of a system. One that either of them lacks is not.
fn is_shared(its: io::Result<Identity>, system: &Running, directory: &str) -> bool {
    let theirs = Path::new(system.files).join(directory.trim_start_matches('/'));
    let theirs = path_handle(&theirs).and_then(|handle| Identity::of(&handle));
    its.is_ok_and(|its| theirs.is_ok_and(|theirs| its.is_same_directory(&theirs)))
}
