//! A process as `/proc` shows it: what is mapped, where its program begins, and which file's malloc it calls.
//!
//! A dynamic program calls the first malloc in the order of its libraries. That order is in the list that the dynamic
//! linker keeps for debuggers (`r_debug` in <link.h>, the same for glibc and musl).

use super::InjectError;
use super::memory::Memory;
use nix::unistd::Pid;
use object::read::ReadCache;
use reheap_graft::{LocateError, Located};
use reheap_proc::maps::{self, Mapping};
use reheap_proc::{by_number, process};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;

/// Why the malloc of a process cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// A file under `/proc/PID` cannot be used, or there is no such process.
    #[error(transparent)]
    Process(#[from] InjectError),
    /// It is not clear where the functions are in a file.
    #[error("`{file}`: {reason}")]
    Locate {
        /// The file.
        file: String,
        /// Why.
        reason: LocateError,
    },
    /// The list of libraries is not there, so the program has not started yet or hides it.
    #[error("the list of its libraries cannot be read")]
    Libraries,
    /// A library's file cannot be read, or is another one by now.
    #[error("its library `{file}` cannot be read: {error}")]
    Library {
        /// The file.
        file: String,
        /// Why.
        error: io::Error,
    },
}

/// A process, and where its malloc is.
#[derive(Debug, Clone)]
pub struct Target {
    pub(super) pid: Pid,
    pub(super) located: Located,
    /// How far from where the file says.
    pub(super) bias: u64,
}

impl Target {
    /// Finds the malloc of a running process: in its executable, or in the first of its libraries that has one.
    ///
    /// # Errors
    /// When the process cannot be examined, or it is not clear which functions it calls.
    pub fn of_process(pid: i32) -> Result<Self, ProcessError> {
        let pid = Pid::from_raw(pid);
        super::obstacle::before(pid.as_raw()).map_err(InjectError::from)?;
        let path = format!("/proc/{pid}/exe");
        let file = File::open(&path).map_err(|error| InjectError::Proc {
            path: path.clone(),
            error,
        })?;
        let cache = ReadCache::new(file);
        match reheap_graft::locate(&cache) {
            Ok(located) => {
                let bias = entry(pid)?.wrapping_sub(located.entry);
                Ok(Self { pid, located, bias })
            }
            Err(LocateError::Dynamic(_)) => {
                let dynamic = reheap_graft::dynamic_segment(&cache);
                let (entry_in_file, dynamic) =
                    dynamic.map_err(|reason| ProcessError::Locate { file: path, reason })?;
                let bias = entry(pid)?.wrapping_sub(entry_in_file);
                Self::of_libraries(pid, dynamic.wrapping_add(bias))
            }
            Err(reason) => Err(ProcessError::Locate { file: path, reason }),
        }
    }

    /// The file's malloc functions, and how they were found.
    pub fn located(&self) -> &Located {
        &self.located
    }

    fn of_libraries(pid: Pid, dynamic: u64) -> Result<Self, ProcessError> {
        let memory = memory(pid)?;
        let libraries = libraries(&memory, dynamic).ok_or(ProcessError::Libraries)?;
        for (bias, name) in libraries {
            // The first is the executable, and the kernel's own has no file.
            if !name.starts_with('/') {
                continue;
            }
            let file = open_its(pid, &name).map_err(|error| ProcessError::Library {
                file: name.clone(),
                error,
            })?;
            match reheap_graft::locate_in_library(&ReadCache::new(file)) {
                Ok(located) => return Ok(Self { pid, located, bias }),
                Err(LocateError::NoMalloc) => {}
                Err(reason) => return Err(ProcessError::Locate { file: name, reason }),
            }
        }
        Err(ProcessError::Locate {
            file: format!("/proc/{pid}/exe"),
            reason: LocateError::NoMalloc,
        })
    }
}

