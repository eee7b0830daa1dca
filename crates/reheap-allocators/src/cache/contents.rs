//! What is in the cache, and how it goes again.
//!
//! A cache may be in a directory that has other files, such as a home. So only what has a name of reheap's own counts, in
//! directories of reheap's own, and no link is followed.
//!
//! Three rules keep what is in use. Whoever uses a cache holds its lock, together with others, and removing takes that
//! lock alone. A program that `reheap run` has become holds no lock, because that would be a file that it inherits. So
//! what a process has mapped, or names in its environment, stays. And an entry gets another name before its files are
//! deleted, so a crash leaves nothing that looks whole.
//!
//! An entry goes by itself 90 days after its last use. Cargo keeps what it would have to download for as long. Its last
//! use is when reheap took it last, or a program read one of its files, where the file system keeps that time.

use super::{Cache, CacheError, LOCKS, UNFINISHED};
use memchr::memmem;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What is in one directory of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The name of the directory.
    pub name: &'static str,
    /// What is in it, for people.
    pub description: &'static str,
}

/// All directories that have entries.
pub const KINDS: [Kind; 14] = [
    Kind::new("allocators", "built allocators"),
    Kind::new("memory-functions", "memory functions for static programs"),
    Kind::new("libc", "derived libcs"),
    Kind::new("c++", "C++ libraries for Rust programs"),
    Kind::new("preloads", "preloads, and libraries that look on"),
    Kind::new("grafts", "allocators for finished executables"),
    Kind::new("run", "links to preloads, for LD_PRELOAD"),
    Kind::new("programs", "reheap's own small programs"),
    Kind::new("checks", "what checks of users' own allocators showed"),
    Kind::new("static-programs", "the same with an allocator in them"),
    Kind::new(
        "compilers",
        "compilers that were found, and scripts that start them",
    ),
    Kind::new("linkers", "scripts that link for Cargo"),
    Kind::new("build", "interrupted builds of allocators"),
    TOOLS,
];

/// The user has asked for these, and they come from elsewhere. So they do not go by themselves.
const TOOLS: Kind = Kind::new("tools", "compilers from `reheap doctor --fix`");

impl Kind {
    const fn new(name: &'static str, description: &'static str) -> Self {
        Self { name, description }
    }

    /// Whether an entry of reheap's may have that name. Most end with sixteen digits of a hash.
    fn may_have(self, name: &str) -> bool {
        let stem = [".specs", ".json"]
            .iter()
            .find_map(|end| name.strip_suffix(end));
        let key = stem.unwrap_or(name).rsplit('-').next();
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        let ends_with_hash = key.is_some_and(|key| key.len() == 16 && key.bytes().all(is_digit));
        ends_with_hash
            || name.starts_with(UNFINISHED)
            || (self == TOOLS && name.starts_with("ziglang-"))
    }
}

/// Something in the cache that is used, and goes, as a whole.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The file or directory.
    pub path: PathBuf,
    /// What it occupies on the disk.
    pub bytes: u64,
    /// When it was used last.
    pub last_used: SystemTime,
}

/// What was removed, and what stayed.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The entries that are gone.
    pub removed: Vec<Entry>,
    /// Those that a running program uses.
    pub in_use: Vec<Entry>,
}

/// An entry stays for so long after its last use.
const KEPT: Duration = Duration::from_hours(90 * 24);
/// How often reheap looks for older ones.
const INTERVAL: Duration = Duration::from_hours(24);
/// A file whose time says when that was done last.
const LATEST_LOOK: &str = ".last-look-for-old-entries";
/// What the name of a directory begins with that holds what is being deleted.
const REMOVED: &str = ".removed-";

impl Cache {
    /// Everything that reheap keeps here, in the order of [`KINDS`].
    pub fn contents(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for kind in KINDS {
            let directory = self.root().join(kind.name);
            let metadata = directory.symlink_metadata();
            if !metadata.is_ok_and(|metadata| metadata.is_dir()) {
                continue;
            }
            for path in files_in(&directory) {
                let name = path.file_name().and_then(OsStr::to_str);
                if name.is_some_and(|name| kind.may_have(name)) {
                    entries.push(Entry::at(kind, path));
                }
            }
        }
        entries
    }

