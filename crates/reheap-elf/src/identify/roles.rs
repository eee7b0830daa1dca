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

/// What a build of an allocator does against misuse, as its documentation promises.
pub(super) fn hardening(allocator: &str, variant: Option<&str>) -> Vec<&'static str> {
    let row = signatures::row_of(allocator).unwrap_or(allocator);
    let names = match (row, variant) {
        ("mimalloc", Some(variant)) if variant.contains("secure") => &[
            "guard pages",
            "encoded free lists",
            "randomised order",
            "double frees stop the program",
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
        (signatures::MALLOCNG, _) => &["metadata out of line", "invalid frees stop the program"],
        ("snmalloc", Some("checks")) => &["encoded free lists", "guarded memcpy"],
        ("partition_alloc", _) => &["partitions", "guard pages", "metadata out of line"],
        ("address-sanitizer", _) => &["red zones", "quarantine"],
        _ => &[],
    };
    names.to_vec()
}
