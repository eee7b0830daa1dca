//! The hooks library as a value: its segments, its relocations and its names, so that reheap can do for it in another
//! process what a dynamic linker does at home.
//!
//! The library has no `DT_NEEDED` and only weak needs (`dlsym` and the like), so loading it is a copy and some sums. That is why
//! reheap does not let the program's dynamic linker load it: a static program has none, and a running one may hold the
//! lock of its own.

use crate::processor::Processor;
use object::elf;
use object::read::elf::{
    ElfFile64, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _,
};
use object::{LittleEndian, Object as _, ObjectSymbol as _, ObjectSymbolTable as _};
use std::collections::BTreeMap;
use std::ops::Range;

/// What the name of a hook begins with; the rest is the function's name.
const HOOK: &str = "reheap_hook_";
/// What the name of the pointer to the function behind a hook begins with.
const NEXT: &str = "reheap_next_";
/// The function that opens the recording.
const ATTACH: &str = "reheap_hooks_attach";
/// More than any hooks need; a damaged file must not make reheap allocate what it claims.
const SPAN_MAX: u64 = 64 << 20;

/// Why a file cannot be used as the hooks library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The file is not ELF, or its tables are damaged.
    #[error("damaged ELF: {0}")]
    Damaged(String),
    /// It is for another processor.
    #[error("it is for machine number {0}")]
    Machine(u16),
    /// It needs something that reheap cannot give it inside another process.
    #[error("it needs {0}, which injected code cannot have")]
    Needs(String),
    /// It lacks a function of the contract.
    #[error("it does not define `{0}`")]
    Lacks(&'static str),
}

impl From<object::read::Error> for LibraryError {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// A parsed hooks library.
#[derive(Debug, Clone)]
pub struct HooksLibrary {
    processor: Processor,
    /// The bytes of all segments, from address 0 of the library on, before relocation.
    image: Vec<u8>,
    protections: Vec<(Range<u64>, Protection)>,
    /// Words to which the base is added.
    based: Vec<(u64, u64)>,
    /// Words that do not depend on the base.
    absolute: Vec<(u64, u64)>,
    symbols: BTreeMap<String, u64>,
}

/// What code may do with a range of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    Read,
    Write,
    Execute,
}

type File<'data> = ElfFile64<'data, LittleEndian>;

impl HooksLibrary {
    /// Reads a shared library that follows the contract of the hooks.
    ///
    /// # Errors
    /// When the bytes are not such a library.
    pub fn parse(bytes: &[u8]) -> Result<Self, LibraryError> {
        let file = File::parse(bytes)?;
        let machine = file.elf_header().e_machine(LittleEndian);
        let processor = Processor::from_machine(machine).ok_or(LibraryError::Machine(machine.0))?;
        let (image, protections) = segments(&file, bytes)?;
        let mut library = Self {
            processor,
            image,
            protections,
            based: Vec::new(),
            absolute: Vec::new(),
            symbols: BTreeMap::new(),
        };
        library.read_symbols(&file);
        library.read_relocations(&file)?;
        library.symbol(ATTACH)?;
        Ok(library)
    }

    /// The processor that it is for.
    pub fn processor(&self) -> Processor {
        self.processor
    }

    /// How much address space it takes.
    pub(crate) fn span_bytes(&self) -> u64 {
        self.image.len() as u64
    }

    /// The address of a function's hook, from the library's base.
    pub(crate) fn hook(&self, name: &str) -> Option<u64> {
        self.symbols.get(&format!("{HOOK}{name}")).copied()
    }

    /// The address of the pointer to the function behind a hook, from the library's base.
    pub(crate) fn next(&self, name: &str) -> Option<u64> {
        self.symbols.get(&format!("{NEXT}{name}")).copied()
    }

    /// The address of the function that opens the recording, from the library's base.
    pub(crate) fn attach(&self) -> u64 {
        self.symbols[ATTACH]
    }

    /// Which parts may be read, written and executed; the rest of the span is readable.
    pub(crate) fn protections(&self) -> &[(Range<u64>, Protection)] {
        &self.protections
    }

    /// The bytes of the whole span, relocated to `base`.
    pub(crate) fn image_at(&self, base: u64) -> Vec<u8> {
        let mut image = self.image.clone();
        for &(offset, value) in &self.absolute {
            put_word(&mut image, offset, value);
        }
        for &(offset, value) in &self.based {
            put_word(&mut image, offset, base.wrapping_add(value));
        }
        image
    }

    fn symbol(&self, name: &'static str) -> Result<u64, LibraryError> {
        let address = self.symbols.get(name).copied();
        address.ok_or(LibraryError::Lacks(name))
    }

    fn read_symbols(&mut self, file: &File<'_>) {
        let within = |address: u64| address < self.image.len() as u64;
        for symbol in file.dynamic_symbols() {
            if let (true, Ok(name)) = (symbol.is_definition(), symbol.name())
                && within(symbol.address())
            {
                self.symbols.insert(name.to_owned(), symbol.address());
            }
        }
    }

