//! The cache: where built allocators and derived libcs are kept.
//!
//! An entry is a directory. Its name contains a hash of everything that goes into it. reheap fills a temporary sibling
//! and renames it, under a lock. So two builds at once make the entry once, and an interrupted build leaves nothing
//! that looks whole.

use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A cache directory.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// What could not be done in the cache.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`", .path.display())]
pub struct CacheError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl CacheError {
    pub(crate) fn new(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self {
            action,
            path,
            source,
        }
    }
}

/// A lock on one name. Dropping it releases it, and so does the death of the process.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Cache {
    /// The cache in a directory, which need not exist yet.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The user's cache directory, by the XDG base directory specification. `None` without a home directory.
    pub fn of_user() -> Option<Self> {
        use etcetera::base_strategy::{BaseStrategy, choose_base_strategy};
        let strategy = choose_base_strategy().ok()?;
        Some(Self::at(strategy.cache_dir().join("reheap")))
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A directory of that path below the cache, made if missing.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn directory(&self, path: &str) -> Result<PathBuf, CacheError> {
        let directory = self.root.join(path);
        fs::create_dir_all(&directory)
            .map_err(CacheError::new("make the directory", &directory))?;
        Ok(directory)
    }

    /// Tries whether the cache can keep anything. Permissions would not show a read-only or a full disk.
    ///
    /// # Errors
    /// When the directory cannot be made, or a file cannot be made in it.
    pub fn check(&self) -> Result<(), CacheError> {
        let root = &self.root;
        fs::create_dir_all(root).map_err(CacheError::new("make the directory", root))?;
        tempfile::tempfile_in(root).map_err(CacheError::new("write in", root))?;
        Ok(())
    }

    /// Waits for the lock of that name.
    ///
    /// # Errors
    /// When the lock file cannot be made or locked.
    pub fn lock(&self, name: &str) -> Result<Lock, CacheError> {
        let path = self.directory("locks")?.join(name);
        let file = File::create(&path).map_err(CacheError::new("make the lock", &path))?;
        file.lock()
            .map_err(CacheError::new("take the lock", &path))?;
        Ok(Lock { _file: file })
    }

    /// The entry `kind/name`. If it does not exist, `make` fills an empty directory that becomes the entry.
    ///
    /// # Errors
    /// Those of `make`, and a [`CacheError`] when the cache cannot be read or written.
    pub fn entry<E: From<CacheError>>(
        &self,
        kind: &str,
        name: &str,
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        self.whole_entry(kind, name, Path::is_dir, make)
    }

    /// The same for an entry that may have been damaged since: `make` makes it again unless it is whole.
    pub(crate) fn whole_entry<E: From<CacheError>>(
        &self,
        kind: &str,
        name: &str,
        is_whole: impl Fn(&Path) -> bool,
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let directory = self.directory(kind)?;
        let entry = directory.join(name);
        if is_whole(&entry) {
            return Ok(entry);
        }
        let _lock = self.lock(&format!("{kind}-{name}"))?;
        if is_whole(&entry) {
            return Ok(entry);
        }
        let prefix = format!(".unfinished-{name}-");
        clear_away(&directory, &prefix)?;
        let unfinished = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&directory)
            .map_err(CacheError::new("make a directory in", &directory))?;
        make(unfinished.path())?;
        if entry.exists() {
            fs::remove_dir_all(&entry).map_err(CacheError::new("remove the damaged", &entry))?;
        }
        fs::rename(unfinished.path(), &entry)
            .map_err(CacheError::new("rename the finished", &entry))?;
        let _ = unfinished.keep(); // it is renamed, so there is nothing to delete
        Ok(entry)
    }
}

/// Removes what interrupted builds of an entry left. The caller holds the entry's lock, so no build is working there.
fn clear_away(directory: &Path, prefix: &str) -> Result<(), CacheError> {
    for entry in fs::read_dir(directory).map_err(CacheError::new("read", directory))? {
        let entry = entry.map_err(CacheError::new("read", directory))?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let path = entry.path();
            fs::remove_dir_all(&path).map_err(CacheError::new("remove", &path))?;
        }
    }
    Ok(())
}

/// Hashes parts of any length so that no two lists of parts give the same input.
pub(crate) fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hexadecimal(&hasher.finalize())
}

/// SHA-256 of bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Replaces or makes a file with these permission bits by writing a temporary sibling and renaming it.
///
/// # Errors
/// When the temporary file cannot be made, written, or renamed. The file at `path` is then as it was.
pub fn write_by_rename(path: &Path, contents: &[u8], mode: u32) -> Result<(), CacheError> {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".reheap-")
        .tempfile_in(directory)
        .map_err(CacheError::new("write in", directory))?;
    file.write_all(contents)
        .map_err(CacheError::new("write", path))?;
    file.as_file()
        .set_permissions(fs::Permissions::from_mode(mode))
        .and_then(|()| file.as_file().sync_all())
        .map_err(CacheError::new("write", path))?;
    file.persist(path)
        .map_err(|e| CacheError::new("replace", path)(e.error))?;
    Ok(())
}
