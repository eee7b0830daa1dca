//! From copied pieces of stacks to functions, files and lines.
//!
//! A hook copies three registers and the upper end of the stack (`hooks/capture.c`), because walking frames needs tables
//! that are far too large for a hook: most programs are compiled without frame pointers. So a sample is unwound here:
//!
//! ```text
//! registers + stack ─► Unwinder ─► code addresses ─► SiteTable ─► Symbols ─► profile::Sites
//!                   of a process   in files          merges       names
//! ```
//!
//! A [`CodeAddress`] is a place in a file, not in memory. So stacks of one program merge over processes that have it at
//! different addresses, and names can be looked up when all processes are gone: [`Modules`] keeps files open.
//!
//! Nothing in a file of a process is trusted: damaged ones give fewer names and shorter stacks. Not read are DWARF in
//! separate `.dwo` files and symbols in `.gnu_debugdata` (xz).

mod branches;
mod debug_files;
mod elf;
mod modules;
mod registers;
mod signed_returns;
mod sites;
mod symbols;
mod unwinder;

pub use elf::{Bytes, Elf};
pub use modules::{Module, ModuleId, Modules};
pub use registers::{Captured, Registers};
pub use reheap_graft::Processor;
pub use sites::{SiteId, SiteTable, Weight};
pub use symbols::Symbols;
pub(crate) use symbols::each_function;
pub use unwinder::{FRAMES_MAX, Stack, StackEnd, Unwinder};

/// The tables of a file that tell how frames are left.
type UnwindSections = framehop::ExplicitModuleSectionInfo<std::sync::Arc<[u8]>>;

/// A place in the code of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeAddress {
    /// Where it is.
    pub module: ModuleId,
    /// The distance from the module's first loaded address; the address itself where memory has no file.
    pub offset: u64,
    /// Whether it is behind a call, as all addresses on stacks are: the call may be the last instruction of a function, so
    /// names are looked up one byte before.
    pub is_return_address: bool,
}
