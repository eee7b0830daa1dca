//! Functions, inlined ones included, files and lines, as compilers describe them.

use super::super::elf::Elf;
use super::names::demangle;
use addr2line::Context;
use gimli::{Abbreviations, EndianArcSlice, LittleEndian, SectionId, UnitHeader};
use std::sync::Arc;

type Reader = EndianArcSlice<LittleEndian>;

/// More frames at one address are none: inlining is not that deep. addr2line 0.26 calls itself for each, and needs up to
/// 2 KiB of stack then.
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
    /// `None` if the file has none, it takes more than that many bytes, or functions are inlined too deep in each other.
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
        if is_too_deep(&dwarf) {
            return None;
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

/// Whether more than [`INLINED_MAX`] inlined functions are in each other anywhere. To look takes 2 ms for each MiB.
fn is_too_deep(dwarf: &gimli::Dwarf<Reader>) -> bool {
    let mut units = dwarf.units();
    while let Ok(Some(unit)) = units.next() {
        // What cannot be read of a unit, addr2line does not read either.
        if dwarf
            .abbreviations(&unit)
            .and_then(|abbreviations| inlined_depth(&unit, &abbreviations))
            .is_ok_and(|depth| depth > INLINED_MAX)
        {
            return true;
        }
    }
    false
}

/// How many inlined functions are in each other.
fn inlined_depth(
    unit: &UnitHeader<Reader>,
    abbreviations: &Abbreviations,
) -> Result<usize, gimli::Error> {
    let mut deepest = 0;
    // The depths of those that are around an entry.
    let mut around: Vec<isize> = Vec::new();
    let mut entries = unit.entries_raw(abbreviations, None)?;
    while !entries.is_empty() {
        let depth = entries.next_depth();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        around.truncate(around.partition_point(|outer| *outer < depth));
        if abbreviation.tag() == gimli::DW_TAG_inlined_subroutine {
            around.push(depth);
            deepest = deepest.max(around.len());
        }
        entries.skip_attributes(abbreviation.attributes())?;
    }
    Ok(deepest)
}

#[cfg(test)]
mod tests {
    use super::super::super::elf::Bytes;
    use super::*;
    use std::fs;
    use std::process::Command;

    const START: u64 = 0x1000;

    /// A unit with a function, in which so many functions are inlined in each other.
    fn unit(depth: usize) -> Vec<u8> {
        let with_range = |code: u8| {
            let range = [START, 0x1000].map(u64::to_le_bytes).concat();
            [&[code], &range[..]].concat()
        };
        let ends = vec![0; depth + 2];
        let entries = [
            with_range(1),
            with_range(2),
            with_range(3).repeat(depth),
            ends,
        ]
        .concat();
        let head = [4, 0, 0, 0, 0, 0, 8]; // version, abbreviations, bytes of an address
        let length = (head.len() + entries.len()) as u32;
        [&length.to_le_bytes()[..], &head, &entries].concat()
    }

    /// A program with that debug information.
    fn program(info: &[u8]) -> Elf {
        // Each with children, DW_AT_low_pc, and DW_AT_high_pc as DW_FORM_data8.
        let abbreviation = |code, tag| [code, tag, 1, 0x11, 1, 0x12, 7, 0, 0];
        let tags = [(1, 0x11), (2, 0x2e), (3, 0x1d)];
        let abbreviations = tags.map(|(code, tag)| abbreviation(code, tag)).concat();
        let directory = tempfile::tempdir().unwrap();
        let write = |name, bytes| fs::write(directory.path().join(name), bytes).unwrap();
        write("a.c", b"int a;\n".as_slice());
        write("info", info);
        write("abbreviations", &[&abbreviations[..], &[0]].concat());
        for command in [
            "gcc -shared a.c -o a",
            "objcopy --add-section .debug_info=info --add-section .debug_abbrev=abbreviations a b",
        ] {
            let mut words = command.split(' ');
            let mut started = Command::new(words.next().unwrap());
            let status = started.args(words).current_dir(&directory).status();
            assert!(status.is_ok_and(|status| status.success()), "{command}");
        }
        let bytes = fs::read(directory.path().join("b")).unwrap();
        Elf::parse(Bytes::Memory(bytes)).unwrap()
    }

    #[test]
    fn functions_that_are_inlined_too_deep_in_each_other_are_not_read() {
        let places = |info: &[u8]| {
            let dwarf = Dwarf::read(&program(info), None, 1 << 30)?;
            Some(dwarf.at(START).len())
        };
        assert_eq!(places(&unit(100)), Some(101));
        assert_eq!(places(&unit(INLINED_MAX)), Some(INLINED_MAX));
        assert_eq!(places(&unit(1_000_000)), None);
        // Each alone is not deep.
        assert_eq!(places(&unit(2).repeat(1000)), Some(3));
        // In another unit than the first.
        assert_eq!(places(&[unit(2), unit(1_000_000)].concat()), None);
    }
}
