//! The canary: a program that is started with a preload before a whole system is, and shows whether it works
//! (`glue/canary.c`).

use crate::cache::Cache;
use crate::catalogue::Glue;
use crate::preload::{self, PreloadError};
use crate::target::Target;
use crate::upstream::Toolchain;
use std::path::PathBuf;

const SOURCE: Glue = Glue {
    name: "reheap-canary",
    source: include_str!("../glue/canary.c"),
};
const ENTRY_POINT: &str = "reheap_canary";

/// The canary for a target, from the cache or anew: a file to name to the libc's dynamic linker.
///
/// # Errors
/// What building a preload can fail with.
pub fn build(
    target: &Target,
    toolchain: &Toolchain,
    cache: &Cache,
) -> Result<PathBuf, PreloadError> {
    preload::build_program(&SOURCE, ENTRY_POINT, target, toolchain, cache)
}
