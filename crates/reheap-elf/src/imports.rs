//! What a shared library takes from its libc: whether it can run on a system with an older one.
//!
//! glibc gives each function the version in which it came or changed, and its dynamic linker refuses a library that asks
//! for a later one. musl has no versions: there, a missing name is all that shows.

use object::LittleEndian;
use object::SymbolIndex;
use object::elf;
use object::read::elf::{FileHeader as _, Sym as _};
use std::collections::BTreeSet;

/// What a library takes from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imports {
    /// The functions and variables. Those that may be absent are not among them.
    pub names: BTreeSet<String>,
    /// The versions that they must have, such as `GLIBC_2.17`.
    pub versions: BTreeSet<String>,
}

/// The imports of a library.
///
/// # Errors
/// When the bytes are not ELF, or damaged.
pub fn read(library: &[u8]) -> object::read::Result<Imports> {
    let header = elf::FileHeader64::<LittleEndian>::parse(library)?;
    let sections = header.sections(LittleEndian, library)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut imports = Imports::default();
    let table = sections.symbols(LittleEndian, library, elf::SHT_DYNSYM)?;
    for index in 1..table.len() {
        let symbol = table.symbol(SymbolIndex(index))?;
        if symbol.is_undefined(LittleEndian) && symbol.st_bind() != elf::STB_WEAK {
            let name = symbol.name(LittleEndian, table.strings())?;
            imports.names.insert(text(name));
        }
    }
    if let Some((mut files, link)) = sections.gnu_verneed(LittleEndian, library)? {
        let strings = sections.strings(LittleEndian, library, link)?;
        while let Some((_, mut versions)) = files.next()? {
            while let Some(version) = versions.next()? {
                let name = version.name(LittleEndian, strings)?;
                imports.versions.insert(text(name));
            }
        }
    }
    Ok(imports)
}
