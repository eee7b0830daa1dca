//! What the headers of an executable say, as far as they have to change.

use super::GraftError;
use crate::locate::Located;
use crate::processor::Processor;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use std::ops::Range;

/// How large the headers of segments and sections are in a 64-bit file.
pub(super) const SEGMENT_BYTES: usize = 56;
/// How large an entry of the dynamic table is.
const DYNAMIC_ENTRY_BYTES: usize = 16;
/// How large a relocation with an addend is.
pub(super) const RELOCATION_BYTES: usize = 24;

/// An executable that can get another allocator.
pub(super) struct Program<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) segments: Vec<elf::ProgramHeader64<LE>>,
    /// The relocations of a position-independent one.
    pub(super) relocations: Option<Relocations>,
    pub(super) thread_local: Option<ThreadLocal>,
}

/// The table of relocations, and the words of the dynamic table that tell of it, as offsets in the file.
pub(super) struct Relocations {
    pub(super) table: Range<usize>,
    pub(super) address_word: usize,
    pub(super) size_word: usize,
    /// How many are of the simplest kind and come first, if the file says so.
    pub(super) count: Option<(usize, u64)>,
    /// Words that get the base added, in the packed form (`DT_RELR`).
    pub(super) packed: Vec<u64>,
}

/// What each thread has of its own.
pub(super) struct ThreadLocal {
    pub(super) address: u64,
    /// The initial bytes, in the file.
    pub(super) initial: Range<usize>,
    /// The memory, filled up to the alignment.
    pub(super) bytes: u64,
    pub(super) alignment: u64,
}

impl Relocations {
    fn page(&self) -> usize {
        let page = self.table.start.next_multiple_of(PAGE_BYTES as usize);
        page.min(self.table.end)
    }

    /// The part that is in a page with something else in front of it.
    pub(super) fn before_page(&self) -> Range<usize> {
        self.table.start..self.page()
    }

    /// The rest, which begins with a page.
    pub(super) fn after_page(&self) -> Range<usize> {
        self.page()..self.table.end
    }
}

impl<'a> Program<'a> {
    pub(super) fn read(bytes: &'a [u8], located: &Located) -> Result<Self, GraftError> {
        if located.processor != Processor::X86_64 {
            return Err(GraftError::Processor);
        }
        let header = elf::FileHeader64::<LE>::parse(bytes)?;
        let segments = header.program_headers(LE, bytes)?.to_vec();
        refuse_unknown(&segments)?;
        refuse_overlay(bytes, header, &segments)?;
        let mut program = Self {
            bytes,
            segments,
            relocations: None,
            thread_local: None,
        };
        if header.e_type(LE) == elf::ET_DYN {
            program.relocations = Some(program.read_relocations()?);
        }
        program.thread_local = program.read_thread_local()?;
        Ok(program)
    }

    fn segment(&self, kind: elf::ProgramType) -> Option<&elf::ProgramHeader64<LE>> {
        self.segments
            .iter()
            .find(|segment| segment.p_type(LE) == kind)
    }

    pub(super) fn loaded(&self) -> impl Iterator<Item = &elf::ProgramHeader64<LE>> {
        let segments = self.segments.iter();
        segments.filter(|segment| segment.p_type(LE) == elf::PT_LOAD)
    }

    /// Where so many bytes at an address are in the file.
    pub(super) fn offset_of(&self, address: u64, size: usize) -> Result<usize, GraftError> {
        let offset = self.loaded().find_map(|segment| {
            let within = address.checked_sub(segment.p_vaddr(LE))?;
            let end = within.checked_add(size as u64)?;
            let offset = segment.p_offset(LE).checked_add(within)?;
            (end <= segment.p_filesz(LE)).then_some(offset)
        });
        let fits = |offset: &u64| offset.saturating_add(size as u64) <= self.bytes.len() as u64;
        let offset = offset.filter(fits).map(|offset| offset as usize);
        offset.ok_or_else(|| GraftError::Damaged(format!("{address:#x} is not in the file")))
    }

