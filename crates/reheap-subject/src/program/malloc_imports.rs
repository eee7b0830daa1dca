//! Finds which files of a program import malloc: only those can get their blocks from a preload.
//!
//! A stripped program with a statically linked allocator and hidden names shows no trace of that allocator. But it has
//! a list of the names that it imports, and malloc is not among them. The opposite does not hold: many small programs
//! really allocate nothing. So this is a remark, not an obstacle.

use super::libraries::Libraries;
use super::linked::is_operator;
use reheap_allocators::target::Libc;
use reheap_elf::family;
use reheap_elf::linkage;
use std::path::Path;

/// The libraries, other than the libc, that import functions of the malloc family if the program itself imports none;
/// `None` if it does, or if reheap cannot see.
pub(super) fn only_of_libraries(
    program: &Path,
    libc: Libc,
    libraries: &Libraries<'_>,
) -> Option<Vec<String>> {
    if imports_malloc(program, libraries)? {
        return None;
    }
    let closure = libraries.closure(program, libc);
    if !closure.missing.is_empty() {
        return None; // one of those may import it
    }
    let others = closure.loaded.iter().skip(1);
    let importers = others
        .filter(|library| !library.name.starts_with("libc.so"))
        .filter(|library| imports_malloc(&library.path, libraries) == Some(true));
    Some(importers.map(|library| library.name.clone()).collect())
}

fn imports_malloc(file: &Path, libraries: &Libraries<'_>) -> Option<bool> {
    let mut found = false;
    let file = libraries.open(file)?;
    linkage::for_each_taken_name(&file, &mut |name| {
        found |= is_of_the_family(std::str::from_utf8(name).unwrap_or_default());
    })
    .ok()??;
    Some(found)
}

fn is_of_the_family(name: &str) -> bool {
    const OF_GLIBC: [&str; 2] = ["pvalloc", "cfree"];
    family::PUBLIC.contains(&name)
        || family::LIBC_INTERNAL.contains(&name)
        || OF_GLIBC.contains(&name)
        || is_operator(name)
}
