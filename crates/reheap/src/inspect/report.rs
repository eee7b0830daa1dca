//! Defines the report about a file, a process or a container image.

use super::preload::{Passing, Preload};
use super::running::Running;
use crate::ui;
use reheap_elf::identify::{Identity, MallocVerdict, Provider};
use serde::Serialize;
use std::fmt;

/// The findings about one subject.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Report {
    File {
        file: String,
        #[serde(flatten)]
        identity: Box<Identity>,
    },
    Container {
        file: String,
        entry_point: String,
        scripts: Vec<String>,
        preload: Vec<Preload>,
        #[serde(flatten)]
        passing: Passing,
        #[serde(flatten)]
        identity: Box<Identity>,
    },
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
    pub(crate) fn is_unknown(&self) -> bool {
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
