//! The marker: the ELF note that reheap leaves in what it links.
//!
//! It says as JSON which allocator, version and tuning reheap put in. It also *proves* whether the program uses them.
//! Twelve words, as wide as an address, precede the text. The first eight are two for each of `malloc`, `calloc`, `realloc` and `free`: the
//! distance from the word to the program's function of that name, and to the allocator's own. The linker fills them in. If
//! both lead to the same code, the swap is active. If not, the program brought its own malloc. A note is loaded memory,
//! and the distances need no run-time relocation, so the proof also holds in a stripped static-pie, where no symbol is
//! left.
//!
//! The other four lead to the program's aligned functions, so that `reheap profile` finds them. They are weak references:
//! a marker must bring no function into a program that calls none of them. A word of such a function leads to address 0,
//! or to itself where lld links for AArch64. On x86 these distances have 32 bits, because mold takes no others. In a libc
//! they are hidden as well. Zig tells lld nothing of a static-pie, so lld takes a weak reference that could be seen
//! outside for one that a dynamic linker would fill in, and refuses it. In a preload they must be seen outside, because a
//! linker hides a function that anything refers to as hidden.
//!
//! Layout of the note (ELF gABI "Note Section"): name `reheap`, type 2, description = 12 words, then the text. Type 1
//! is older, and has only the first eight words. In a preload the baked-in tuning follows, and all three parts have room
//! for more ([`retunable`]).

mod retunable;

pub use retunable::{PRELOAD_DESCRIPTION_BYTES, RetuneError, retune};

use crate::architecture::Distance;
use crate::baked::{Baked, defined_symbol};
use crate::{Class, Platform, family};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader as _};
use object::write::{Object, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    BinaryFormat, Endianness, FileFlags, LittleEndian, RelocationFlags, SectionFlags, SectionKind,
    SymbolFlags, SymbolKind, SymbolScope,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// What the marker says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// The allocator's name in the catalogue.
    pub allocator: String,
    /// The allocator's own version.
    pub allocator_version: String,
    /// The package that it was built from, with the package's version.
    pub package: String,
    /// Baked-in tuning.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tuning: BTreeMap<String, String>,
    /// Which memory functions reheap put in (`fast`); `None` if the libc kept its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_functions: Option<String>,
    /// The libc and its version, such as `musl 1.2.5`; without a version in a preload.
    pub libc: String,
    /// SHA-256 of the original libc.a, in hexadecimal. Empty in a preload, which has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub original_sha256: String,
    /// The version of reheap that derived it.
    pub reheap: String,
}

/// A marker found in a linked file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMarker {
    /// What it says.
    pub marker: Marker,
    /// The functions of [`family::CORE`] that the program took from elsewhere: empty if the allocator is the program's.
    pub replaced: Vec<&'static str>,
    /// Where the functions of [`family::CORE`] are, in that order.
    pub functions: Vec<MarkedFunction>,
    /// Where the program has the functions of [`family::ALIGNED`], as addresses of the file; `None` for one that it does
    /// not have. Empty in a marker that does not say.
    pub aligned: Vec<(&'static str, Option<u64>)>,
    /// Whether the program has functions of its own that lead to the allocator's; [`FoundMarker::follow_jumps`] tells.
    pub is_grafted: bool,
}

/// Where a marker says that a function is, as addresses of the file (before it is loaded somewhere else).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkedFunction {
    /// The function's name in C.
    pub name: &'static str,
    /// The function of that name that the program calls.
    pub program: u64,
    /// The allocator's own.
    pub allocator: u64,
}

/// Why a marker cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// The file is not ELF, or its headers are damaged.
    #[error("damaged ELF: {0}")]
    Elf(String),
    /// The note is there but does not have the layout of a marker.
    #[error("the reheap note is damaged: {0}")]
    Note(String),
}

impl From<object::read::Error> for MarkerError {
    fn from(error: object::read::Error) -> Self {
        Self::Elf(error.to_string())
    }
}

/// The marker's symbol. The allocator's objects need it, so a linker takes the marker with them.
pub const SYMBOL: &str = "__reheap_marker";
/// The section that holds the note.
pub const SECTION: &str = ".note.reheap";

