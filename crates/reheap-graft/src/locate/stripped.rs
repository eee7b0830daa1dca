//! The malloc of a stripped static executable, by its code: musl's or glibc's, each as its own project compiles it.
//!
//! First `reheap_elf::identify` must find exactly one allocator in the file. A Rust program with the jemalloc crate also
//! has musl's, and hooks in one of them would show half of what it does.

use super::Processor;
use super::code::Code;
use super::{Executable, LocateError, glibc, musl};
use gimli::UnwindSection as _;
use memchr::memmem;
use object::elf;
use object::read::elf::ProgramHeader as _;
use object::{LittleEndian, Object as _, ObjectSection as _, ReadRef};
use reheap_elf::identify;
use std::collections::{BTreeMap, BTreeSet};

/// What the code showed.
pub(super) struct Found {
    pub(super) functions: BTreeMap<&'static str, u64>,
    pub(super) is_glibc: bool,
    pub(super) errno_at: Option<i64>,
    pub(super) is_complete: bool,
}

/// Finds the functions, or says that they cannot be shown.
pub(super) fn find<'data, R: ReadRef<'data>>(
    executable: &Executable<'data, R>,
) -> Result<Found, LocateError> {
    if executable.processor != Processor::X86_64 {
        return Err(LocateError::Unknown);
    }
    let allocator = only_allocator(executable)?;
    refuse_overlaps(executable)?;
    let texts = texts(executable);
    let starts = unwound(executable).unwrap_or_default();
    let segments = segments(executable, |flags| flags & elf::PF_X.0 != 0);
    let mut code = Code::read(segments, starts.into_iter(), words(executable), &texts);
    let found = match allocator.as_str() {
        "musl-mallocng" => musl::find(&mut code).map(|found| Found {
            functions: found.functions,
            is_glibc: false,
            errno_at: found.errno_at,
            is_complete: found.is_complete,
        }),
        "glibc" => glibc::find(&code, &texts).map(|functions| Found {
            functions,
            is_glibc: true,
            errno_at: None,
            is_complete: false,
        }),
        _ => None,
    };
    found.ok_or(LocateError::Unknown)
}

fn only_allocator<'data, R: ReadRef<'data>>(
    executable: &Executable<'data, R>,
) -> Result<String, LocateError> {
    let damaged = |what: &str| LocateError::Damaged(what.to_owned());
    let data = executable.file.data();
    let size = data.len().map_err(|()| damaged("its size is unknown"))?;
    let bytes = data
        .read_bytes_at(0, size)
        .map_err(|()| damaged("it cannot be read"))?;
    let identity = identify::identify(bytes).map_err(|error| damaged(&error.to_string()))?;
    let names: BTreeSet<String> = identity
        .allocators
        .into_iter()
        .map(|allocator| allocator.name)
        .collect();
    match names.len() {
        0 => Err(LocateError::Unknown),
        1 => Ok(names.into_iter().next().unwrap_or_default()),
        _ => {
            let names: Vec<String> = names.into_iter().collect();
            Err(LocateError::SeveralAllocators(names.join(", ")))
        }
    }
}

/// The loaded segments with flags that fit: addresses and bytes.
fn segments<'data, R: ReadRef<'data>>(
    executable: &Executable<'data, R>,
    fits: impl Fn(u32) -> bool,
) -> Vec<(u64, &'data [u8])> {
    let headers = executable.file.elf_program_headers().iter();
    headers
        .filter(|segment| {
            segment.p_type(LittleEndian) == elf::PT_LOAD && fits(segment.p_flags(LittleEndian).0)
        })
        .filter_map(|segment| {
            let bytes = segment.data(LittleEndian, executable.file.data()).ok()?;
            Some((segment.p_vaddr(LittleEndian), bytes))
        })
        .collect()
}

/// No linker puts a byte of a file into two segments. If one did so often enough, a small file would have gigabytes of code.
fn refuse_overlaps<'data, R: ReadRef<'data>>(
    executable: &Executable<'data, R>,
) -> Result<(), LocateError> {
    let all = segments(executable, |_| true);
    let loaded: u64 = all.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    if executable.file.data().len().is_ok_and(|size| loaded > size) {
        let what = "its segments are larger than the file, so they overlap";
        return Err(LocateError::Damaged(what.to_owned()));
    }
    Ok(())
}

/// Where the texts are that show glibc's functions.
fn texts<'data, R: ReadRef<'data>>(
    executable: &Executable<'data, R>,
) -> BTreeMap<u64, &'static str> {
    let mut found = BTreeMap::new();
    let is_data = |flags: u32| flags & elf::PF_X.0 == 0;
    for (address, bytes) in segments(executable, is_data) {
        for (text, role) in glibc::TEXTS {
            let whole = [&[0], text.as_bytes(), &[0]].concat();
            for place in memmem::find_iter(bytes, &whole) {
                found.insert(address + place as u64 + 1, role);
            }
        }
    }
    found
}

/// The words of the data.
fn words<'data, R: ReadRef<'data>>(executable: &Executable<'data, R>) -> impl Iterator<Item = u64> {
    let data = segments(executable, |flags| flags & elf::PF_X.0 == 0);
    data.into_iter().flat_map(|(_, bytes)| {
        let words = bytes.as_chunks::<8>().0.iter();
        words.map(|word| u64::from_le_bytes(*word))
    })
}

fn unwound<'data, R: ReadRef<'data>>(executable: &Executable<'data, R>) -> Option<BTreeSet<u64>> {
    let section = executable.file.section_by_name(".eh_frame")?;
    let data = section.data().ok()?;
    let frames = gimli::EhFrame::new(data, gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = frames.entries(&bases);
    let mut starts = BTreeSet::new();
    while let Some(entry) = entries.next().ok()? {
        if let gimli::CieOrFde::Fde(partial) = entry {
            let fde = partial.parse(gimli::EhFrame::cie_from_offset).ok()?;
            starts.insert(fde.initial_address());
        }
    }
    Some(starts)
}
