//! Where a linked file keeps the address of the `malloc` that it calls.
//!
//! The dynamic linker writes that address into the file's memory when it binds the symbol. In a running process it is the
//! proof of whose `malloc` is called; everything that is concluded from files alone leaves out what `dlopen`,
//! `RTLD_DEEPBIND` or an audit library made of it. Only 64-bit little-endian files are read.

use object::LittleEndian;
use object::elf;
use object::elf::Machine;
use object::read::SectionIndex;
use object::read::elf::{
    FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _,
};

/// More relocations than the largest programs have; a damaged file can show the same ones again and again.
const RELOCATIONS_MAX: usize = 8 << 20;
/// A file has one or two such places in practice.
const SLOTS_MAX: usize = 64;

/// The places where the dynamic linker writes the address of `malloc`, as distances from where the first byte of the file
/// is in memory. Empty where a file does not call `malloc` or cannot be read.
pub fn malloc_slots(bytes: &[u8]) -> Vec<u64> {
    slots(bytes).unwrap_or_default()
}

fn slots(bytes: &[u8]) -> Option<Vec<u64>> {
    const L: LittleEndian = LittleEndian;
    let header = elf::FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    if !header.is_little_endian() {
        return None;
    }
    let machine: Machine = header.e_machine(L);
    let segments = header.program_headers(L, bytes).ok()?;
    let first = segments
        .iter()
        .find(|s| s.p_type(L) == elf::PT_LOAD && s.p_offset(L) == 0)?;
    let base = first.p_vaddr(L);
    let sections = header.section_headers(L, bytes).ok()?;
    let (table_index, table) = sections
        .iter()
        .enumerate()
        .find(|(_, section)| section.sh_type(L) == elf::SHT_DYNSYM)?;
    let symbols: &[elf::Sym64<LittleEndian>] = table.data_as_array(L, bytes).ok()?;
    let SectionIndex(names) = table.link(L);
    let names = sections.get(names)?.data(L, bytes).ok()?;
    let is_malloc = |symbol: &elf::Sym64<LittleEndian>| {
        let name = names.get(symbol.st_name(L) as usize..);
        name.is_some_and(|name| name.starts_with(b"malloc\0"))
    };
    let malloc = symbols.iter().position(is_malloc)?;
    let mut slots = Vec::new();
    let mut left = RELOCATIONS_MAX;
    for section in sections {
        let is_dynamic =
            section.sh_type(L) == elf::SHT_RELA && section.link(L) == SectionIndex(table_index);
        if !is_dynamic {
            continue;
        }
        let relocations: &[elf::Rela64<LittleEndian>] = section.data_as_array(L, bytes).ok()?;
        left = left.checked_sub(relocations.len())?;
        for relocation in relocations {
            let info = relocation.r_info(L, false);
            let (symbol, kind) = (info >> 32, info as u32);
            if symbol as usize == malloc && slots.len() < SLOTS_MAX && is_address(machine, kind) {
                slots.push(relocation.r_offset(L).wrapping_sub(base));
            }
        }
    }
    Some(slots)
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
