//! The note that says what was overwritten, and the way back.

use super::GraftError;
use super::program::Program;
use crate::processor::Processor;
use crate::prologue;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const NAME: &[u8] = b"reheap\0";
/// The markers of what reheap links are types 1 and 2.
const TYPE: u32 = 3;
const DESCRIPTION: usize = 12 + NAME.len().next_multiple_of(4);

/// What the note says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Graft {
    /// SHA-256 of the original file, in hexadecimal.
    pub original_sha256: String,
    /// The size of the original file. It is the beginning of this one.
    pub original_bytes: usize,
    /// What was overwritten in it.
    #[serde(rename = "overwritten")]
    patches: Vec<Patch>,
    /// The program's functions, and where each leads now.
    pub entries: Vec<Entry>,
}

/// A function of the program that leads to the allocator's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name in C.
    pub name: String,
    /// Where it is, as an address of the file.
    pub address: u64,
    /// Where the allocator's is.
    pub target: u64,
}

/// Bytes of the original.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Patch {
    pub(super) offset: usize,
    #[serde(with = "hex::serde")]
    pub(super) original: Vec<u8>,
}

impl Patch {
    /// These must be in the file.
    pub(super) fn new(bytes: &[u8], offset: usize, size: usize) -> Self {
        Self {
            offset,
            original: bytes[offset..offset + size].to_vec(),
        }
    }

    /// What changes in the tables of the file.
    pub(super) fn of_headers(program: &Program<'_>) -> Vec<Self> {
        let mut patches = vec![Self::new(
            program.bytes,
            0,
            size_of::<elf::FileHeader64<LE>>(),
        )];
        if let Some(relocations) = &program.relocations {
            let count = relocations.count.map(|(word, _)| word);
            let words = [relocations.address_word, relocations.size_word]
                .into_iter()
                .chain(count);
            patches.extend(words.map(|word| Self::new(program.bytes, word, 8)));
        }
        patches
    }
}

/// Two jumps need room for both.
pub(super) fn refuse_overlaps(patches: &[Patch]) -> Result<(), GraftError> {
    let mut ranges: Vec<_> = patches
        .iter()
        .map(|patch| (patch.offset, patch.original.len()))
        .collect();
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        let distance = pair[1].0 - pair[0].0;
        if distance < pair[0].1 {
            return Err(GraftError::TooClose(distance as u64));
        }
    }
    Ok(())
}

impl Graft {
    /// What was grafted into an executable, if anything was.
    ///
    /// # Errors
    /// When the note is damaged, or a function does not lead where it says.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, GraftError> {
        let Some(graft) = find(bytes)? else {
            return Ok(None);
        };
        if let Some(entry) = graft.without_jump(bytes) {
            let what = format!("`{}` does not lead to the grafted allocator", entry.name);
            return Err(GraftError::Damaged(what));
        }
        Ok(Some(graft))
    }

    pub(super) fn new(original: &[u8], patches: &[Patch], entries: Vec<Entry>) -> Self {
        Self {
            original_sha256: hex::encode(Sha256::digest(original)),
            original_bytes: original.len(),
            patches: patches.to_vec(),
            entries,
        }
    }

    /// The note, filled up with blanks to so many bytes.
    pub(super) fn as_note(&self, bytes_min: usize) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("numbers and strings are always JSON");
        text.resize(text.len().max(bytes_min.saturating_sub(DESCRIPTION)), b' ');
        let mut note = Vec::new();
        for field in [NAME.len() as u32, text.len() as u32, TYPE] {
            note.extend(field.to_le_bytes());
        }
        note.extend(NAME);
        note.resize(DESCRIPTION, 0);
        note.extend(text);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    /// The first function whose jump is not there.
    fn without_jump(&self, bytes: &[u8]) -> Option<&Entry> {
        let segments = segments(bytes).ok()?;
        self.entries.iter().find(|entry| {
            let offset = segments.iter().find_map(|segment| {
                let within = entry.address.checked_sub(segment.p_vaddr(LE))?;
                let is_code = segment.p_type(LE) == elf::PT_LOAD && within < segment.p_filesz(LE);
                is_code.then_some(segment.p_offset(LE).wrapping_add(within) as usize)
            });
            let taken = prologue::jump_bytes(Processor::X86_64);
            let code = offset.and_then(|offset| bytes.get(offset..offset.checked_add(taken)?));
            let target =
                code.and_then(|code| prologue::target(Processor::X86_64, entry.address, code));
            target != Some(entry.target)
        })
    }
}

/// Why the original cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// The file's tables are damaged.
    #[error("damaged ELF: {0}")]
    Damaged(String),
    /// There is no graft.
    #[error("reheap has grafted nothing into it")]
    NotGrafted,
    /// It has changed since.
    #[error(
        "it has changed since the allocator was grafted into it, so what comes out is not the original"
    )]
    Changed,
}

fn segments(bytes: &[u8]) -> Result<&[elf::ProgramHeader64<LE>], object::read::Error> {
    elf::FileHeader64::<LE>::parse(bytes)?.program_headers(LE, bytes)
}

fn find(bytes: &[u8]) -> Result<Option<Graft>, GraftError> {
    for segment in segments(bytes)? {
        // Notes of others are hints, and a damaged one ends their list.
        let Ok(Some(mut notes)) = segment.notes(LE, bytes) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == &NAME[..NAME.len() - 1] && note.n_type(LE).0 == TYPE {
                let graft = serde_json::from_slice(note.desc());
                let damaged = |error| GraftError::Damaged(format!("reheap's note: {error}"));
                return graft.map(Some).map_err(damaged);
            }
        }
    }
    Ok(None)
}

/// The original of an executable that another allocator is grafted into, byte for byte.
///
/// # Errors
/// When there is no graft, or what comes out is not the original.
pub fn undo(bytes: &[u8]) -> Result<Vec<u8>, UndoError> {
    let graft = find(bytes).map_err(|error| UndoError::Damaged(error.to_string()))?;
    let graft = graft.ok_or(UndoError::NotGrafted)?;
    let mut original = bytes
        .get(..graft.original_bytes)
        .ok_or(UndoError::Changed)?
        .to_vec();
    for patch in &graft.patches {
        let end = patch.offset.checked_add(patch.original.len());
        let place = end.and_then(|end| original.get_mut(patch.offset..end));
        place
            .ok_or(UndoError::Changed)?
            .copy_from_slice(&patch.original);
    }
    if hex::encode(Sha256::digest(&original)) != graft.original_sha256 {
        return Err(UndoError::Changed);
    }
    Ok(original)
}
