//! Where the tables of an ELF file are, and what they say, whatever its class and byte order.
//!
//! Two ways lead to the symbols of a linked file. Only linkers and debuggers need the section table. The dynamic linker
//! uses the dynamic segment. `sstrip` and packers remove the section table, and a file may contain a false one. So the
//! dynamic segment decides. The section table only adds the number of symbols, which the dynamic segment does not state
//! (see [`Tables::dynamic_symbols`]).
//!
//! This module reads fields by their offsets (gABI chapters 4 and 5) from bytes of a [`View`]. The structures of
//! `object` need the whole file as one slice.

use crate::error::ElfError;
use crate::source::{Blocks, Entries, ReadError, View};
use object::elf;
use std::ops::Range;

/// Longer names are cut off. No name that this crate looks for is nearly as long.
pub(crate) const NAME_BYTES_MAX: usize = 256;
/// How many entries of a list of small things this crate reads.
pub(crate) const LIST_MAX: usize = 1024;
/// The kernel accepts 64 KiB of program headers, about a thousand.
const SEGMENTS_MAX: usize = 1 << 16;
/// More relocations than the largest programs have. A damaged file can repeat the same ones without end.
const RELOCATIONS_MAX: u64 = 8 << 20;

/// How many symbols are in order at once: about twelve megabytes of them.
const SYMBOLS_AT_ONCE: usize = 1 << 19;

/// How the file writes numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) is_64_bit: bool,
    pub(crate) is_little_endian: bool,
}

impl Format {
    #[cfg(test)]
    pub(crate) const LITTLE_64: Self = Self {
        is_64_bit: true,
        is_little_endian: true,
    };

    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self.is_little_endian {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        }
    }

    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.is_little_endian {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        }
    }

    fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (self.u32(bytes, at), self.u32(bytes, at + 4));
        let (low, high) = if self.is_little_endian {
            (first, second)
        } else {
            (second, first)
        };
        u64::from(high) << 32 | u64::from(low)
    }

    /// A number that is as wide as an address, at one of two places.
    fn word(self, bytes: &[u8], at_64: usize, at_32: usize) -> u64 {
        if self.is_64_bit {
            self.u64(bytes, at_64)
        } else {
            u64::from(self.u32(bytes, at_32))
        }
    }

    /// One of two numbers: of 64-bit files, of 32-bit ones.
    fn of<T>(self, of_64: T, of_32: T) -> T {
        if self.is_64_bit { of_64 } else { of_32 }
    }

    pub(crate) fn word_bytes(self) -> usize {
        self.of(8, 4)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) kind: elf::ProgramType,
    pub(crate) flags: elf::ProgramFlags,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) alignment: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    pub(crate) name: u32,
    pub(crate) kind: elf::SectionType,
    pub(crate) flags: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RawSymbol<'name> {
    /// Its place in the table.
    pub(crate) index: u64,
    pub(crate) name: &'name [u8],
    pub(crate) section: u16,
    pub(crate) value: u64,
}

impl RawSymbol<'_> {
    pub(crate) fn is_defined(&self) -> bool {
        is_defined(self.section)
    }
}

fn is_defined(section: u16) -> bool {
    section != elf::SHN_UNDEF.0
}

/// A symbol whose name has not been read.
struct Unnamed {
    /// Where its name is in the table of names.
    name: u32,
    index: u32,
    section: u16,
    value: u64,
}

/// Which symbols of a table are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// Those that another file defines.
    Undefined,
}

/// A symbol table and its names.
#[derive(Debug, Clone)]
pub(crate) struct SymbolTable {
    entries: Range<u64>,
    names: Range<u64>,
}

