//! Finds whose malloc the program of a container image gets: its own, that of a library that the image preloads, or the
//! libc's. The program is the one that `reheap image --add` judges: what a shell or an init program
//! starts in its own place.

use super::file::FileError;
use super::hardening::identify;
use super::preload::{Passing, Preload, State};
use super::report::Report;
use crate::container::{self, ContainerError, Contents, EntryPoint, Loader, Preloaded};
use crate::remote::{self, Remote};
use reheap_elf::identify::{FoundAllocator, Identity, Kind, LibcName, MallocVerdict, Provider};
use reheap_image::Workplace;
use reheap_image::read::{self, Location, StoredImage, Wanted};
use std::path::PathBuf;

/// Looks at the program that an image in a file or a directory starts.
pub(crate) fn inspect(location: &Location, file: String) -> Result<Report, FileError> {
    let find = |workplace: &Workplace<'_>| {
        let image = read::open(location, Wanted::First, workplace);
        Ok(image.map_err(ContainerError::from)?)
    };
    inspect_found(find, file)
}

/// Looks at the program that an image in a registry starts.
pub(crate) fn inspect_remote(name: &str) -> Result<Report, FileError> {
    let find = |workplace: &Workplace<'_>| {
        let pull = || {
            let remote = Remote::new(name.parse()?, false)?;
            remote::pull(&remote, Wanted::First, workplace)
        };
        pull().map_err(FileError::Registry)
    };
    inspect_found(find, name.to_owned())
}

fn inspect_found(
    find: impl FnOnce(&Workplace<'_>) -> Result<StoredImage, FileError>,
    file: String,
) -> Result<Report, FileError> {
    container::look_into(find, |contents| {
        let program = contents.main_program()?;
        let mut identity = identify(&program.file).map_err(|error| FileError::EntryPoint {
            path: program.path.clone(),
            error,
        })?;
        let preload = preloads(contents, &program, &identity)?;
        contents.noted()?;
        if let Some(verdict) = verdict(&identity, &preload) {
            identity.malloc = verdict;
        }
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        let environment = &program.environment;
        Ok(Report::Container {
            file,
            passing: Passing {
                preload_change: environment.change().map(str::to_owned),
                preload_unknown: environment.unknown().map(str::to_owned),
                warnings: environment.doubts(),
                proof: program.proof(),
            },
            entry_point: text(&program.path),
            scripts: program.through.iter().map(text).collect(),
            preload,
            identity: Box::new(identity),
        })
    })
}

fn preloads(
    contents: &Contents<'_>,
    program: &EntryPoint,
    identity: &Identity,
) -> Result<Vec<Preload>, ContainerError> {
    let loader = Loader::new(contents, program, identity);
    let preload = |preloaded: Preloaded| Preload {
        state: match identity.kind {
            Kind::Dynamic => state(&preloaded.name, identity, &loader),
            _ => State::Ignored,
        },
        entry: preloaded.name,
        list: preloaded.list,
    };
    Ok(contents
        .preloads(&program.environment, identity)?
        .into_iter()
        .map(preload)
        .collect())
}

/// What becomes of an entry of a dynamic program.
fn state(entry: &str, identity: &Identity, loader: &Loader<'_>) -> State {
    let Some((path, library)) = loader.find(entry) else {
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
        State::Loaded { path, allocator } => Some((preload.list, path, allocator.as_ref()?)),
        _ => None,
    });
    let (list, path, found) = found?;
    Some(MallocVerdict {
        provider: Provider::Library {
            name: found.name.clone(),
            library: path.display().to_string(),
        },
        confidence: Some(found.confidence),
        reason: format!("the image preloads it through {list}"),
    })
}
