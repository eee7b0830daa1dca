//! One ELF file as the facts that identification needs, read with a cost that the file's size bounds.
//!
//! Every table in an ELF file may point anywhere, so a hostile file of a few megabytes can let a hundred thousand headers
//! describe the same bytes, or give a million symbols one name of a megabyte. Reading each of them faithfully would take
//! hours without ever leaving the file. Hence the rules here: byte ranges are merged before anyone walks them, a name is
//! cut off at [`NAME_BYTES_MAX`], a list of small things ends at [`LIST_MAX`], and only the first table of a kind counts.
//! `object::File` checks bounds but not repetition, which is why its higher-level reader is not used.

use super::IdentifyError;
use object::Endianness;
use object::elf;
use object::read::SectionIndex;
use object::read::elf::{
    Dyn as _, FileHeader, NoteIterator, ProgramHeader as _, SectionHeader as _, Sym as _,
};
use std::ops::Range;

/// Longer names are cut off; no name that identification asks for comes near.
const NAME_BYTES_MAX: usize = 256;
/// Most needed libraries, version needs and notes that are looked at.
const LIST_MAX: usize = 1024;
/// Notes are a few hundred bytes in practice.
const NOTE_BYTES_MAX: usize = 1 << 20;

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
pub(super) struct Symbol<'data> {
    pub(super) name: &'data [u8],
    /// `None` if another file has to define it.
    pub(super) place: Option<Place>,
    /// It stands in the table of the dynamic linker.
    pub(super) is_dynamic: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Note<'data> {
    pub(super) name: &'data [u8],
    pub(super) note_type: u32,
    pub(super) description: &'data [u8],
    /// Where the description lies in memory, for what is relative to it.
    pub(super) address: u64,
}

/// What identification needs of an ELF file.
#[derive(Debug)]
pub(super) struct Image<'data> {
    pub(super) bytes: &'data [u8],
    pub(super) machine: elf::Machine,
    pub(super) is_64_bit: bool,
    pub(super) is_little_endian: bool,
    pub(super) file_type: FileType,
    pub(super) is_marked_pie: bool,
    pub(super) interpreter: Option<&'data [u8]>,
    pub(super) soname: Option<&'data [u8]>,
    /// It says that its thread-local storage has to be there when the program starts (`DF_STATIC_TLS`).
    pub(super) has_static_tls: bool,
    /// The size of its own thread-local storage.
    pub(super) tls_bytes: u64,
    /// What holds code, sorted, without overlap.
    pub(super) code: Vec<Range<usize>>,
    /// The code is known by sections. Segments hold constants beside it, which can look like instructions.
    pub(super) code_is_exact: bool,
    /// Needed libraries, in the order in which they are searched for symbols.
    pub(super) needed: Vec<&'data [u8]>,
    /// Symbol versions that the file needs of others, such as `GLIBC_2.34`.
    pub(super) version_needs: Vec<&'data [u8]>,
    pub(super) notes: Vec<Note<'data>>,
    pub(super) symbol_table: SymbolTable,
    pub(super) has_dynamic_symbols: bool,
    /// The symbols that the caller asked for.
    pub(super) symbols: Vec<Symbol<'data>>,
    /// The parts of the file that end up in memory, sorted, without overlap.
    pub(super) loaded: Vec<Range<usize>>,
    segments: Vec<(u64, Range<usize>)>,
    /// Of relocatable objects only.
    sections: Vec<Option<Range<usize>>>,
}

impl<'data> Image<'data> {
    /// Reads the file and keeps the symbols whose name `is_wanted`.
    pub(super) fn read(
        bytes: &'data [u8],
        is_wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Self, IdentifyError> {
        match bytes.get(4) {
            Some(1) => read_class::<elf::FileHeader32<Endianness>>(bytes, is_wanted),
            Some(2) => read_class::<elf::FileHeader64<Endianness>>(bytes, is_wanted),
            Some(_) => Err(damaged("file header")),
            None => Err(IdentifyError::Truncated {
                part: "file header",
            }),
        }
    }

    /// The contents of the file from `place` on, as far as the segment or section goes.
    pub(super) fn contents_from(&self, place: Place) -> Option<&'data [u8]> {
        if self.file_type != FileType::Relocatable {
            return from_address(self.bytes, &self.segments, place.address);
        }
        let section = self.sections.get(place.section)?.clone()?;
        self.bytes[section].get(usize::try_from(place.address).ok()?..)
    }
}

