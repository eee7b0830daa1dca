//! Where a linked file keeps the address of the `malloc` that it calls.
//!
//! The dynamic linker writes that address into the file's memory when it binds the symbol. In a running process it
//! proves whose `malloc` the file calls. Files alone do not show what `dlopen`, `RTLD_DEEPBIND` or an audit library has
//! changed. This module reads only 64-bit little-endian files.

use crate::error::ElfError;
use crate::source::{Source, View};
use crate::tables::{Tables, Which};
use object::elf;
use object::elf::Machine;

/// A file has one or two such places in practice.
const SLOTS_MAX: usize = 64;

/// The places where the dynamic linker writes the address of `malloc`, as distances from the first byte of the file in
/// memory. Empty if the file does not call `malloc` or cannot be read.
pub fn malloc_slots<S: Source + ?Sized>(source: &S) -> Vec<u64> {
    slots(View::of(&source)).unwrap_or_default()
}

fn slots(file: View<'_>) -> Result<Vec<u64>, ElfError> {
    let tables = Tables::of(file)?;
    let is_readable = tables.format.is_64_bit && tables.format.is_little_endian;
    let first = tables.loaded.iter().find(|(_, range)| range.start == 0);
    let (Some(dynamic), Some((base, _)), true) = (tables.dynamic()?, first, is_readable) else {
        return Ok(Vec::new());
    };
    let Some(symbols) = tables.dynamic_symbols(Some(&dynamic))? else {
        return Ok(Vec::new());
    };
    let mut malloc = None;
    tables.for_each_symbol(&symbols, Which::All, &mut |symbol| {
        if symbol.name == b"malloc" {
            malloc.get_or_insert(symbol.index);
        }
        Ok(())
    })?;
    let mut slots = Vec::new();
    tables.for_each_relocation(&dynamic, &mut |relocation| {
        let is_of_malloc = Some(u64::from(relocation.symbol)) == malloc;
        let slot = relocation.address.wrapping_sub(*base);
        let is_new = is_of_malloc && !slots.contains(&slot);
        if is_new && slots.len() < SLOTS_MAX && is_address(tables.machine, relocation.kind) {
            slots.push(slot);
        }
    })?;
    Ok(slots)
}

/// Whether a relocation writes the address of its symbol and nothing else.
fn is_address(machine: Machine, kind: u32) -> bool {
    let kinds = match machine {
        elf::EM_X86_64 => [elf::R_X86_64_GLOB_DAT.0, elf::R_X86_64_JUMP_SLOT.0],
        elf::EM_AARCH64 => [elf::R_AARCH64_GLOB_DAT.0, elf::R_AARCH64_JUMP_SLOT.0],
        _ => return false,
    };
    kinds.contains(&kind)
}
