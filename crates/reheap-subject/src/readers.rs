//! What the fuzz targets call of the program itself: readers of bytes that others chose, as functions.

use crate::inspect;
use crate::program::libraries;
use crate::program::script::{self, Line};
use reheap_image::read::Location;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The interpreter, or the `env`, that the first line of a file names, if it names one.
pub fn interpreter(beginning: &[u8]) -> Option<OsString> {
    match script::read(beginning) {
        Line::Interpreter(path) | Line::Env { env: path, .. } => Some(path),
        Line::Elf | Line::Text | Line::Binary => None,
    }
}

/// The libraries for this processor in the bytes of an `ld.so.cache`, by name.
pub fn listed_libraries(cache: &[u8]) -> HashMap<String, PathBuf> {
    libraries::cached(cache, std::env::consts::ARCH).unwrap_or_default()
}

/// Whether `reheap inspect` can tell the malloc of the program in an image.
pub fn has_a_malloc(image: &Path) -> bool {
    inspect::image::inspect(&Location::new(image), String::new()).is_ok()
}
