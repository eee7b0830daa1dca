//! One ELF file as the facts that identification needs. The file's size bounds the cost of reading it.
//!
//! Every table in an ELF file may point anywhere. In a hostile file of a few megabytes, a hundred thousand headers can
//! describe the same bytes, or a million symbols can have the same name of a megabyte. Reading each of them would need
//! hours without ever leaving the file. So this module
//!
//! - merges byte ranges before it reads them,
//! - cuts off long names,
//! - reads only a limited number of entries of a list of small things,
//! - uses only the first table of each kind.
//!
//! It keeps little of a file, whatever its size. It shows symbols to the caller one by one, and searches through one
//! buffer ([`crate::source`]).

use crate::error::ElfError;
use crate::marker;
use crate::source::View;
use crate::tables::{
    Dynamic, Format, LIST_MAX, NAME_BYTES_MAX, SymbolTable as Table, Tables, Which,
};
use object::elf;
use std::ops::Range;

/// Notes are a few hundred bytes in practice.
const NOTE_BYTES_MAX: u64 = 1 << 20;
/// Sections that only the linkers read.
const TABLES: [elf::SectionType; 8] = [
    elf::SHT_SYMTAB,
    elf::SHT_DYNSYM,
    elf::SHT_STRTAB,
    elf::SHT_HASH,
    elf::SHT_GNU_HASH,
    elf::SHT_GNU_VERSYM,
    elf::SHT_REL,
    elf::SHT_RELA,
];
/// More sections than any object has. The ranges of more sections would need too much memory.
const RANGES_MAX: usize = 1 << 20;

/// What kind of ELF file the header announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileType {
    Relocatable,
    Executable,
    SharedObject,
}

/// Which symbol table the file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymbolTable {
    /// `.symtab`: the file is not stripped.
    Full,
    /// Only what the dynamic linker needs.
    DynamicOnly,
    None,
}

/// A place in the program: an address, or an offset in a section of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// 0 in linked files, where addresses are unique.
    section: usize,
    address: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol<'name> {
    pub(super) name: &'name [u8],
    /// `None` if another file has to define it.
    pub(super) place: Option<Place>,
    /// It is in the table of the dynamic linker.
    pub(super) is_dynamic: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Note {
    pub(super) name: Vec<u8>,
    pub(super) note_type: u32,
    pub(super) description: Vec<u8>,
    /// The address of the description in memory, to which the marker's distances are relative.
    pub(super) address: u64,
}

/// What identification needs of an ELF file.
pub(super) struct Image<'data> {
    tables: Tables<'data>,
    pub(super) file_type: FileType,
    pub(super) is_marked_pie: bool,
    pub(super) interpreter: Option<Vec<u8>>,
    pub(super) soname: Option<Vec<u8>>,
    /// Its thread-local storage must exist when the program starts (`DF_STATIC_TLS`).
    pub(super) has_static_tls: bool,
    /// The size of its own thread-local storage.
    pub(super) tls_bytes: u64,
    /// What holds code, sorted, without overlap.
    pub(super) code: Vec<Range<u64>>,
    /// The code is known by sections. Segments hold constants beside it, which can look like instructions.
    pub(super) code_is_exact: bool,
    /// Needed libraries, in the order in which they are searched for symbols.
    pub(super) needed: Vec<Vec<u8>>,
    /// Symbol versions that the file needs of others, such as `GLIBC_2.34`.
    pub(super) version_needs: Vec<Vec<u8>>,
    pub(super) notes: Vec<Note>,
    pub(super) symbol_table: SymbolTable,
    /// All symbols, then those of the dynamic linker.
    symbols: [Option<Table>; 2],
    /// The parts of the file that end up in memory and may hold texts, sorted, without overlap. Where sections tell, it
    /// is all but code and the linker's tables, which are most of a large program.
    pub(super) data: Vec<Range<u64>>,
}

