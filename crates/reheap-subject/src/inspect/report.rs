//! Defines the report about a file, a process or a container image.

use super::preload::{Passing, Preload};
use super::running::Running;
use reheap_command::ui;
use reheap_elf::identify::{Identity, MallocVerdict, Provider};
use serde::Serialize;
use std::fmt;

/// The findings about one subject.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Report {
    /// A program, library or archive.
    File {
        /// The file as the user named it.
        file: String,
        /// What it is.
        #[serde(flatten)]
        identity: Box<Identity>,
    },
    /// The program that a container of an image runs.
    Container {
        /// The image, as the user named it.
        file: String,
        /// The program.
        entry_point: String,
        /// The scripts that lead to it.
        scripts: Vec<String>,
        /// What is preloaded into it.
        preload: Vec<Preload>,
        /// What becomes of the environment on the way to it.
        #[serde(flatten)]
        passing: Passing,
        /// What it is.
        #[serde(flatten)]
        identity: Box<Identity>,
    },
    /// A running process.
    Process(Box<Running>),
}

impl Report {
    pub(super) fn malloc(&self) -> &MallocVerdict {
        match self {
            Self::File { identity, .. } | Self::Container { identity, .. } => &identity.malloc,
            Self::Process(running) => &running.malloc,
        }
    }

    /// Whether reheap cannot tell which allocator its malloc is.
    pub fn is_unknown(&self) -> bool {
        self.malloc().provider == Provider::Unknown
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, .. } => write!(f, "{}", ui::printable(file)),
            Self::Container {
                file, entry_point, ..
            } => write!(f, "{} {}", ui::printable(file), ui::printable(entry_point)),
            Self::Process(running) => {
                write!(f, "{} {}", running.pid, ui::printable(&running.name))
            }
        }
    }
}
