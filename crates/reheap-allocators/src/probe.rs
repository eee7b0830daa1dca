//! The probe: which allocator a dynamic program really gets its memory from.
//!
//! `LD_PRELOAD` fails without a word: static programs, other libcs, setuid programs and programs with a malloc of their
//! own ignore it. `/proc/PID/maps` shows that a library was loaded, not that anybody calls it, and only while the
//! program runs. So one run that is not timed has a small library in front of the preload, which counts calls, forwards
//! them, and says whose malloc is behind it (`glue/probe.c`). It also tells which programs of the command it did not get
//! into (`glue/programs.c`): where a shell script starts a static program, the shell alone would look like success. To
//! record more, change the layout on both sides, and the magic.

mod programs;

use crate::catalogue::Glue;
use crate::load::{self, LoadFailure, Loading, is_same_file};
use crate::own_library::{Base, OwnLibrary};
use crate::recording::{Layout, RecordingError, RecordingFile};
use programs::Programs;
pub use programs::{Because, Without};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The probe.
pub const LIBRARY: OwnLibrary = OwnLibrary {
    source: Glue {
        name: "reheap-probe",
        source: concat!(
            include_str!("../glue/recording.c"),
            include_str!("../glue/programs.c"),
            include_str!("../glue/probe.c")
        ),
    },
    exports: &EXPORTS,
    entry_point: None,
    base: Base::Libc,
};

/// The functions that the probe counts, in the order of their counters, and then those that start programs and end
/// processes.
const EXPORTS: [&str; 19] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "execve",
    "execvpe",
    "fexecve",
    "execv",
    "execvp",
    "execl",
    "execlp",
    "execle",
    "posix_spawn",
    "posix_spawnp",
    "_exit",
    "_Exit",
];
/// How many of these the probe counts.
const COUNTED: usize = 7;

// The layout of `struct recording` in probe.c.
const COUNTERS: usize = 3 + COUNTED;
const OBJECT_BYTES: usize = 4096;
const PROVIDERS: usize = 8;
const PROVIDER_BYTES: usize = OBJECT_BYTES + 2 * 8;
const LAYOUT: Layout = Layout {
    variable: "REHEAP_PROBE",
    magic: b"reheap5\0",
    bytes: 8 + 8 * COUNTERS + PROVIDERS * PROVIDER_BYTES + OBJECT_BYTES + programs::BYTES,
};
const WRITTEN: u32 = 2;

/// glibc's library for debugging, which checks its heap if a tunable says so.
pub const GLIBC_CHECKS: &str = "libc_malloc_debug.so.0";

/// A file that the processes of one run write what they find into.
#[derive(Debug)]
pub struct Recording(RecordingFile);

impl Recording {
    /// Makes an empty one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create() -> Result<Self, RecordingError> {
        RecordingFile::create(LAYOUT).map(Self)
    }

    /// The variables that the run gets: `LD_PRELOAD` with the probe in front of what else is to be preloaded.
    pub fn environment(&self, probe: &Path, preload: Option<&OsStr>) -> [(OsString, OsString); 2] {
        self.0.environment(probe, preload)
    }

    /// What was found until now.
    ///
    /// # Errors
    /// When the file cannot be read or is not a recording any more.
    pub fn observation(&self) -> Result<Observation, RecordingError> {
        self.0.read(Observation::parse)
    }
}

/// What the probe found in the processes of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Programs that loaded the probe: those that were executed, not forked children.
    pub processes: u64,
    /// How many of these have a malloc in front of every preload: their own.
    pub in_front: u64,
    /// In how many of these glibc checks its heap.
    pub checking: u64,
    /// Calls that reached the probe, by function, of all processes.
    pub calls: BTreeMap<&'static str, u64>,
    /// The objects that answer what the probe forwards; first the one whose processes took most processor time.
    pub providers: Vec<Provider>,
    /// The first object that was seen with a malloc in front of the probe's.
    pub front: Option<PathBuf>,
    /// The programs that run without the preload, as far as one with the probe started them.
    pub without: Vec<Without>,
    /// The programs that were to load the preload, and that cannot write into the recording: as another user, or in a
    /// sandbox. What they do is not known.
    pub unheard: Vec<PathBuf>,
    /// The processor time of the processes that get their memory through the probe. Of killed ones, the last part is
    /// missing.
    pub time: Duration,
}

/// An object from which processes of a command get malloc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// Its file.
    pub file: PathBuf,
    /// How many processes.
    pub processes: u64,
    /// Their processor time, as far as they get their memory through the probe.
    pub time: Duration,
}

/// Why a preload is not active.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// No process loaded the probe.
    #[error("no process of the command loaded it")]
    NeverLoaded,
    /// The dynamic linker does not load it.
    #[error("{0}")]
    NotLoadable(LoadFailure),
    /// The calls go to the program itself.
    #[error("`{}` has a malloc of its own", .0.display())]
    OwnAllocator(PathBuf),
    /// The probe was loaded, and nobody called it.
    #[error("it was loaded, but never called: the program allocates nothing, or by itself")]
    NeverCalled,
    /// The programs that can have called it cannot write into the recording.
    #[error("as another user or in a sandbox, {} cannot write down what it calls", names(.0))]
    Unheard(Vec<PathBuf>),
    /// Another object answers.
    #[error("malloc comes from `{}`", .0.display())]
    OtherProvider(PathBuf),
    /// No object is known that answers.
    #[error("it is not known where malloc comes from")]
    UnknownProvider,
    /// glibc's library for debugging answers, and checks nothing.
    #[error("its checks were off: the program ran without the variable GLIBC_TUNABLES")]
    ChecksOff,
}

