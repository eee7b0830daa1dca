//! Changes the global symbols of an object: new names, further names for the same code, further needs.
//!
//! reheap replaces only the symbol table and its strings. It appends the new ones to the file and points the section
//! headers at them. Code, data and relocations stay where they are, byte for byte: a relocation names a symbol by its
//! number, and new symbols come last, so no number changes. `objcopy --redefine-syms` does the same. But it is not on
//! every machine, it differs between binutils and LLVM, and it cannot add an alias to code in another section.

use crate::symbols::{ObjectError, relocatable_header};
use object::elf;
use object::read::elf::{FileHeader as _, SectionHeader as _};
use object::{LittleEndian, SymbolIndex, U16, U32, U64};
use std::collections::BTreeMap;

/// A further name for something that the object defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// The further name.
    pub name: String,
    /// The symbol that it stands for, by its name after renaming.
    pub of: String,
    /// How strongly the name is defined.
    pub strength: Strength,
}

/// How an alias is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strength {
    /// A public name. A program's own definition replaces it.
    WeakPublic,
    /// A public name with only one definition.
    StrongPublic,
    /// A name inside the libc, not for other modules.
    StrongHidden,
}

/// What to change in one object.
#[derive(Debug, Clone, Default)]
pub struct Edits {
    /// Old name to new name; a renamed definition becomes hidden.
    pub renames: BTreeMap<String, String>,
    /// Further names.
    pub aliases: Vec<Alias>,
    /// Symbols that the object needs from now on. A linker that takes the object also takes their definitions.
    pub needs: Vec<String>,
}

const LE: LittleEndian = LittleEndian;
const SYMBOL_SIZE: usize = size_of::<elf::Sym64<LittleEndian>>();

/// The object with its symbols changed.
///
/// # Errors
/// When the bytes are not a relocatable object of an architecture that reheap knows, or its tables are damaged.
///
/// # Panics
/// If an alias stands for a symbol that the object does not define: the caller chose the object by that definition.
pub fn rewrite(bytes: &[u8], edits: &Edits) -> Result<Vec<u8>, ObjectError> {
    let (header, _) = relocatable_header(bytes)?;
    let sections = header.sections(LE, bytes)?;
    let table = sections.symbols(LE, bytes, elf::SHT_SYMTAB)?;
    if table.shndx_section().0 != 0 {
        return Err(ObjectError::Damaged("more than 65,279 sections".to_owned()));
    }
    let string_section = sections.section(table.string_section())?;
    let mut strings = string_section.data(LE, bytes)?.to_vec();
    let mut symbols: Vec<elf::Sym64<LittleEndian>> = table.symbols().to_vec();
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();

    for (index, symbol) in symbols.iter_mut().enumerate().skip(1) {
        if symbol.st_bind() == elf::STB_LOCAL {
            continue;
        }
        let name = table.symbol_name(LE, table.symbol(SymbolIndex(index))?)?;
        let mut name = String::from_utf8_lossy(name).into_owned();
        if let Some(new_name) = edits.renames.get(&name) {
            symbol.st_name = U32::new(LE, append(&mut strings, new_name));
            symbol.st_other = symbol.st_other.with_visibility(elf::STV_HIDDEN);
            name.clone_from(new_name);
        }
        // No compiler gives two symbols the same name. If a file does, the defined one counts.
        if symbol.st_shndx.get(LE) != elf::SHN_UNDEF || !positions.contains_key(&name) {
            positions.insert(name, index);
        }
    }
    for alias in &edits.aliases {
        let original = positions.get(&alias.of).map(|&i| symbols[i]);
        let original = original.filter(|s| s.st_shndx.get(LE) != elf::SHN_UNDEF);
        let mut symbol = original.unwrap_or_else(|| {
            panic!(
                "`{}` is to stand for `{}`, which the object does not define",
                alias.name, alias.of
            )
        });
        symbol.st_name = U32::new(LE, append(&mut strings, &alias.name));
        let (binding, visibility) = match alias.strength {
            Strength::WeakPublic => (elf::STB_WEAK, elf::STV_DEFAULT),
            Strength::StrongPublic => (elf::STB_GLOBAL, elf::STV_DEFAULT),
            Strength::StrongHidden => (elf::STB_GLOBAL, elf::STV_HIDDEN),
        };
        symbol.set_st_info(binding, symbol.st_type());
        symbol.st_other = visibility.into();
        symbols.push(symbol);
    }
    for need in edits.needs.iter().filter(|n| !positions.contains_key(*n)) {
        symbols.push(undefined(append(&mut strings, need)));
    }
    Ok(with_tables(
        bytes, header, &sections, &table, &symbols, &strings,
    ))
}

fn append(strings: &mut Vec<u8>, name: &str) -> u32 {
    if strings.last().is_some_and(|&b| b != 0) {
        strings.push(0);
    }
    let offset = u32::try_from(strings.len())
        .expect("a string table below 4 GiB: it was read from a section of the input");
    strings.extend_from_slice(name.as_bytes());
    strings.push(0);
    offset
}

fn undefined(name: u32) -> elf::Sym64<LittleEndian> {
    let mut symbol = elf::Sym64 {
        st_name: U32::new(LE, name),
        st_info: elf::SymbolInfo(0),
        st_other: elf::STV_HIDDEN.into(),
        st_shndx: U16::new(LE, elf::SHN_UNDEF),
        st_value: U64::new(LE, 0),
        st_size: U64::new(LE, 0),
    };
    symbol.set_st_info(elf::STB_GLOBAL, elf::STT_NOTYPE);
    symbol
}

/// The file with both tables appended and their section headers pointed there.
fn with_tables(
    bytes: &[u8],
    header: &crate::symbols::Header,
    sections: &object::read::elf::SectionTable<'_, crate::symbols::Header>,
    table: &object::read::elf::SymbolTable<'_, crate::symbols::Header>,
    symbols: &[elf::Sym64<LittleEndian>],
    strings: &[u8],
) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(out.len().next_multiple_of(8), 0);
    let symbols_offset = out.len();
    out.extend_from_slice(object::pod::bytes_of_slice(symbols));
    let strings_offset = out.len();
    out.extend_from_slice(strings);

    let headers_offset = header.e_shoff(LE) as usize;
    let header_size = size_of::<elf::SectionHeader64<LittleEndian>>();
    let mut point = |index: object::SectionIndex, offset: usize, size: usize| {
        let mut section = *sections
            .section(index)
            .expect("both sections were read before");
        section.sh_offset = U64::new(LE, offset as u64);
        section.sh_size = U64::new(LE, size as u64);
        let at = headers_offset + index.0 * header_size;
        out[at..at + header_size].copy_from_slice(object::pod::bytes_of(&section));
    };
    point(table.section(), symbols_offset, symbols.len() * SYMBOL_SIZE);
    point(table.string_section(), strings_offset, strings.len());
    out
}
