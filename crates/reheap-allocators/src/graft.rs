//! Libraries in the cache that go into finished executables.
//!
//! Such a library has an allocator's objects and glue, as a preload does, and in place of a libc the few functions that they
//! need (`glue/graft.c`). So it needs nobody else's symbols, and `reheap_graft` can copy it into a program.

use crate::cache::{Cache, hash};
use crate::catalogue::Allocator;
use crate::link_kind::LinkKind;
use crate::memory::{self, MemoryFunctions};
use crate::preload::{self, PreloadError};
use crate::target::{Architecture, Libc, Target};
use crate::upstream::{self, Toolchain};
use std::path::{Path, PathBuf};

/// Where the library keeps how far the program's `errno` is from the thread pointer.
pub const ERRNO_AT: &str = "__reheap_program_errno_at";

/// Its realloc for programs with glibc.
pub const REALLOC_OF_GLIBC: &str = "__reheap_realloc_of_glibc";

/// The names that such a library has beside the family.
fn exports() -> Vec<&'static str> {
    let mut names = reheap_elf::family::PUBLIC.to_vec();
    names.extend(["pvalloc", ERRNO_AT, REALLOC_OF_GLIBC]);
    names.extend(["memcpy", "memmove", "memset"]);
    names
}

/// Nothing of the compiler's own but its arithmetic.
const LINK_FLAGS: [&str; 1] = ["-nostdlib"];
/// The objects of reheap-mem with these functions.
const MEMORY_OBJECTS: [&str; 3] = ["copy.o", "level.o", "set.o"];
const LIBRARIES: [&str; 1] = ["-lgcc"];

/// Whether there is such a library of an allocator for the target. It is built for musl, and the same for both libcs.
pub fn exists(allocator: &Allocator, target: &Target) -> bool {
    let recipe = allocator.build.as_ref();
    let can_be_grafted = recipe.is_some_and(|recipe| recipe.graft.is_ok());
    can_be_grafted && (target.arch(), target.libc()) == (Architecture::X86_64, Libc::Musl)
}

/// The library of an allocator, built now or taken from the cache.
///
/// # Errors
/// As those of [`preload::build`].
pub fn build(
    allocator: &'static Allocator,
    target: &Target,
    toolchain: &Toolchain,
    cache: &Cache,
) -> Result<PathBuf, PreloadError> {
    let file_name = preload::file_name(allocator);
    let entry = entry_name(allocator, target, toolchain);
    let is_whole = |entry: &Path| preload::is_whole(&entry.join(&file_name));
    let directory = cache.whole_entry("grafts", &entry, is_whole, |unfinished| {
        let built = upstream::build(allocator, target, LinkKind::Graft, toolchain, cache)?;
        let mut members = preload::members(allocator, target, &built)?;
        let whose = MemoryFunctions::Fast;
        if let Some(functions) = memory::build(whose, target, toolchain, cache)? {
            let objects = functions.members()?.into_iter();
            members.extend(objects.filter(|object| MEMORY_OBJECTS.contains(&object.name.as_str())));
        }
        let flags = LINK_FLAGS.map(str::to_owned);
        preload::link(
            &members,
            &file_name,
            &exports(),
            &flags,
            &LIBRARIES,
            toolchain,
            unfinished,
        )
    })?;
    Ok(directory.join(file_name))
}

/// Whether the cache has the library, so that [`build`] returns at once.
pub fn is_built(
    allocator: &'static Allocator,
    target: &Target,
    toolchain: &Toolchain,
    cache: &Cache,
) -> bool {
    let entry = cache
        .root()
        .join("grafts")
        .join(entry_name(allocator, target, toolchain));
    preload::is_whole(&entry.join(preload::file_name(allocator)))
}

fn entry_name(allocator: &'static Allocator, target: &Target, toolchain: &Toolchain) -> String {
    let recipe = allocator.build.as_ref();
    let built = recipe.map_or_else(String::new, |recipe| {
        upstream::entry_name(allocator, recipe, target, LinkKind::Graft, toolchain)
    });
    let key = hash([built.as_bytes(), key(allocator, target).as_bytes()]);
    format!("{}-{target}-{}", allocator.stem(), &key[..16])
}

/// A hash of everything that goes into the library, except the compilers.
pub(crate) fn key(allocator: &Allocator, target: &Target) -> String {
    let recipe = allocator.build.as_ref();
    let parts = [
        recipe.map_or_else(String::new, |recipe| {
            upstream::ingredients_for(recipe, LinkKind::Graft, target)
        }),
        memory::key(MemoryFunctions::Fast, target.arch()).unwrap_or_default(),
        preload::key(allocator, target),
        exports().join(" "),
        [LINK_FLAGS, LIBRARIES].concat().join(" "),
    ];
    hash(parts.iter().map(String::as_bytes))
}
