//! Files, read whole, one after the other.
//!
//! A path may also lead to a named pipe that nobody writes to or to a device that never ends, so the kind of file is asked
//! before it is opened, and opening never waits.

use super::text;
use crate::container::ContainerError;
use reheap_elf::identify::{self, IdentifyError};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Larger files are refused rather than read into memory.
pub(crate) const FILE_BYTES_MAX: u64 = 2 << 30;
/// As much as tells whether the rest is worth reading.
const BEGINNING_BYTES: u64 = 64;

/// Why a file cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("there is no such file")]
    NoSuchFile,
    #[error("there is no such file, and no such process")]
    NoSuchFileOrProcess,
    #[error("permission denied")]
    PermissionDenied,
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    #[error("it is larger than {} GiB", FILE_BYTES_MAX >> 30)]
    TooLarge,
    #[error("{0}")]
    Io(io::Error),
    #[error(transparent)]
    Identify(#[from] IdentifyError),
    #[error("its entry point `{}`: {error}", text::printable(.path))]
    EntryPoint {
        path: std::path::PathBuf,
        error: IdentifyError,
    },
    #[error(transparent)]
    Container(#[from] ContainerError),
}

/// The contents of a program, library, object or archive.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let file_type = std::fs::metadata(path).map_err(io_error)?.file_type();
    if !file_type.is_file() {
        return Err(FileError::NotAFile(match () {
            () if file_type.is_dir() => "a directory",
            () if file_type.is_fifo() => "a named pipe",
            () if file_type.is_socket() => "a socket",
            () => "a device",
        }));
    }
    // Should the file have become a named pipe by now, this does not wait for somebody to write to it.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .map_err(io_error)?;
    contents(&file)
}

/// The contents of an opened file, if they begin like something that can be identified.
pub(super) fn contents(file: &File) -> Result<Vec<u8>, FileError> {
    let size = file.metadata().map_err(io_error)?.len();
    if size > FILE_BYTES_MAX {
        return Err(FileError::TooLarge);
    }
    let mut bytes = Vec::new();
    file.take(BEGINNING_BYTES)
        .read_to_end(&mut bytes)
        .map_err(io_error)?;
    identify::check_beginning(&bytes)?;
    // One byte more than it has now: the end is then seen without another, larger buffer.
    bytes.reserve_exact(usize::try_from(size).unwrap_or_default() + 1);
    file.take(FILE_BYTES_MAX - BEGINNING_BYTES)
        .read_to_end(&mut bytes)
        .map_err(io_error)?;
    Ok(bytes)
}

pub(super) fn io_error(error: io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::NotFound => FileError::NoSuchFile,
        io::ErrorKind::PermissionDenied => FileError::PermissionDenied,
        _ => FileError::Io(error),
    }
}