    /// Removes everything that no running program uses. `None` if another reheap is at work with the cache.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn clean(&self) -> Result<Option<Cleaned>, CacheError> {
        if !self.root().exists() {
            return Ok(Some(Cleaned::default()));
        }
        match self.lock_alone()? {
            Some(_lock) => self.remove(|_| true).map(Some),
            None => Ok(None),
        }
    }

    /// Removes what has not been used for long, if nobody has looked for that today and no other reheap is at work here.
    pub(super) fn remove_old(&self) -> Result<(), CacheError> {
        let latest = self.root().join(LATEST_LOOK);
        let looked = latest.metadata().and_then(|metadata| metadata.modified());
        if looked.is_ok_and(|looked| is_younger(looked, INTERVAL)) {
            return Ok(());
        }
        let Some(_lock) = self.lock_alone()? else {
            return Ok(());
        };
        super::open_lock(&latest)
            .and_then(|file| file.set_modified(SystemTime::now()))
            .map_err(CacheError::new("write", &latest))?;
        let is_old = |entry: &Entry| entry.kind != TOOLS && !is_younger(entry.last_used, KEPT);
        self.remove(is_old).map(|_| ())
    }

    /// The lock that all users of the cache share, for one that must be alone. `None` if it is not.
    fn lock_alone(&self) -> Result<Option<File>, CacheError> {
        let path = self.lock_of_users();
        let file = super::open_lock(&path).map_err(CacheError::new("make the lock", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(CacheError::new("take the lock", &path)(error)),
        }
    }

    fn remove(&self, is_unwanted: impl Fn(&Entry) -> bool) -> Result<Cleaned, CacheError> {
        self.remove_interrupted()?;
        let mut unwanted = self.contents();
        unwanted.retain(is_unwanted);
        if unwanted.is_empty() {
            return Ok(Cleaned::default());
        }
        let used = self.used_by_processes(&unwanted);
        let is_used = |entry: &Entry| used.contains(&entry.path);
        let (in_use, removed): (Vec<_>, Vec<_>) = unwanted.into_iter().partition(is_used);
        let place = tempfile::Builder::new()
            .prefix(REMOVED)
            .tempdir_in(self.root())
            .map_err(CacheError::new("make a directory in", self.root()))?;
        for (index, entry) in removed.iter().enumerate() {
            fs::rename(&entry.path, place.path().join(index.to_string()))
                .map_err(CacheError::new("remove", &entry.path))?;
            let name = entry.path.file_name().unwrap_or_default();
            let lock = format!("{}-{}", entry.kind.name, name.display());
            // Most entries have none. It is an empty file, and nobody can hold it now.
            let _ = fs::remove_file(self.root().join(LOCKS).join(lock));
        }
        let path = place.path().to_owned();
        place.close().map_err(CacheError::new("remove", &path))?;
        Ok(Cleaned { removed, in_use })
    }

    /// Finishes what was interrupted when it had renamed entries, but not yet deleted all their files.
    fn remove_interrupted(&self) -> Result<(), CacheError> {
        let is_interrupted = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.as_bytes().starts_with(REMOVED.as_bytes())
        };
        files_in(self.root())
            .filter(is_interrupted)
            .try_for_each(|path| {
                fs::remove_dir_all(&path).map_err(CacheError::new("remove", &path))
            })
    }

    /// Those entries that a process has mapped or names in its environment, and those that their links lead to.
    fn used_by_processes(&self, entries: &[Entry]) -> BTreeSet<PathBuf> {
        let named = named_by_processes();
        let is_named = |entry: &&Entry| {
            let below = entry.path.strip_prefix(self.root());
            below.is_ok_and(|below| named.contains(below))
        };
        let mut used = BTreeSet::new();
        for entry in entries.iter().filter(is_named) {
            used.insert(entry.path.clone());
            walk(&entry.path, &mut |path, _| {
                let target = fs::read_link(path).ok();
                used.extend(target.and_then(|target| Some(target.parent()?.to_owned())));
            });
        }
        used
    }
}

impl Entry {
    fn at(kind: Kind, path: PathBuf) -> Self {
        let (mut bytes, mut last_used) = (0, SystemTime::UNIX_EPOCH);
        walk(&path, &mut |file, metadata| {
            bytes += metadata.blocks() * 512;
            let is_entry = file == path;
            let modified = metadata.modified().ok().filter(|_| is_entry);
            let read = metadata.accessed().ok().filter(|_| metadata.is_file());
            last_used = modified
                .into_iter()
                .chain(read)
                .fold(last_used, SystemTime::max);
        });
        Self {
            kind,
            path,
            bytes,
            last_used,
        }
    }
}

/// What all processes that this user may look at name of caches: the directory of a kind, and an entry in it. That tells
/// an entry by its hash, whichever way its path leads.
fn named_by_processes() -> BTreeSet<PathBuf> {
    let needles = KINDS.map(|kind| format!("/{}/", kind.name));
    let mut named = BTreeSet::new();
    for process in files_in(Path::new("/proc")) {
        for source in ["maps", "environ"] {
            // Most of what is in /proc is no process, and some processes are not this user's.
            let text = fs::read(process.join(source)).unwrap_or_default();
            for (kind, needle) in KINDS.iter().zip(&needles) {
                named.extend(memmem::find_iter(&text, needle).map(|at| {
                    let rest = &text[at + needle.len()..];
                    let name = rest.split(|byte| b"/:\n\0 ".contains(byte)).next();
                    Path::new(kind.name).join(OsStr::from_bytes(name.unwrap_or_default()))
                }));
            }
        }
    }
    named
}

/// Calls `look` for a file, or for a directory and everything in it. Links are not followed.
fn walk(path: &Path, look: &mut impl FnMut(&Path, &fs::Metadata)) {
    let Ok(metadata) = path.symlink_metadata() else {
        return; // it has gone in the meantime
    };
    look(path, &metadata);
    if metadata.is_dir() {
        files_in(path).for_each(|file| walk(&file, look));
    }
}

/// What is in a directory, in the order of its names; nothing if there is no such directory.
fn files_in(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.sort();
    paths.into_iter()
}

/// Whether a time is not so long ago. One in the future counts as now.
pub(super) fn is_younger(time: SystemTime, than: Duration) -> bool {
    let age = SystemTime::now().duration_since(time).unwrap_or_default();
    age < than
}
