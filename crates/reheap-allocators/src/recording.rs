//! The file that all processes of one run write what they see into, by a library that is loaded into each
//! (`glue/recording.c`): made here, named by a variable, and read back at any time.
//!
//! What root starts may go on as another user (`setpriv`, gosu, daemons), and then has to open it too. So root's are
//! open to everybody who knows the name, which only the variable tells.

use crate::preload;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Nobody guesses a name of so many letters and digits.
const NAME_BYTES: usize = 32;

/// What a library and reheap agree on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Names the file to the library.
    pub(crate) variable: &'static str,
    /// What the file begins with. Another layout takes another magic.
    pub(crate) magic: &'static [u8; 8],
    /// The size of the file, with the magic.
    pub(crate) bytes: usize,
}

/// A recording of that layout.
#[derive(Debug)]
pub(crate) struct RecordingFile {
    path: PathBuf,
    layout: Layout,
    _directory: TempDir,
}

/// Why a recording says nothing.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be made or read.
    #[error("cannot use the recording `{}`", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something else wrote into it.
    #[error("the recording `{}` is damaged", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
}

impl RecordingFile {
    /// Makes an empty one, which goes when this value does.
    pub(crate) fn create(layout: Layout) -> Result<Self, RecordingError> {
        let file_error = |path: &Path| {
            let path = path.to_owned();
            move |source| RecordingError::File { path, source }
        };
        let directory = tempfile::tempdir().map_err(file_error(&std::env::temp_dir()))?;
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("").rand_bytes(NAME_BYTES);
        let write = || -> io::Result<PathBuf> {
            let (mut file, path) = builder.tempfile_in(directory.path())?.keep()?;
            file.write_all(layout.magic)?;
            file.set_len(layout.bytes as u64)?;
            if rustix::process::geteuid().is_root() {
                file.set_permissions(Permissions::from_mode(0o666))?;
                fs::set_permissions(directory.path(), Permissions::from_mode(0o711))?;
            }
            Ok(path)
        };
        let path = write().map_err(file_error(directory.path()))?;
        Ok(Self {
            path,
            layout,
            _directory: directory,
        })
    }

    /// The variables that the run gets: `LD_PRELOAD` with the library in front of what else is to be preloaded.
    pub(crate) fn environment(
        &self,
        library: &Path,
        preload: Option<&OsStr>,
    ) -> [(OsString, OsString); 2] {
        [
            (self.layout.variable.into(), self.path.clone().into()),
            preload::in_front(library, preload),
        ]
    }

    /// What `parse` makes of the bytes behind the magic.
    pub(crate) fn read<T>(
        &self,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, RecordingError> {
        let path = || self.path.clone();
        let bytes = fs::read(&self.path).map_err(|source| RecordingError::File {
            path: path(),
            source,
        })?;
        let behind_magic = bytes
            .strip_prefix(self.layout.magic)
            .filter(|_| bytes.len() == self.layout.bytes);
        behind_magic
            .and_then(parse)
            .ok_or_else(|| RecordingError::Damaged { path: path() })
    }
}
