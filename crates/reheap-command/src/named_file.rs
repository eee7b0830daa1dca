//! Allocators that are in a file: `./libmine.so`, `system:libtcmalloc_minimal.so.4`, or `tcmalloc`, which is short for
//! that.
//!
//! A name with a slash is a path, as for the commands of a shell, so no file can hide an allocator of the catalogue.

use crate::ui::Failure;
use reheap_allocators::catalogue::system;
use reheap_allocators::load;
use std::path::{Path, PathBuf};

/// What is in front of the name of a library that the dynamic linker finds.
const SYSTEM: &str = "system:";
/// A program that every system has, and that its dynamic linker starts.
const SHELL: &str = "/bin/sh";

/// Whether a name leads to a file.
pub fn is_one(name: &str) -> bool {
    name.contains('/') || name.starts_with(SYSTEM) || system::find(name).is_some()
}

/// Whether a name that does not looks like that of a library.
pub(crate) fn looks_like_one(name: &str) -> bool {
    name.ends_with(".a") || name.ends_with(".so") || name.contains(".so.")
}

/// Where the file of such a name is. A path starts at a directory.
pub(crate) fn locate(name: &str, directory: &Path) -> Result<PathBuf, Failure> {
    match (system::find(name), name.strip_prefix(SYSTEM)) {
        (Some(known), _) => {
            let path = in_system(known.library);
            path.map_err(|failure| failure.hint(known.install))
        }
        (None, Some(library)) => in_system(library),
        (None, None) => Ok(directory.join(name)),
    }
}

/// Where the dynamic linker of this system's programs finds a library.
fn in_system(library: &str) -> Result<PathBuf, Failure> {
    load::find(library, Path::new(SHELL)).ok_or_else(|| {
        let text = format!("cannot find `{library}`: the dynamic linker of `{SHELL}` knows none");
        Failure::failed(text)
    })
}
