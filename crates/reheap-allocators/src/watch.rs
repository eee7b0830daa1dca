//! The watch: which processes of a command died by a signal, or did not end in order.
//!
//! Only its parent is told how a process ended, so one run has a small library in every process, in front of the
//! functions that ask for it (`glue/watch.c`). Rejected: ptrace(2) sees everything, but a traced setuid program runs
//! without its rights, and a program that traces others cannot; the kernel's process events and accounting are for
//! root. What is missed that way is the signal of a process whose parent has no such library, as a static one, or
//! ignores SIGCHLD; but not that it did not end in order.
//!
//! It is no part of the probe, because it has to tell what happens without an allocator too: then nothing may stand
//! between the program and its malloc. To record more, change the layout on both sides, and the magic.

use crate::catalogue::Glue;
use crate::own_library::{Base, OwnLibrary};
use crate::recording::{Layout, RecordingError, RecordingFile};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The watch.
pub const LIBRARY: OwnLibrary = OwnLibrary {
    source: Glue {
        name: "reheap-watch",
        source: concat!(
            include_str!("../glue/recording.c"),
            include_str!("../glue/watch.c")
        ),
    },
    exports: &FUNCTIONS,
    entry_point: None,
    base: Base::Libc,
};

/// The functions that tell how a child ended, and those that end a process.
const FUNCTIONS: [&str; 9] = [
    "wait", "waitpid", "wait3", "wait4", "waitid", "system", "pclose", "_exit", "_Exit",
];

// The layout of `struct recording` in watch.c.
const DEATHS: usize = 1024;
const DEATH_BYTES: usize = 16;
const PROGRAMS: usize = 8192;
const PROGRAM_BYTES: usize = 512;
const COUNTS_BYTES: usize = 2 * 8;
const LAYOUT: Layout = Layout {
    variable: "REHEAP_WATCH",
    magic: b"reheapw1",
    bytes: 8 + COUNTS_BYTES + DEATHS * DEATH_BYTES + PROGRAMS * PROGRAM_BYTES,
};

/// A file that the processes of one run write what they see into.
#[derive(Debug)]
pub struct Watch(RecordingFile);

/// A process that was ended by a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// Its number, where the parent was told.
    pub process: Option<u32>,
    /// The number of the process that asked for it.
    pub parent: u32,
    /// The signal.
    pub signal: i32,
}

/// A program that a process became, or the one that it is a forked copy of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The process.
    pub process: u32,
    /// The executable.
    pub program: PathBuf,
    /// Whether it is a copy of its parent. It may have executed a program since that the library is not in.
    pub is_forked: bool,
    /// Whether it ended in order, or its parent was told how it ended.
    pub is_over: bool,
}

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// In the order in which they were asked for.
    pub deaths: Vec<Death>,
    /// In the order in which they started.
    pub started: Vec<Started>,
}

impl Seen {
    /// The program that a process executed at last, as far as the library was in it.
    pub fn program_of(&self, process: u32) -> Option<&Path> {
        let mut latest = self.started.iter().rev();
        let started = latest.find(|started| started.process == process && !started.is_forked)?;
        Some(&started.program)
    }
}

impl Watch {
    /// Makes an empty recording.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create() -> Result<Self, RecordingError> {
        RecordingFile::create(LAYOUT).map(Self)
    }

    /// The variables that the run gets: `LD_PRELOAD` with the watch in front of what else is to be preloaded.
    pub fn environment(
        &self,
        library: &Path,
        preload: Option<&OsStr>,
    ) -> [(OsString, OsString); 2] {
        self.0.environment(library, preload)
    }

    /// What was seen until now.
    ///
    /// # Errors
    /// When the file cannot be read or is not a recording any more.
    pub fn seen(&self) -> Result<Seen, RecordingError> {
        self.0.read(parse)
    }
}

fn parse(bytes: &[u8]) -> Option<Seen> {
    let records = bytes.get(COUNTS_BYTES..)?;
    let (deaths, programs) = records.split_at_checked(DEATHS * DEATH_BYTES)?;
    let (deaths, _) = deaths.as_chunks::<DEATH_BYTES>();
    let (programs, _) = programs.as_chunks::<PROGRAM_BYTES>();
    Some(Seen {
        deaths: deaths.iter().filter_map(death).collect(),
        started: programs.iter().filter_map(started).collect(),
    })
}

/// The words in front of a record; `written` is the last of them.
fn words<const N: usize>(record: &[u8]) -> [u32; N] {
    let (words, _) = record.as_chunks::<4>();
    std::array::from_fn(|at| u32::from_le_bytes(words[at]))
}

fn death(record: &[u8; DEATH_BYTES]) -> Option<Death> {
    let [process, parent, signal, written] = words(record);
    (written == 1).then(|| Death {
        process: Some(process).filter(|&process| process != 0),
        parent,
        signal: signal as i32,
    })
}

fn started(record: &[u8; PROGRAM_BYTES]) -> Option<Started> {
    let [process, is_forked, is_over, written] = words(record);
    let path = record[16..].split(|&byte| byte == 0).next()?;
    (written == 1).then(|| Started {
        process,
        program: PathBuf::from(OsStr::from_bytes(path)),
        is_forked: is_forked == 1,
        is_over: is_over == 1,
    })
}