impl WhyNot {
    /// The real cause, where the program's dynamic linker tells one: it says nothing to the probe.
    pub fn explained(self, loading: Loading<'_>, library: &Path) -> Self {
        match self {
            Self::NeverLoaded | Self::OtherProvider(_) | Self::UnknownProvider => {
                load::failure(loading, library).map_or(self, Self::NotLoadable)
            }
            Self::NotLoadable(_)
            | Self::OwnAllocator(_)
            | Self::NeverCalled
            | Self::Unheard(_)
            | Self::ChecksOff => self,
        }
    }
}

impl Observation {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (counters, objects) = bytes.split_at_checked(8 * COUNTERS)?;
        let (counters, _) = counters.as_chunks::<8>();
        let counters: Vec<u64> = counters.iter().map(|c| u64::from_le_bytes(*c)).collect();
        let [processes, in_front, checking, calls @ ..] = counters.as_slice() else {
            return None;
        };
        let (providers, objects) = objects.split_at_checked(PROVIDERS * PROVIDER_BYTES)?;
        let (front, programs) = objects.split_at_checked(OBJECT_BYTES)?;
        let Programs {
            time,
            without,
            unheard,
        } = programs::parse(programs)?;
        Some(Self {
            processes: *processes,
            in_front: *in_front,
            checking: *checking,
            calls: EXPORTS.into_iter().zip(calls.iter().copied()).collect(),
            providers: Provider::all(providers),
            front: object(front),
            without,
            unheard,
            time,
        })
    }

    /// All calls that reached the probe.
    pub fn calls_total(&self) -> u64 {
        self.calls.values().sum()
    }

    /// Whether this preload is where the command gets its memory from, and how that was seen.
    ///
    /// # Errors
    /// The reason, where no process of the command does.
    pub fn active(&self, library: &Path) -> Result<String, WhyNot> {
        let calls = self.calls_total();
        if calls == 0 && !self.unheard.is_empty() {
            return Err(WhyNot::Unheard(self.unheard.clone()));
        }
        if self.processes == 0 {
            return Err(WhyNot::NeverLoaded);
        }
        if let Some(front) = &self.front
            && (self.in_front == self.processes || calls == 0)
        {
            return Err(WhyNot::OwnAllocator(front.clone()));
        }
        let provider = self.providers.first().ok_or(WhyNot::UnknownProvider)?;
        if !is_same_file(&provider.file, library) {
            return Err(WhyNot::OtherProvider(provider.file.clone()));
        }
        if calls == 0 {
            return Err(WhyNot::NeverCalled);
        }
        let name = library.file_name().unwrap_or(library.as_os_str());
        let checks = match (name == GLIBC_CHECKS, self.checking) {
            (false, _) => String::new(),
            (true, 0) => return Err(WhyNot::ChecksOff),
            (true, all) if all == self.processes => ", with its checks on".to_owned(),
            (true, some) => format!(", with its checks on in {some} of {}", self.processes),
        };
        let with_probe_in_front = self.processes.saturating_sub(self.in_front);
        let seen = provider.processes.min(with_probe_in_front);
        let of_processes = match (seen, self.processes) {
            (_, 1) => String::new(),
            (seen, all) if seen == all => format!(" of {all} processes"),
            (seen, all) => format!(" of {seen} of {all} processes"),
        };
        let but = match &self.front {
            Some(front) => format!(", but `{}` has a malloc of its own", front.display()),
            None => String::new(),
        };
        let calls = match calls {
            1 => "1 call".to_owned(),
            calls => format!("{calls} calls"),
        };
        Ok(format!(
            "{calls}{of_processes} went to {}{checks}{but}",
            name.display()
        ))
    }
}

impl Provider {
    /// All that were written to their end.
    fn all(bytes: &[u8]) -> Vec<Self> {
        let mut by_file: BTreeMap<PathBuf, Self> = BTreeMap::new();
        for bytes in bytes.chunks_exact(PROVIDER_BYTES) {
            let (path, numbers) = bytes.split_at(OBJECT_BYTES);
            let Some(file) = object(path) else { continue };
            let (numbers, _) = numbers.as_chunks::<8>();
            let [processes, time_ns] = [0, 1].map(|at| u64::from_le_bytes(numbers[at]));
            let provider = by_file.entry(file.clone()).or_insert(Self {
                file,
                processes: 0,
                time: Duration::ZERO,
            });
            provider.processes += processes;
            provider.time += Duration::from_nanos(time_ns);
        }
        let mut all: Vec<Self> = by_file.into_values().collect();
        all.sort_by_key(|provider| Reverse(provider.time));
        all
    }
}

fn names(programs: &[PathBuf]) -> String {
    let names = programs.iter().map(|program| {
        let name = program.file_name().unwrap_or(program.as_os_str());
        format!("`{}`", name.display())
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The path in a `struct object`, if it was written to its end.
fn object(bytes: &[u8]) -> Option<PathBuf> {
    let (written, path) = bytes.split_first_chunk::<4>()?;
    let is_whole = u32::from_le_bytes(*written) == WRITTEN;
    object_path(path).filter(|path| is_whole && !path.as_os_str().is_empty())
}

/// What stands before the first zero.
fn object_path(bytes: &[u8]) -> Option<PathBuf> {
    let path = bytes.split(|&byte| byte == 0).next()?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}
