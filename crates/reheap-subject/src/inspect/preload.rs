//! Defines what becomes of the libraries that a container image preloads.

use reheap_elf::identify::FoundAllocator;
use serde::Serialize;
use std::path::PathBuf;

/// An entry of the `LD_PRELOAD` that an image sets, or of its `/etc/ld.so.preload`.
#[derive(Debug, Serialize)]
pub struct Preload {
    pub(super) entry: String,
    /// Which of them.
    pub(super) list: &'static str,
    #[serde(flatten)]
    pub(super) state: State,
}

/// What becomes of `LD_PRELOAD` between an image and its program.
#[derive(Debug, Serialize)]
pub struct Passing {
    /// What takes it away or sets it.
    pub(super) preload_change: Option<String>,
    /// What sets it to a value that only a run shows.
    pub(super) preload_unknown: Option<String>,
    /// Why it may be another one in a run.
    pub(super) warnings: Vec<String>,
    /// The command that shows which allocator a running container has.
    pub(super) proof: String,
}

/// What becomes of an entry.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub(crate) enum State {
    /// The dynamic linker loads it.
    Loaded {
        /// Where it is in the image.
        path: PathBuf,
        /// The allocator whose malloc it brings.
        allocator: Option<Box<FoundAllocator>>,
    },
    /// The image does not have it.
    Missing,
    /// It is for another libc or another processor, or no library.
    OfAnother,
    /// A static program has no dynamic linker.
    Ignored,
}
