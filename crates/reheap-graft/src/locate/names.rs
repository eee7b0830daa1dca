//! The names of what is hooked, and of the symbols where it is.

/// The malloc family by its names in C, which are also the names of the hooks; and the functions by which a program limits
/// its own system calls, because the hooks must make none from then on.
pub(crate) const FAMILY: [&str; 15] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "reallocarray",
    "free_sized",
    "free_aligned_sized",
    "malloc_usable_size",
    "prctl",
    "syscall",
];

/// Those of them that are not of malloc.
pub(super) const THAT_LIMIT: [&str; 2] = ["prctl", "syscall"];

/// The family's functions that make a block by themselves: `reallocarray` is a call of `realloc` everywhere.
pub(super) const THAT_ALLOCATE: [&str; 8] = [
    "malloc",
    "calloc",
    "realloc",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
];

/// A function that reheap's own libc and musl do not have.
pub(super) const NOT_IN_MUSL: &str = "pvalloc";

/// Entry points of one allocator besides the family.
pub(super) struct OwnEntryPoints {
    /// A name that only this allocator has. What is in front of it is the prefix of all.
    pub(super) characteristic: &'static str,
    /// The name of the hook, and of the function without its prefix.
    pub(super) functions: &'static [(&'static str, &'static str)],
}

/// jemalloc's (jemalloc(3), "Non-standard API") and mimalloc's ("mimalloc.h", "Aligned allocation").
pub(super) const OWN_ENTRY_POINTS: [OwnEntryPoints; 2] = [
    OwnEntryPoints {
        characteristic: "sdallocx",
        functions: &[
            ("je_malloc", "malloc"),
            ("je_calloc", "calloc"),
            ("je_realloc", "realloc"),
            ("je_free", "free"),
            ("je_mallocx", "mallocx"),
            ("je_rallocx", "rallocx"),
            ("je_xallocx", "xallocx"),
            ("je_sdallocx", "sdallocx"),
            ("je_dallocx", "dallocx"),
            ("je_aligned_alloc", "aligned_alloc"),
            ("je_posix_memalign", "posix_memalign"),
        ],
    },
    OwnEntryPoints {
        characteristic: "mi_malloc_aligned",
        functions: &[
            ("mi_malloc", "mi_malloc"),
            ("mi_zalloc", "mi_zalloc"),
            ("mi_calloc", "mi_calloc"),
            ("mi_realloc", "mi_realloc"),
            ("mi_free", "mi_free"),
            ("mi_malloc_aligned", "mi_malloc_aligned"),
            ("mi_zalloc_aligned", "mi_zalloc_aligned"),
            ("mi_realloc_aligned", "mi_realloc_aligned"),
        ],
    },
];

/// All names of hooks: of two for one address, the first fits better.
pub(super) const IN_ORDER_OF_FITNESS: [&str; 34] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "reallocarray",
    "free_sized",
    "free_aligned_sized",
    "malloc_usable_size",
    "prctl",
    "syscall",
    "je_malloc",
    "je_calloc",
    "je_realloc",
    "je_free",
    "je_mallocx",
    "je_rallocx",
    "je_xallocx",
    "je_sdallocx",
    "je_dallocx",
    "je_aligned_alloc",
    "je_posix_memalign",
    "mi_malloc",
    "mi_zalloc",
    "mi_calloc",
    "mi_realloc",
    "mi_free",
    "mi_malloc_aligned",
    "mi_zalloc_aligned",
    "mi_realloc_aligned",
];

/// What must not be found alone.
pub(super) const PAIRS: [(&str, &str); 6] = [
    ("malloc", "free"),
    ("calloc", "free"),
    ("realloc", "free"),
    ("free", "malloc"),
    ("je_mallocx", "je_sdallocx"),
    ("mi_malloc_aligned", "mi_free"),
];

/// A name that no other libc has.
pub(super) const ONLY_IN_GLIBC: &str = "__libc_memalign";

/// The family's functions that glibc's `malloc.c` defines.
pub(super) const IN_GLIBC_MALLOC: [&str; 9] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
];

/// Whether a function gets a hook, or is only called by hooks.
pub(crate) fn is_hooked(name: &str) -> bool {
    name != "malloc_usable_size"
}

/// No name that concerns reheap is longer, with whatever an allocator has in front of it.
pub(super) const BYTES_MAX: usize = 128;

/// Both libcs have it (Linux Standard Base, "__errno_location").
pub(super) const ERRNO_LOCATION: &str = "__errno_location";

/// glibc's variable, under the name that no program can have.
pub(super) const ERRNO: &str = "__libc_errno";

/// Whether a symbol of this name may matter here; an executable has a hundred thousand others.
pub(super) fn concerns(name: &str) -> bool {
    const PARTS: [&str; 5] = ["alloc", "free", "memalign", "malloc_usable_size", "dallocx"];
    FAMILY.contains(&name) || name == ERRNO_LOCATION || PARTS.iter().any(|part| name.contains(part))
}
