//! Reads a running process from `/proc`, and copes with its end at any moment.
//!
//! reheap opens everything relative to one handle of the process's directory. The kernel ties that handle to the
//! process, not to its number. So if the process ends and another one gets its number, the result is an error and never
//! a mixture of two. reheap reads bytes, because names of programs and paths of libraries need not be UTF-8. For the
//! same reason it uses no crate that reads `/proc` into strings. As root, it opens files of the process by `map_files`,
//! which also works for deleted and replaced ones. Otherwise it uses their path below the process's own root, which may
//! be another mount namespace, and checks that the inode is the mapped one.

use crate::maps::{self, DELETED, Mapping};
use crate::status::Status;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Files in `/proc` have no size, so reading them needs an end of its own.
const PROC_FILE_BYTES_MAX: u64 = 256 << 20;

/// Why reheap cannot inspect a process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// No process has the number.
    #[error("there is no such process")]
    NoSuchProcess,
    /// The process ended while reheap looked.
    #[error("the process ended while reheap inspected it")]
    Ended,
    /// The process has ended, and its parent has not waited for it.
    #[error("it is a zombie: it has ended, and its parent has not asked for its exit status")]
    Zombie,
    /// The kernel's own thread, without an executable.
    #[error("it is a kernel thread, not a program")]
    KernelThread,
    /// The kernel forbids it.
    #[error("permission denied: {0}")]
    PermissionDenied(Denial),
    /// Reading failed.
    #[error("{0}")]
    Io(io::Error),
}

/// Why the kernel does not let a user inspect a process (ptrace(2), "Ptrace access mode checking").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The process is another user's.
    OtherUser {
        /// Whose it is.
        owner: u32,
        /// Who asks.
        own: u32,
    },
    /// The process is the caller's, but the kernel protects it anyway.
    Protected,
    /// Root may inspect other users' processes only with this capability.
    RootWithoutCapability,
    /// Root has it, but still may not.
    RootForbidden,
}

impl Denial {
    /// Names only rights that can be the reason.
    fn of(own: u32, may_trace: Option<bool>, owner: u32) -> Self {
        match own {
            0 if may_trace == Some(false) => Self::RootWithoutCapability,
            0 => Self::RootForbidden,
            own if own == owner => Self::Protected,
            own => Self::OtherUser { owner, own },
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherUser { owner, own } => {
                write!(f, "it belongs to user {owner}, and you are user {own}")
            }
            Self::Protected => f.write_str(
                "it is yours, but has or had rights that you do not have (setuid, capabilities), or keeps others out (PR_SET_DUMPABLE)",
            ),
            Self::RootWithoutCapability => f.write_str(
                "you are root without CAP_SYS_PTRACE, as in most containers (`--cap-add SYS_PTRACE` gives it)",
            ),
            Self::RootForbidden => f.write_str(
                "you are root, so a security module (AppArmor, SELinux, Landlock) or a user namespace keeps you out",
            ),
        }
    }
}

/// A process, for as long as it lives.
#[derive(Debug)]
pub struct Process {
    directory: OwnedFd,
}

