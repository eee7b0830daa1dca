//! Finds whose malloc the program of a container image gets: its own, that of a library that the image's configuration
//! preloads, or the libc's. The program is the one that `reheap image --add` judges: what a shell or an init program
//! starts in its own place.

use super::file::FileError;
use super::hardening::identify;
use super::preload::{Preload, State};
use super::report::Report;
use crate::container::{self, Contents, EntryPoint};
use crate::env_vars::LD_PRELOAD;
use crate::opened::Opened;
use crate::program::libraries::Libraries;
use reheap_allocators::preload::glibc_library_directories;
use reheap_allocators::target::Libc;
use reheap_elf::identify::{FoundAllocator, Identity, Kind, LibcName, MallocVerdict, Provider};
use reheap_image::added::value_of;
use std::path::{Path, PathBuf};

/// Looks at the program that an image starts.
pub(super) fn inspect(path: &Path, file: String) -> Result<Report, FileError> {
    container::look_into(path, |contents| {
        let program = contents.main_program()?;
        let mut identity = identify(&program.file).map_err(|error| FileError::EntryPoint {
            path: program.path.clone(),
            error,
        })?;
        let preload = preloads(contents, &program, &identity);
        contents.noted()?;
        if let Some(verdict) = verdict(&identity, &preload) {
            identity.malloc = verdict;
        }
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        Ok(Report::Container {
            file,
            entry_point: text(&program.path),
            scripts: program.through.iter().map(text).collect(),
            preload,
            identity: Box::new(identity),
        })
    })
}

fn preloads(contents: &Contents<'_>, program: &EntryPoint, identity: &Identity) -> Vec<Preload> {
    let list = value_of(&program.environment, LD_PRELOAD).unwrap_or_default();
    let entries = list.split([':', ' ', '\t', '\n']);
    let entries = entries.filter(|entry| !entry.is_empty());
    let preload = |entry: &str| Preload {
        state: state(entry, contents, program, identity),
        entry: entry.to_owned(),
    };
    entries.map(preload).collect()
}

fn state(entry: &str, contents: &Contents<'_>, program: &EntryPoint, identity: &Identity) -> State {
    if identity.kind != Kind::Dynamic {
        return State::Ignored;
    }
    let Some((path, library)) = find(entry, contents, program, identity) else {
        return State::Missing;
    };
    let is_for_both =
        |own: LibcName, other: LibcName| own == other || [own, other].contains(&LibcName::Unknown);
    match identify(&library) {
        Ok(found)
            if found.architecture == identity.architecture
                && is_for_both(found.libc.name, identity.libc.name) =>
        {
            State::Loaded {
                path,
                allocator: allocator(found),
            }
        }
        _ => State::OfAnother,
    }
}

/// The file that the dynamic linker takes for an entry.
fn find(
    entry: &str,
    contents: &Contents<'_>,
    program: &EntryPoint,
    identity: &Identity,
) -> Option<(PathBuf, Opened)> {
    let open = |path: &Path| contents.noting(path);
    let libc = match identity.libc.name {
        LibcName::Musl => Libc::Musl,
        _ => Libc::Glibc,
    };
    if !entry.contains('/') {
        let libraries = Libraries::of_image(open, Vec::new(), &identity.architecture);
        let path = libraries.find_preload(entry, &program.path, libc)?;
        return Some((path.clone(), open(&path)?));
    }
    // Only glibc expands it, and to which of them depends on the distribution.
    let expanded = |directory: &String| {
        let entry = entry.replace("${LIB}", directory);
        entry.replace("$LIB", directory)
    };
    let candidates = match libc {
        Libc::Musl => vec![entry.to_owned()],
        Libc::Glibc => {
            let directories = glibc_library_directories(&identity.architecture);
            directories.iter().map(expanded).collect()
        }
    };
    let mut files = candidates.iter().map(PathBuf::from);
    files.find_map(|path| Some((path.clone(), open(&path)?)))
}

/// The allocator whose malloc a library brings to the program that loads it.
fn allocator(library: Identity) -> Option<Box<FoundAllocator>> {
    let Provider::Allocator { name } = library.malloc.provider else {
        return None;
    };
    let mut found = library.allocators.into_iter();
    found.find(|found| found.name == name).map(Box::new)
}

/// Whose malloc the program gets, if a preload changes that: the program's own code comes first, then the preloads in
/// their order.
fn verdict(identity: &Identity, preload: &[Preload]) -> Option<MallocVerdict> {
    use Provider::{Allocator, OwnCode};
    if let Allocator { .. } | OwnCode = identity.malloc.provider {
        return None;
    }
    let found = preload.iter().find_map(|preload| match &preload.state {
        State::Loaded { path, allocator } => Some((path, allocator.as_ref()?)),
        _ => None,
    });
    let (path, found) = found?;
    Some(MallocVerdict {
        provider: Provider::Library {
            name: found.name.clone(),
            library: path.display().to_string(),
        },
        confidence: Some(found.confidence),
        reason: "the image's configuration sets LD_PRELOAD".to_owned(),
    })
}