impl<'data> Image<'data> {
    pub(super) fn read(view: View<'data>) -> Result<Self, ElfError> {
        let tables = Tables::of(view)?;
        let file_type = match tables.file_type {
            elf::ET_REL => FileType::Relocatable,
            elf::ET_EXEC => FileType::Executable,
            elf::ET_DYN => FileType::SharedObject,
            elf::ET_CORE => return Err(ElfError::CoreDump),
            _ => return Err(damaged("file header")),
        };
        let mut image = Self {
            tables,
            file_type,
            is_marked_pie: false,
            interpreter: None,
            soname: None,
            has_static_tls: false,
            tls_bytes: 0,
            code: Vec::new(),
            code_is_exact: false,
            needed: Vec::new(),
            version_needs: Vec::new(),
            notes: Vec::new(),
            symbol_table: SymbolTable::None,
            symbols: [None, None],
            data: Vec::new(),
        };
        image.read_segments()?;
        image.read_sections()?;
        let dynamic = image.tables.dynamic()?;
        if let Some(dynamic) = &dynamic {
            image.read_dynamic(dynamic)?;
        }
        image.find_symbols(dynamic.as_ref())?;
        image.version_needs = image.tables.version_needs(dynamic.as_ref())?;
        Ok(image)
    }

    pub(super) fn tables(&self) -> &Tables<'data> {
        &self.tables
    }

    /// So many bytes at an address of a linked file, if they are in the file.
    pub(super) fn bytes_at(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        let place = self.tables.place(address)?;
        let range = place.start..place.start.checked_add(size)?;
        let bytes = (range.end <= place.end).then(|| self.view().bytes(range));
        bytes?.ok()
    }

    pub(super) fn machine(&self) -> elf::Machine {
        self.tables.machine
    }

    pub(super) fn format(&self) -> Format {
        self.tables.format
    }

    pub(super) fn view(&self) -> View<'data> {
        self.tables.view
    }

    /// Up to so many bytes of the file from `place` on, as far as the segment or section goes.
    pub(super) fn contents_from(
        &self,
        place: Place,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>, ElfError> {
        let range = match self.file_type {
            FileType::Relocatable => {
                let section = self.tables.section_at(place.section as u64)?;
                let section = section.filter(|section| section.has(elf::SHF_ALLOC));
                let range = section.and_then(|section| section.range(self.view()));
                range.and_then(|range| {
                    let start = range.start.checked_add(place.address)?;
                    (start <= range.end).then_some(start..range.end)
                })
            }
            _ => self.tables.place(place.address),
        };
        let Some(range) = range else {
            return Ok(None);
        };
        Ok(Some(self.view().part(range).bytes_from(0, bytes_max)?))
    }

    /// Shows each symbol of both tables.
    pub(super) fn for_each_symbol(
        &self,
        visit: &mut dyn FnMut(Symbol<'_>) -> Result<(), ElfError>,
    ) -> Result<(), ElfError> {
        for (table, is_dynamic) in self.symbols.iter().zip([false, true]) {
            let Some(table) = table else { continue };
            self.tables
                .for_each_symbol(table, Which::All, &mut |symbol| {
                    let place = symbol.is_defined().then(|| Place {
                        section: match self.file_type {
                            FileType::Relocatable => usize::from(symbol.section),
                            _ => 0,
                        },
                        address: symbol.value,
                    });
                    visit(Symbol {
                        name: symbol.name,
                        place,
                        is_dynamic,
                    })
                })?;
        }
        Ok(())
    }

    /// The contents of the section in which an object carries reheap's marker.
    pub(super) fn marker_section(&self) -> Result<Option<Vec<u8>>, ElfError> {
        let Some(mut names) = self.tables.section_names()? else {
            return Ok(None);
        };
        let mut sections = self.tables.sections();
        while let Some(section) = sections.next()? {
            let name = names.text(u64::from(section.name), NAME_BYTES_MAX)?;
            if name == Some(marker::SECTION.as_bytes()) {
                let range = section.range(self.view());
                let range = range.filter(|range| range.end - range.start <= NOTE_BYTES_MAX);
                return Ok(range.map(|range| self.view().bytes(range)).transpose()?);
            }
        }
        Ok(None)
    }

    fn read_segments(&mut self) -> Result<(), ElfError> {
        let view = self.view();
        let mut note_bytes = 0_u64;
        let mut code = Vec::new();
        let mut segments = self.tables.segments();
        while let Some(segment) = segments.next()? {
            let range = view.range(segment.offset, segment.file_bytes);
            match (segment.kind, range) {
                (elf::PT_LOAD, Some(range)) if segment.flags.contains(elf::PF_X) => {
                    code.push(range)
                }
                (elf::PT_INTERP, range) if self.interpreter.is_none() => {
                    let range = range.ok_or_else(|| damaged("interpreter"))?;
                    let bytes = view.part(range).bytes_from(0, NAME_BYTES_MAX as u64)?;
                    let path = bytes.split(|&byte| byte == 0).next();
                    self.interpreter = path.map(<[u8]>::to_vec);
                }
                (elf::PT_TLS, _) => self.tls_bytes = segment.memory_bytes,
                (elf::PT_NOTE, Some(range)) => {
                    note_bytes = note_bytes.saturating_add(range.end - range.start);
                    if note_bytes <= NOTE_BYTES_MAX {
                        let bytes = view.bytes(range)?;
                        self.read_notes(&bytes, segment.alignment, segment.address);
                    }
                }
                _ => {}
            }
        }
        self.code = merged(code);
        let loaded = self.tables.loaded.iter().map(|(_, range)| range.clone());
        self.data = merged(loaded.collect());
        Ok(())
    }

    /// A damaged note ends the list. Notes are hints, and the kernel ignores most of them too.
    fn read_notes(&mut self, bytes: &[u8], alignment: u64, start_address: u64) {
        let alignment = match alignment {
            0..=4 => 4,
            8 => 8,
            _ => return,
        };
        let mut at = 0;
        while let Some(note) = self.note(bytes, at, alignment) {
            if self.notes.len() == LIST_MAX {
                return;
            }
            let (note, next) = note;
            self.notes.push(Note {
                address: start_address.wrapping_add(note.address),
                ..note
            });
            at = next;
        }
    }

    /// The note at a place (gABI, "Note Section"), its address counted from the first one, and where the next one is.
    fn note(&self, bytes: &[u8], at: usize, alignment: usize) -> Option<(Note, usize)> {
        let rest = bytes.get(at..)?;
        let header = rest.get(..12)?;
        let [name_bytes, description_bytes] =
            [0, 4].map(|field| self.format().u32(header, field) as usize);
        let name = rest.get(12..12_usize.checked_add(name_bytes)?)?;
        let start = (12 + name_bytes).next_multiple_of(alignment);
        let end = start.checked_add(description_bytes)?;
        let name_end = name
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        let note = Note {
            name: name[..name_end].to_vec(),
            note_type: self.format().u32(header, 8),
            description: rest.get(start..end)?.to_vec(),
            address: (at + start) as u64,
        };
        Some((note, at + end.next_multiple_of(alignment)))
    }

    /// What of an object ends up in memory, and where code and data of any file are.
    fn read_sections(&mut self) -> Result<(), ElfError> {
        let is_object = self.file_type == FileType::Relocatable;
        let (mut loaded, mut code, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        let mut sections = self.tables.sections();
        while let Some(section) = sections.next()? {
            let Some(range) = section.range(self.view()) else {
                continue;
            };
            if is_object && section.has(elf::SHF_ALLOC) {
                loaded.push(range.clone());
            }
            if section.has(elf::SHF_EXECINSTR) {
                code.push(range);
            } else if TABLES.contains(&section.kind) {
                tables.push(range);
            }
            if loaded.len().max(code.len()).max(tables.len()) > RANGES_MAX {
                return Err(damaged("section table"));
            }
        }
        if is_object {
            self.data = merged(loaded);
        }
        let code = merged(code);
        if !code.is_empty() {
            tables.extend(code.iter().cloned());
            self.data = without(&self.data, &merged(tables));
            self.code = code;
            self.code_is_exact = true;
        }
        Ok(())
    }

    fn read_dynamic(&mut self, dynamic: &Dynamic) -> Result<(), ElfError> {
        self.has_static_tls = dynamic.flags & elf::DF_STATIC_TLS.0 != 0;
        self.is_marked_pie = dynamic.flags_1 & elf::DF_1_PIE.0 != 0;
        let Some(mut names) = self.tables.dynamic_names(dynamic) else {
            return Ok(());
        };
        for &offset in &dynamic.needed {
            let name = names.text(offset, NAME_BYTES_MAX)?;
            self.needed.extend(name.map(<[u8]>::to_vec));
        }
        if let Some(offset) = dynamic.soname {
            let name = names.text(offset, NAME_BYTES_MAX)?;
            self.soname = name.map(<[u8]>::to_vec);
        }
        Ok(())
    }

    fn find_symbols(&mut self, dynamic: Option<&Dynamic>) -> Result<(), ElfError> {
        let all = self.tables.symbols_of_section(elf::SHT_SYMTAB)?;
        let of_dynamic_linker = self.tables.dynamic_symbols(dynamic)?;
        self.symbol_table = match (&all, &of_dynamic_linker) {
            (Some(all), _) if self.tables.count(all) > 1 => SymbolTable::Full,
            (_, Some(_)) => SymbolTable::DynamicOnly,
            _ => SymbolTable::None,
        };
        self.symbols = [all, of_dynamic_linker];
        Ok(())
    }
}

fn damaged(part: &'static str) -> ElfError {
    ElfError::Damaged { part }
}

/// Sorted ranges without overlap that cover the same bytes, so that walking all of them is one walk of the file.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    ranges.shrink_to_fit();
    ranges
}

/// What is left of sorted ranges without other sorted ranges.
fn without(ranges: &[Range<u64>], taken: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in ranges {
        let first = taken.partition_point(|taken| taken.end <= range.start);
        let mut start = range.start;
        for taken in taken[first..].iter().take_while(|t| t.start < range.end) {
            left.push(start..taken.start);
            start = taken.end;
        }
        left.push(start..range.end);
    }
    left.retain(|range| range.start < range.end);
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{ReadError, Source};

    /// A file whose header is there, and behind it nothing but holes.
    struct Sparse(Vec<u8>);

    impl Source for Sparse {
        fn size(&self) -> u64 {
            1 << 63
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
            for (byte, offset) in buffer.iter_mut().zip(offset..) {
                *byte = self.0.get(offset as usize).copied().unwrap_or(0);
            }
            Ok(())
        }
    }

    #[test]
    fn notes_that_are_longer_than_any_number_says_are_not_read() {
        const PT_NOTE: u64 = 4;
        let mut bytes = vec![0; 64];
        bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0");
        bytes[32] = 64;
        bytes[52..58].copy_from_slice(&[64, 0, 56, 0, 3, 0]);
        // Together as long as one byte, if the sum wraps.
        for size in [1 << 63, (1 << 63) - 1, 2] {
            let header = [PT_NOTE, 0, 0, 0, size, size, 4];
            bytes.extend(header.map(u64::to_le_bytes).concat());
        }
        let sparse = Sparse(bytes);
        let image = Image::read(View::of(&sparse)).unwrap();
        assert!(image.notes.is_empty());
    }

    #[test]
    fn ranges_that_overlap_or_touch_become_one() {
        let ranges = [10..20, 0..5, 15..30, 30..31, 7..7];
        assert_eq!(merged(ranges.to_vec()), [0..5, 10..31]);
    }

    #[test]
    fn what_is_left_of_ranges_has_none_of_the_others() {
        let ranges = [10..20, 30..40];
        assert_eq!(without(&ranges, &[]), ranges);
        assert_eq!(
            without(&ranges, &[0..5, 12..14, 18..32]),
            [10..12, 14..18, 32..40]
        );
        assert_eq!(without(&ranges, &[0..10, 12..20, 35..50]), [10..12, 30..35]);
    }
}
