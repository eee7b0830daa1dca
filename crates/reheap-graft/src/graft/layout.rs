//! Where everything goes, and the new bytes.
//!
//! The new parts are, each from a page of its own: the program headers with the note and the relocations, the initial
//! thread-local memory, and the library. In a file they come behind the program. In a process they are anywhere in reach
//! ([`Target::Process`]), without a note; and because it is known where the program is, nothing is left to relocate.

use super::note::{Entry, Graft, Patch};
use super::program::{PAGE_BYTES, Program, RELOCATION_BYTES, Relocations, SEGMENT_BYTES};
use super::{GraftError, Jump, thread_offsets};
use crate::library::{Library, Protection, put_word};
use object::LittleEndian as LE;
use object::elf;
use object::endian::{U32, U64};
use object::read::elf::ProgramHeader as _;
use reheap_elf::marker;
use std::ops::Range;

/// Where the header of a 64-bit file says where those of its segments are, and how many.
const E_PHOFF: u64 = 32;
const E_PHNUM: usize = 56;

/// How much of the new file may be a hole, in which the program has memory that is only zeroes.
const HOLE_MAX: u64 = 256 << 20;

/// What the new parts are for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// They go behind the program, into its file.
    File,
    /// They go into a process, to `start`, an address of the program's file. It has the program `bias` bytes from there.
    Process {
        /// Where they begin.
        start: u64,
        /// How far the program is from where its file says.
        bias: u64,
    },
}

/// What is where.
pub(super) struct Layout<'a> {
    program: &'a Program<'a>,
    library: &'a Library,
    target: Target,
    /// The first address of the new parts. The segment headers are there.
    start: u64,
    /// An address in front of `head_end` less its place in the file.
    shift: u64,
    note: u64,
    /// None if there is no note.
    note_bytes: usize,
    /// The table of relocations: the library's, and the first of the program's up to the end of their page in the file. The
    /// others follow, because their pages in the file are mapped there once more.
    relocations: u64,
    head_end: u64,
    thread_local: ThreadLocal,
    library_base: u64,
    pub(super) entries: Vec<Entry>,
}

/// The thread-local memory of both. It ends at the thread pointer.
struct ThreadLocal {
    /// Where its initial bytes are.
    address: u64,
    /// Where the program's variables begin in it. The library's begin at 0.
    program: u64,
    initial_bytes: u64,
    bytes: u64,
    alignment: u64,
}

/// The bytes of the new parts.
struct Parts {
    /// Up to `head_end`.
    head: Vec<u8>,
    /// From the thread-local memory on.
    tail: Vec<u8>,
}

/// A word that holds an address when the program runs.
struct Word {
    place: u64,
    value: u64,
}

impl<'a> Layout<'a> {
    pub(super) fn new(
        program: &'a Program<'a>,
        library: &'a Library,
        jumps: &[Jump],
        patches: &[Patch],
        target: Target,
    ) -> Result<Self, GraftError> {
        let (start, shift) = match target {
            Target::File => place_behind(program)?,
            Target::Process { start, .. } => (start, 0),
        };
        let mut layout = Self {
            program,
            library,
            target,
            start,
            shift,
            note: 0,
            note_bytes: 0,
            head_end: 0,
            relocations: 0,
            thread_local: ThreadLocal::new(program, library)?,
            library_base: 0,
            entries: entries(jumps, |_| u64::MAX),
        };
        if let Target::File = target {
            // With the longest addresses that there can be. The rest becomes blanks.
            layout.note_bytes = layout.graft(patches).as_note(0).len();
        }
        layout.note = start + (layout.segments().len() * SEGMENT_BYTES) as u64;
        let words = layout.words()?.len();
        let table = layout.table().map_or(0, |old| {
            (words * RELOCATION_BYTES + old.before_page().len()) as u64
        });
        let end = layout.note + layout.note_bytes as u64 + table;
        layout.head_end = end.next_multiple_of(PAGE_BYTES);
        layout.relocations = layout.head_end - table;
        layout.thread_local.address =
            layout.head_end + layout.mapped_bytes().next_multiple_of(PAGE_BYTES);
        let end = layout.thread_local.address + layout.thread_local.initial_bytes;
        layout.library_base = end.next_multiple_of(PAGE_BYTES);
        layout.entries = entries(jumps, |target| layout.library_base + target);
        Ok(layout)
    }

    fn graft(&self, patches: &[Patch]) -> Graft {
        Graft::new(self.program.bytes, patches, self.entries.clone())
    }

