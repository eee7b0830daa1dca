//! Changes the global symbols of an object: new names, further names for the same code, further needs.
//!
//! reheap replaces only the symbol table and its strings. It appends the new ones to the file and points the section
//! headers at them. Code, data and relocations stay where they are, byte for byte: a relocation names a symbol by its
//! number, and new symbols come last, so no number changes. `objcopy --redefine-syms` does the same. But it is not on
//! every machine, it differs between binutils and LLVM, and it cannot add an alias to code in another section.

use crate::Class;
use crate::symbols::{ObjectError, class_of, relocatable_header};
use object::elf;
use object::read::elf::{FileHeader, SectionHeader as _, SectionTable, SymbolTable};
use object::{LittleEndian, SymbolIndex};
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

/// The object with its symbols changed.
///
/// # Errors
/// When the bytes are not a relocatable object of an architecture that reheap knows, or its tables are damaged.
///
/// # Panics
/// If an alias stands for a symbol that the object does not define: the caller chose the object by that definition.
pub fn rewrite(bytes: &[u8], edits: &Edits) -> Result<Vec<u8>, ObjectError> {
    match class_of(bytes)? {
        Class::Bits32 => rewrite_as::<elf::FileHeader32<LittleEndian>>(bytes, edits, &LAYOUT_32),
        Class::Bits64 => rewrite_as::<elf::FileHeader64<LittleEndian>>(bytes, edits, &LAYOUT_64),
    }
}

fn rewrite_as<Elf>(bytes: &[u8], edits: &Edits, layout: &Layout) -> Result<Vec<u8>, ObjectError>
where
    Elf: FileHeader<Endian = LittleEndian>,
{
    let (header, _) = relocatable_header::<Elf>(bytes)?;
    let sections = header.sections(LE, bytes)?;
    let table = sections.symbols(LE, bytes, elf::SHT_SYMTAB)?;
    if table.shndx_section().0 != 0 {
        return Err(ObjectError::Damaged("more than 65,279 sections".to_owned()));
    }
    let string_section = sections.section(table.string_section())?;
    let mut strings = string_section.data(LE, bytes)?.to_vec();
    let as_bytes = |symbol: &Elf::Sym| Entry {
        bytes: object::pod::bytes_of(symbol).to_vec(),
        layout: *layout,
    };
    let mut symbols: Vec<Entry> = table.symbols().iter().map(as_bytes).collect();
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();

    for (index, symbol) in symbols.iter_mut().enumerate().skip(1) {
        if symbol.info().st_bind() == elf::STB_LOCAL {
            continue;
        }
        let name = table.symbol_name(LE, table.symbol(SymbolIndex(index))?)?;
        let mut name = String::from_utf8_lossy(name).into_owned();
        if let Some(new_name) = edits.renames.get(&name) {
            symbol.set_name(append(&mut strings, new_name));
            symbol.set_visibility(elf::STV_HIDDEN);
            name.clone_from(new_name);
        }
        // No compiler gives two symbols the same name. If a file does, the defined one counts.
        if symbol.is_defined() || !positions.contains_key(&name) {
            positions.insert(name, index);
        }
    }
    for alias in &edits.aliases {
        let original = positions.get(&alias.of).map(|&i| symbols[i].clone());
        let mut symbol = original.filter(Entry::is_defined).unwrap_or_else(|| {
            panic!(
                "`{}` is to stand for `{}`, which the object does not define",
                alias.name, alias.of
            )
        });
        symbol.set_name(append(&mut strings, &alias.name));
        let (binding, visibility) = match alias.strength {
            Strength::WeakPublic => (elf::STB_WEAK, elf::STV_DEFAULT),
            Strength::StrongPublic => (elf::STB_GLOBAL, elf::STV_DEFAULT),
            Strength::StrongHidden => (elf::STB_GLOBAL, elf::STV_HIDDEN),
        };
        symbol.set_binding(binding);
        symbol.set_visibility(visibility);
        symbols.push(symbol);
    }
    for need in edits.needs.iter().filter(|n| !positions.contains_key(*n)) {
        symbols.push(Entry::undefined(append(&mut strings, need), layout));
    }
    let symbols: Vec<u8> = symbols.into_iter().flat_map(|entry| entry.bytes).collect();
    Ok(with_tables(
        bytes, header, &sections, &table, &symbols, &strings,
    ))
}

