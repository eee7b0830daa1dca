//! Finds which allocator and libc a file, a process or a container image has, and puts the answer into words.
//!
//! A subject is what the user typed. If a file of that name exists, the subject is that file, even if the name is a
//! number.

mod expect;
mod file;
mod hardening;
pub(crate) mod image;
mod line;
mod preload;
mod report;
mod running;
mod text;

use crate::remote;
use file::FileError;
pub use file::open;
use reheap_command::ui;
use reheap_image::read::{self, Location};
use reheap_proc::process::ProcessError;
use std::path::Path;

pub use expect::{Expected, Judgement};
pub use line::{columns_of_terminal, line};
pub use report::Report;
pub use running::{Files, InspectProcessError};
pub use text::block;

/// Why a subject cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// A file cannot be inspected.
    #[error(transparent)]
    File(#[from] FileError),
    /// A process cannot be inspected.
    #[error(transparent)]
    Process(#[from] InspectProcessError),
}

impl InspectError {
    /// What to do about it.
    pub fn hint(&self, subject: &str) -> Option<String> {
        match self {
            Self::File(FileError::NoSuchFile) => {
                let is_name = remote::named(subject).is_ok_and(|name| name.is_some());
                is_name
                    .then(|| format!("an image in a registry: reheap inspect docker://{subject}"))
            }
            Self::File(FileError::Registry(error)) => ui::hint_of(error).map(str::to_owned),
            _ => None,
        }
    }
}

/// Looks at one running process.
pub fn process(pid: u32, files: &Files) -> Result<Report, InspectProcessError> {
    let running = running::inspect(pid, files)?;
    Ok(Report::Process(Box::new(running)))
}

/// Inspects what the user typed.
pub fn subject(subject: &Path, files: &Files) -> Result<Report, InspectError> {
    let is_missing = subject.symlink_metadata().is_err();
    match pid(subject).filter(|_| is_missing) {
        Some(pid) => process(pid, files).map_err(|error| match error {
            InspectProcessError::Process(ProcessError::NoSuchProcess) => {
                InspectError::File(FileError::NoSuchFileOrProcess)
            }
            other => InspectError::Process(other),
        }),
        None => Ok(inspect_file(subject)?),
    }
}

fn inspect_file(path: &Path) -> Result<Report, FileError> {
    let file = path.to_string_lossy().into_owned();
    if file.starts_with("docker://") {
        return image::inspect_remote(&file);
    }
    let location = Location::new(path);
    if read::is_image(&location.path) {
        return image::inspect(&location, file);
    }
    let opened = file::open(path)?;
    Ok(Report::File {
        file,
        identity: Box::new(hardening::identify(&opened)?),
    })
}

/// The process whose number the subject is; 0 is not a process.
fn pid(subject: &Path) -> Option<u32> {
    let text = subject.to_str()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A number that no process can have is one of no process.
    is_number.then(|| text.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reheap_elf::identify::Confidence;

    /// reheap must not find its own search patterns when it inspects itself.
    #[test]
    fn a_program_that_knows_the_signatures_does_not_look_like_every_allocator() {
        let program = std::env::current_exe().unwrap();
        let identity = hardening::identify(&file::open(&program).unwrap()).unwrap();
        let libc = identity.libc.name.to_string();
        let foreign: Vec<_> = identity
            .allocators
            .iter()
            .filter(|found| found.confidence >= Confidence::Likely)
            .filter(|found| !found.name.starts_with(&libc))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
    }

    #[test]
    fn a_file_that_may_not_be_read_is_refused_with_the_reason() {
        let error = file::io_error(std::io::Error::from(std::io::ErrorKind::PermissionDenied));
        assert_eq!(error.to_string(), "permission denied");
    }

    #[test]
    fn only_a_number_alone_is_one_of_a_process() {
        assert_eq!(pid(Path::new("./1")), None);
        assert_eq!(pid(Path::new("1")), Some(1));
    }
}
