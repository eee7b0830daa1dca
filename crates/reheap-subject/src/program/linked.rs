//! Judges programs that are linked with another allocator's shared library, as Debian's Redis is with jemalloc's.
//!
//! The dynamic linker looks a name up in the program, then in the preloads, then in the libraries. So a preload takes
//! the place of such a library for every name of the malloc family, for the program and all its libraries alike. The
//! linked allocator never makes a block, and the program works as with its libc's. That holds as long as no file uses a
//! function of the library that makes, frees or looks at blocks and that the preload lacks: `mallocx`, `mi_malloc`, an
//! `operator new`. This file looks up which names come from which file, in the order of the dynamic linker. A name that
//! is not known to be harmless counts as harmful.

use super::Obstacle;
use super::libraries::{Closure, Libraries};
use reheap_allocators::preload;
use reheap_allocators::target::Libc;
use reheap_elf::identify;
use reheap_elf::linkage::{self, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Allocators whose library may be loaded and idle. A sanitizer's may not: it must come first.
const MAY_BE_IDLE: [&str; 7] = [
    "jemalloc",
    "mimalloc",
    "tcmalloc",
    "rpmalloc",
    "snmalloc",
    "scudo",
    "hardened_malloc",
];

/// Beginnings of names that make, free and look at no block: they ask for sums or change settings of the allocator that
/// they belong to. `nallocx` and tcmalloc's estimate only compute a size. The last ones are of the libc, and allocators watch them.
const HARMLESS: [&str; 38] = [
    "mallctl",
    "malloc_stats",
    "malloc_message",
    "malloc_conf",
    "nallocx",
    "je_mallctl",
    "je_malloc_stats",
    "je_malloc_message",
    "je_malloc_conf",
    "je_nallocx",
    "mi_version",
    "mi_collect",
    "mi_option_",
    "mi_stats_",
    "mi_process_info",
    "mi_thread_stats_",
    "tc_version",
    "tc_malloc_stats",
    "tc_mallinfo",
    "tc_mallopt",
    "MallocExtension_GetNumericProperty",
    "MallocExtension_SetNumericProperty",
    "MallocExtension_GetStats",
    "MallocExtension_MallocMemoryStats",
    "MallocExtension_Release",
    "MallocExtension_MarkThread",
    "MallocExtension_GetThreadCacheSize",
    "MallocExtension_GetEstimatedAllocatedSize",
    "mallinfo",
    "malloc_trim",
    "malloc_info",
    "mallopt",
    "pthread_",
    "mmap",
    "munmap",
    "mremap",
    "sbrk",
    "brk",
];

/// What a preload meets in a program that is linked with an allocator's library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Linked {
    /// There is no such library.
    No,
    /// The preload takes its place.
    Idle {
        library: String,
        allocator: &'static str,
        /// What goes on answering for it.
        asked: Vec<String>,
    },
    /// Something stands in the way.
    InTheWay(Obstacle),
}

/// Inspects a program and everything that is loaded for it.
pub(crate) fn look(program: &Path, libc: Libc, libraries: &Libraries<'_>) -> Linked {
    let closure = libraries.closure(program, libc);
    let allocators: Vec<(usize, &'static str)> = closure
        .loaded
        .iter()
        .enumerate()
        .filter_map(|(index, loaded)| Some((index, identify::allocator_of_library(&loaded.name)?)))
        .collect();
    let Some(&(first, allocator)) = allocators.first() else {
        return Linked::No;
    };
    let library = closure.loaded[first].name.clone();
    if let Some(&(index, _)) = allocators
        .iter()
        .find(|(_, name)| !MAY_BE_IDLE.contains(name))
    {
        let library = &closure.loaded[index].name;
        return Linked::InTheWay(Obstacle::OwnAllocator(format!(
            "it is linked with `{library}`, which does not work behind another allocator"
        )));
    }
    if let Some(missing) = closure.missing.first() {
        return Linked::InTheWay(Obstacle::Unknown(format!(
            "it is linked with `{library}`, but it also needs `{missing}`, which was not found"
        )));
    }
    let Some(taken) = taken(&closure, &allocators, libc, libraries) else {
        return Linked::InTheWay(Obstacle::Unknown(format!(
            "it is linked with `{library}`, but reheap cannot see which functions it uses from there"
        )));
    };
    let is_harmless = |name: &&String| HARMLESS.iter().any(|known| name.starts_with(known));
    match taken.iter().find(|name| !is_harmless(name)) {
        None => Linked::Idle {
            library,
            allocator,
            asked: taken.into_iter().collect(),
        },
        Some(name) if is_operator(name) => Linked::InTheWay(Obstacle::OwnAllocator(format!(
            "its C++ code uses operator new of `{library}`: only its other code would change"
        ))),
        Some(name) => Linked::InTheWay(Obstacle::OwnAllocator(format!(
            "it uses `{name}` of `{library}`: another allocator would free blocks of {allocator}"
        ))),
    }
}

/// C++'s `operator new`, `new[]`, `delete` and `delete[]` in all their forms (Itanium C++ ABI, "Operator Encodings").
pub(super) fn is_operator(name: &str) -> bool {
    ["_Znw", "_Zna", "_Zdl", "_Zda"]
        .iter()
        .any(|operator| name.starts_with(operator))
}

/// The names that other files use from the allocators' libraries and that a preload does not offer; `None` if a file's
/// names cannot be seen.
fn taken(
    closure: &Closure,
    allocators: &[(usize, &'static str)],
    libc: Libc,
    libraries: &Libraries<'_>,
) -> Option<BTreeSet<String>> {
    let is_allocator = |index: usize| allocators.iter().any(|(own, _)| *own == index);
    let of_preload = preload::exports(libc);
    let mut offered = BTreeSet::new();
    for &(index, _) in allocators {
        names(closure, index, libraries, &mut |name, side| {
            if side == Side::Offers && !of_preload.contains(&name) {
                offered.insert(name.to_owned());
            }
        })?;
    }
    let mut taken = BTreeSet::new();
    // The first that offers a name is the one that all get it from.
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for index in 0..closure.loaded.len() {
        names(closure, index, libraries, &mut |name, side| match side {
            _ if !offered.contains(name) => {}
            Side::Offers => {
                first.entry(name.to_owned()).or_insert(index);
            }
            Side::Takes if is_allocator(index) => {}
            Side::Takes => {
                taken.insert(name.to_owned());
            }
        })?;
    }
    taken.retain(|name| first.get(name).is_some_and(|&index| is_allocator(index)));
    Some(taken)
}

fn names(
    closure: &Closure,
    index: usize,
    libraries: &Libraries<'_>,
    visit: &mut dyn FnMut(&str, Side),
) -> Option<()> {
    let file = libraries.open(&closure.loaded[index].path)?;
    let mut visit = |name: &[u8], side: Side| {
        if let Ok(name) = std::str::from_utf8(name) {
            visit(name, side);
        }
    };
    linkage::for_each_name(&file, &mut visit).ok()?
}
