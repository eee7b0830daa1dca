//! Finds where the Rust code of a program allocates, from the objects that it is linked from.

use reheap_elf::symbols::{Symbol, read};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// Where the Rust code of a program allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RustHeap {
    /// Rust's default, the libc's malloc.
    Malloc,
    /// A `#[global_allocator]` of the program.
    Own,
    /// It was optimised beyond recognition.
    Unknown,
}

impl RustHeap {
    /// Looks through the program's own objects for the allocator shim that rustc makes for every program. With Rust's
    /// default allocator the shim defines `__rust_alloc` and forwards it to `__rdl_alloc`; with a `#[global_allocator]`
    /// the crate that sets it defines `__rust_alloc`, and the shim only the symbol below. Fat LTO makes one object of
    /// both.
    pub(super) fn of_objects(objects: impl Iterator<Item = PathBuf>) -> Self {
        const ONLY_IN_THE_SHIM: &str = "__rust_no_alloc_shim_is_unstable";
        let mut heap = RustHeap::Unknown;
        for path in objects {
            // `symbols.o` names everything that a link must keep, in every program.
            let bytes = fs::read(&path).unwrap_or_default();
            let Ok((_, symbols)) = read(&bytes) else {
                continue;
            };
            // Names are mangled: they have a prefix, and the shim's also have a version at the end.
            let mut definitions = symbols.iter().filter(|s| s.role.is_definition());
            let is_shim = definitions.any(|s| s.name.contains(ONLY_IN_THE_SHIM));
            let forwards = |s: &Symbol| s.name.ends_with("__rdl_alloc") && !s.role.is_definition();
            let allocates = |s: &Symbol| s.name.ends_with("__rust_alloc") && s.role.is_definition();
            if is_shim && symbols.iter().any(forwards) {
                return RustHeap::Malloc;
            }
            if !is_shim && symbols.iter().any(allocates) {
                heap = RustHeap::Own;
            }
        }
        heap
    }
}