    pub(super) fn word(&self, offset: usize) -> u64 {
        u64::from_le_bytes(
            self.bytes[offset..offset + 8]
                .try_into()
                .expect("eight bytes"),
        )
    }

    fn read_relocations(&self) -> Result<Relocations, GraftError> {
        let missing = || GraftError::Unknown("no table of relocations (DT_RELA)".to_owned());
        let dynamic = self.segment(elf::PT_DYNAMIC).ok_or_else(missing)?;
        let size = dynamic.p_filesz(LE) as usize;
        let start = self.offset_of(dynamic.p_vaddr(LE), size)?;
        let entries = (start..start + size / DYNAMIC_ENTRY_BYTES * DYNAMIC_ENTRY_BYTES)
            .step_by(DYNAMIC_ENTRY_BYTES)
            .map(|offset| (self.word(offset), offset + 8))
            .take_while(|&(tag, _)| tag != 0);
        let entries: Vec<(u64, usize)> = entries.collect();
        let find = |wanted: elf::DynamicTag| {
            let found = entries.iter().find(|(tag, _)| *tag == wanted.0 as u64);
            found.map(|&(_, word)| word)
        };
        if find(elf::DT_REL).is_some() || find(elf::DT_NEEDED).is_some() {
            return Err(GraftError::Unknown(
                "relocations that static executables do not have".to_owned(),
            ));
        }
        let address_word = find(elf::DT_RELA).ok_or_else(missing)?;
        let size_word = find(elf::DT_RELASZ).ok_or_else(missing)?;
        let size = self.word(size_word) as usize;
        if !size.is_multiple_of(RELOCATION_BYTES) {
            return Err(GraftError::Damaged("a relocation is cut off".to_owned()));
        }
        let start = self.offset_of(self.word(address_word), size)?;
        let packed = match (find(elf::DT_RELR), find(elf::DT_RELRSZ)) {
            (Some(address), Some(size)) => {
                let size = self.word(size) as usize;
                let start = self.offset_of(self.word(address), size)?;
                unpacked(&self.bytes[start..start + size])
            }
            _ => Vec::new(),
        };
        Ok(Relocations {
            table: start..start + size,
            address_word,
            size_word,
            count: find(elf::DT_RELACOUNT).map(|word| (word, self.word(word))),
            packed,
        })
    }

    fn read_thread_local(&self) -> Result<Option<ThreadLocal>, GraftError> {
        let Some(segment) = self.segment(elf::PT_TLS) else {
            return Ok(None);
        };
        let (address, size) = (segment.p_vaddr(LE), segment.p_filesz(LE) as usize);
        let alignment = segment.p_align(LE).max(1);
        let damaged = || GraftError::Damaged(format!("thread-local memory at {address:#x}"));
        if !alignment.is_power_of_two() || segment.p_memsz(LE) > 1 << 30 {
            return Err(damaged());
        }
        if alignment > PAGE_BYTES {
            let what = format!("thread-local memory with an alignment of {alignment} bytes");
            return Err(GraftError::Unknown(what));
        }
        // Then the two libcs do not agree where the memory begins.
        if !address.is_multiple_of(alignment) {
            return Err(damaged());
        }
        let start = match size {
            0 => 0,
            size => self.offset_of(address, size)?,
        };
        Ok(Some(ThreadLocal {
            address,
            initial: start..start + size,
            bytes: segment.p_memsz(LE).next_multiple_of(alignment),
            alignment,
        }))
    }
}