    /// The program's table of relocations, if a longer one has to take its place.
    fn table(&self) -> Option<&'a Relocations> {
        match self.target {
            Target::File => self.program.relocations.as_ref(),
            Target::Process { .. } => None,
        }
    }

    /// How far the program is from where its file says, as far as that is known.
    fn bias(&self) -> u64 {
        match self.target {
            Target::File => 0,
            Target::Process { bias, .. } => bias,
        }
    }

    fn mapped_bytes(&self) -> u64 {
        self.table().map_or(0, |old| old.after_page().len() as u64)
    }

    /// Where an address of the new parts is in the file.
    fn in_file(&self, address: u64) -> usize {
        let behind = if address < self.head_end {
            0
        } else {
            self.mapped_bytes().next_multiple_of(PAGE_BYTES)
        };
        address.wrapping_sub(self.shift).wrapping_sub(behind) as usize
    }

    /// The new file, except for the jumps. `errno` is where the library keeps how far the program's `errno` is from
    /// the thread pointer, and that distance.
    pub(super) fn file(&self, patches: &[Patch], errno: (u64, i64)) -> Result<Vec<u8>, GraftError> {
        let mut parts = self.parts(errno)?;
        let note = self.graft(patches).as_note(self.note_bytes);
        self.put(&mut parts, self.note, &note);
        let mut file = self.program.bytes.to_vec();
        file.resize(self.in_file(self.start), 0);
        if let Some(relocations) = self.table() {
            self.put_relocations(&mut parts, &mut file, relocations, &self.words()?);
        }
        file.extend(parts.head);
        file.extend(parts.tail);
        put_word(&mut file, E_PHOFF, self.in_file(self.start) as u64);
        file[E_PHNUM..E_PHNUM + 2].copy_from_slice(&(self.segments().len() as u16).to_le_bytes());
        // The library's zeroes at the end need no place in the file.
        file.truncate(self.in_file(self.library_base + self.library.content_bytes()));
        Ok(file)
    }

    /// What is new in a process, without the zeroes at its end, and without the jumps.
    pub(super) fn memory(&self, errno: (u64, i64)) -> Result<Vec<u8>, GraftError> {
        let Parts { head, tail } = self.parts(errno)?;
        let mut bytes = [head, tail].concat();
        let end = self.library_base + self.library.content_bytes();
        bytes.truncate(end.wrapping_sub(self.start) as usize);
        Ok(bytes)
    }

    /// How much address space the new parts take.
    pub(super) fn span_bytes(&self) -> u64 {
        let end = self.library_base + self.library.span_bytes();
        end.wrapping_sub(self.start).next_multiple_of(PAGE_BYTES)
    }

    /// How many headers of segments there are.
    pub(super) fn segment_count(&self) -> u64 {
        self.segments().len() as u64
    }

    /// The new segments, as pages of the process, and what may be done with them.
    pub(super) fn protections(&self) -> Vec<(Range<u64>, Protection)> {
        let page = |address: u64| address / PAGE_BYTES * PAGE_BYTES;
        let loaded = self.loaded().into_iter().map(|segment| {
            let start = segment.p_vaddr(LE).wrapping_add(self.bias());
            let end = start + segment.p_memsz(LE);
            let protection = match segment.p_flags(LE).0 {
                flags if flags & elf::PF_X.0 != 0 => Protection::Execute,
                flags if flags & elf::PF_W.0 != 0 => Protection::Write,
                _ => Protection::Read,
            };
            (page(start)..end.next_multiple_of(PAGE_BYTES), protection)
        });
        loaded.collect()
    }

    fn parts(&self, (errno_word, errno_at): (u64, i64)) -> Result<Parts, GraftError> {
        let base = self.library_base.wrapping_add(self.bias());
        let mut image = self.library.image_at(base);
        thread_offsets::fill_in(&mut image, self.library, self.thread_local.bytes);
        put_word(&mut image, errno_word, errno_at as u64);
        self.mark(&mut image)?;
        let between = self.library_base - self.thread_local.address;
        let mut parts = Parts {
            head: vec![0; (self.head_end - self.start) as usize],
            tail: vec![0; between as usize],
        };
        parts.tail.extend(image);
        self.put_thread_local(&mut parts)?;
        let headers = self.segments();
        let headers: Vec<u8> = headers
            .iter()
            .flat_map(object::pod::bytes_of)
            .copied()
            .collect();
        self.put(&mut parts, self.start, &headers);
        Ok(parts)
    }

    /// The library's marker says where the program's own functions are, which lead to the allocator's.
    fn mark(&self, image: &mut [u8]) -> Result<(), GraftError> {
        let entries = self
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), [entry.address, entry.target]));
        let entries: Vec<(&str, [u64; 2])> = entries.collect();
        let notes = self.library.notes().iter();
        let written = notes.filter(|note| {
            let place = &mut image[note.start as usize..note.end as usize];
            marker::lead_to(place, self.library_base + note.start, &entries)
        });
        match written.count() {
            1 => Ok(()),
            _ => Err(GraftError::Library("a marker".to_owned())),
        }
    }

    fn put(&self, parts: &mut Parts, address: u64, bytes: &[u8]) {
        let (part, start) = if address < self.head_end {
            (&mut parts.head, self.start)
        } else {
            (&mut parts.tail, self.thread_local.address)
        };
        let place = (address - start) as usize;
        part[place..place + bytes.len()].copy_from_slice(bytes);
    }

    fn put_thread_local(&self, parts: &mut Parts) -> Result<(), GraftError> {
        let memory = &self.thread_local;
        if let Some(own) = self.library.thread_local() {
            let library = (self.library_base - memory.address) as usize;
            let initial = library + own.initial.start as usize..library + own.initial.end as usize;
            parts.tail.copy_within(initial, 0);
        }
        if let Some(old) = &self.program.thread_local {
            let initial = &self.program.bytes[old.initial.clone()];
            self.put(parts, memory.address + memory.program, initial);
        }
        if let Target::Process { bias, .. } = self.target {
            for (within, value) in self.program.thread_local_words()? {
                let place = memory.address + memory.program + within;
                self.put(parts, place, &value.wrapping_add(bias).to_le_bytes());
            }
        }
        Ok(())
    }

    /// The library's in front of the program's.
    fn put_relocations(
        &self,
        parts: &mut Parts,
        file: &mut [u8],
        old: &Relocations,
        words: &[Word],
    ) {
        let mut table = Vec::new();
        for word in words {
            table.extend(word.place.to_le_bytes());
            table.extend(u64::from(elf::R_X86_64_RELATIVE.0).to_le_bytes());
            table.extend(word.value.to_le_bytes());
        }
        table.extend(&self.program.bytes[old.before_page()]);
        self.put(parts, self.relocations, &table);
        put_word(file, old.address_word as u64, self.relocations);
        let bytes = table.len() as u64 + self.mapped_bytes();
        put_word(file, old.size_word as u64, bytes);
        if let Some((word, count)) = old.count {
            put_word(file, word as u64, count + words.len() as u64);
        }
    }

    /// The words that a position-independent program has to relocate besides its own.
    fn words(&self) -> Result<Vec<Word>, GraftError> {
        if self.table().is_none() {
            return Ok(Vec::new());
        }
        let own = self
            .library
            .thread_local()
            .map_or(0..0, |own| own.initial.clone());
        let of_library = self.library.based().iter().map(|&(word, value)| {
            let place = if own.contains(&word) {
                self.thread_local.address + (word - own.start)
            } else {
                self.library_base + word
            };
            Word {
                place,
                value: self.library_base.wrapping_add(value),
            }
        });
        let mut words: Vec<Word> = of_library.collect();
        words.extend(
            self.program
                .thread_local_words()?
                .into_iter()
                .map(|(within, value)| Word {
                    place: self.thread_local.address + self.thread_local.program + within,
                    value,
                }),
        );
        Ok(words)
    }

    /// The new headers of segments: those that load in the order of their addresses, as the gABI wants them.
    fn segments(&self) -> Vec<elf::ProgramHeader64<LE>> {
        let mut segments = self.program.segments.clone();
        segments.retain(|segment| segment.p_type(LE) != elf::PT_TLS);
        let last = segments
            .iter()
            .rposition(|segment| segment.p_type(LE) == elf::PT_LOAD);
        let at = last.map_or(0, |last| last + 1);
        segments.splice(at..at, self.loaded());
        let memory = &self.thread_local;
        segments.push(elf::ProgramHeader64 {
            p_memsz: U64::new(LE, memory.bytes),
            p_align: U64::new(LE, memory.alignment),
            ..self.segment(elf::PT_TLS, elf::PF_R, memory.address, memory.initial_bytes)
        });
        let notes = self
            .library
            .notes()
            .iter()
            .map(|note| (self.library_base + note.start, note.end - note.start));
        let note = (self.note, self.note_bytes as u64);
        let note = Some(note).filter(|&(_, bytes)| bytes > 0);
        for (address, bytes) in notes.chain(note) {
            segments.push(elf::ProgramHeader64 {
                p_align: U64::new(LE, 4),
                ..self.segment(elf::PT_NOTE, elf::PF_R, address, bytes)
            });
        }
        let bytes = (segments.len() * SEGMENT_BYTES) as u64;
        for segment in &mut segments {
            if segment.p_type(LE) == elf::PT_PHDR {
                *segment = elf::ProgramHeader64 {
                    p_align: U64::new(LE, 8),
                    ..self.segment(elf::PT_PHDR, elf::PF_R, self.start, bytes)
                };
            }
        }
        segments
    }

    fn loaded(&self) -> Vec<elf::ProgramHeader64<LE>> {
        let memory = &self.thread_local;
        let head = self.head_end.saturating_sub(self.start);
        let mut loaded = vec![self.segment(elf::PT_LOAD, elf::PF_R, self.start, head)];
        let mapped = self.table().map_or(0..0, Relocations::after_page);
        if !mapped.is_empty() {
            loaded.push(elf::ProgramHeader64 {
                p_offset: U64::new(LE, mapped.start as u64),
                ..self.segment(elf::PT_LOAD, elf::PF_R, self.head_end, mapped.len() as u64)
            });
        }
        loaded.push(self.segment(
            elf::PT_LOAD,
            elf::PF_R | elf::PF_W,
            memory.address,
            memory.initial_bytes,
        ));
        for (range, protection) in self.library.protections() {
            let flags = match protection {
                Protection::Read => elf::PF_R,
                Protection::Write => elf::PF_R | elf::PF_W,
                Protection::Execute => elf::PF_R | elf::PF_X,
            };
            let address = self.library_base + range.start;
            loaded.push(self.segment(elf::PT_LOAD, flags, address, range.end - range.start));
        }
        if let Some(last) = loaded.last_mut() {
            let start = last.p_vaddr(LE) - self.library_base;
            last.p_filesz = U64::new(LE, self.library.content_bytes().saturating_sub(start));
        }
        loaded
    }

    fn segment(
        &self,
        kind: elf::ProgramType,
        flags: elf::ProgramFlags,
        address: u64,
        bytes: u64,
    ) -> elf::ProgramHeader64<LE> {
        elf::ProgramHeader64 {
            p_type: U32::new(LE, kind),
            p_flags: U32::new(LE, flags),
            p_offset: U64::new(LE, self.in_file(address) as u64),
            p_vaddr: U64::new(LE, address),
            p_paddr: U64::new(LE, address),
            p_filesz: U64::new(LE, bytes),
            p_memsz: U64::new(LE, bytes),
            p_align: U64::new(LE, PAGE_BYTES),
        }
    }
}

