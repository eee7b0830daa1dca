//! What compiler, linker and processor do in a file against the use of memory errors.
//!
//! `readelf` shows the same facts, one by one. This module says only what the file shows. The program headers state most
//! of it. A stack protector and fortified functions show only in names of symbols, which a stripped static file lacks. So
//! a name that was not seen is no statement.

use super::image::{Image, Symbol};
use crate::error::ElfError;
use crate::tables::{Format, NAME_BYTES_MAX, Tables};
use object::elf;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// More names than that prove nothing more.
const FORTIFIED_MAX: usize = 100;
/// What the compilers' code calls when it finds that a stack was overwritten.
const STACK_PROTECTORS: [&[u8]; 3] = [
    b"__stack_chk_fail",
    b"__stack_chk_fail_local",
    b"__stack_smash_handler",
];
/// The words that a linker reserves at the beginning of the table of called functions.
const RESERVED_WORDS: u64 = 3;

/// What protects a linked file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Protections {
    /// What of its tables of addresses is read-only once it runs.
    pub relro: Relro,
    /// The dynamic linker looks up all functions before the program starts.
    pub binds_now: bool,
    /// Whether its stack holds code.
    pub stack: Stack,
    /// It runs at any address.
    pub position_independent: bool,
    /// Some of its memory is writable and executable at once.
    pub writable_code: bool,
    /// The dynamic linker changes its code.
    pub text_relocations: bool,
    /// A symbol of the stack protector, if one was seen. A stripped static file has no names, so none was seen there.
    pub stack_protector: Option<String>,
    /// Functions of the libc that check the size of what they write, as `__memcpy_chk`, which it takes from the libc.
    pub fortified: Vec<String>,
    /// How all of its code agrees to be protected by the processor: `ibt` and `shstk` on x86, `bti` and `pac` on AArch64.
    pub control_flow: Vec<&'static str>,
}

/// What is read-only after relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relro {
    /// Nothing.
    None,
    /// All but the table of called functions.
    Partial,
    /// Something; the table of called functions cannot be found.
    Present,
    /// Everything.
    Full,
}

/// Whether code on the stack runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// It does not.
    NotExecutable,
    /// It does.
    Executable,
    /// The file does not say. Linux then makes it executable on most processors.
    Unstated,
}

impl fmt::Display for Protections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = vec![
            match self.relro {
                Relro::None => "no RELRO".to_owned(),
                Relro::Partial => "partial RELRO".to_owned(),
                Relro::Present => "RELRO".to_owned(),
                Relro::Full => "full RELRO".to_owned(),
            },
            match self.stack {
                Stack::NotExecutable => "NX stack",
                Stack::Executable => "executable stack",
                Stack::Unstated => "stack unstated, so executable on most processors",
            }
            .to_owned(),
            if self.position_independent {
                "PIE"
            } else {
                "no PIE"
            }
            .to_owned(),
        ];
        if self.writable_code {
            parts.push("writable code".to_owned());
        }
        if self.text_relocations {
            parts.push("text relocations".to_owned());
        }
        parts.push(match self.stack_protector {
            Some(_) => "stack protector".to_owned(),
            None => "no stack protector symbol found".to_owned(),
        });
        match self.fortified.len() {
            0 => {}
            1 => parts.push("1 fortified function".to_owned()),
            count => parts.push(format!("{count} fortified functions")),
        }
        let names = self.control_flow.iter().map(|name| name.to_uppercase());
        parts.extend(names);
        f.write_str(&parts.join(", "))
    }
}

/// The names that tell of protections.
#[derive(Debug, Default)]
pub(super) struct Names {
    stack_protector: Option<&'static [u8]>,
    fortified: BTreeSet<String>,
}

impl Names {
    pub(super) fn add(&mut self, symbol: &Symbol<'_>) {
        let mut known = STACK_PROTECTORS.into_iter();
        if let Some(name) = known.find(|known| *known == symbol.name) {
            self.stack_protector.get_or_insert(name);
        }
        // A libc that is linked in defines such functions, whether or not the program calls them.
        let is_fortified = symbol.place.is_none()
            && symbol.name.starts_with(b"__")
            && (symbol.name.ends_with(b"_chk") || symbol.name == b"__chk_fail")
            && self.fortified.len() < FORTIFIED_MAX;
        if is_fortified {
            let name = String::from_utf8_lossy(symbol.name);
            self.fortified.insert(name.into_owned());
        }
    }
}