fn damaged(part: &'static str) -> IdentifyError {
    IdentifyError::Damaged { part }
}

fn read_class<'data, Elf: FileHeader<Endian = Endianness>>(
    bytes: &'data [u8],
    is_wanted: &dyn Fn(&[u8]) -> bool,
) -> Result<Image<'data>, IdentifyError> {
    if bytes.len() < size_of::<Elf>() {
        return Err(IdentifyError::Truncated {
            part: "file header",
        });
    }
    let header = Elf::parse(bytes).map_err(|_| damaged("file header"))?;
    let endian = header.endian().map_err(|_| damaged("file header"))?;
    let file_type = match header.e_type(endian) {
        elf::ET_REL => FileType::Relocatable,
        elf::ET_EXEC => FileType::Executable,
        elf::ET_DYN => FileType::SharedObject,
        elf::ET_CORE => return Err(IdentifyError::CoreDump),
        _ => return Err(damaged("file header")),
    };
    // Linkers do not look at the program headers of an object.
    let program_headers = match file_type {
        FileType::Relocatable => Ok(&[][..]),
        _ => header.program_headers(endian, bytes),
    };
    let program_headers = program_headers.map_err(|_| {
        let entry_bytes = (header.e_phentsize(endian), size_of::<Elf::ProgramHeader>());
        unreadable_table(entry_bytes, "program headers")
    })?;
    let section_headers = header.section_headers(endian, bytes).map_err(|_| {
        let entry_bytes = (header.e_shentsize(endian), size_of::<Elf::SectionHeader>());
        unreadable_table(entry_bytes, "section table")
    })?;

    let mut image = Image {
        bytes,
        machine: header.e_machine(endian),
        is_64_bit: header.is_class_64(),
        is_little_endian: header.is_little_endian(),
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
        has_dynamic_symbols: false,
        symbols: Vec::new(),
        loaded: Vec::new(),
        segments: Vec::new(),
        sections: Vec::new(),
    };
    read_segments::<Elf>(&mut image, endian, program_headers)?;
    if file_type == FileType::Relocatable {
        let in_memory = section_headers.iter().map(|section| {
            let (offset, size) = section
                .file_range(endian)
                .filter(|_| section.sh_flags(endian).contains(elf::SHF_ALLOC))?;
            range_in_file(bytes, offset, size)
        });
        image.sections = in_memory.collect();
        image.loaded = merged(image.sections.iter().flatten().cloned());
    }
    let sections_with_code = section_headers.iter().filter_map(|section| {
        let flags = section.sh_flags(endian);
        let (offset, size) = section.file_range(endian)?;
        let range = range_in_file(bytes, offset, size)?;
        flags.contains(elf::SHF_EXECINSTR).then_some(range)
    });
    let code = merged(sections_with_code);
    if !code.is_empty() {
        image.code = code;
        image.code_is_exact = true;
    }
    read_dynamic::<Elf>(&mut image, endian, program_headers)?;
    read_symbols::<Elf>(&mut image, endian, section_headers, is_wanted)?;
    read_version_needs::<Elf>(&mut image, endian, section_headers);
    Ok(image)
}

/// If the size of an entry is as it must be, the table can only reach beyond the end of the file.
fn unreadable_table((said, expected): (u16, usize), part: &'static str) -> IdentifyError {
    if usize::from(said) == expected {
        IdentifyError::Truncated { part }
    } else {
        damaged(part)
    }
}

