//! A shared library as a value: its segments, its relocations and its names, so that reheap can do for it in another
//! program what a dynamic linker does at home.
//!
//! Such a library has no `DT_NEEDED` and only weak needs (`dlsym` and the like), so loading it is a copy and some sums.

use crate::processor::Processor;
use crate::prologue;
use object::elf;
use object::read::elf::{
    ElfFile64, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _,
};
use object::{LittleEndian, Object as _, ObjectSymbol as _, ObjectSymbolTable as _};
use std::collections::BTreeMap;
use std::ops::Range;

/// More than any of them needs; a damaged file must not make reheap allocate what it claims.
const SPAN_MAX: u64 = 64 << 20;

/// Why a file cannot be put into another program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The file is not ELF, or its tables are damaged.
    #[error("damaged ELF: {0}")]
    Damaged(String),
    /// It is for another processor.
    #[error("it is for machine number {0}")]
    Machine(u16),
    /// It needs something that reheap cannot give it inside another program.
    #[error("it needs {0}, which code in another program cannot have")]
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

/// A parsed library.
#[derive(Debug, Clone)]
pub struct Library {
    processor: Processor,
    /// The bytes of all segments, from address 0 of the library on, before relocation.
    image: Vec<u8>,
    content_bytes: u64,
    protections: Vec<(Range<u64>, Protection)>,
    notes: Vec<Range<u64>>,
    thread_local: Option<ThreadLocal>,
    /// Words to which the base is added.
    based: Vec<(u64, u64)>,
    /// Words that do not depend on the base.
    absolute: Vec<(u64, u64)>,
    /// Words that hold the distance of a variable from the thread pointer: where, and which byte of the thread-local memory.
    thread_offsets: Vec<(u64, u64)>,
    symbols: BTreeMap<String, u64>,
}

/// What each thread has of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadLocal {
    /// Where the initial bytes are in the library.
    pub initial: Range<u64>,
    /// How much memory it is; behind the initial bytes are zeroes.
    pub bytes: u64,
    /// Its alignment.
    pub alignment: u64,
}

/// What code may do with a range of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Only read it.
    Read,
    /// Read and write it.
    Write,
    /// Read and execute it.
    Execute,
}

type File<'data> = ElfFile64<'data, LittleEndian>;

impl Library {
    /// Reads a shared library.
    ///
    /// # Errors
    /// When the bytes are not such a library.
    pub fn parse(bytes: &[u8]) -> Result<Self, LibraryError> {
        let file = File::parse(bytes)?;
        let machine = file.elf_header().e_machine(LittleEndian);
        let processor = Processor::from_machine(machine).ok_or(LibraryError::Machine(machine.0))?;
        let Segments {
            image,
            content_bytes,
            protections,
            notes,
            thread_local,
        } = segments(&file, bytes)?;
        let mut library = Self {
            processor,
            image,
            content_bytes,
            protections,
            notes,
            thread_local,
            based: Vec::new(),
            absolute: Vec::new(),
            thread_offsets: Vec::new(),
            symbols: BTreeMap::new(),
        };
        library.read_symbols(&file);
        library.read_relocations(&file)?;
        Ok(library)
    }

    /// The processor that it is for.
    pub fn processor(&self) -> Processor {
        self.processor
    }

    /// How much address space it takes.
    pub fn span_bytes(&self) -> u64 {
        self.image.len() as u64
    }

    /// How much of that is in its file. The rest is zeroes.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// The address of something that it exports, from the library's base.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    /// The address of a function that it exports. If that only jumps to another one, the other's.
    pub fn function(&self, name: &str) -> Option<u64> {
        let address = self.symbol(name)?;
        let bytes = prologue::jump_bytes(self.processor);
        let code = self.image.get(address as usize..)?.get(..bytes)?;
        prologue::target(self.processor, address, code).or(Some(address))
    }

    /// Which parts may be read, written and executed; the rest of the span is readable.
    pub fn protections(&self) -> &[(Range<u64>, Protection)] {
        &self.protections
    }

