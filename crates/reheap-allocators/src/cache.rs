//! The cache: where built allocators and derived libcs are kept.
//!
//! An entry is a directory. Its name contains a hash of everything that goes into it. reheap fills a temporary sibling
//! and renames it, under a lock. So two builds at once make the entry once, and an interrupted build leaves nothing
//! that looks whole. A list of the files is in it. What has lost some since, to a cleaner of old files or a power
//! failure, is made again.
//!
//! What is here gets executed and preloaded, so only whoever is trusted may write here ([`crate::trust`]). What reheap
//! makes here is for nobody else to write, whatever the umask says. Everybody may read it: a program that gives up its
//! rights still starts others with the preload.
//!
//! [`contents`] says what is here, and removes it.

pub mod contents;

use crate::trust::{Distrusted, Trust};
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// A cache directory.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    /// The lock that all users of the cache share. While somebody has it, nothing is removed.
    in_use: Arc<OnceLock<File>>,
}

/// What could not be done in the cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The system says no.
    #[error("cannot {action} `{}`", .path.display())]
    System {
        /// What reheap wanted to do.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else could replace what is in it.
    #[error(transparent)]
    Distrusted(#[from] Distrusted),
}

impl CacheError {
    pub(crate) fn new(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::System {
            action,
            path,
            source,
        }
    }

    /// Who could replace what, if that is why the cache is refused.
    pub fn distrust(&self) -> Option<&Distrusted> {
        match self {
            Self::Distrusted(distrusted) => Some(distrusted),
            Self::System { .. } => None,
        }
    }
}

/// Of what reheap makes in the cache; files that nobody executes lack the bits for that.
const PERMISSIONS: u32 = 0o755;

/// A lock on one name. Dropping it releases it, and so does the death of the process.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Cache {
    /// The cache in a directory, which need not exist yet.
    pub fn at(root: PathBuf) -> Self {
        Self {
            root,
            in_use: Arc::default(),
        }
    }

    /// Lets nothing be removed for as long as this value lives. Before that, what is old goes.
    ///
    /// # Errors
    /// When the cache cannot be locked.
    pub fn hold(&self) -> Result<(), CacheError> {
        if self.root.is_dir() && self.in_use.get().is_none() {
            // If something cannot be removed, it is tried again another day.
            let _ = self.remove_old();
            self.lock_for_use()?;
        }
        Ok(())
    }

    fn lock_for_use(&self) -> Result<(), CacheError> {
        if self.in_use.get().is_some() {
            return Ok(());
        }
        let path = self.lock_of_users();
        // A cache where this user can make no lock is somebody else's, who must look after its users.
        if let Ok(file) = open_lock(&path) {
            file.lock_shared()
                .map_err(CacheError::new("take the lock", &path))?;
            let _ = self.in_use.set(file); // another thread may have been quicker
        }
        Ok(())
    }

    fn lock_of_users(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Refuses the cache if somebody else could replace what is in it. One that does not exist yet is judged by where it
    /// would be.
    ///
    /// # Errors
    /// When another user may write to it, to a directory above it, or to one in it.
    pub fn check_trust(&self) -> Result<(), CacheError> {
        let trust = Trust::of_this_process();
        trust.check(&self.root)?;
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            trust.check_one(&entry.path())?;
        }
        Ok(())
    }

    /// A directory of that path below the cache, made if missing.
    ///
    /// # Errors
    /// When the directory cannot be made, or somebody else may write to it.
    pub fn directory(&self, path: &str) -> Result<PathBuf, CacheError> {
        let directory = self.root.join(path);
        self.make_directories(&directory)?;
        // Somebody may have made it in the meantime, as in `/tmp`.
        Trust::of_this_process().check(&directory)?;
        self.lock_for_use()?;
        Ok(directory)
    }

    /// Tries whether the cache can keep anything. Permissions would not show a read-only or a full disk.
    ///
    /// # Errors
    /// When the directory cannot be made, or a file cannot be made in it.
    pub fn check(&self) -> Result<(), CacheError> {
        let root = &self.root;
        self.make_directories(root)?;
        tempfile::tempfile_in(root).map_err(CacheError::new("write in", root))?;
        Ok(())
    }

    /// Waits for the lock of that name.
    ///
    /// # Errors
    /// When the lock file cannot be made or locked.
    pub fn lock(&self, name: &str) -> Result<Lock, CacheError> {
        let (path, file) = self.lock_file(name)?;
        file.lock()
            .map_err(CacheError::new("take the lock", &path))?;
        Ok(Lock { _file: file })
    }

    /// Those of the cache are readable for everybody, whatever the umask says.
    fn make_directories(&self, path: &Path) -> Result<(), CacheError> {
        let is_missing =
            |directory: &&Path| directory.starts_with(&self.root) && !directory.exists();
        let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(PERMISSIONS)
            .create(path)
            .and_then(|()| {
                let mut made = missing.into_iter();
                made.try_for_each(|directory| {
                    fs::set_permissions(directory, Permissions::from_mode(PERMISSIONS))
                })
            })
            .map_err(CacheError::new("make the directory", path))
    }

    fn lock_file(&self, name: &str) -> Result<(PathBuf, File), CacheError> {
        let path = self.directory(LOCKS)?.join(name);
        let file = open_lock(&path).map_err(CacheError::new("make the lock", &path))?;
        Ok((path, file))
    }

    /// The entry `kind/name`. If it does not exist or has lost files, `make` fills an empty directory that becomes the
    /// entry.
    ///
    /// # Errors
    /// Those of `make`, and a [`CacheError`] when the cache cannot be read or written.
    pub fn entry<E: From<CacheError>>(
        &self,
        kind: &str,
        name: &str,
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        self.whole_entry(kind, name, has_all, |unfinished| {
            make(unfinished)?;
            let list = list(unfinished, unfinished).map_err(CacheError::new("list", unfinished))?;
            let path = unfinished.join(CONTENTS);
            Ok(fs::write(&path, list).map_err(CacheError::new("write", &path))?)
        })
    }

    /// Whether [`Cache::entry`] returns at once.
    pub(crate) fn has(&self, kind: &str, name: &str) -> bool {
        has_all(&self.root.join(kind).join(name))
    }

    /// The entry `kind/name`, made by `make` if it is not whole. `is_whole` decides that, where [`Cache::entry`] looks at a
    /// list of the files.
    pub(crate) fn whole_entry<E: From<CacheError>>(
        &self,
        kind: &str,
        name: &str,
        is_whole: impl Fn(&Path) -> bool,
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let is_known = contents::KINDS.iter().any(|known| known.name == kind);
        debug_assert!(is_known, "nobody would see or remove what is in `{kind}`");
        let directory = self.directory(kind)?;
        let entry = directory.join(name);
        if is_whole(&entry) {
            check_entry(&entry)?;
            note_use(&entry);
            return Ok(entry);
        }
        self.remove_abandoned(&directory, kind, |file| {
            let name = file.strip_prefix(UNFINISHED)?;
            Some(name.rsplit_once('-')?.0)
        });
        let _lock = self.lock(&format!("{kind}-{name}"))?;
        if is_whole(&entry) {
            check_entry(&entry)?;
            return Ok(entry);
        }
        let unfinished = tempfile::Builder::new()
            .prefix(&format!("{UNFINISHED}{name}-"))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&directory)
            .map_err(CacheError::new("make a directory in", &directory))?;
        make(unfinished.path())?;
        settle(unfinished.path()).map_err(CacheError::new("set the mode of", unfinished.path()))?;
        if entry.exists() {
            fs::remove_dir_all(&entry).map_err(CacheError::new("remove the damaged", &entry))?;
        }
        fs::rename(unfinished.path(), &entry)
            .map_err(CacheError::new("rename the finished", &entry))?;
        let _ = unfinished.keep(); // it is renamed, so there is nothing to delete
        Ok(entry)
    }

    /// Removes from a directory what interrupted builds left there. `entry_of` tells from the name of a file for which
    /// entry of that kind it was. While its lock is taken, a build is at work there. If anything fails, the next build
    /// tries again.
    pub(crate) fn remove_abandoned(
        &self,
        directory: &Path,
        kind: &str,
        entry_of: impl Fn(&str) -> Option<&str>,
    ) {
        for file in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = file.file_name();
            let Some(entry) = name.to_str().and_then(&entry_of) else {
                continue;
            };
            let lock = self.lock_file(&format!("{kind}-{entry}"));
            if lock.is_ok_and(|(_, lock)| lock.try_lock().is_ok()) {
                let _ = fs::remove_dir_all(file.path());
            }
        }
    }
}

