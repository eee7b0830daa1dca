//! Allocators that reheap does not build, and that distributions have as shared libraries. What a system has installed
//! works as any file does that a user names.
//!
//! gperftools' tcmalloc is in no package of the Rust registry with its sources. Google's own is, but children of forks
//! wait for its locks for ever, and it needs a C++ library. So it is no row of the catalogue; `docs/own-allocator.md` says
//! how to build one.

/// An allocator that may be installed.
#[derive(Debug)]
pub struct SystemAllocator {
    /// The name that the user types.
    pub name: &'static str,
    /// The name by which the dynamic linker finds it.
    pub library: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// How to install it.
    pub install: &'static str,
}

/// All of them.
pub const SYSTEM_ALLOCATORS: &[SystemAllocator] = &[SystemAllocator {
    name: "tcmalloc",
    library: "libtcmalloc_minimal.so.4",
    summary: "gperftools', where it is installed",
    install: "apt-get install libtcmalloc-minimal4t64 (before Debian 13 and Ubuntu 24.04: libtcmalloc-minimal4)",
}];

/// The one of that name.
pub fn find(name: &str) -> Option<&'static SystemAllocator> {
    SYSTEM_ALLOCATORS.iter().find(|row| row.name == name)
}
