//! Functions, inlined ones included, files and lines, as compilers describe them.

use super::super::elf::Elf;
use super::names::demangle;
use addr2line::Context;
use gimli::{EndianArcSlice, LittleEndian, SectionId};
use std::sync::Arc;

type Reader = EndianArcSlice<LittleEndian>;

/// More frames at one address are none: inlining is not that deep.
const INLINED_MAX: usize = 256;

/// The debug information of one file.
pub(super) struct Dwarf {
    context: Context<Reader>,
    bytes: usize,
}

/// A function at an address, or one that was inlined there. The innermost comes first, and only the last is not inlined.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) function: Option<String>,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
}

impl Dwarf {
    /// `None` if the file has none, or it takes more than that many bytes.
    pub(super) fn read(elf: &Elf, supplement: Option<&Elf>, bytes_max: usize) -> Option<Self> {
        elf.named(".debug_info")?;
        let mut bytes = 0;
        let mut load = |file: Option<&Elf>, id: SectionId| {
            let contents = file.and_then(|file| {
                let section = file.named(id.name())?;
                let taken = usize::try_from(section.size).ok()?.checked_add(bytes)?;
                (taken <= bytes_max).then(|| file.contents(section))?
            });
            let contents = contents.unwrap_or_else(|| Arc::from([]));
            bytes += contents.len();
            Ok::<Reader, gimli::Error>(EndianArcSlice::new(contents, LittleEndian))
        };
        let mut dwarf = gimli::Dwarf::load(|id| load(Some(elf), id)).ok()?;
        if supplement.is_some() {
            dwarf.load_sup(|id| load(supplement, id)).ok()?;
        }
        let context = Context::from_dwarf(dwarf).ok()?;
        Some(Self { context, bytes })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn at(&self, address: u64) -> Vec<Place> {
        let mut places = Vec::new();
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else {
            return places;
        };
        while let Ok(Some(frame)) = frames.next() {
            let location = frame.location.unwrap_or(addr2line::Location {
                file: None,
                line: None,
                column: None,
            });
            let name = frame.function.as_ref();
            places.push(Place {
                function: name
                    .and_then(|name| Some(demangle(name.raw_name().ok()?.as_ref())))
                    .filter(|name| !name.is_empty()),
                file: location.file.map(str::to_owned),
                line: location.line.filter(|line| *line > 0),
            });
            if places.len() == INLINED_MAX {
                break;
            }
        }
        places
    }
}
