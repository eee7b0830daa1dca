//! Preloads: the objects of a shared library with an allocator, and the audit of the linked library.
//!
//! Every symbol that such a library exports replaces the one that the program and all its libraries would have found. A
//! symbol too many, such as jemalloc's `pthread_create` or an `operator new`, changes the program in unexpected ways. A
//! symbol too few lets one allocator free a block of another. So the allocator's own symbols are prefixed and hidden,
//! as in a derived libc, and the audit compares what the linked library really exports.

use crate::Architecture;
use crate::archive::Member;
use crate::baked::Baked;
use crate::derive::{AllocatorObjects, DeriveError, Host, bind_allocator};
use crate::marker::{self, Marker};
use object::elf;
use object::read::elf::{FileHeader as _, Sym as _};
use object::{LittleEndian, SymbolIndex};
use std::collections::BTreeSet;

/// Why a linked library is not a preload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// It is not ELF, or it is damaged.
    #[error("the library is damaged: {0}")]
    Damaged(String),
    /// It does not export a name that it should.
    #[error("it does not export `{0}`")]
    Missing(String),
    /// It exports a name that would replace another library's.
    #[error("it exports `{0}`")]
    TooMuch(String),
}

impl From<object::read::Error> for AuditError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// The objects to link: the allocator with the family's names bound to it, its glue, and the marker.
///
/// # Errors
/// When an object is damaged, is for another processor, or lacks an entry point.
pub fn objects(
    allocator: &AllocatorObjects,
    architecture: Architecture,
    marker: &Marker,
    tuning: &[Baked],
) -> Result<Vec<Member>, DeriveError> {
    let bound = bind_allocator(allocator, architecture, Host::Preload)?;
    let mut members: Vec<Member> = bound.into_iter().map(|object| object.member).collect();
    // Once a library is linked, nothing can come between its name and its function, and glue may wrap the allocator's
    // (realloc). So the marker compares each function with itself, and the audit checks that the library exports it.
    members.push(Member {
        name: "reheap-marker.o".to_owned(),
        data: marker::retunable_object_file(marker, tuning, architecture.into()),
    });
    Ok(members)
}

/// Whether the library exports these names and no others.
///
/// # Errors
/// When the bytes are damaged, or the first name that is missing or that the library exports too much.
pub fn audit(library: &[u8], names: &[&str]) -> Result<(), AuditError> {
    let exported = exports(library)?;
    if let Some(missing) = names.iter().find(|name| !exported.contains(**name)) {
        return Err(AuditError::Missing((*missing).to_owned()));
    }
    match exported.iter().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(AuditError::TooMuch(name.clone())),
        None => Ok(()),
    }
}

/// How much of a library [`is_whole`] reads: its header.
pub const HEADER_BYTES: usize = size_of::<elf::FileHeader64<LittleEndian>>();

/// Whether a library of that size is complete. Its section table shows it, because linkers write that last. A dynamic
/// linker does not read the section table, and it notices a missing page only when the program touches it.
pub fn is_whole(header: &[u8; HEADER_BYTES], size: u64) -> bool {
    let Ok(header) = elf::FileHeader64::<LittleEndian>::parse(header.as_slice()) else {
        return false;
    };
    let entry_bytes = u64::from(header.e_shentsize(LittleEndian));
    let table_bytes = entry_bytes * u64::from(header.e_shnum(LittleEndian));
    let end = header.e_shoff(LittleEndian).checked_add(table_bytes);
    table_bytes > 0 && end.is_some_and(|end| end <= size)
}

fn exports(library: &[u8]) -> Result<BTreeSet<String>, AuditError> {
    let header = elf::FileHeader64::<LittleEndian>::parse(library)?;
    let sections = header.sections(LittleEndian, library)?;
    let table = sections.symbols(LittleEndian, library, elf::SHT_DYNSYM)?;
    let mut exported = BTreeSet::new();
    for index in 1..table.len() {
        let symbol = table.symbol(SymbolIndex(index))?;
        if !symbol.is_local() && symbol.st_shndx(LittleEndian) != elf::SHN_UNDEF {
            let name = symbol.name(LittleEndian, table.strings())?;
            exported.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    Ok(exported)
}
