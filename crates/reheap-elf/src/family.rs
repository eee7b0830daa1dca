//! The names of the malloc family, and what a musl libc hides behind them.
//!
//! To support a libc whose allocator has further names, extend the lists here. No other module lists them.

/// The public functions that a derived libc provides, each once.
///
/// `free_sized` and `free_aligned_sized` are C23 (7.24.3); `reallocarray` is POSIX.1-2024; `pvalloc` and `cfree` are
/// missing because musl does not have them.
pub const PUBLIC: [&str; 12] = [
    "malloc",
    "calloc",
    "realloc",
    "free",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "reallocarray",
    "malloc_usable_size",
    "free_sized",
    "free_aligned_sized",
];

/// The four functions that are aliases of the allocator's own, with no wrapper between.
pub const CORE: [&str; 4] = ["malloc", "calloc", "realloc", "free"];

/// The functions that give aligned blocks. A marker names them after those of [`CORE`].
pub const ALIGNED: [&str; 4] = ["aligned_alloc", "posix_memalign", "memalign", "valloc"];

/// The names under which musl (since 1.2.2) calls its own allocator, so that a program's own malloc never sees the
/// libc's blocks: those of `atexit`, `aio`, `dlerror`, locales, time zones, `posix_spawn_file_actions_*` and others.
pub const LIBC_INTERNAL: [&str; 4] = [
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_free",
];

/// Symbols inside musl's allocators: mallocng (musl 1.2.1 and later), then the old malloc.
pub const STOCK: [&str; 7] = [
    "__libc_malloc_impl",
    "__malloc_context",
    "__malloc_alloc_meta",
    "__malloc_donate",
    "__bin_chunk",
    "__expand_heap",
    "__simple_malloc",
];

/// The prefix of every global symbol of an allocator. With it, a program may bring the same allocator again.
pub const PREFIX: &str = "__reheap_";

/// The name of the allocator's own implementation of a family function in a derived libc.
pub fn own_name(function: &str) -> String {
    format!("{PREFIX}{function}")
}

/// The name of the allocator's implementation of a function that the glue defines in its place, and calls.
pub fn inner_name(function: &str) -> String {
    format!("{PREFIX}inner_{function}")
}

/// The function that an [`inner_name`] is of.
pub fn of_inner_name(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX)?.strip_prefix("inner_")
}

/// Whether a member that defines this symbol belongs to the libc's allocator.
pub fn belongs_to_the_allocator(symbol: &str) -> bool {
    PUBLIC.contains(&symbol) || LIBC_INTERNAL.contains(&symbol) || STOCK.contains(&symbol)
}

/// Whether C reserves the name for the implementation (C11 7.1.3). Such a symbol is not part of a libc's interface.
pub fn is_reserved(symbol: &str) -> bool {
    symbol.starts_with("__")
}