/// The layout of new markers: their note's type, and a number that changes with how they refer to functions.
pub const LAYOUT: [u32; 2] = [NOTE_TYPE.0, 2];

const NOTE_NAME: &[u8] = b"reheap\0";
const NOTE_TYPE: elf::NoteType = elf::NoteType(2);
const NOTE_TYPE_WITHOUT_ALIGNED: elf::NoteType = elf::NoteType(1);
const CORE_WORDS: usize = 2 * family::CORE.len();
const WORDS: usize = CORE_WORDS + family::ALIGNED.len();
/// Two sizes and the type.
const NOTE_HEADER_BYTES: usize = 12;
const WORDS_OFFSET: usize = NOTE_HEADER_BYTES + NOTE_NAME.len().next_multiple_of(4);

/// The relocatable object with the note and the baked-in tuning. `own_name` gives the name of the allocator's function
/// in the file that the object is linked into.
pub fn object_file(
    marker: &Marker,
    tuning: &[Baked],
    platform: Platform,
    own_name: impl Fn(&str) -> String,
) -> Vec<u8> {
    let mut object = empty_object(platform);
    let aligned = SymbolScope::Linkage;
    add_note(&mut object, &text(marker), platform, own_name, aligned);
    for baked in tuning {
        baked.add_to(&mut object, platform.architecture);
    }
    written(&object)
}

/// The object with the note and the baked-in tuning of a preload. [`retune`] changes both in the linked library.
pub(crate) fn retunable_object_file(
    marker: &Marker,
    tuning: &[Baked],
    platform: Platform,
) -> Vec<u8> {
    let mut object = empty_object(platform);
    let parts = retunable::parts(marker, tuning).expect("what is built has only presets in it");
    let aligned = SymbolScope::Dynamic;
    let note = add_note(&mut object, &parts, platform, str::to_owned, aligned);
    retunable::add_symbols(&mut object, note, tuning, platform.architecture);
    written(&object)
}

fn empty_object(platform: Platform) -> Object<'static> {
    let architecture = platform.architecture.writer_architecture();
    let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    object.flags = FileFlags::Elf {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_flags: elf::FileFlags(platform.flags),
    };
    // Without this empty section, GNU ld assumes that the object needs an executable stack.
    object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
    object
}

fn written(object: &Object<'static>) -> Vec<u8> {
    object
        .write()
        .expect("an object with one note and some strings is within all limits")
}

fn text(marker: &Marker) -> Vec<u8> {
    serde_json::to_vec(marker).expect("a struct of strings is always JSON")
}

/// Adds the note, with this behind the words. `aligned` is who may see the aligned functions that it refers to.
fn add_note(
    object: &mut Object<'static>,
    text: &[u8],
    platform: Platform,
    own_name: impl Fn(&str) -> String,
    aligned: SymbolScope,
) -> SectionId {
    let word_bytes = platform.architecture.class().word_bytes();
    let mut note = Vec::new();
    for field in [
        NOTE_NAME.len() as u32,
        (WORDS * word_bytes + text.len()) as u32,
        NOTE_TYPE.0,
    ] {
        note.extend_from_slice(&field.to_le_bytes());
    }
    note.extend_from_slice(NOTE_NAME);
    note.resize(WORDS_OFFSET + WORDS * word_bytes, 0);
    note.extend_from_slice(text);
    note.resize(note.len().next_multiple_of(4), 0);

    let section = object.add_section(Vec::new(), SECTION.into(), SectionKind::Note);
    object.section_mut(section).flags = SectionFlags::Elf {
        sh_type: elf::SHT_NOTE,
        sh_flags: elf::SHF_ALLOC,
    };
    object.append_section_data(section, &note, 4);
    object.add_symbol(defined_symbol(SYMBOL, section, 0, note.len() as u64));
    let core = family::CORE
        .into_iter()
        .flat_map(|function| [function.to_owned(), own_name(function)])
        .map(|function| {
            (
                undefined_symbol(&function),
                platform.architecture.distance(),
            )
        });
    let aligned = family::ALIGNED.map(|function| {
        let function = Symbol {
            weak: true,
            scope: aligned,
            ..undefined_symbol(function)
        };
        (function, platform.architecture.distance_to_weak())
    });
    for (index, (function, distance)) in core.chain(aligned).enumerate() {
        let offset = (WORDS_OFFSET + index * word_bytes) as u64;
        let function = object.add_symbol(function);
        add_distance(object, section, offset, function, distance);
    }
    section
}

