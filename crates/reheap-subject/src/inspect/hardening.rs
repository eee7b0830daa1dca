//! Adds to an identity what the catalogue says an allocator does against memory errors.
//!
//! The signatures say it of hardened builds. Of other builds of allocators in the catalogue, the catalogue says what they
//! notice, or that it is nothing.

use reheap_allocators::catalogue;
use reheap_elf::error::ElfError;
use reheap_elf::identify::{self, FoundAllocator, Identity};
use reheap_elf::marker::FoundMarker;
use reheap_elf::source::Source;

/// Identifies a file.
pub(super) fn identify<S: Source + ?Sized>(file: &S) -> Result<Identity, ElfError> {
    identify::identify(file).map(completed)
}

/// Identifies the executable of a process, into which reheap has put an allocator.
pub(super) fn identify_grafted<S: Source + ?Sized>(
    file: &S,
    marker: FoundMarker,
) -> Result<Identity, ElfError> {
    identify::identify_grafted(file, marker).map(completed)
}

fn completed(mut identity: Identity) -> Identity {
    for found in &mut identity.allocators {
        add_to(found);
    }
    identity
}

fn add_to(found: &mut FoundAllocator) {
    let is_plain = found.variant.is_none() && found.hardening.is_empty();
    if let Ok(known) = catalogue::find(&found.name)
        && is_plain
    {
        found.hardening.push(known.hardening);
    }
}
