//! Baked-in tuning: data under hidden symbols, in the member that holds the marker.
//!
//! reheap writes it without a compiler, so `-t` needs no C compiler and no new build of the allocator.

use crate::Architecture;
use object::write::{Object, Relocation, SectionId, Symbol, SymbolSection};
use object::{RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

/// One piece of data for the allocator or its glue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Baked {
    /// A read-only byte string.
    Bytes {
        /// The symbol at its first byte.
        symbol: String,
        /// The contents.
        bytes: Vec<u8>,
    },
    /// A `const char *`.
    StringPointer {
        /// The pointer's symbol.
        symbol: String,
        /// What it points to, without the final NUL.
        text: String,
    },
}

impl Baked {
    pub(crate) fn add_to(&self, object: &mut Object<'static>, architecture: Architecture) {
        let strings =
            object.add_section(Vec::new(), b".rodata".to_vec(), SectionKind::ReadOnlyData);
        match self {
            Self::Bytes { symbol, bytes } => {
                let offset = object.append_section_data(strings, bytes, 1);
                object.add_symbol(defined_symbol(symbol, strings, offset, bytes.len() as u64));
            }
            Self::StringPointer { symbol, text } => {
                let text_offset =
                    object.append_section_data(strings, format!("{text}\0").as_bytes(), 1);
                add_pointer(object, symbol, (strings, text_offset), architecture);
            }
        }
    }
}

/// A pointer to a place in a section.
pub(crate) fn add_pointer(
    object: &mut Object<'static>,
    symbol: &str,
    (section, place): (SectionId, u64),
    architecture: Architecture,
) {
    let pointers = object.add_section(Vec::new(), b".data.rel.ro".to_vec(), SectionKind::Data);
    let bytes = architecture.class().word_bytes();
    let offset = object.append_section_data(pointers, &[0; 8][..bytes], bytes as u64);
    object.add_symbol(defined_symbol(symbol, pointers, offset, bytes as u64));
    let r_type = architecture.address_relocation();
    let relocation = Relocation {
        offset,
        symbol: object.section_symbol(section),
        addend: place as i64,
        flags: RelocationFlags::Elf { r_type },
    };
    object
        .add_relocation(pointers, relocation)
        .expect("the type is one of the architecture's own");
}

/// A hidden global data symbol.
pub(crate) fn defined_symbol(name: &str, section: SectionId, value: u64, size: u64) -> Symbol {
    Symbol {
        name: name.into(),
        value,
        size,
        kind: SymbolKind::Data,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    }
}
