//! What a linked file says about others: which libraries it needs, where it looks for them, which names it takes from
//! them and which it offers.
//!
//! This module reads the dynamic segment, as the dynamic linker does, so it also reads files without a section table.

use crate::error::ElfError;
use crate::source::{Source, View};
use crate::tables::{NAME_BYTES_MAX, Tables, Which};
use object::elf;

/// What a file needs of others, and of the address space.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Linkage {
    /// The name under which others need it.
    pub soname: Option<String>,
    /// Libraries, in search order.
    pub needed: Vec<String>,
    /// Directories to search, as in `DT_RPATH`.
    pub rpath: Option<String>,
    /// Directories to search, as in `DT_RUNPATH`.
    pub runpath: Option<String>,
    /// The address space that the loaded file needs, from its first segment to the end of its last.
    pub mapped_bytes: u64,
}

/// Which side of a name a file is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It takes what another file offers.
    Takes,
    /// It offers it.
    Offers,
}

/// What a file needs; no other files if it is static.
///
/// # Errors
/// When the bytes are not ELF, are damaged, or cannot be read.
pub fn read<S: Source + ?Sized>(source: &S) -> Result<Linkage, ElfError> {
    let tables = Tables::of(View::of(&source))?;
    let without_names = Linkage {
        mapped_bytes: mapped_bytes(&tables)?,
        ..Linkage::default()
    };
    let Some(dynamic) = tables.dynamic()? else {
        return Ok(without_names);
    };
    let Some(mut names) = tables.dynamic_names(&dynamic) else {
        return Ok(without_names);
    };
    let mut text = |offset: Option<u64>, bytes_max: usize| match offset {
        Some(offset) => {
            let text = names.text(offset, bytes_max)?;
            Ok::<_, ElfError>(text.map(|text| String::from_utf8_lossy(text).into_owned()))
        }
        None => Ok(None),
    };
    let mut needed = Vec::new();
    for &offset in &dynamic.needed {
        needed.extend(text(Some(offset), NAME_BYTES_MAX)?);
    }
    Ok(Linkage {
        soname: text(dynamic.soname, NAME_BYTES_MAX)?,
        needed,
        rpath: text(dynamic.rpath, PATHS_BYTES_MAX)?,
        runpath: text(dynamic.runpath, PATHS_BYTES_MAX)?,
        ..without_names
    })
}

fn mapped_bytes(tables: &Tables<'_>) -> Result<u64, ElfError> {
    let (mut start, mut end) = (u64::MAX, 0);
    let mut segments = tables.segments();
    while let Some(segment) = segments.next()? {
        if segment.kind == elf::PT_LOAD {
            start = start.min(segment.address);
            end = end.max(segment.address.saturating_add(segment.memory_bytes));
        }
    }
    Ok(end.saturating_sub(start))
}

/// Lists of directories are longer than names.
const PATHS_BYTES_MAX: usize = 64 << 10;

/// Shows each name that a file takes or offers by way of the dynamic linker. `None` if these names cannot be found.
///
/// # Errors
/// When the bytes are not ELF, are damaged, or cannot be read.
pub fn for_each_name<S: Source + ?Sized>(
    source: &S,
    visit: &mut dyn FnMut(&[u8], Side),
) -> Result<Option<()>, ElfError> {
    names(View::of(&source), Which::All, visit)
}

/// Shows each name that a file takes from others. `None` if these names cannot be found. It reads no other names, of
/// which a large program has hundreds of thousands.
///
/// # Errors
/// When the bytes are not ELF, are damaged, or cannot be read.
pub fn for_each_taken_name<S: Source + ?Sized>(
    source: &S,
    visit: &mut dyn FnMut(&[u8]),
) -> Result<Option<()>, ElfError> {
    let view = View::of(&source);
    names(view, Which::Undefined, &mut |name, _| visit(name))
}

fn names(
    file: View<'_>,
    which: Which,
    visit: &mut dyn FnMut(&[u8], Side),
) -> Result<Option<()>, ElfError> {
    let tables = Tables::of(file)?;
    let dynamic = tables.dynamic()?;
    let Some(symbols) = tables.dynamic_symbols(dynamic.as_ref())? else {
        return Ok(None);
    };
    tables.for_each_symbol(&symbols, which, &mut |symbol| {
        if !symbol.name.is_empty() {
            let side = if symbol.is_defined() {
                Side::Offers
            } else {
                Side::Takes
            };
            visit(symbol.name, side);
        }
        Ok(())
    })?;
    Ok(Some(()))
}
