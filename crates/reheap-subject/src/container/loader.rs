//! Finds the libraries that the dynamic linker of an image loads into its program.

use super::{Contents, EntryPoint};
use crate::open_file::OpenFile;
use crate::program::libraries::{Closure, Libraries};
use reheap_allocators::preload::glibc_library_directories;
use reheap_allocators::target::Libc;
use reheap_command::env_vars;
use reheap_elf::identify::{Identity, LibcName};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};

/// What loads libraries into a program.
pub struct Loader<'a> {
    /// The image's libraries.
    pub libraries: Libraries<'a>,
    contents: &'a Contents<'a>,
    program: PathBuf,
    architecture: String,
    libc: Libc,
    /// What it loads without a preload.
    closure: OnceCell<Closure>,
}

impl<'a> Loader<'a> {
    /// The loader of a program in an image.
    pub fn new(contents: &'a Contents<'a>, program: &EntryPoint, identity: &Identity) -> Self {
        let variable = program.environment.value("LD_LIBRARY_PATH");
        let named = env_vars::library_directories(variable.unwrap_or_default().as_ref());
        let first = named.filter(|directory| directory.is_absolute()).collect();
        let open = |path: &Path| contents.noting(path);
        Self {
            libraries: Libraries::of_image(open, first, &identity.architecture),
            contents,
            program: program.path.clone(),
            architecture: identity.architecture.clone(),
            libc: match identity.libc.name {
                LibcName::Musl => Libc::Musl,
                _ => Libc::Glibc,
            },
            closure: OnceCell::new(),
        }
    }

    /// The file that the dynamic linker takes for an entry of a list of preloads.
    pub fn find(&self, entry: &str) -> Option<(PathBuf, OpenFile)> {
        let open = |path: PathBuf| Some((path.clone(), self.contents.noting(&path)?));
        if !entry.contains('/') {
            // Once for all entries: layers may be unpacked for it.
            let closure = || self.libraries.closure(&self.program, self.libc);
            let closure = self.closure.get_or_init(closure);
            let path = self.libraries.find_preload(entry, closure, self.libc);
            return open(path?);
        }
        // Only glibc expands it, and to which of them depends on the distribution.
        let expanded = |directory: &String| {
            let entry = entry.replace("${LIB}", directory);
            entry.replace("$LIB", directory)
        };
        let candidates = match self.libc {
            Libc::Musl => vec![entry.to_owned()],
            Libc::Glibc => {
                let directories = glibc_library_directories(&self.architecture);
                directories.iter().map(expanded).collect()
            }
        };
        let mut files = candidates.iter().map(PathBuf::from);
        files.find_map(open)
    }
}
