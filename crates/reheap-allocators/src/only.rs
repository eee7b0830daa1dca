//! A library that gives a preload to one program only, of all that a command starts (`glue/only.c`).

use crate::cache::Cache;
use crate::catalogue::Glue;
use crate::preload::{self, PreloadError};
use crate::target::Target;
use crate::upstream::Toolchain;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const SOURCE: Glue = Glue {
    name: "reheap-only",
    source: include_str!("../glue/only.c"),
};

/// The library for a target, from the cache or anew.
///
/// # Errors
/// What building a preload can fail with.
pub fn build(
    target: &Target,
    toolchain: &Toolchain,
    cache: &Cache,
) -> Result<PathBuf, PreloadError> {
    preload::build_source(&SOURCE, &[], target, toolchain, cache)
}

/// The same if some compiler has built it before.
pub fn find_built(target: &Target, cache: &Cache) -> Option<PathBuf> {
    preload::find_built_source(&SOURCE, &[], target, cache)
}

/// The variables, beside `LD_PRELOAD` with this library in it, that tell it which program gets which preload.
pub fn environment(program: &OsStr, preload: &Path) -> [(OsString, OsString); 2] {
    [
        ("REHEAP_ONLY".into(), program.to_owned()),
        ("REHEAP_ONLY_LIBRARY".into(), preload.as_os_str().to_owned()),
    ]
}