/// What the dynamic linker is told.
#[derive(Debug, Default)]
pub(crate) struct Dynamic {
    pub(crate) needed: Vec<u64>,
    pub(crate) soname: Option<u64>,
    pub(crate) rpath: Option<u64>,
    pub(crate) runpath: Option<u64>,
    pub(crate) flags: u64,
    pub(crate) flags_1: u64,
    strings: Option<u64>,
    symbols: Option<u64>,
    hash: Option<u64>,
    gnu_hash: Option<u64>,
    version_needs: Option<u64>,
    /// `DT_BIND_NOW` and `DT_TEXTREL`, for which there are flags too.
    binds_now: bool,
    changes_code: bool,
    /// Addresses, sizes, and whether entries carry an addend: for data, then for calls.
    relocations: [(Option<u64>, u64, bool); 3],
}

/// The tables of one file.
pub(crate) struct Tables<'a> {
    pub(crate) view: View<'a>,
    pub(crate) format: Format,
    pub(crate) file_type: elf::FileType,
    pub(crate) machine: elf::Machine,
    program_headers: Range<u64>,
    section_headers: Range<u64>,
    section_names: u32,
    /// Address and place of what is loaded.
    pub(crate) loaded: Vec<(u64, Range<u64>)>,
}

fn damaged(part: &'static str) -> ElfError {
    ElfError::Damaged { part }
}

const HEADER: &str = "file header";
const PROGRAM_HEADERS: &str = "program headers";
const SECTION_TABLE: &str = "section table";

impl<'a> Tables<'a> {
    pub(crate) fn of(view: View<'a>) -> Result<Self, ElfError> {
        const TRUNCATED: ElfError = ElfError::Truncated { part: HEADER };
        let header = view.bytes_from(0, 64)?;
        let is_64_bit = match header.get(4) {
            Some(1) => false,
            Some(2) => true,
            Some(_) => return Err(damaged(HEADER)),
            None => return Err(TRUNCATED),
        };
        if header.len() < if is_64_bit { 64 } else { 52 } {
            return Err(TRUNCATED);
        }
        if !header.starts_with(&elf::ELFMAG) || !matches!(header[5], 1 | 2) || header[6] != 1 {
            return Err(damaged(HEADER));
        }
        let format = Format {
            is_64_bit,
            is_little_endian: header[5] == 1,
        };
        let mut tables = Self {
            view,
            format,
            file_type: elf::FileType(format.u16(&header, 16)),
            machine: elf::Machine(format.u16(&header, 18)),
            program_headers: 0..0,
            section_headers: 0..0,
            section_names: 0,
            loaded: Vec::new(),
        };
        tables.find_headers(&header)?;
        tables.find_loaded()?;
        Ok(tables)
    }

    fn find_headers(&mut self, header: &[u8]) -> Result<(), ElfError> {
        let format = self.format;
        let at_counts = format.of(54, 42);
        let [
            program_bytes,
            program_count,
            section_bytes,
            section_count,
            names,
        ] = [0, 2, 4, 6, 8].map(|distance| u64::from(format.u16(header, at_counts + distance)));
        let programs = format.word(header, 32, 28);
        let sections = format.word(header, 40, 32);
        // Numbers too large for the file header are in the first section's header.
        let first = match sections {
            0 => None,
            _ if section_bytes != self.section_bytes() as u64 => None,
            _ => self.view.range(sections, section_bytes),
        };
        let first = match first {
            Some(range) => Some(self.section(&self.view.bytes(range)?)),
            None => None,
        };
        let table = |offset: u64, count: Option<u64>, said: u64, expected: usize, part| {
            let count = match (offset, count) {
                (0, _) | (_, Some(0)) => return Ok(0..0),
                (_, Some(count)) if said == expected as u64 => count,
                _ => return Err(damaged(part)),
            };
            let range = count
                .checked_mul(said)
                .and_then(|size| self.view.range(offset, size));
            range.ok_or(ElfError::Truncated { part })
        };
        let count = match section_count {
            0 => first.map_or(Some(0), |first| {
                u32::try_from(first.size).ok().map(u64::from)
            }),
            count => Some(count),
        };
        let sections = table(
            sections,
            count,
            section_bytes,
            self.section_bytes(),
            SECTION_TABLE,
        )?;
        // Linkers ignore the program headers of an object.
        let count = match program_count {
            _ if self.file_type == elf::ET_REL => Some(0),
            0xffff => first.map(|first| u64::from(first.info)),
            count => Some(count),
        };
        let segment_bytes = format.of(56, 32);
        self.program_headers = table(
            programs,
            count,
            program_bytes,
            segment_bytes,
            PROGRAM_HEADERS,
        )?;
        self.section_headers = sections;
        self.section_names = match (names, first) {
            (0xffff, Some(first)) => first.link,
            (names, _) => names as u32,
        };
        Ok(())
    }