impl Process {
    /// # Errors
    /// If there is no process of that number.
    pub fn open(pid: u32) -> Result<Self, ProcessError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(format!("/proc/{pid}"), flags, Mode::empty())
            .map_err(|_| ProcessError::NoSuchProcess)?;
        Ok(Self { directory })
    }

    /// # Errors
    /// If it has ended.
    pub fn status(&self) -> Result<Status, ProcessError> {
        let text = self.read("status")?;
        Ok(Status::parse(&text))
    }

    /// The path of its executable, and whether it is still there.
    ///
    /// # Errors
    /// If reheap may not ask, or if there is none: a zombie, a kernel thread.
    pub fn executable(&self) -> Result<(PathBuf, Existence), ProcessError> {
        match rustix::fs::readlinkat(&self.directory, "exe", Vec::new()) {
            Ok(path) => Ok(existence(path.into_bytes())),
            Err(Errno::NOENT | Errno::SRCH) => Err(self.why_without_executable()),
            Err(errno) => Err(self.error(errno)),
        }
    }

    fn why_without_executable(&self) -> ProcessError {
        let Ok(status) = self.status() else {
            return ProcessError::Ended;
        };
        if status.has_ended() {
            ProcessError::Zombie
        } else {
            ProcessError::KernelThread
        }
    }

    /// Opens the executable, also a deleted one.
    ///
    /// # Errors
    /// If reheap may not, or the process has ended.
    pub fn open_executable(&self) -> Result<File, ProcessError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, "exe", flags, Mode::empty())
            .map(File::from)
            .map_err(|errno| self.error(errno))
    }

    /// What is mapped, with resident sizes where the kernel tells them.
    ///
    /// # Errors
    /// If reheap may not, or the process has ended.
    pub fn mappings(&self) -> Result<Vec<Mapping>, ProcessError> {
        let text = match self.read("smaps") {
            Ok(text) if !text.is_empty() => text,
            // A kernel may lack it.
            _ => self.read("maps")?,
        };
        if text.is_empty() {
            return Err(self.why_without_executable());
        }
        Ok(maps::parse(&text))
    }

    /// What is mapped, without sizes: much quicker to read.
    ///
    /// # Errors
    /// If reheap may not, or the process has ended.
    pub fn maps(&self) -> Result<Vec<Mapping>, ProcessError> {
        let text = self.read("maps")?;
        if text.is_empty() {
            return Err(self.why_without_executable());
        }
        Ok(maps::parse(&text))
    }

    /// The environment that it was started with.
    ///
    /// # Errors
    /// If reheap may not, or the process has ended.
    pub fn environment(&self) -> Result<Vec<(OsString, OsString)>, ProcessError> {
        let bytes = self.read("environ")?;
        let variables = bytes.split(|&byte| byte == 0).filter_map(|variable| {
            let equals = variable.iter().position(|&byte| byte == b'=')?;
            let (name, value) = (&variable[..equals], &variable[equals + 1..]);
            let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            Some((text(name), text(value)))
        });
        Ok(variables.collect())
    }

    /// The process's limit of address space (`ulimit -v`), if it has one.
    pub fn address_space_limit(&self) -> Option<u64> {
        let text = self.read("limits").ok()?;
        let text = String::from_utf8_lossy(&text);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Max address space"))?;
        line.split_whitespace().next()?.parse().ok() // or the word `unlimited`
    }

    /// Opens the file behind a mapping; `None` if it is none, or is no longer the one at that path.
    pub fn open_mapped(&self, mapping: &Mapping) -> Option<File> {
        let by_mapping = format!("map_files/{:x}-{:x}", mapping.start, mapping.end);
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::openat(&self.directory, by_mapping, flags, Mode::empty()) {
            return regular(&file);
        }
        // The kernel shows the path from the reader's root if it leads there, and else from that of the process's
        // mounts, which is not that of the process after chroot(2). Whichever it was, the inode tells.
        let path = mapping.path.as_path();
        let root = rustix::fs::readlinkat(&self.directory, "root", Vec::new()).ok()?;
        let root = OsString::from_vec(root.into_bytes());
        let from_its_root = path.strip_prefix(&root).unwrap_or(path);
        let below = |path: &Path| self.below_root(path, flags).ok();
        let ours = || rustix::fs::open(path, flags, Mode::empty()).ok();
        [below(path), below(from_its_root), ours()]
            .into_iter()
            .flatten()
            .filter_map(|handle| regular(&handle))
            .find(|file| {
                file.metadata()
                    .is_ok_and(|found| found.ino() == mapping.inode)
            })
    }

    /// The contents of a small file at a path as the process sees it.
    pub fn read_its(&self, path: &Path) -> Option<Vec<u8>> {
        let file = regular(&self.below_root(path, OFlags::PATH | OFlags::CLOEXEC).ok()?)?;
        let mut bytes = Vec::new();
        file.take(1 << 16).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// What identifies the file at a path as the process sees it.
    pub fn inode_of(&self, path: &Path) -> Option<u64> {
        let file = self.below_root(path, OFlags::PATH | OFlags::CLOEXEC).ok()?;
        Some(rustix::fs::fstat(&file).ok()?.st_ino)
    }

    /// Symbolic links on the way lead to where they lead for the process.
    fn below_root(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&self.directory, "root", directory, Mode::empty())?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve)
    }

    /// Words of its memory at these addresses, as far as they can be read; `None` if none of its memory can be.
    pub fn words(&self, addresses: &[u64]) -> Option<Vec<(u64, u64)>> {
        let memory = self.open_memory()?;
        let word = |&address: &u64| {
            let mut bytes = [0; 8];
            memory.read_exact_at(&mut bytes, address).ok()?;
            Some((address, u64::from_ne_bytes(bytes)))
        };
        Some(addresses.iter().filter_map(word).collect())
    }

    /// So many bytes of its memory; `None` if they cannot be read.
    pub fn bytes(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size as usize];
        let read = self.open_memory()?.read_exact_at(&mut bytes, address);
        read.ok().map(|()| bytes)
    }

    fn open_memory(&self) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let memory = rustix::fs::openat(&self.directory, "mem", flags, Mode::empty());
        memory.ok().map(File::from)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, ProcessError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())
            .map_err(|errno| self.error(errno))?;
        let mut bytes = Vec::new();
        File::from(file)
            .take(PROC_FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(|error| match Errno::from_io_error(&error) {
                Some(errno) => self.error(errno),
                None => ProcessError::Io(error),
            })?;
        Ok(bytes)
    }

    fn error(&self, errno: Errno) -> ProcessError {
        match errno {
            Errno::NOENT | Errno::SRCH => ProcessError::Ended,
            Errno::ACCESS | Errno::PERM => self.why_denied(),
            errno => ProcessError::Io(errno.into()),
        }
    }

    /// Everybody may read the state of every process, and it tells what there is to look at. The owner of its directory
    /// does not tell whose it is: root owns the directory of a protected process (proc(5)).
    fn why_denied(&self) -> ProcessError {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut text = Vec::new();
        let status =
            rustix::fs::openat(&self.directory, "status", flags, Mode::empty()).map(File::from);
        if !status.is_ok_and(|mut status| status.read_to_end(&mut text).is_ok()) {
            return ProcessError::Ended;
        }
        let status = Status::parse(&text);
        if status.has_ended() {
            return ProcessError::Zombie;
        }
        if !status.has_memory() {
            return ProcessError::KernelThread;
        }
        let own = rustix::process::geteuid().as_raw();
        let owner = status.effective_user().unwrap_or(0);
        ProcessError::PermissionDenied(Denial::of(own, may_trace(), owner))
    }
}