/// Makes a linker write the distance from a place in a section to a function into that place.
fn add_distance(
    object: &mut Object<'static>,
    section: SectionId,
    offset: u64,
    function: SymbolId,
    distance: Distance,
) {
    let relocations = match distance {
        Distance::Relative(r_type) => vec![(function, 0, r_type)],
        Distance::Difference { add, subtract } => {
            let beginning = object.section_symbol(section);
            vec![(function, 0, add), (beginning, offset as i64, subtract)]
        }
    };
    for (symbol, addend, r_type) in relocations {
        let relocation = Relocation {
            offset,
            symbol,
            addend,
            flags: RelocationFlags::Elf { r_type },
        };
        object
            .add_relocation(section, relocation)
            .expect("the type is one of the architecture's own");
    }
}

fn undefined_symbol(name: &str) -> Symbol {
    Symbol {
        name: name.into(),
        value: 0,
        size: 0,
        kind: SymbolKind::Text,
        scope: SymbolScope::Unknown,
        weak: false,
        section: SymbolSection::Undefined,
        flags: SymbolFlags::None,
    }
}

/// The marker of a linked ELF file, if it has one.
///
/// # Errors
/// [`MarkerError::Elf`] when the file is not ELF or is damaged, [`MarkerError::Note`] when its marker is.
pub fn read(bytes: &[u8]) -> Result<Option<FoundMarker>, MarkerError> {
    let Some(note) = find(bytes)? else {
        return Ok(None);
    };
    parse_description(
        note.kind,
        &bytes[note.description],
        note.address,
        note.class,
    )
    .map(Some)
}

impl FoundMarker {
    /// Takes the functions into account that lead to the allocator's by a jump. `code_at` gives so many bytes of a program for
    /// x86-64 at an address.
    pub fn follow_jumps(&mut self, code_at: impl Fn(u64, u64) -> Option<Vec<u8>>) {
        let target = |address: u64| {
            let code = code_at(address, JUMP_BYTES)?;
            let (&[JUMP], distance) = code.split_at_checked(1)? else {
                return None;
            };
            let distance = i32::from_le_bytes(distance.try_into().ok()?);
            Some((address.wrapping_add(JUMP_BYTES)).wrapping_add_signed(distance.into()))
        };
        for function in &self.functions {
            if function.program != function.allocator
                && target(function.program) == Some(function.allocator)
            {
                self.is_grafted = true;
                self.replaced.retain(|name| *name != function.name);
            }
        }
    }
}

/// A jump on x86-64: its first byte, and its size with the distance.
const JUMP: u8 = 0xe9;
const JUMP_BYTES: u64 = 5;

/// Writes into the marker among these notes, at `address` in a 64-bit program, where the program has functions of its own, and
/// the allocator's to which they lead. False if there is none.
pub fn lead_to(notes: &mut [u8], address: u64, functions: &[(&str, [u64; 2])]) -> bool {
    let word_bytes = Class::Bits64.word_bytes();
    let mut names = notes.windows(NOTE_NAME.len());
    let name = names.position(|window| window == NOTE_NAME);
    let Some(start) = name.and_then(|name| name.checked_sub(NOTE_HEADER_BYTES)) else {
        return false;
    };
    let Some(note) = notes.get_mut(start..start + WORDS_OFFSET + WORDS * word_bytes) else {
        return false;
    };
    for (index, name) in family::CORE.into_iter().enumerate() {
        let Some(&(_, targets)) = functions.iter().find(|(function, _)| *function == name) else {
            continue;
        };
        for (target, word) in targets.into_iter().zip(2 * index..) {
            let offset = WORDS_OFFSET + word * word_bytes;
            let word = address.wrapping_add((start + offset) as u64);
            let distance = target.wrapping_sub(word);
            note[offset..offset + word_bytes].copy_from_slice(&distance.to_le_bytes());
        }
    }
    true
}

