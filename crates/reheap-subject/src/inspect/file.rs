//! Opens files of any size, and reads only the parts that `inspect` needs.
//!
//! A path may lead to a named pipe that nobody writes to, or to a device that never ends. So reheap asks for the kind
//! of file before it opens it, and never waits while opening.

use crate::container::ContainerError;
use crate::open_file::OpenFile;
use reheap_command::ui;
use reheap_elf::error::ElfError;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Why a file cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("there is no such file")]
    NoSuchFile,
    #[error("there is no such file, and no such process")]
    NoSuchFileOrProcess,
    #[error("permission denied")]
    PermissionDenied,
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    #[error("{0}")]
    Io(io::Error),
    #[error(transparent)]
    Identify(#[from] ElfError),
    #[error("its entry point `{}`: {error}", ui::printable(.path))]
    EntryPoint {
        path: std::path::PathBuf,
        error: ElfError,
    },
    #[error(transparent)]
    Container(#[from] ContainerError),
    #[error("{0:#}")]
    Registry(anyhow::Error),
}

/// Opens a program, library, object or archive.
pub fn open(path: &Path) -> Result<OpenFile, FileError> {
    let file_type = std::fs::metadata(path).map_err(io_error)?.file_type();
    if !file_type.is_file() {
        return Err(FileError::NotAFile(match () {
            () if file_type.is_dir() => "a directory",
            () if file_type.is_fifo() => "a named pipe",
            () if file_type.is_socket() => "a socket",
            () => "a device",
        }));
    }
    // If the file has become a named pipe by now, this does not wait for a writer.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .map_err(io_error)?;
    OpenFile::new(file).map_err(io_error)
}

pub(super) fn io_error(error: io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::NotFound => FileError::NoSuchFile,
        io::ErrorKind::PermissionDenied => FileError::PermissionDenied,
        _ => FileError::Io(error),
    }
}