fn read_segments<'data, Elf: FileHeader<Endian = Endianness>>(
    image: &mut Image<'data>,
    endian: Endianness,
    program_headers: &[Elf::ProgramHeader],
) -> Result<(), IdentifyError> {
    let bytes = image.bytes;
    let mut note_bytes = 0;
    let mut code = Vec::new();
    for segment in program_headers {
        let (offset, size) = segment.file_range(endian);
        match segment.p_type(endian) {
            elf::PT_LOAD if size > 0 => {
                let range = range_in_file(bytes, offset, size)
                    .ok_or(IdentifyError::Truncated { part: "segment" })?;
                if segment.p_flags(endian).contains(elf::PF_X) {
                    code.push(range.clone());
                }
                image.segments.push((segment.p_vaddr(endian).into(), range));
            }
            elf::PT_INTERP if image.interpreter.is_none() => {
                let range =
                    range_in_file(bytes, offset, size).ok_or_else(|| damaged("interpreter"))?;
                image.interpreter =
                    Some(name_at(&bytes[range], 0).ok_or_else(|| damaged("interpreter"))?);
            }
            elf::PT_TLS => image.tls_bytes = segment.p_memsz(endian).into(),
            elf::PT_NOTE => {
                let Some(range) = range_in_file(bytes, offset, size) else {
                    continue;
                };
                note_bytes += range.len();
                if note_bytes > NOTE_BYTES_MAX {
                    continue;
                }
                let start = segment.p_vaddr(endian).into();
                read_notes::<Elf>(image, endian, segment.p_align(endian), range, start);
            }
            _ => {}
        }
    }
    image.loaded = merged(image.segments.iter().map(|(_, range)| range.clone()));
    image.code = merged(code.into_iter());
    Ok(())
}

/// Damaged notes end the list: they are hints, and the kernel does not look at most of them either.
fn read_notes<Elf: FileHeader<Endian = Endianness>>(
    image: &mut Image<'_>,
    endian: Endianness,
    alignment: Elf::Word,
    range: Range<usize>,
    start_address: u64,
) {
    let data = &image.bytes[range];
    let Ok(mut notes) = NoteIterator::<Elf>::new(endian, alignment, data) else {
        return;
    };
    while let Ok(Some(note)) = notes.next() {
        if image.notes.len() == LIST_MAX {
            return;
        }
        let distance = note.desc().as_ptr().addr() - data.as_ptr().addr();
        image.notes.push(Note {
            name: note.name(),
            note_type: note.n_type(endian).0,
            description: note.desc(),
            address: start_address.wrapping_add(distance as u64),
        });
    }
}

/// The dynamic section is read by way of the segments, as the dynamic linker does: some packers drop the section table.
fn read_dynamic<'data, Elf: FileHeader<Endian = Endianness>>(
    image: &mut Image<'data>,
    endian: Endianness,
    program_headers: &'data [Elf::ProgramHeader],
) -> Result<(), IdentifyError> {
    let Some(segment) = program_headers
        .iter()
        .find(|s| s.p_type(endian) == elf::PT_DYNAMIC)
    else {
        return Ok(());
    };
    let entries = segment
        .dynamic(endian, image.bytes)
        .map_err(|_| damaged("dynamic section"))?
        .unwrap_or_default();
    let mut strings_address = None;
    let mut soname = None;
    let mut needed = Vec::new();
    for entry in entries {
        let value: u64 = entry.d_val(endian).into();
        match entry.tag(endian) {
            elf::DT_NULL => break,
            elf::DT_STRTAB => strings_address = Some(value),
            elf::DT_SONAME => soname = Some(value),
            elf::DT_NEEDED if needed.len() < LIST_MAX => needed.push(value),
            elf::DT_FLAGS => image.has_static_tls = value & elf::DF_STATIC_TLS.0 != 0,
            elf::DT_FLAGS_1 => image.is_marked_pie = value & elf::DF_1_PIE.0 != 0,
            _ => {}
        }
    }
    // One look-up of the segment for all names: there may be a hundred thousand segments.
    let strings =
        strings_address.and_then(|address| from_address(image.bytes, &image.segments, address));
    let Some(strings) = strings else {
        return Ok(());
    };
    let name = |offset: u64| name_at(strings, usize::try_from(offset).ok()?);
    let names: Vec<&[u8]> = needed.into_iter().filter_map(name).collect();
    let soname = soname.and_then(name);
    image.needed = names;
    image.soname = soname;
    Ok(())
}