impl Program<'_> {
    /// The words of the initial thread-local memory that get the base added: how far from its beginning, and the address.
    pub(super) fn thread_local_words(&self) -> Result<Vec<(u64, u64)>, GraftError> {
        let (Some(memory), Some(relocations)) = (&self.thread_local, &self.relocations) else {
            return Ok(Vec::new());
        };
        let range = memory.address..memory.address + memory.initial.len() as u64;
        let mut words = Vec::new();
        for relocation in self.bytes[relocations.table.clone()].chunks_exact(RELOCATION_BYTES) {
            let word = |at: usize| {
                u64::from_le_bytes(relocation[at..at + 8].try_into().expect("eight bytes"))
            };
            let (place, kind, value) = (word(0), word(8), word(16));
            if !range.contains(&place) {
                continue;
            }
            if kind != u64::from(elf::R_X86_64_RELATIVE.0) {
                let what = "a relocation of thread-local memory that depends on more than the base";
                return Err(GraftError::Unknown(what.to_owned()));
            }
            words.push((place - range.start, value));
        }
        for &place in relocations
            .packed
            .iter()
            .filter(|place| range.contains(place))
        {
            let offset = self.offset_of(place, 8)?;
            words.push((place - range.start, self.word(offset)));
        }
        Ok(words)
    }
}

/// What the segments of x86-64 are aligned to.
pub(super) const PAGE_BYTES: u64 = 4096;

/// `DT_RELR` as the addresses that it stands for (gABI, "Relative Relocation Table").
fn unpacked(table: &[u8]) -> Vec<u64> {
    let mut addresses = Vec::new();
    let mut next: u64 = 0;
    for word in table.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        if word & 1 == 0 {
            addresses.push(word);
            next = word.wrapping_add(8);
            continue;
        }
        let marked = (0..63).filter(|bit| word >> (bit + 1) & 1 != 0);
        addresses.extend(marked.map(|bit| next.wrapping_add(8 * bit)));
        next = next.wrapping_add(8 * 63);
    }
    addresses
}

/// GNU's note about the layout of stacks for tracers (binutils 2.40 and later).
const PT_GNU_SFRAME: u32 = 0x6474_e554;

fn refuse_unknown(segments: &[elf::ProgramHeader64<LE>]) -> Result<(), GraftError> {
    for segment in segments {
        match segment.p_type(LE) {
            elf::PT_INTERP => return Err(GraftError::Dynamic),
            elf::PT_NULL
            | elf::PT_LOAD
            | elf::PT_DYNAMIC
            | elf::PT_NOTE
            | elf::PT_PHDR
            | elf::PT_TLS
            | elf::PT_GNU_EH_FRAME
            | elf::PT_GNU_STACK
            | elf::PT_GNU_RELRO
            | elf::PT_GNU_PROPERTY => {}
            other if other.0 == PT_GNU_SFRAME => {}
            other => {
                let what = format!("a segment of type {:#x}", other.0);
                return Err(GraftError::Unknown(what));
            }
        }
    }
    Ok(())
}

fn refuse_overlay(
    bytes: &[u8],
    header: &elf::FileHeader64<LE>,
    segments: &[elf::ProgramHeader64<LE>],
) -> Result<(), GraftError> {
    let of_segments = segments
        .iter()
        .map(|segment| segment.p_offset(LE).saturating_add(segment.p_filesz(LE)));
    let sections = header.section_headers(LE, bytes)?;
    let of_sections = sections
        .iter()
        .filter_map(|section| section.file_range(LE))
        .map(|(start, size)| start.saturating_add(size));
    let table = header
        .e_shoff(LE)
        .saturating_add(sections.len() as u64 * size_of::<elf::SectionHeader64<LE>>() as u64);
    let end = of_segments
        .chain(of_sections)
        .chain([table])
        .max()
        .unwrap_or(0);
    match (bytes.len() as u64).checked_sub(end) {
        // Linkers fill the end up.
        Some(rest) if bytes[end as usize..].iter().all(|&byte| byte == 0) && rest < PAGE_BYTES => {
            Ok(())
        }
        Some(rest) => Err(GraftError::Overlay(rest as usize)),
        None => Err(GraftError::Damaged("a part of it is missing".to_owned())),
    }
}
