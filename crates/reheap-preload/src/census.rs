//! Finds the processes of a command that run with a library, and those without it, and says why.
//!
//! A wrapper may drop the variable (`env -i`, a supervisor with an environment of its own), or start a program that no
//! preload reaches. Neither says so. But a process that runs long enough shows its environment and its memory.
//!
//! A process with the library may be unable to say so: it runs as a user, or in a sandbox, who may not write into the
//! probe's recording. Then its memory alone shows that it has loaded the library, and nobody counts its calls.

use reheap_allocators::load::is_same_file;
use reheap_allocators::probe::{Observation, WhyNot};
use reheap_allocators::target::Libc;
use reheap_bench::results::Unreached;
use reheap_command::env_vars::LD_PRELOAD;
use reheap_command::ui::Failure;
use reheap_proc::process::{Denial, Process, ProcessError};
use reheap_proc::tree::{descendants, number};
use reheap_subject::limits;
use reheap_workshop::preloading::{self, NOT_LOADED};
use rustix::process::getpid;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Short programs run for a few milliseconds.
const INTERVAL: Duration = Duration::from_millis(1);
/// A process loads its preloads within its first milliseconds. After this many looks, it has had the time.
const LOOKS: u32 = 20;

/// What is known about each program that a process ran.
#[derive(Debug)]
pub struct Census {
    library: PathBuf,
    inode: Option<u64>,
    libc: Libc,
    with: BTreeSet<(u32, PathBuf)>,
    without: BTreeMap<(u32, PathBuf), SeenProcess>,
    latest: BTreeMap<u32, PathBuf>,
}

#[derive(Debug)]
struct SeenProcess {
    looks: u32,
    has_variable: bool,
    limit_bytes: Option<u64>,
    denial: Option<Denial>,
}

/// A process without the library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ProcessWithoutLibrary {
    pub(crate) process: u32,
    pub(crate) program: PathBuf,
    pub(crate) reason: String,
    /// Whether nobody can look into it, so that it may have the library.
    #[serde(skip)]
    pub(crate) is_hidden: bool,
}

/// What is known of a program whose calls nobody counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uncounted {
    /// A process of it had the library in its memory.
    Loaded,
    /// None was seen for long enough.
    Unknown,
}

fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    name.display().to_string()
}