/// What the name of a directory begins with that becomes an entry. The entry's name and a random part follow.
const UNFINISHED: &str = ".unfinished-";

/// The directory of the locks that are for one entry.
const LOCKS: &str = "locks";

/// Notes that an entry is used, which keeps it from being removed as an old one.
pub(crate) fn note_use(entry: &Path) {
    const PRECISION: Duration = Duration::from_hours(24);
    let noted = entry.metadata().and_then(|metadata| metadata.modified());
    if !noted.is_ok_and(|noted| contents::is_younger(noted, PRECISION)) {
        // The entry may be somebody else's, who notes for himself.
        let _ = File::open(entry).and_then(|entry| entry.set_modified(SystemTime::now()));
    }
}

/// Opens a lock, or any other file whose time counts and not its text, and makes it if it is not there. Nobody else may
/// write to it.
///
/// NFS shares a lock only if the file is open for reading, and gives it to one alone only if it is open for writing
/// (flock(2)). Somebody else's may only be open for reading.
///
/// # Errors
/// When it can be neither opened nor made.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o644);
    options
        .open(path)
        .or_else(|error| File::open(path).map_err(|_| error))
}

/// Refuses an entry that somebody else may write to.
///
/// # Errors
/// With the file or directory that it is about.
pub fn check_entry(entry: &Path) -> Result<(), CacheError> {
    Ok(Trust::of_this_process().check_tree(entry)?)
}

