//! The objects of a built allocator, from the cache or from a prebuilt archive.

use crate::cache::{CONTENTS, CacheError};
use crate::catalogue::{Allocator, Recipe};
use crate::link_kind::LinkKind;
use crate::verified::Found;
use reheap_elf::archive::Member;
use reheap_elf::derive::AllocatorObjects;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A built allocator.
#[derive(Debug, Clone)]
pub struct BuiltAllocator {
    pub(crate) place: Place,
    pub(crate) recipe: &'static Recipe,
    pub(crate) kind: LinkKind,
}

/// Where built objects are.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// In an entry of the cache.
    Cache(PathBuf),
    /// In a prebuilt archive.
    Prebuilt(Found),
}

impl Place {
    /// A name that is another one when the objects are others.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Cache(directory) => {
                let name = directory.file_name().unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
            Self::Prebuilt(found) => found.sha256.clone(),
        }
    }
}

/// In a prebuilt archive the names of objects begin with the name of the directory that they have in the cache.
pub(crate) const UPSTREAM: &str = "upstream";
pub(crate) const GLUE: &str = "glue";

impl BuiltAllocator {
    /// One that somebody else built. `None` for `stock`.
    pub(crate) fn prebuilt(
        allocator: &'static Allocator,
        kind: LinkKind,
        found: Found,
    ) -> Option<Self> {
        Some(Self {
            place: Place::Prebuilt(found),
            recipe: allocator.build.as_ref()?,
            kind,
        })
    }

    /// A name that changes with every input of the build.
    pub fn key(&self) -> String {
        self.place.key()
    }

    /// Its objects, to derive a libc with or to link a preload from.
    ///
    /// # Errors
    /// When the objects cannot be read from the cache.
    pub fn objects(&self) -> Result<AllocatorObjects, CacheError> {
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect()
        };
        let mut redirects = pairs(self.recipe.redirects);
        redirects.extend(pairs(self.recipe.additions(self.kind).redirects));
        Ok(AllocatorObjects {
            upstream: self.objects_in(UPSTREAM)?,
            glue: self.objects_in(GLUE)?,
            entry_points: pairs(self.recipe.entry_points),
            redirects,
            interface: self
                .recipe
                .interface
                .iter()
                .map(|&name| name.to_owned())
                .collect(),
        })
    }

    fn objects_in(&self, directory: &str) -> Result<Vec<Member>, CacheError> {
        let found = match &self.place {
            Place::Cache(entry) => return read_objects(&entry.join(directory)),
            Place::Prebuilt(found) => found,
        };
        let members = found.members()?.into_iter();
        let of_directory = members.filter_map(|member| {
            let name = member.name.strip_prefix(directory)?.strip_prefix('-')?;
            Some(Member {
                name: name.to_owned(),
                data: member.data,
            })
        });
        Ok(of_directory.collect())
    }

    /// All its objects, as an archive holds them for another machine.
    pub(crate) fn packed(&self) -> Result<Vec<Member>, CacheError> {
        let mut members = Vec::new();
        for directory in [UPSTREAM, GLUE] {
            for object in self.objects_in(directory)? {
                members.push(Member {
                    name: format!("{directory}-{}", object.name),
                    data: object.data,
                });
            }
        }
        Ok(members)
    }
}

pub(crate) fn read_objects(directory: &Path) -> Result<Vec<Member>, CacheError> {
    let error = || CacheError::new("read", directory);
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(error())? {
        paths.push(entry.map_err(error())?.path());
    }
    paths.retain(|path| !path.ends_with(CONTENTS));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            Ok(Member {
                name: path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                data: fs::read(path).map_err(CacheError::new("read", path))?,
            })
        })
        .collect()
}