/// The marker in a part of a 64-bit process's memory that begins at `address`.
pub fn in_memory(bytes: &[u8], address: u64) -> Option<FoundMarker> {
    let class = Class::Bits64;
    memchr::memmem::find_iter(bytes, NOTE_NAME).find_map(|name| {
        let start = name.checked_sub(NOTE_HEADER_BYTES)?;
        let number = |at: usize| {
            let bytes = bytes.get(start + at..start + at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let (size, kind) = (number(4)? as usize, number(8)?);
        let start = name + NOTE_NAME.len().next_multiple_of(4);
        let description = bytes.get(start..start.checked_add(size)?)?;
        let address = address.wrapping_add(start as u64);
        let is_it = is_marker(&NOTE_NAME[..NOTE_NAME.len() - 1], kind);
        is_it.then(|| parse_description(kind, description, address, class).ok())?
    })
}

/// Where the note is.
struct Note {
    /// Its type.
    kind: u32,
    /// In the file.
    description: Range<usize>,
    /// In memory.
    address: u64,
    class: Class,
}

fn find(bytes: &[u8]) -> Result<Option<Note>, MarkerError> {
    match bytes.get(4).map(|&class| elf::FileClass(class)) {
        Some(elf::ELFCLASS32) => find_in::<elf::FileHeader32<LittleEndian>>(bytes),
        _ => find_in::<elf::FileHeader64<LittleEndian>>(bytes),
    }
}

fn find_in<Elf>(bytes: &[u8]) -> Result<Option<Note>, MarkerError>
where
    Elf: FileHeader<Endian = LittleEndian>,
{
    let header = Elf::parse(bytes)?;
    if !header.is_little_endian() {
        return Ok(None);
    }
    for segment in header.program_headers(LittleEndian, bytes)? {
        let Some(mut notes) = segment.notes(LittleEndian, bytes)? else {
            continue;
        };
        while let Some(note) = notes.next()? {
            let note_type = note.n_type(LittleEndian).0;
            if is_marker(note.name(), note_type) {
                let offset = note.desc().as_ptr() as usize - bytes.as_ptr() as usize;
                let address: u64 = segment.p_vaddr(LittleEndian).into();
                let segment_offset: u64 = segment.p_offset(LittleEndian).into();
                return Ok(Some(Note {
                    kind: note_type,
                    description: offset..offset + note.desc().len(),
                    address: address
                        .wrapping_add(offset as u64)
                        .wrapping_sub(segment_offset),
                    class: Class::of_64_bit(header.is_type_64()),
                }));
            }
        }
    }
    Ok(None)
}

/// The marker of a relocatable object, such as a member of a derived libc. No linker has bound it yet.
pub fn read_unlinked(bytes: &[u8]) -> Option<Marker> {
    use object::{Object as _, ObjectSection as _};
    let file = object::File::parse(bytes).ok()?;
    let class = Class::of_64_bit(file.is_64());
    of_section(file.section_by_name(SECTION)?.data().ok()?, class)
}

/// The marker in the section of a relocatable object.
pub(crate) fn of_section(section: &[u8], class: Class) -> Option<Marker> {
    let note_type = section.get(8..12)?.try_into().ok()?;
    let description = section.get(WORDS_OFFSET..)?;
    parse_description(u32::from_le_bytes(note_type), description, 0, class)
        .ok()
        .map(|found| found.marker)
}

/// Whether a note of that name and type is a marker.
pub fn is_marker(name: &[u8], note_type: u32) -> bool {
    name == b"reheap" && [NOTE_TYPE.0, NOTE_TYPE_WITHOUT_ALIGNED.0].contains(&note_type)
}

/// Reads the description of a note of that type that is at `address` in the memory of a program of that class.
///
/// # Errors
/// [`MarkerError::Note`] when it does not have the layout of a marker.
pub fn parse_description(
    note_type: u32,
    description: &[u8],
    address: u64,
    class: Class,
) -> Result<FoundMarker, MarkerError> {
    let word_bytes = class.word_bytes();
    let words = match elf::NoteType(note_type) {
        NOTE_TYPE_WITHOUT_ALIGNED => CORE_WORDS,
        _ => WORDS,
    };
    let (words, text) = description
        .split_at_checked(words * word_bytes)
        .ok_or_else(|| MarkerError::Note(format!("{} bytes are too few", description.len())))?;
    let address_of_word =
        |index: usize| class.address(address.wrapping_add((index * word_bytes) as u64));
    let targets: Vec<u64> = words
        .chunks_exact(word_bytes)
        .enumerate()
        .map(|(index, word)| class.address(address_of_word(index).wrapping_add(distance(word))))
        .collect();
    let (core, aligned) = targets.split_at(CORE_WORDS);
    let aligned = family::ALIGNED
        .into_iter()
        .zip(aligned.iter().zip(CORE_WORDS..))
        .map(|(name, (&target, index))| {
            let is_there = target != 0 && target != address_of_word(index);
            (name, is_there.then_some(target))
        })
        .collect();
    let functions: Vec<MarkedFunction> = family::CORE
        .into_iter()
        .zip(core.chunks_exact(2))
        .map(|(name, pair)| MarkedFunction {
            name,
            program: pair[0],
            allocator: pair[1],
        })
        .collect();
    let replaced = functions
        .iter()
        .filter(|function| function.program != function.allocator)
        .map(|function| function.name)
        .collect();
    let text = text.split(|&b| b == 0).next().unwrap_or_default();
    let marker = serde_json::from_slice(text).map_err(|e| MarkerError::Note(e.to_string()))?;
    Ok(FoundMarker {
        marker,
        replaced,
        functions,
        aligned,
        is_grafted: false,
    })
}

/// The distance in a word, which may be negative. A linker may have written 32 bits of it only. No program has functions
/// more than 2 GiB behind a word, so in 64 bits such a number is not meant.
fn distance(word: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..word.len()].copy_from_slice(word);
    let distance = u64::from_le_bytes(bytes);
    match u32::try_from(distance) {
        Ok(short) => i64::from(short.cast_signed()).cast_unsigned(),
        Err(_) => distance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        br#"{"allocator":"a","allocator_version":"1","package":"p","libc":"musl","reheap":"0"}"#;

    /// A description at address 0x1000, whose words lead to these addresses.
    fn description(targets: &[u64]) -> Vec<u8> {
        let words = targets.iter().enumerate();
        let words = words.flat_map(|(index, target)| {
            let at = 0x1000 + 8 * index as u64;
            target.wrapping_sub(at).to_le_bytes()
        });
        words.chain(TEXT.iter().copied()).collect()
    }

    #[test]
    fn a_marker_says_where_the_aligned_functions_are_and_which_the_program_lacks() {
        let itself = 0x1000 + 8 * 11;
        let targets = [1, 1, 2, 2, 3, 3, 4, 4, 0x50, 0, 0x70, itself];
        let found = parse_description(2, &description(&targets), 0x1000, Class::Bits64).unwrap();
        assert_eq!(found.replaced, Vec::<&str>::new());
        let aligned = [
            ("aligned_alloc", Some(0x50)),
            ("posix_memalign", None),
            ("memalign", Some(0x70)),
            ("valloc", None),
        ];
        assert_eq!(found.aligned, aligned);
    }

    #[test]
    fn a_distance_has_a_sign_in_32_bits_and_in_64() {
        assert_eq!(distance(&[5, 0, 0, 0, 0, 0, 0, 0]), 5);
        assert_eq!(distance(&[0xfe, 0xff, 0xff, 0xff]).wrapping_add(2), 0);
        let short_in_long = [0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(distance(&short_in_long).wrapping_add(2), 0);
        assert_eq!(distance(&[0xff; 8]).wrapping_add(1), 0);
    }

    #[test]
    fn a_marker_of_the_first_type_has_only_the_core() {
        let targets = [1, 1, 2, 2, 3, 9, 4, 4];
        let found = parse_description(1, &description(&targets), 0x1000, Class::Bits64).unwrap();
        assert_eq!(found.marker.allocator, "a");
        assert_eq!(found.replaced, ["realloc"]);
        assert_eq!(found.aligned, []);
        assert!(is_marker(b"reheap", 1) && is_marker(b"reheap", 2));
        assert!(!is_marker(b"reheap", 3));
    }
}