/// Where the fields of a symbol are (gABI, "Symbol Table").
#[derive(Debug, Clone, Copy)]
struct Layout {
    bytes: usize,
    info: usize,
    other: usize,
    section: usize,
}

const NAME: usize = 0;
const LAYOUT_32: Layout = Layout {
    bytes: 16,
    info: 12,
    other: 13,
    section: 14,
};
const LAYOUT_64: Layout = Layout {
    bytes: 24,
    info: 4,
    other: 5,
    section: 6,
};

/// One symbol, as the file holds it.
#[derive(Debug, Clone)]
struct Entry {
    bytes: Vec<u8>,
    layout: Layout,
}

impl Entry {
    /// One that another object has to define.
    fn undefined(name: u32, layout: &Layout) -> Self {
        let mut entry = Self {
            bytes: vec![0; layout.bytes],
            layout: *layout,
        };
        entry.set_name(name);
        entry.set_binding(elf::STB_GLOBAL);
        entry.set_visibility(elf::STV_HIDDEN);
        entry
    }

    fn info(&self) -> elf::SymbolInfo {
        elf::SymbolInfo(self.bytes[self.layout.info])
    }

    fn is_defined(&self) -> bool {
        let at = self.layout.section;
        self.bytes[at..at + 2] != elf::SHN_UNDEF.0.to_le_bytes()
    }

    fn set_name(&mut self, name: u32) {
        self.bytes[NAME..NAME + 4].copy_from_slice(&name.to_le_bytes());
    }

    fn set_binding(&mut self, binding: elf::SymbolBind) {
        self.bytes[self.layout.info] = binding.0 << 4 | self.info().st_type().0;
    }

    /// The other bits of the byte are the processor's own, such as where a function of PowerPC is entered by callers in
    /// the same file.
    fn set_visibility(&mut self, visibility: elf::SymbolVisibility) {
        let other = &mut self.bytes[self.layout.other];
        *other = elf::SymbolOther(*other).with_visibility(visibility).0;
    }
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

/// The file with both tables appended and their section headers pointed there.
fn with_tables<Elf>(
    bytes: &[u8],
    header: &Elf,
    sections: &SectionTable<'_, Elf>,
    table: &SymbolTable<'_, Elf>,
    symbols: &[u8],
    strings: &[u8],
) -> Vec<u8>
where
    Elf: FileHeader<Endian = LittleEndian>,
{
    let mut out = bytes.to_vec();
    out.resize(out.len().next_multiple_of(8), 0);
    let symbols_offset = out.len();
    out.extend_from_slice(symbols);
    let strings_offset = out.len();
    out.extend_from_slice(strings);

    let headers_offset: u64 = header.e_shoff(LE).into();
    let header_bytes = size_of::<Elf::SectionHeader>();
    let word_bytes = size_of::<Elf::Word>();
    // gABI, "Sections": sh_offset is behind two words of 32 bits and two as wide as an address; sh_size follows.
    let at_offset = 8 + 2 * word_bytes;
    let mut point = |index: object::SectionIndex, offset: usize, size: usize| {
        assert!(index.0 < sections.len(), "both sections were read before");
        let at = headers_offset as usize + index.0 * header_bytes + at_offset;
        for (place, value) in [(at, offset), (at + word_bytes, size)] {
            let value = (value as u64).to_le_bytes();
            out[place..place + word_bytes].copy_from_slice(&value[..word_bytes]);
        }
    };
    point(table.section(), symbols_offset, symbols.len());
    point(table.string_section(), strings_offset, strings.len());
    out
}
