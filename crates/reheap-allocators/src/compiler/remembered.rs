//! What a search has found is kept in the cache, because it starts up to twenty programs, and a build starts a compiler
//! for each file.
//!
//! A record holds what was found, and the state of all files that the search looked at. For each program name, that is
//! every file of this name on PATH: a better compiler may appear in front, and `ccache` starts the next one of its own
//! name. A change of any of them makes the record void, and so does a variable that compilers read, because those are
//! in its name. A record that is damaged, or that cannot be written, only costs the time of a search.
//!
//! Only what was found is kept. A candidate that failed may work after its headers are installed, which changes none of
//! these files.

use super::{HOST_SEARCH_PATHS, Search};
use crate::cache::{self, Cache, hash, sha256};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Variables that decide which programs, headers and libraries GCC, Clang, Zig and Python use, besides
/// [`HOST_SEARCH_PATHS`]. `REALGCC` is what `musl-gcc` starts.
const COMPILERS_READ: [&str; 13] = [
    "PATH",
    "HOME",
    "GCC_EXEC_PREFIX",
    "COMPILER_PATH",
    "REALGCC",
    "CCC_OVERRIDE_OPTIONS",
    "SDKROOT",
    "ZIG_LIB_DIR",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONUSERBASE",
    "PYENV_VERSION",
    "LD_LIBRARY_PATH",
];

/// The running program (proc_pid_exe(5)).
const PROGRAM: &str = "/proc/self/exe";

/// The directory of the records in the cache.
const DIRECTORY: &str = "compilers";

#[derive(Serialize, Deserialize)]
struct Record<T> {
    /// Names of programs, and paths.
    looked_at: BTreeSet<PathBuf>,
    /// A hash of the state of these files.
    state: String,
    found: T,
}

/// What a search finds.
pub(crate) trait Finding: Serialize + DeserializeOwned {
    /// Whether the files that the search looked at decide it alone, so that it is worth keeping.
    fn is_settled(&self) -> bool {
        true
    }

    /// Whether it still holds, for what these files do not show.
    fn still_holds(&self, _search: &Search) -> bool {
        true
    }
}

/// Gives what an earlier search with the same subject found, or searches.
pub(crate) fn or_search<T: Finding, E>(
    subject: impl fmt::Debug,
    search: &Search,
    make: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let Some(cache) = &search.memory else {
        return make();
    };
    let path = cache.root().join(DIRECTORY).join(name(&subject, search));
    if let Some(found) = recall(&path, search) {
        return Ok(found);
    }
    search.looked_at.borrow_mut().clear();
    let found = make()?;
    if found.is_settled() {
        let looked_at = search.looked_at.take();
        let record = Record {
            state: state(&looked_at, search),
            looked_at,
            found: &found,
        };
        keep(&record, &path, cache);
    }
    Ok(found)
}

/// The name of a record says the subject and the environment.
fn name(subject: &impl fmt::Debug, search: &Search) -> String {
    let subject = format!("{subject:?}");
    // Another reheap may search in another way.
    let this_program = state(&BTreeSet::from([PROGRAM.into()]), search);
    let is_read = |name: &OsStr| {
        let is_choice = |prefix: &[u8]| name.as_bytes().starts_with(prefix);
        let mut read = COMPILERS_READ.iter().chain(&HOST_SEARCH_PATHS);
        read.any(|known| name == *known) || is_choice(b"CC_") || is_choice(b"CXX_")
    };
    let variables = search
        .environment
        .iter()
        .filter(|(name, _)| is_read(name))
        .flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
    let parts = [subject.as_bytes(), this_program.as_bytes()];
    let key = hash(parts.into_iter().chain(variables));
    format!("found-{}.json", &key[..16])
}

/// A hash of the state of files. It changes with their contents, because a write sets the time of a change (inode(7)),
/// and no program can set that time back.
fn state(looked_at: &BTreeSet<PathBuf>, search: &Search) -> String {
    let mut states = Vec::new();
    for name in looked_at {
        for path in search.places_of(name) {
            let Ok(file) = path.metadata() else { continue };
            let numbers = [file.ino(), file.size(), file.mtime() as u64];
            let changed = [file.ctime(), file.ctime_nsec()];
            states.extend_from_slice(path.as_os_str().as_bytes());
            states.extend_from_slice(format!(" {numbers:?} {changed:?}\n").as_bytes());
        }
    }
    sha256(&states)
}

/// What a record holds, if it is of use. Anything else counts as no record.
fn recall<T: Finding>(path: &Path, search: &Search) -> Option<T> {
    let text = fs::read(path).ok()?;
    cache::check_entry(path).ok()?;
    let record: Record<T> = serde_json::from_slice(&text).ok()?;
    let holds =
        record.state == state(&record.looked_at, search) && record.found.still_holds(search);
    holds.then_some(record.found)
}

/// Writes a record. Of two processes the last one wins, and both have found the same. Where the cache cannot be written,
/// the next search takes its time again.
fn keep<T: Serialize>(record: &Record<T>, path: &Path, cache: &Cache) {
    let text = serde_json::to_vec(record).ok(); // JSON has no text for a path that is not UTF-8
    if let Some(text) = text
        && cache.directory(DIRECTORY).is_ok()
    {
        let _ = cache::write_by_rename(path, &text, 0o644);
    }
}