    /// Applies every relocation as far as it does not depend on the base.
    fn read_relocations(&mut self, file: &File<'_>) -> Result<(), LibraryError> {
        let symbols = file.dynamic_symbol_table();
        let sections = file.elf_section_table();
        if sections.is_empty() {
            return Err(LibraryError::Damaged("no section table".to_owned()));
        }
        for (index, section) in sections.enumerate() {
            if matches!(section.sh_type(LittleEndian), elf::SHT_RELR | elf::SHT_REL) {
                let what = "packed relocations (link it with -z nopack-relative-relocs)";
                return Err(LibraryError::Needs(what.to_owned()));
            }
            let Some((relocations, _)) = section.rela(LittleEndian, file.data())? else {
                continue;
            };
            for relocation in relocations {
                let offset = relocation.r_offset(LittleEndian);
                if offset
                    .checked_add(8)
                    .is_none_or(|end| end > self.image.len() as u64)
                {
                    let place = format!("relocation outside the segments in section {}", index.0);
                    return Err(LibraryError::Damaged(place));
                }
                let addend = relocation.r_addend(LittleEndian) as u64;
                let symbol = match relocation.symbol(LittleEndian, false) {
                    None => None,
                    Some(index) => symbols
                        .as_ref()
                        .map(|table| table.symbol_by_index(index))
                        .transpose()?,
                };
                let kind = relocation.r_type(LittleEndian, false);
                match Kind::of(self.processor, kind) {
                    Kind::None => {}
                    Kind::Relative => self.based.push((offset, addend)),
                    Kind::Symbol => {
                        let symbol = symbol.ok_or_else(|| {
                            LibraryError::Damaged("relocation without a symbol".to_owned())
                        })?;
                        if symbol.is_definition() {
                            let value = symbol.address().wrapping_add(addend);
                            self.based.push((offset, value));
                        } else if symbol.is_weak() {
                            self.absolute.push((offset, 0));
                        } else {
                            let name = symbol.name().unwrap_or("?");
                            return Err(LibraryError::Needs(format!("the symbol `{name}`")));
                        }
                    }
                    Kind::Other => {
                        return Err(LibraryError::Needs(format!(
                            "a relocation of type {kind:?}"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

/// What a relocation stores.
enum Kind {
    None,
    /// The base and the addend.
    Relative,
    /// The symbol and the addend.
    Symbol,
    Other,
}

impl Kind {
    fn of(processor: Processor, r_type: elf::RelocationType) -> Self {
        match (processor, r_type) {
            (Processor::X86_64, elf::R_X86_64_NONE) | (Processor::Aarch64, elf::R_AARCH64_NONE) => {
                Self::None
            }
            (Processor::X86_64, elf::R_X86_64_RELATIVE)
            | (Processor::Aarch64, elf::R_AARCH64_RELATIVE) => Self::Relative,
            (
                Processor::X86_64,
                elf::R_X86_64_64 | elf::R_X86_64_GLOB_DAT | elf::R_X86_64_JUMP_SLOT,
            )
            | (
                Processor::Aarch64,
                elf::R_AARCH64_ABS64 | elf::R_AARCH64_GLOB_DAT | elf::R_AARCH64_JUMP_SLOT,
            ) => Self::Symbol,
            _ => Self::Other,
        }
    }
}

/// The bytes of the segments, and what may be done with them.
#[allow(clippy::type_complexity, reason = "a pair that one caller takes apart")]
fn segments(
    file: &File<'_>,
    bytes: &[u8],
) -> Result<(Vec<u8>, Vec<(Range<u64>, Protection)>), LibraryError> {
    let mut image = Vec::new();
    let mut protections = Vec::new();
    for segment in file.elf_program_headers() {
        match segment.p_type(LittleEndian) {
            elf::PT_TLS => return Err(LibraryError::Needs("thread-local memory".to_owned())),
            elf::PT_INTERP => return Err(LibraryError::Needs("a dynamic linker".to_owned())),
            elf::PT_LOAD => {}
            _ => continue,
        }
        let start = segment.p_vaddr(LittleEndian);
        let end = start.saturating_add(segment.p_memsz(LittleEndian));
        if end > SPAN_MAX {
            return Err(LibraryError::Damaged(format!("segment ends at {end:#x}")));
        }
        let content = segment
            .data(LittleEndian, bytes)
            .map_err(|()| LibraryError::Damaged("segment outside the file".to_owned()))?;
        if image.len() < end as usize {
            image.resize(end as usize, 0);
        }
        let start_index = start as usize;
        let target = image.get_mut(start_index..start_index + content.len());
        target
            .ok_or_else(|| LibraryError::Damaged("segment larger than its memory".to_owned()))?
            .copy_from_slice(content);
        let flags = segment.p_flags(LittleEndian);
        let protection = if flags.0 & elf::PF_X.0 != 0 {
            Protection::Execute
        } else if flags.0 & elf::PF_W.0 != 0 {
            Protection::Write
        } else {
            Protection::Read
        };
        protections.push((start..end, protection));
    }
    Ok((image, protections))
}

/// Stores a 64-bit word.
pub(crate) fn put_word(image: &mut [u8], offset: u64, value: u64) {
    let offset = offset as usize;
    image[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}