fn read_symbols<'data, Elf: FileHeader<Endian = Endianness>>(
    image: &mut Image<'data>,
    endian: Endianness,
    section_headers: &'data [Elf::SectionHeader],
    is_wanted: &dyn Fn(&[u8]) -> bool,
) -> Result<(), IdentifyError> {
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let Some(section) = section_headers.iter().find(|s| s.sh_type(endian) == kind) else {
            continue;
        };
        let is_dynamic = kind == elf::SHT_DYNSYM;
        let table: &[Elf::Sym] = section
            .data_as_array(endian, image.bytes)
            .map_err(|_| damaged("symbol table"))?;
        let SectionIndex(strings) = section.link(endian);
        let strings = section_headers
            .get(strings)
            .and_then(|strings| strings.data(endian, image.bytes).ok())
            .ok_or_else(|| damaged("symbol names"))?;
        match (is_dynamic, table.len() > 1) {
            (true, _) => image.has_dynamic_symbols = true,
            (false, true) => image.symbol_table = SymbolTable::Full,
            (false, false) => {}
        }
        for symbol in table {
            let Some(name) =
                name_at(strings, symbol.st_name(endian) as usize).filter(|name| is_wanted(name))
            else {
                continue;
            };
            let section = symbol.st_shndx(endian);
            let place = (section != elf::SHN_UNDEF).then(|| Place {
                section: match image.file_type {
                    FileType::Relocatable => usize::from(section.0),
                    _ => 0,
                },
                address: symbol.st_value(endian).into(),
            });
            image.symbols.push(Symbol {
                name,
                place,
                is_dynamic,
            });
        }
    }
    if image.symbol_table == SymbolTable::None && image.has_dynamic_symbols {
        image.symbol_table = SymbolTable::DynamicOnly;
    }
    Ok(())
}

/// Versions are an extra, so damage here only means that there are none.
fn read_version_needs<'data, Elf: FileHeader<Endian = Endianness>>(
    image: &mut Image<'data>,
    endian: Endianness,
    section_headers: &'data [Elf::SectionHeader],
) {
    let Some(section) = section_headers
        .iter()
        .find(|s| s.sh_type(endian) == elf::SHT_GNU_VERNEED)
    else {
        return;
    };
    let Ok(Some((mut needs, strings))) = section.gnu_verneed(endian, image.bytes) else {
        return;
    };
    let Some(strings) = section_headers
        .get(strings.0)
        .and_then(|strings| strings.data(endian, image.bytes).ok())
    else {
        return;
    };
    while let Ok(Some((_, mut versions))) = needs.next() {
        while let Ok(Some(version)) = versions.next() {
            // Entries may overlap and repeat, so their number is bounded by this and not by the file.
            if image.version_needs.len() == LIST_MAX {
                return;
            }
            image
                .version_needs
                .push(name_at(strings, version.vna_name.get(endian) as usize).unwrap_or_default());
        }
    }
}

fn name_at(strings: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = strings.get(offset..)?;
    let rest = &rest[..rest.len().min(NAME_BYTES_MAX)];
    let length = rest
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(rest.len());
    Some(&rest[..length])
}

/// The bytes from `address` to the end of its segment.
fn from_address<'data>(
    bytes: &'data [u8],
    segments: &[(u64, Range<usize>)],
    address: u64,
) -> Option<&'data [u8]> {
    segments.iter().find_map(|(base, range)| {
        let start = usize::try_from(address.checked_sub(*base)?).ok()?;
        bytes[range.clone()]
            .get(start..)
            .filter(|rest| !rest.is_empty())
    })
}

fn range_in_file(bytes: &[u8], offset: u64, size: u64) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    (end <= bytes.len()).then_some(start..end)
}

/// Sorted ranges without overlap that cover the same bytes, so that walking all of them is one walk of the file.
fn merged(ranges: impl Iterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_or_touch_become_one() {
        let ranges = [10..20, 0..5, 15..30, 30..31, 7..7];
        assert_eq!(merged(ranges.into_iter()), [0..5, 10..31]);
    }

    #[test]
    fn a_name_ends_at_zero_at_the_end_of_its_table_or_at_the_limit() {
        assert_eq!(name_at(b"ab\0cd", 0), Some(&b"ab"[..]));
        assert_eq!(name_at(b"ab\0cd", 3), Some(&b"cd"[..]));
        assert_eq!(name_at(b"ab\0cd", 6), None);
        assert_eq!(
            name_at(&[b'x'; 10_000], 0).map(<[u8]>::len),
            Some(NAME_BYTES_MAX)
        );
    }
}
