//! What each allocator in a file is for, and what its build promises when the program misuses memory.
//!
//! An allocator in a file need not be the program's malloc. Rust's global allocator has names of its own, a musl libc
//! keeps its own allocator for its own blocks, and nothing calls some allocators at all. An allocator gets a role only
//! if the verdict on malloc or a symbol leaves no other. Otherwise its role is unknown.

use super::signatures::{self, GO};
use super::{Confidence, FoundAllocator, MallocVerdict, Provider, RustGlobalAllocator};
use serde::Serialize;
use std::fmt;

/// What an allocator in a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Role {
    /// It is the program's malloc.
    Malloc,
    /// Only Rust code allocates from it, as its global allocator.
    Rust,
    /// Some code in the file calls it under its own names.
    Private,
    /// Only the libc takes its own blocks from it.
    Libc,
    /// It came along, and nothing allocates from it.
    Unused,
    /// The file does not tell.
    Unknown,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malloc => "the program's malloc",
            Self::Rust => "private to Rust",
            Self::Private => "private to code that calls it by name",
            Self::Libc => "for the libc's own blocks",
            Self::Unused => "linked but unused",
            Self::Unknown => "role unknown",
        })
    }
}

/// Gives every allocator its role.
pub(super) fn assign(
    allocators: &mut [FoundAllocator],
    malloc: &MallocVerdict,
    rust: Option<&RustGlobalAllocator>,
) {
    for found in allocators {
        found.role = role(found, malloc, rust);
    }
}

fn role(
    found: &FoundAllocator,
    malloc: &MallocVerdict,
    rust: Option<&RustGlobalAllocator>,
) -> Role {
    if found.confidence < Confidence::Likely {
        return Role::Unknown;
    }
    let is_malloc = match &malloc.provider {
        Provider::Allocator { name } => *name == found.name,
        Provider::Unknown => return Role::Unknown,
        _ => false,
    };
    let is_rusts = matches!(rust, Some(RustGlobalAllocator::Custom { name: Some(name), .. }) if *name == found.name);
    match rust {
        _ if is_malloc => Role::Malloc,
        _ if found.name == GO => Role::Private,
        _ if found.is_stock => Role::Libc,
        _ if is_rusts => Role::Rust,
        Some(RustGlobalAllocator::System { .. }) => Role::Unused,
        _ => Role::Private,
    }
}

/// What a build of an allocator has against misuse, as its documentation says. Which attacks that stops, it does not say:
/// `reheap attack` measures it.
pub(super) fn hardening(allocator: &str, variant: Option<&str>) -> Vec<&'static str> {
    let row = signatures::row_of(allocator).unwrap_or(allocator);
    let names = match (row, variant) {
        ("mimalloc", Some(variant)) if variant.contains("secure") => &[
            "encoded free lists",
            "randomised order",
            "padding behind blocks",
            "guard pages around its own data",
        ][..],
        ("mimalloc", Some("debug")) => &["assertions", "padding behind blocks"],
        ("hardened_malloc", Some(signatures::DEFAULT)) => &[
            "guard regions",
            "zeroed on free",
            "quarantine",
            "randomised order",
            "canaries",
            "metadata out of line",
        ],
        // As the light one.
        ("hardened_malloc", _) => &[
            "guard regions",
            "zeroed on free",
            "quarantine of large blocks",
            "canaries",
            "metadata out of line",
        ],
        ("scudo", _) => &["checksummed headers", "quarantine", "randomised order"],
        (signatures::GLIBC, _) => &["consistency checks"],
        (signatures::MALLOCNG, _) => &["metadata out of line", "checked headers"],
        ("snmalloc", Some("checks")) => &["encoded free lists", "randomised order"],
        ("partition_alloc", _) => &["partitions", "guard pages", "metadata out of line"],
        ("address-sanitizer", _) => &["red zones", "quarantine"],
        _ => &[],
    };
    names.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a build has does not say what it stops: mimalloc-secure has encoded free lists, and most double frees have
    /// no effect under it.
    #[test]
    fn what_is_said_of_a_build_is_what_it_has_and_not_what_it_stops() {
        for (allocator, variant) in [
            ("mimalloc", Some("secure")),
            ("mimalloc", Some("debug")),
            ("snmalloc", Some("checks")),
            ("hardened_malloc", Some(signatures::DEFAULT)),
            ("hardened_malloc", Some("light")),
            (signatures::GLIBC, None),
            (signatures::MALLOCNG, None),
            ("scudo", None),
        ] {
            let said = hardening(allocator, variant);
            assert!(!said.is_empty(), "{allocator}");
            let is_outcome = |word: &&str| word.contains("stop") || word.contains("program");
            assert!(!said.iter().any(is_outcome), "{allocator}: {said:?}");
            // Guard pages behind blocks are of level 5, and only snmalloc's shim for memcpy guards that.
            let is_more = |word: &&str| ["guard pages", "guarded memcpy"].contains(word);
            assert!(!said.iter().any(is_more), "{allocator}: {said:?}");
        }
    }
}