impl Census {
    /// A census of the processes that should have this library.
    pub fn new(library: &Path, libc: Libc) -> Self {
        Self {
            library: library.to_owned(),
            inode: library.metadata().map(|metadata| metadata.ino()).ok(),
            libc,
            with: BTreeSet::new(),
            without: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }

    /// Looks at a running process. One that ends meanwhile shows nothing.
    pub fn look(&mut self, pid: u32) {
        let Ok(process) = Process::open(pid) else {
            return;
        };
        let program = match process.executable() {
            Ok((program, _)) => program,
            Err(ProcessError::PermissionDenied(why)) => {
                return self.hidden(pid, &process, why);
            }
            Err(_) => return,
        };
        let key = (pid, program);
        self.latest.insert(pid, key.1.clone());
        if self.with.contains(&key) {
            return;
        }
        let Ok(has_library) = self.is_in(&process) else {
            return;
        };
        if has_library {
            self.without.remove(&key);
            self.with.insert(key);
            return;
        }
        let has_variable = self.is_named_to(&process);
        // Everything must come from one and the same program.
        if !process
            .executable()
            .is_ok_and(|(program, _)| program == key.1)
        {
            return;
        }
        let seen = self.without.entry(key).or_insert(SeenProcess {
            looks: 0,
            has_variable,
            limit_bytes: process.address_space_limit(),
            denial: None,
        });
        seen.looks += 1;
    }

    fn hidden(&mut self, pid: u32, process: &Process, why: Denial) {
        let Ok(status) = process.status() else {
            return;
        };
        let program = PathBuf::from(status.name());
        self.latest.insert(pid, program.clone());
        let seen = self.without.entry((pid, program)).or_insert(SeenProcess {
            looks: 0,
            has_variable: true,
            limit_bytes: None,
            denial: Some(why),
        });
        seen.looks += 1;
    }

    fn is_in(&self, process: &Process) -> Result<bool, ProcessError> {
        let maps = process.maps()?;
        let is_it = |path: &Path, inode: u64| {
            path.file_name() == self.library.file_name()
                && (Some(inode) == self.inode || is_same_file(path, &self.library))
        };
        Ok(maps.iter().any(|mapping| {
            let path = mapping.listed_file();
            path.is_some_and(|path| is_it(&path, mapping.inode))
        }))
    }

    /// Whether the environment at its start names the library. Some programs overwrite it with their titles, but those
    /// have the library.
    fn is_named_to(&self, process: &Process) -> bool {
        let name = self.library.file_name().unwrap_or_default().as_bytes();
        process.environment().is_ok_and(|variables| {
            variables.iter().any(|(variable, value)| {
                let mut words = value.as_bytes().windows(name.len().max(1));
                variable == LD_PRELOAD && words.any(|word| word == name)
            })
        })
    }

    /// What is known of a program that cannot say that it has the library.
    pub(crate) fn uncounted(&self, program: &Path) -> Uncounted {
        if self.with.iter().any(|(_, known)| known == program) {
            Uncounted::Loaded
        } else {
            Uncounted::Unknown
        }
    }

    /// How the library was seen in a command whose calls nobody can count.
    pub fn loaded_by(&self, why: &WhyNot) -> Option<String> {
        let WhyNot::Unheard(programs) = why else {
            return None;
        };
        let is_loaded = |program: &&PathBuf| self.uncounted(program) == Uncounted::Loaded;
        let program = name_of(programs.iter().find(is_loaded)?);
        let library = name_of(&self.library);
        Some(format!(
            "`{program}` loaded {library}; its calls are not countable"
        ))
    }

    /// The programs that the probe heard nothing of: those that had the library, and the others.
    pub fn unheard(&self, observation: &Observation) -> (Vec<String>, Vec<Unreached>) {
        let programs = observation.unheard.iter();
        let (loaded, unknown): (Vec<&PathBuf>, Vec<&PathBuf>) =
            programs.partition(|program| self.uncounted(program) == Uncounted::Loaded);
        let loaded = loaded.into_iter().map(|program| name_of(program));
        let unknown = unknown.into_iter().map(|program| Unreached {
            program: name_of(program),
            reason: format!(
                "it is not known whether it loaded the library: {}",
                preloading::UNHEARD
            ),
        });
        (loaded.collect(), unknown.collect())
    }

    /// Looks at all that this process starts, while it does something.
    pub fn look_during<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Failure> {
        let (working, is_over) = mpsc::channel::<()>();
        let look = move || {
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                for pid in descendants(getpid()) {
                    self.look(number(pid));
                }
            }
        };
        let done = thread::scope(|scope| {
            thread::Builder::new().spawn_scoped(scope, look)?;
            let done = work();
            drop(working);
            Ok(done)
        });
        done.map_err(|error| Failure::no_thread("looks at the command's processes", &error))
    }

    /// The program that a process was seen to run last.
    pub(crate) fn latest(&self, process: u32) -> Option<&Path> {
        self.latest.get(&process).map(PathBuf::as_path)
    }

    /// The processes whose last program ran without the library.
    pub(crate) fn without(&self) -> Vec<ProcessWithoutLibrary> {
        let is_latest = |pid: &u32, program: &PathBuf| self.latest.get(pid) == Some(program);
        let kept = self
            .without
            .iter()
            .filter(|((pid, program), _)| is_latest(pid, program));
        kept.filter_map(|((process, program), seen)| {
            Some(ProcessWithoutLibrary {
                process: *process,
                program: program.clone(),
                reason: self.reason(program, seen)?,
                is_hidden: seen.denial.is_some(),
            })
        })
        .collect()
    }

    /// Why it does not have the library; `None` if it may not have loaded it yet.
    fn reason(&self, file: &Path, seen: &SeenProcess) -> Option<String> {
        if let Some(why) = seen.denial {
            return Some(format!("reheap cannot inspect it: {why}"));
        }
        if let Some(because) = preloading::unreached_because(file, self.libc) {
            return Some(because);
        }
        if !seen.has_variable {
            return Some(preloading::NO_VARIABLE.to_owned());
        }
        let limit = seen.limit_bytes.map_or_else(String::new, |bytes| {
            let limit = limits::shown(bytes);
            format!("; its address space limit is {limit} (`ulimit -v`)")
        });
        (seen.looks >= LOOKS).then(|| format!("{NOT_LOADED}{limit}"))
    }
}
