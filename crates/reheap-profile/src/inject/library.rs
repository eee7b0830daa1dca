//! The hooks library: what reheap expects of it.
//!
//! reheap does not let the program's dynamic linker load it: a static program has none, and a running one may hold the
//! lock of its own.

use reheap_graft::{Library, LibraryError, Processor, Protection};
use std::ops::Range;

/// What the name of a hook begins with; the rest is the function's name.
const HOOK: &str = "reheap_hook_";
/// What the name of the pointer to the function behind a hook begins with.
const NEXT: &str = "reheap_next_";
/// The function that opens the recording.
const ATTACH: &str = "reheap_hooks_attach";

/// A parsed hooks library.
#[derive(Debug, Clone)]
pub struct HooksLibrary {
    library: Library,
    attach: u64,
}

impl HooksLibrary {
    /// Reads a shared library that follows the contract of the hooks.
    ///
    /// # Errors
    /// When the bytes are not such a library.
    pub fn parse(bytes: &[u8]) -> Result<Self, LibraryError> {
        let library = Library::parse(bytes)?;
        if library.thread_local().is_some() {
            return Err(LibraryError::Needs("thread-local memory".to_owned()));
        }
        let attach = library.symbol(ATTACH).ok_or(LibraryError::Lacks(ATTACH))?;
        Ok(Self { library, attach })
    }

    /// The processor that it is for.
    pub fn processor(&self) -> Processor {
        self.library.processor()
    }

    /// How much address space it takes.
    pub(crate) fn span_bytes(&self) -> u64 {
        self.library.span_bytes()
    }

    /// The address of a function's hook, from the library's base.
    pub(crate) fn hook(&self, name: &str) -> Option<u64> {
        self.library.symbol(&format!("{HOOK}{name}"))
    }

    /// The address of the pointer to the function behind a hook, from the library's base.
    pub(crate) fn next(&self, name: &str) -> Option<u64> {
        self.library.symbol(&format!("{NEXT}{name}"))
    }

    /// The address of the function that opens the recording, from the library's base.
    pub(crate) fn attach(&self) -> u64 {
        self.attach
    }

    /// Which parts may be read, written and executed; the rest of the span is readable.
    pub(crate) fn protections(&self) -> &[(Range<u64>, Protection)] {
        self.library.protections()
    }

    /// The bytes of the whole span, relocated to `base`.
    pub(crate) fn image_at(&self, base: u64) -> Vec<u8> {
        self.library.image_at(base)
    }
}