/// Whether this process may look at those of other users; `None` where the kernel does not tell.
fn may_trace() -> Option<bool> {
    const CAP_SYS_PTRACE: u32 = 19;
    let effective = Status::of("self")?.set("CapEff")?;
    Some(effective >> CAP_SYS_PTRACE & 1 == 1)
}

/// Whether a file still has the path that the kernel shows for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// The file has the path.
    Present,
    /// The file is gone, or another one is there.
    Deleted,
}

fn existence(mut path: Vec<u8>) -> (PathBuf, Existence) {
    let existence = if path.ends_with(DELETED) {
        Existence::Deleted
    } else {
        Existence::Present
    };
    if existence == Existence::Deleted {
        path.truncate(path.len() - DELETED.len());
    }
    (OsString::from_vec(path).into(), existence)
}

/// Opens the file at a path, if it is a regular one.
pub fn open_regular(path: &Path) -> Option<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    regular(&rustix::fs::open(path, flags, Mode::empty()).ok()?)
}

/// Opens what a path handle stands for, if it is a regular file: opening a device can have effects.
fn regular(handle: &impl AsFd) -> Option<File> {
    let stat = rustix::fs::fstat(handle).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let link = format!("/proc/self/fd/{}", handle.as_fd().as_raw_fd());
    File::open(link).ok()
}

/// The numbers of all processes.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn all() -> io::Result<Vec<u32>> {
    let mut pids: Vec<u32> = std::fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_deleted_file_is_not_part_of_its_path() {
        let (path, state) = existence(b"/tmp/a b (deleted)".to_vec());
        assert_eq!(
            (path.as_path(), state),
            (Path::new("/tmp/a b"), Existence::Deleted)
        );
        let (path, state) = existence(b"/bin/a".to_vec());
        assert_eq!(
            (path.as_path(), state),
            (Path::new("/bin/a"), Existence::Present)
        );
    }

    #[test]
    fn a_process_that_has_ended_is_not_mistaken_for_another() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let process = Process::open(child.id()).unwrap();
        assert!(process.status().is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(process.executable(), Err(ProcessError::Ended)));
        assert!(matches!(process.mappings(), Err(ProcessError::Ended)));
    }

    #[test]
    fn who_may_not_look_is_told_the_real_reason() {
        let other = Denial::OtherUser { owner: 0, own: 5 };
        for (own, may_trace, owner, expected) in [
            (5, Some(false), 0, other),
            (5, None, 5, Denial::Protected),
            (0, Some(false), 5, Denial::RootWithoutCapability),
            (0, Some(true), 0, Denial::RootForbidden),
            (0, None, 5, Denial::RootForbidden),
        ] {
            assert_eq!(Denial::of(own, may_trace, owner), expected);
        }
    }

    #[test]
    fn a_zombie_is_called_one() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let ended = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended).unwrap();
        assert!(matches!(process.executable(), Err(ProcessError::Zombie)));
        assert!(matches!(process.mappings(), Err(ProcessError::Zombie)));
        child.wait().unwrap();
    }
}