impl ThreadLocal {
    /// Without its address.
    fn new(program: &Program<'_>, library: &Library) -> Result<Self, GraftError> {
        let own = library.thread_local();
        let own = own.ok_or_else(|| GraftError::Library("thread-local memory".to_owned()))?;
        let old = program.thread_local.as_ref();
        let (old_bytes, old_alignment) = old.map_or((0, 1), |old| (old.bytes, old.alignment));
        let alignment = own.alignment.max(old_alignment);
        let bytes = (own.bytes + old_bytes).next_multiple_of(alignment);
        let program = bytes - old_bytes;
        let initial_bytes = match old {
            Some(old) => program + old.initial.len() as u64,
            None => own.initial.end - own.initial.start,
        };
        Ok(Self {
            address: 0,
            program,
            initial_bytes,
            bytes,
            alignment,
        })
    }
}

/// The first page behind the program that is behind the end of the file too, and an address less its place in the file.
fn place_behind(program: &Program<'_>) -> Result<(u64, u64), GraftError> {
    let mut loaded = program.loaded();
    let first = loaded.next();
    let first = first.ok_or_else(|| GraftError::Damaged("no loaded segment".to_owned()))?;
    let shift = first.p_vaddr(LE).checked_sub(first.p_offset(LE));
    let shift = shift.filter(|shift| shift.is_multiple_of(PAGE_BYTES));
    let unknown =
        || GraftError::Unknown("a first segment that is not where linkers put it".to_owned());
    let shift = shift.ok_or_else(unknown)?;
    let ends = program
        .loaded()
        .map(|segment| segment.p_vaddr(LE) + segment.p_memsz(LE));
    let end = ends
        .chain([shift + program.bytes.len() as u64])
        .max()
        .unwrap_or_default();
    let start = end.next_multiple_of(PAGE_BYTES);
    if start - shift > program.bytes.len() as u64 + HOLE_MAX {
        let what = format!("{} MiB of memory that is not in the file", end >> 20);
        return Err(GraftError::Unknown(what));
    }
    Ok((start, shift))
}

fn entries(jumps: &[Jump], address: impl Fn(u64) -> u64) -> Vec<Entry> {
    let entry = |jump: &Jump| Entry {
        name: jump.name.clone(),
        address: jump.address,
        target: address(jump.target),
    };
    jumps.iter().map(entry).collect()
}
