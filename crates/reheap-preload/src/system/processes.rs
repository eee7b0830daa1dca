//! Finds the running processes that have a library of reheap.

use super::LIBRARIES;
use super::identity::{Identity, path_handle};
use super::root::Root;
use reheap_proc::maps::Mapping;
use reheap_proc::process::{self, Process, ProcessError};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A process and the library in its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessWithLibrary {
    /// The process's number.
    pub pid: u32,
    /// The program's name.
    pub name: String,
    /// The library.
    pub library: String,
}

/// What could be seen.
#[derive(Debug, Default)]
pub struct Processes {
    /// The processes that have a library of reheap's.
    pub with_library: Vec<ProcessWithLibrary>,
    /// How many processes of the system have none.
    pub others: usize,
    /// How many reheap may not inspect; 0 for another system than this one, as they do not tell whose they are.
    pub denied: usize,
}

/// Looks at all processes; a process that ends meanwhile is not a failure.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn look(root: &Root) -> std::io::Result<Processes> {
    // The kernel shows paths from this process's root, as far as it can see them from there, without links.
    let named = root.directory().join(LIBRARIES.trim_start_matches('/'));
    let directory = root.locate(LIBRARIES).unwrap_or(named);
    let own = root.directory_identity("/")?;
    let is_of_system = |pid| {
        let theirs = path_handle(Path::new(&format!("/proc/{pid}/root")));
        let theirs = theirs.and_then(|handle| Identity::of(&handle));
        theirs.is_ok_and(|theirs| theirs.is_same_directory(&own))
    };
    let mut processes = Processes::default();
    for pid in process::all()? {
        match library_of(pid, &directory) {
            Ok(Some(process)) => processes.with_library.push(process),
            Ok(None) if is_of_system(pid) => processes.others += 1,
            Err(ProcessError::PermissionDenied(_)) if root.is_this_system() => {
                processes.denied += 1;
            }
            Ok(None) | Err(_) => {}
        }
    }
    Ok(processes)
}

fn library_of(pid: u32, directory: &Path) -> Result<Option<ProcessWithLibrary>, ProcessError> {
    let process = Process::open(pid)?;
    let mappings = process.maps()?;
    let paths: BTreeSet<PathBuf> = mappings.iter().filter_map(Mapping::listed_file).collect();
    let found = paths.into_iter().find_map(|path| {
        let below = path.strip_prefix(directory).ok()?;
        let library = Path::new(LIBRARIES).join(below);
        Some(library.to_string_lossy().into_owned())
    });
    let Some(library) = found else {
        return Ok(None);
    };
    Ok(Some(ProcessWithLibrary {
        pid,
        name: process.status()?.name().to_owned(),
        library,
    }))
}