    fn find_loaded(&mut self) -> Result<(), ElfError> {
        let mut segments = self.segments();
        let mut loaded = Vec::new();
        while let Some(segment) = segments.next()? {
            if segment.kind == elf::PT_LOAD && segment.file_bytes > 0 {
                let range = self
                    .view
                    .range(segment.offset, segment.file_bytes)
                    .ok_or(ElfError::Truncated { part: "segment" })?;
                loaded.push((segment.address, range));
            }
            if loaded.len() > SEGMENTS_MAX {
                return Err(damaged(PROGRAM_HEADERS));
            }
        }
        self.loaded = loaded;
        Ok(())
    }

    fn section_bytes(&self) -> usize {
        self.format.of(64, 40)
    }

    /// The program headers.
    pub(crate) fn segments(&self) -> Segments<'a> {
        let entry_bytes = self.format.of(56, 32);
        Segments {
            entries: self.view.entries(self.program_headers.clone(), entry_bytes),
            format: self.format,
        }
    }

    /// Where in the file the program header with this index says how much memory its segment needs.
    pub(crate) fn place_of_memory_bytes(&self, index: u64) -> u64 {
        let (header_bytes, field) = self.format.of((56, 40), (32, 20));
        self.program_headers.start + index * header_bytes + field
    }

    /// The section table.
    pub(crate) fn sections(&self) -> Sections<'a> {
        let entry_bytes = self.section_bytes();
        Sections {
            entries: self.view.entries(self.section_headers.clone(), entry_bytes),
            format: self.format,
        }
    }

    fn section(&self, header: &[u8]) -> Section {
        section(self.format, header)
    }

    /// One section's header.
    pub(crate) fn section_at(&self, index: u64) -> Result<Option<Section>, ReadError> {
        let size = self.section_bytes() as u64;
        let place = index
            .checked_mul(size)
            .and_then(|distance| self.section_headers.start.checked_add(distance));
        match place.filter(|place| *place < self.section_headers.end) {
            Some(place) => Ok(Some(self.section(&self.view.bytes(place..place + size)?))),
            None => Ok(None),
        }
    }

    /// The names of sections, if there are any.
    pub(crate) fn section_names(&self) -> Result<Option<Blocks<'a>>, ReadError> {
        let section = self.section_at(u64::from(self.section_names))?;
        let range = section.and_then(|section| section.range(self.view));
        Ok(range.map(|range| Blocks::of(self.view.part(range))))
    }

    /// Where in the file an address is, to the end of its segment.
    pub(crate) fn place(&self, address: u64) -> Option<Range<u64>> {
        self.loaded.iter().find_map(|(base, range)| {
            let start = range.start.checked_add(address.checked_sub(*base)?)?;
            (start < range.end).then_some(start..range.end)
        })
    }

    /// What the dynamic segment says; `None` if there is none.
    pub(crate) fn dynamic(&self) -> Result<Option<Dynamic>, ElfError> {
        let mut segments = self.segments();
        let segment = loop {
            match segments.next()? {
                None => return Ok(None),
                Some(segment) if segment.kind == elf::PT_DYNAMIC => break segment,
                Some(_) => {}
            }
        };
        let range = self
            .view
            .range(segment.offset, segment.file_bytes)
            .ok_or_else(|| damaged("dynamic section"))?;
        let mut entries = self.view.entries(range, 2 * self.format.word_bytes());
        let mut dynamic = Dynamic::default();
        while let Some(entry) = entries.next()? {
            let tag = self.format.word(entry, 0, 0) as i64;
            let value = self.format.word(entry, 8, 4);
            if elf::DynamicTag(tag) == elf::DT_NULL {
                break;
            }
            dynamic.enter(elf::DynamicTag(tag), value);
        }
        Ok(Some(dynamic))
    }

    /// The names that the dynamic segment refers to.
    pub(crate) fn dynamic_names(&self, dynamic: &Dynamic) -> Option<Blocks<'a>> {
        let place = self.place(dynamic.strings?)?;
        Some(Blocks::of(self.view.part(place)))
    }

    /// The symbols that the dynamic linker works with.
    ///
    /// The dynamic segment does not state their number. The section table does, if it describes the same table, and so
    /// does the old hash table. The newer hash table ends with the last symbol that the file offers to others, and
    /// begins after the symbols that it only needs. Those that it uses have relocations.
    pub(crate) fn dynamic_symbols(
        &self,
        dynamic: Option<&Dynamic>,
    ) -> Result<Option<SymbolTable>, ElfError> {
        let by_section = self.symbols_of_section(elf::SHT_DYNSYM)?;
        let Some(dynamic) = dynamic else {
            return Ok(by_section);
        };
        let place = dynamic.symbols.and_then(|address| self.place(address));
        let names = dynamic.strings.and_then(|address| self.place(address));
        let (Some(place), Some(names)) = (place, names) else {
            return Ok(by_section);
        };
        if let Some(table) = by_section.filter(|table| table.entries.start == place.start) {
            return Ok(Some(table));
        }
        let count = match self.count_of_hash(dynamic)? {
            Some(count) => Some(count),
            None => self
                .count_of_gnu_hash(dynamic)?
                .max(self.count_of_relocations(dynamic)?),
        };
        let there = (place.end - place.start) / self.symbol_bytes() as u64;
        Ok(count.map(|count| SymbolTable {
            entries: place.start..place.start + count.min(there) * self.symbol_bytes() as u64,
            names,
        }))
    }

    /// `nchain` of `DT_HASH` is the number of symbols.
    fn count_of_hash(&self, dynamic: &Dynamic) -> Result<Option<u64>, ReadError> {
        let Some(place) = dynamic.hash.and_then(|address| self.place(address)) else {
            return Ok(None);
        };
        // Where an entry has 64 bits (s390x, alpha), this is half a number and useless.
        let head = self.view.bytes_from(place.start, 8)?;
        Ok((head.len() == 8)
            .then(|| u64::from(self.format.u32(&head, 4)))
            .filter(|count| *count > 0))
    }

    /// The symbol behind the last one in any bucket's chain of `DT_GNU_HASH`.
    fn count_of_gnu_hash(&self, dynamic: &Dynamic) -> Result<Option<u64>, ReadError> {
        let Some(place) = dynamic.gnu_hash.and_then(|address| self.place(address)) else {
            return Ok(None);
        };
        let head = self.view.bytes_from(place.start, 16)?;
        if head.len() < 16 {
            return Ok(None);
        }
        let [buckets, first, bloom_words] =
            [0, 4, 8].map(|at| u64::from(self.format.u32(&head, at)));
        let at_buckets = 16 + bloom_words * self.format.word_bytes() as u64;
        let at_chains = at_buckets + buckets * 4;
        let size = place.end - place.start;
        if at_chains > size {
            return Ok(None);
        }
        let table = self.view.part(place);
        let mut last = 0;
        let mut entries = table.entries(at_buckets..at_chains, 4);
        while let Some(entry) = entries.next()? {
            last = last.max(u64::from(self.format.u32(entry, 0)));
        }
        if last < first {
            return Ok(Some(first)); // every bucket is empty
        }
        let mut chain = table.entries((at_chains + (last - first) * 4).min(size)..size, 4);
        let mut count = last;
        while let Some(entry) = chain.next()? {
            count += 1;
            if self.format.u32(entry, 0) & 1 == 1 {
                break;
            }
        }
        Ok(Some(count))
    }

    /// The symbol behind the last one that a relocation names.
    fn count_of_relocations(&self, dynamic: &Dynamic) -> Result<Option<u64>, ReadError> {
        let mut last = None;
        self.for_each_relocation(dynamic, &mut |relocation| {
            last = last.max((relocation.symbol > 0).then_some(u64::from(relocation.symbol)));
        })?;
        Ok(last.map(|last| last + 1))
    }

    /// The relocations that the dynamic linker performs, those of data first.
    pub(crate) fn for_each_relocation(
        &self,
        dynamic: &Dynamic,
        visit: &mut dyn FnMut(Relocation),
    ) -> Result<(), ReadError> {
        let format = self.format;
        let mut left = RELOCATIONS_MAX;
        for (address, size, has_addend) in dynamic.relocations {
            let words = 2 + usize::from(has_addend);
            let Some(place) = address.and_then(|address| self.place(address)) else {
                continue;
            };
            let end = place.start.saturating_add(size).min(place.end);
            let mut entries = self
                .view
                .entries(place.start..end, words * format.word_bytes());
            while let Some(entry) = entries.next()? {
                if left == 0 {
                    return Ok(());
                }
                left -= 1;
                let info = format.word(entry, 8, 4);
                visit(Relocation {
                    address: format.word(entry, 0, 0),
                    symbol: format.of((info >> 32) as u32, (info >> 8) as u32),
                    kind: format.of(info as u32, info as u32 & 0xff),
                });
            }
        }
        Ok(())
    }

    fn symbol_bytes(&self) -> usize {
        self.format.of(24, 16)
    }

    /// The first symbol table of a kind in the section table.
    pub(crate) fn symbols_of_section(
        &self,
        kind: elf::SectionType,
    ) -> Result<Option<SymbolTable>, ElfError> {
        let mut sections = self.sections();
        let section = loop {
            match sections.next()? {
                None => return Ok(None),
                Some(section) if section.kind == kind => break section,
                Some(_) => {}
            }
        };
        let entries = section.range(self.view);
        let entries =
            entries.filter(|range| (range.end - range.start) % self.symbol_bytes() as u64 == 0);
        let names = self.section_at(u64::from(section.link))?;
        let names = names.and_then(|names| names.range(self.view));
        Ok(Some(SymbolTable {
            entries: entries.ok_or_else(|| damaged("symbol table"))?,
            names: names.ok_or_else(|| damaged("symbol names"))?,
        }))
    }

    /// How many symbols a table has.
    pub(crate) fn count(&self, table: &SymbolTable) -> u64 {
        (table.entries.end - table.entries.start) / self.symbol_bytes() as u64
    }

    /// Each of these symbols that has a name, in the order of the blocks in which their names are.
    ///
    /// Linkers order dynamic symbols by hash values, so their names are all over the table of names. In the order of the
    /// symbols, each of 400,000 names would need a read of its own.
    pub(crate) fn for_each_symbol(
        &self,
        table: &SymbolTable,
        which: Which,
        visit: &mut dyn FnMut(&RawSymbol<'_>) -> Result<(), ElfError>,
    ) -> Result<(), ElfError> {
        let mut names = Blocks::of(self.view.part(table.names.clone()));
        let mut entries = self
            .view
            .entries(table.entries.clone(), self.symbol_bytes());
        let names_bytes = table.names.end - table.names.start;
        let last_block = Blocks::number_of(names_bytes.min(u64::from(u32::MAX)));
        let mut by_block: Vec<Vec<Unnamed>> = Vec::new();
        let at_once = self.count(table).min(SYMBOLS_AT_ONCE as u64) as usize;
        by_block.resize_with(last_block + 1, || {
            Vec::with_capacity(at_once / (last_block + 1))
        });
        let mut index = 0;
        while self.next_symbols(&mut entries, &mut index, which, &mut by_block)? {
            for symbol in by_block.iter_mut().flat_map(|symbols| symbols.drain(..)) {
                if let Some(name) = names.text(u64::from(symbol.name), NAME_BYTES_MAX)? {
                    visit(&RawSymbol {
                        index: u64::from(symbol.index),
                        name,
                        section: symbol.section,
                        value: symbol.value,
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Puts the next symbols of a table to the blocks of their names. Whether there were any more.
    fn next_symbols(
        &self,
        entries: &mut Entries<'_>,
        index: &mut u32,
        which: Which,
        by_block: &mut [Vec<Unnamed>],
    ) -> Result<bool, ReadError> {
        let format = self.format;
        for count in 0..SYMBOLS_AT_ONCE {
            let Some(entry) = entries.next()? else {
                return Ok(count > 0);
            };
            let symbol = Unnamed {
                name: format.u32(entry, 0),
                index: *index,
                section: format.u16(entry, format.of(6, 14)),
                value: format.word(entry, 8, 4),
            };
            let block = by_block.get_mut(Blocks::number_of(u64::from(symbol.name)));
            if let Some(block) = block
                && (which == Which::All || !is_defined(symbol.section))
            {
                block.push(symbol);
            }
            *index = index.saturating_add(1);
        }
        Ok(true)
    }

    /// The names of the symbol versions that the file needs of others. They are optional: a damaged table counts as
    /// empty.
    pub(crate) fn version_needs(
        &self,
        dynamic: Option<&Dynamic>,
    ) -> Result<Vec<Vec<u8>>, ReadError> {
        let Some((needs, names)) = self.version_tables(dynamic)? else {
            return Ok(Vec::new());
        };
        let (mut needs, mut names) = (Blocks::of(needs), Blocks::of(names));
        let format = self.format;
        let mut found = Vec::new();
        let mut at_need = 0;
        // Entries may overlap and repeat, so this bounds their number and the file's size does not.
        for _ in 0..LIST_MAX {
            let Some(need) = needs.structure::<16>(at_need)? else {
                break;
            };
            let mut at_version = at_need + u64::from(format.u32(&need, 8));
            for _ in 0..format.u16(&need, 2) {
                let Some(version) = needs.structure::<16>(at_version)? else {
                    break;
                };
                let name = names.text(u64::from(format.u32(&version, 8)), NAME_BYTES_MAX)?;
                found.push(name.unwrap_or_default().to_vec());
                let next = u64::from(format.u32(&version, 12));
                if found.len() == LIST_MAX {
                    return Ok(found);
                }
                if next == 0 {
                    break;
                }
                at_version += next;
            }
            match format.u32(&need, 12) {
                0 => break,
                next => at_need += u64::from(next),
            }
        }
        Ok(found)
    }

    fn version_tables(
        &self,
        dynamic: Option<&Dynamic>,
    ) -> Result<Option<(View<'a>, View<'a>)>, ReadError> {
        let by_address = |address: Option<u64>| self.place(address?);
        let found = match dynamic {
            Some(dynamic) => by_address(dynamic.version_needs).zip(by_address(dynamic.strings)),
            None => None,
        };
        Ok(found.map(|(needs, names)| (self.view.part(needs), self.view.part(names))))
    }
}

/// A place that the dynamic linker writes to.
pub(crate) struct Relocation {
    pub(crate) address: u64,
    pub(crate) symbol: u32,
    pub(crate) kind: u32,
}

impl Dynamic {
    fn enter(&mut self, tag: elf::DynamicTag, value: u64) {
        match tag {
            elf::DT_NEEDED if self.needed.len() < LIST_MAX => self.needed.push(value),
            elf::DT_SONAME => self.soname = Some(value),
            elf::DT_RPATH => self.rpath = Some(value),
            elf::DT_RUNPATH => self.runpath = Some(value),
            elf::DT_FLAGS => self.flags = value,
            elf::DT_FLAGS_1 => self.flags_1 = value,
            elf::DT_STRTAB => self.strings = Some(value),
            elf::DT_SYMTAB => self.symbols = Some(value),
            elf::DT_HASH => self.hash = Some(value),
            elf::DT_GNU_HASH => self.gnu_hash = Some(value),
            elf::DT_BIND_NOW => self.binds_now = true,
            elf::DT_TEXTREL => self.changes_code = true,
            elf::DT_VERNEED => self.version_needs = Some(value),
            elf::DT_RELA => (self.relocations[0].0, self.relocations[0].2) = (Some(value), true),
            elf::DT_RELASZ => self.relocations[0].1 = value,
            elf::DT_REL => self.relocations[1].0 = Some(value),
            elf::DT_RELSZ => self.relocations[1].1 = value,
            elf::DT_JMPREL => self.relocations[2].0 = Some(value),
            elf::DT_PLTRELSZ => self.relocations[2].1 = value,
            elf::DT_PLTREL => self.relocations[2].2 = value == elf::DT_RELA.0 as u64,
            _ => {}
        }
    }

    /// Whether all functions are looked up before the program starts.
    pub(crate) fn binds_now(&self) -> bool {
        self.binds_now
            || self.flags & elf::DF_BIND_NOW.0 != 0
            || self.flags_1 & elf::DF_1_NOW.0 != 0
    }

    /// Whether the dynamic linker changes code.
    pub(crate) fn has_text_relocations(&self) -> bool {
        self.changes_code || self.flags & elf::DF_TEXTREL.0 != 0
    }

    /// Whether it calls functions through a table.
    pub(crate) fn has_calls(&self) -> bool {
        self.relocations[2].0.is_some() && self.relocations[2].1 > 0
    }
}

/// The program headers of a file.
pub(crate) struct Segments<'a> {
    entries: Entries<'a>,
    format: Format,
}

impl Segments<'_> {
    pub(crate) fn next(&mut self) -> Result<Option<Segment>, ReadError> {
        let format = self.format;
        Ok(self.entries.next()?.map(|header| Segment {
            kind: elf::ProgramType(format.u32(header, 0)),
            flags: elf::ProgramFlags(format.u32(header, format.of(4, 24))),
            offset: format.word(header, 8, 4),
            address: format.word(header, 16, 8),
            file_bytes: format.word(header, 32, 16),
            memory_bytes: format.word(header, 40, 20),
            alignment: format.word(header, 48, 28),
        }))
    }
}

/// The section table of a file.
pub(crate) struct Sections<'a> {
    entries: Entries<'a>,
    format: Format,
}

impl Sections<'_> {
    pub(crate) fn next(&mut self) -> Result<Option<Section>, ReadError> {
        let header = self.entries.next()?;
        Ok(header.map(|header| section(self.format, header)))
    }
}

fn section(format: Format, header: &[u8]) -> Section {
    Section {
        name: format.u32(header, 0),
        kind: elf::SectionType(format.u32(header, 4)),
        flags: format.word(header, 8, 8),
        offset: format.word(header, 24, 16),
        size: format.word(header, 32, 20),
        link: format.u32(header, format.of(40, 24)),
        info: format.u32(header, format.of(44, 28)),
    }
}

impl Section {
    /// Where its contents are; `None` if it has none in the file, or they reach beyond its end.
    pub(crate) fn range(&self, view: View<'_>) -> Option<Range<u64>> {
        if self.kind == elf::SHT_NOBITS {
            return None;
        }
        view.range(self.offset, self.size)
    }

    pub(crate) fn has(&self, flag: elf::SectionFlags) -> bool {
        self.flags & flag.0 != 0
    }
}