/// The file of an entry that lists the others.
pub(crate) const CONTENTS: &str = ".contents";

/// Size and path of every file in an entry, one to a line.
fn list(entry: &Path, directory: &Path) -> io::Result<String> {
    let mut lines = String::new();
    for file in fs::read_dir(directory)? {
        let file = file?;
        let (path, metadata) = (file.path(), file.metadata()?);
        if metadata.is_dir() {
            lines.push_str(&list(entry, &path)?);
        } else {
            let path = path.strip_prefix(entry).unwrap_or(&path);
            lines.push_str(&format!("{} {}\n", metadata.len(), path.display()));
        }
    }
    Ok(lines)
}

/// Whether an entry has every file that it lists. One that this user may not read counts as whole: making it again would
/// not help.
fn has_all(entry: &Path) -> bool {
    let list = match fs::read_to_string(entry.join(CONTENTS)) {
        Ok(list) => list,
        Err(error) => return error.kind() == io::ErrorKind::PermissionDenied,
    };
    let is_there = |line: &str| {
        let (size, path) = line.split_once(' ')?;
        let metadata = entry.join(path).symlink_metadata().ok()?;
        (size == metadata.len().to_string()).then_some(())
    };
    !list.is_empty() && list.lines().all(|line| is_there(line).is_some())
}

/// Brings what was made to the disk, and lets everybody read it and nobody else write it. The umask of a build may have
/// been 0 or 077.
fn settle(path: &Path) -> io::Result<()> {
    let metadata = path.symlink_metadata()?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            settle(&entry?.path())?;
        }
    } else if metadata.is_file() {
        File::open(path)?.sync_all()?;
    }
    if metadata.is_symlink() {
        return Ok(());
    }
    let is_executable = metadata.permissions().mode() & 0o100 != 0;
    let mode = if is_executable {
        PERMISSIONS
    } else {
        PERMISSIONS & !0o111
    };
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Hashes parts of any length so that no two lists of parts give the same input.
pub(crate) fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex::encode(hasher.finalize())
}

/// SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// Replaces or makes a file with these permission bits by writing a temporary sibling and renaming it.
///
/// # Errors
/// When the temporary file cannot be made, written, or renamed. The file at `path` is then as it was.
pub fn write_by_rename(path: &Path, contents: &[u8], mode: u32) -> Result<(), CacheError> {
    let mode = Permissions::from_mode(mode);
    write_dressed(path, contents, 0o600, |new| new.set_permissions(mode))
}

/// Replaces or makes a file by writing a temporary sibling and renaming it. The sibling is made with these permission
/// bits, as far as the umask allows them, and `dress` gives it everything besides its contents.
///
/// # Errors
/// Those of [`write_by_rename`], and those of `dress`.
pub fn write_dressed(
    path: &Path,
    contents: &[u8],
    bits: u32,
    dress: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), CacheError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".reheap-")
        .permissions(Permissions::from_mode(bits))
        .tempfile_in(directory)
        .map_err(CacheError::new("write in", directory))?;
    fill(file.as_file_mut(), contents, dress).map_err(CacheError::new("write", path))?;
    file.persist(path)
        .map_err(|e| CacheError::new("replace", path)(e.error))?;
    Ok(())
}

/// Brings a new file to the disk. `dress` gives it everything besides its contents.
///
/// # Errors
/// When that fails.
pub fn fill(
    file: &mut File,
    contents: &[u8],
    dress: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    file.write_all(contents)?;
    dress(file)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_getfl};

    #[test]
    fn a_lock_can_be_shared_and_taken_alone_on_nfs_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        for state in ["new", "there already"] {
            let flags = fcntl_getfl(open_lock(&path).unwrap()).unwrap();
            assert!(flags.contains(OFlags::RDWR), "{state}");
        }
    }
}