/// Opens a regular file at a path as the process sees it. The process writes the path itself, and anything else is not
/// opened: a pipe waits for ever, and a device can have effects.
fn open_its(pid: Pid, path: &str) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = format!("/proc/{pid}/root");
    let root = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let handle = match rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve) {
        // Before Linux 5.6, and in old containers.
        Err(Errno::NOSYS | Errno::PERM) => {
            let path = path.trim_start_matches('/');
            rustix::fs::openat(&root, path, flags, Mode::empty())?
        }
        handle => handle?,
    };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode);
    if kind != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

/// The libraries of a process in the order in which names are looked up: how far each is from where its file says, and
/// its file.
fn libraries(memory: &Memory, dynamic: u64) -> Option<Vec<(u64, String)>> {
    const DT_DEBUG: u64 = 21;
    const ENTRIES_MAX: u64 = 1000;
    let word = |address: u64| {
        let bytes = memory.read(address, 8).ok()?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let mut debug = None;
    for index in 0..ENTRIES_MAX {
        let entry = dynamic + index * 16;
        match word(entry)? {
            0 => break,
            DT_DEBUG => debug = Some(word(entry + 8)?),
            _ => {}
        }
    }
    // r_debug { int r_version; struct link_map *r_map; … }
    let mut map = word(debug? + 8)?;
    let mut libraries = Vec::new();
    while map != 0 && (libraries.len() as u64) < ENTRIES_MAX {
        // link_map { l_addr; char *l_name; l_ld; struct link_map *l_next; … }
        libraries.push((word(map)?, text(memory, word(map + 8)?)?));
        map = word(map + 24)?;
    }
    (!libraries.is_empty()).then_some(libraries)
}

/// The text at an address, up to its end.
fn text(memory: &Memory, address: u64) -> Option<String> {
    const BYTES_MAX: u64 = 4096;
    let mut text = Vec::new();
    for offset in 0..BYTES_MAX {
        match memory.read(address + offset, 1).ok()?[0] {
            0 => return String::from_utf8(text).ok(),
            byte => text.push(byte),
        }
    }
    None
}

/// The memory of a process.
pub(super) fn memory(pid: Pid) -> Result<Memory, InjectError> {
    Memory::open(pid).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => super::obstacle::after_refusal(pid.as_raw()).into(),
        _ => memory_error(pid, error),
    })
}

pub(super) fn memory_error(pid: Pid, error: io::Error) -> InjectError {
    let path = format!("/proc/{pid}/mem");
    InjectError::Proc { path, error }
}

/// What is mapped in a process.
pub(super) fn mappings(pid: Pid) -> Result<Vec<Mapping>, InjectError> {
    let path = format!("/proc/{pid}/maps");
    match fs::read(&path) {
        Ok(text) => Ok(maps::parse(&text)),
        Err(error) => Err(InjectError::Proc { path, error }),
    }
}

/// Where a process began to execute its program (getauxval(3), `AT_ENTRY`).
pub(super) fn entry(pid: Pid) -> Result<u64, InjectError> {
    const AT_ENTRY: u64 = 9;
    let vector = auxiliary_vector(pid)?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let mut pairs = vector.chunks_exact(16);
    let entry = pairs.find(|pair| word(&pair[..8]) == AT_ENTRY);
    let entry = entry.map(|pair| word(&pair[8..]));
    entry.ok_or(InjectError::AuxiliaryVector)
}

/// The auxiliary vector as the kernel gave it to the process (getauxval(3)).
pub(super) fn auxiliary_vector(pid: Pid) -> Result<Vec<u8>, InjectError> {
    let path = format!("/proc/{pid}/auxv");
    fs::read(&path).map_err(|error| InjectError::Proc { path, error })
}

/// The threads of a process. Empty if it is gone.
pub(super) fn threads(pid: Pid) -> Vec<Pid> {
    let tids = by_number::threads(pid.as_raw().unsigned_abs()).into_iter();
    tids.map(|tid| Pid::from_raw(tid.cast_signed())).collect()
}

/// All processes that can be seen.
pub(super) fn all() -> Vec<Pid> {
    let pids = process::all().unwrap_or_default().into_iter();
    pids.map(|pid| Pid::from_raw(pid.cast_signed())).collect()
}
