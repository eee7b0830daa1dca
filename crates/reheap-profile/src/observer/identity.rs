//! Who a watched process is: its numbers, and what it executes.

use crate::recording::{Place, Recording};
use reheap_proc::by_number;
use std::path::{Path, PathBuf};

/// What is known of a process from its beginning on.
#[derive(Debug)]
pub(super) struct Identity {
    /// The process's number, as it wrote it down.
    pub(super) pid: u32,
    /// The process's number in reheap's `/proc`. A process in a PID namespace with a `/proc` of its own has none, and all that
    /// the kernel tells is missing.
    pub(super) in_proc: Option<u32>,
    /// What the process executes, as reheap sees it.
    program: Option<PathBuf>,
    /// What the process executes, as it wrote it down itself.
    pub(super) file: PathBuf,
    pub(super) name: Option<String>,
    pub(super) began: f64,
}

impl Identity {
    pub(super) fn new(in_proc: Option<u32>, recording: &Recording, place: Place) -> Self {
        let file = recording.program(place);
        // It may execute another program by now. Its own path of it says so, unless it has another root.
        let program = |pid| {
            if by_number::has_common_root(pid) {
                Some(file.clone()).filter(|file| file.is_absolute())
            } else {
                by_number::program(pid)
            }
        };
        let name = in_proc.and_then(by_number::name);
        Self {
            pid: recording.pid(place),
            in_proc,
            program: in_proc.and_then(program),
            name: name.filter(|name| is_another_name(name, &file)),
            file,
            began: recording.began(place),
        }
    }

    /// Whether the process executes another program now.
    pub(super) fn executes_another_program(&self, pid: u32) -> bool {
        let (before, now) = (self.program.as_ref(), by_number::program(pid));
        before.zip(now).is_some_and(|(before, now)| *before != now)
    }
}

/// Whether a process's name is not that of its file, and says more. The kernel keeps 15 bytes of it.
fn is_another_name(name: &str, file: &Path) -> bool {
    let file_name = file.file_name().unwrap_or_default().to_string_lossy();
    match name.len() {
        15.. => !file_name.starts_with(name),
        _ => file_name != name && name != "exe", // of /proc/self/exe
    }
}