/// What the headers and notes of a linked file say, and the names that were seen.
pub(super) fn of(
    image: &Image<'_>,
    names: &Names,
    position_independent: bool,
) -> Result<Protections, ElfError> {
    let tables = image.tables();
    let mut protections = Protections {
        relro: Relro::None,
        binds_now: false,
        stack: Stack::Unstated,
        position_independent,
        writable_code: false,
        text_relocations: false,
        stack_protector: (names.stack_protector)
            .map(|name| String::from_utf8_lossy(name).into_owned()),
        fortified: names.fortified.iter().cloned().collect(),
        control_flow: control_flow(image),
    };
    let mut has_relro = false;
    let mut segments = tables.segments();
    while let Some(segment) = segments.next()? {
        let is_executable = segment.flags.contains(elf::PF_X);
        match segment.kind {
            elf::PT_GNU_RELRO => has_relro = true,
            elf::PT_GNU_STACK if is_executable => protections.stack = Stack::Executable,
            elf::PT_GNU_STACK => protections.stack = Stack::NotExecutable,
            elf::PT_LOAD if is_executable && segment.flags.contains(elf::PF_W) => {
                protections.writable_code = true;
            }
            _ => {}
        }
    }
    let dynamic = tables.dynamic()?;
    if let Some(dynamic) = &dynamic {
        protections.binds_now = dynamic.binds_now();
        protections.text_relocations = dynamic.has_text_relocations();
    }
    let is_full = match &dynamic {
        _ if protections.binds_now => Some(true),
        Some(dynamic) => Some(!dynamic.has_calls()),
        None => calls_are_read_only(tables)?,
    };
    protections.relro = match (has_relro, is_full) {
        (false, _) => Relro::None,
        (true, None) => Relro::Present,
        (true, Some(false)) => Relro::Partial,
        (true, Some(true)) => Relro::Full,
    };
    Ok(protections)
}

/// Whether a file without a dynamic segment has no table of called functions that stays writable: `.got.plt` with more
/// than what linkers reserve. With `-z now` they put it where it becomes read-only. `None` without a section table.
fn calls_are_read_only(tables: &Tables<'_>) -> Result<Option<bool>, ElfError> {
    let Some(mut names) = tables.section_names()? else {
        return Ok(None);
    };
    let reserved = RESERVED_WORDS * tables.format.word_bytes() as u64;
    let mut sections = tables.sections();
    while let Some(section) = sections.next()? {
        let name = names.text(u64::from(section.name), NAME_BYTES_MAX)?;
        if name == Some(b".got.plt") {
            let range = section.range(tables.view);
            return Ok(range.map(|range| range.end - range.start <= reserved));
        }
    }
    Ok(Some(true))
}

/// The features that the linker found in every object (x86-64 psABI and AArch64 ELF ABI, "program property").
fn control_flow(image: &Image<'_>) -> Vec<&'static str> {
    const NT_GNU_PROPERTY_TYPE_0: u32 = 5;
    let (kind, features) = match image.machine() {
        elf::EM_X86_64 | elf::EM_386 => (0xc000_0002, ["ibt", "shstk"]),
        elf::EM_AARCH64 => (0xc000_0000, ["bti", "pac"]),
        _ => return Vec::new(),
    };
    let is_property = |note: &&super::image::Note| {
        note.name == b"GNU" && note.note_type == NT_GNU_PROPERTY_TYPE_0
    };
    let notes = image.notes.iter().filter(is_property);
    let bits = notes
        .filter_map(|note| property(&note.description, kind, image.format()))
        .fold(0, |all, bits| all | bits);
    let features = features
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| bits & 1 << bit != 0);
    features.map(|(_, name)| name).collect()
}

/// The property of that kind in a note, if it is a number.
fn property(mut description: &[u8], kind: u32, format: Format) -> Option<u32> {
    while description.len() >= 8 {
        let size = format.u32(description, 4) as usize;
        let value = description.get(8..8_usize.checked_add(size)?)?;
        if format.u32(description, 0) == kind {
            return (size == 4).then(|| format.u32(value, 0));
        }
        let next = (8 + size).next_multiple_of(format.word_bytes());
        description = description.get(next..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: Format = Format::LITTLE_64;

    fn properties(list: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, value) in list {
            bytes.extend_from_slice(&kind.to_le_bytes());
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    #[test]
    fn a_property_is_found_behind_others_and_a_damaged_note_has_none() {
        let bytes = properties(&[(1, b"12345"), (0xc000_0002, &[3, 0, 0, 0])]);
        assert_eq!(property(&bytes, 0xc000_0002, X86), Some(3));
        assert_eq!(property(&bytes, 7, X86), None);
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            let expected = (length >= 28).then_some(3);
            assert_eq!(property(cut, 0xc000_0002, X86), expected, "{length}");
        }
        let huge = [1, 0, 0, 0, 255, 255, 255, 255];
        assert_eq!(property(&huge, 2, X86), None);
        assert_eq!(property(&properties(&[(2, b"12")]), 2, X86), None);
    }

    #[test]
    fn a_line_says_what_was_seen_and_never_more() {
        let weak = Protections {
            relro: Relro::None,
            binds_now: false,
            stack: Stack::Executable,
            position_independent: false,
            writable_code: true,
            text_relocations: true,
            stack_protector: None,
            fortified: Vec::new(),
            control_flow: Vec::new(),
        };
        assert_eq!(
            weak.to_string(),
            "no RELRO, executable stack, no PIE, writable code, text relocations, no stack protector symbol found"
        );
        let strong = Protections {
            relro: Relro::Full,
            binds_now: true,
            stack: Stack::NotExecutable,
            position_independent: true,
            writable_code: false,
            text_relocations: false,
            stack_protector: Some("__stack_chk_fail".to_owned()),
            fortified: vec!["__memcpy_chk".to_owned()],
            control_flow: vec!["ibt", "shstk"],
        };
        assert_eq!(
            strong.to_string(),
            "full RELRO, NX stack, PIE, stack protector, 1 fortified function, IBT, SHSTK"
        );
    }
}