    /// Where its notes are.
    pub fn notes(&self) -> &[Range<u64>] {
        &self.notes
    }

    /// What each thread has of its own; `None` if nothing.
    pub fn thread_local(&self) -> Option<&ThreadLocal> {
        self.thread_local.as_ref()
    }

    /// Words that hold a distance from the thread pointer: where, and of which byte of the thread-local memory.
    pub fn thread_offsets(&self) -> &[(u64, u64)] {
        &self.thread_offsets
    }

    /// Words to which the base is added: where, and what it is added to.
    pub fn based(&self) -> &[(u64, u64)] {
        &self.based
    }

    /// The bytes of the whole span, relocated to `base`.
    pub fn image_at(&self, base: u64) -> Vec<u8> {
        let mut image = self.image.clone();
        for &(offset, value) in &self.absolute {
            put_word(&mut image, offset, value);
        }
        for &(offset, value) in &self.based {
            put_word(&mut image, offset, base.wrapping_add(value));
        }
        image
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
                    Kind::ThreadOffset => {
                        let variable =
                            symbol.map_or(0, |symbol| symbol.elf_symbol().st_value(LittleEndian));
                        self.thread_offsets
                            .push((offset, variable.wrapping_add(addend)));
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
    /// The distance of the symbol and the addend from the thread pointer.
    ThreadOffset,
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
            (Processor::X86_64, elf::R_X86_64_TPOFF64)
            | (Processor::Aarch64, elf::R_AARCH64_TLS_TPREL) => Self::ThreadOffset,
            _ => Self::Other,
        }
    }
}

/// The bytes of the segments, and what may be done with them.
#[derive(Default)]
struct Segments {
    image: Vec<u8>,
    content_bytes: u64,
    protections: Vec<(Range<u64>, Protection)>,
    notes: Vec<Range<u64>>,
    thread_local: Option<ThreadLocal>,
}

fn segments(file: &File<'_>, bytes: &[u8]) -> Result<Segments, LibraryError> {
    let Segments {
        mut image,
        mut content_bytes,
        mut protections,
        mut notes,
        mut thread_local,
    } = Segments::default();
    for segment in file.elf_program_headers() {
        match segment.p_type(LittleEndian) {
            elf::PT_TLS => {
                thread_local = Some(ThreadLocal::of(segment)?);
                continue;
            }
            elf::PT_INTERP => return Err(LibraryError::Needs("a dynamic linker".to_owned())),
            elf::PT_NOTE => {
                let start = segment.p_vaddr(LittleEndian);
                notes.push(start..start.saturating_add(segment.p_filesz(LittleEndian)));
                continue;
            }
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
        content_bytes = content_bytes.max(start + content.len() as u64);
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
    let initial = thread_local
        .iter()
        .map(|memory: &ThreadLocal| &memory.initial);
    if initial
        .chain(&notes)
        .any(|range| range.start > range.end || range.end > image.len() as u64)
    {
        let what = "notes or thread-local memory outside the segments";
        return Err(LibraryError::Damaged(what.to_owned()));
    }
    Ok(Segments {
        image,
        content_bytes,
        protections,
        notes,
        thread_local,
    })
}

impl ThreadLocal {
    fn of(segment: &elf::ProgramHeader64<LittleEndian>) -> Result<Self, LibraryError> {
        let start = segment.p_vaddr(LittleEndian);
        let (initial, bytes) = (
            segment.p_filesz(LittleEndian),
            segment.p_memsz(LittleEndian),
        );
        let alignment = segment.p_align(LittleEndian).max(1);
        if start > SPAN_MAX || initial > bytes || bytes > SPAN_MAX || !alignment.is_power_of_two() {
            let what = format!("thread-local memory at {start:#x}");
            return Err(LibraryError::Damaged(what));
        }
        Ok(Self {
            initial: start..start + initial,
            bytes,
            alignment,
        })
    }
}

/// Stores a 64-bit word.
pub fn put_word(image: &mut [u8], offset: u64, value: u64) {
    let offset = offset as usize;
    image[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}
