//! Musl libc archives and ELF files as values: read, derive, audit, mark, identify.
//!
//! Bytes in, bytes out: nothing here opens a file, prints, or reads the environment. So tests and fuzzers need only
//! byte slices. The crate derives and links 64-bit little-endian ELF (x86-64 and AArch64).
//!
//! | module | what it knows |
//! |---|---|
//! | [`archive`] | `ar` archives: members in, members out |
//! | [`symbols`] | the symbol table of one relocatable object |
//! | [`rewrite`] | renaming, aliasing and hiding symbols of an object without touching its code |
//! | [`family`] | the names of the malloc family and of what a musl libc hides behind them |
//! | [`derive`](mod@derive) | the derived libc: take the stock allocator out, put another one in, audit |
//! | [`preload_objects`] | the objects of a preload, and what it must export |
//! | [`identify`](mod@identify) | what an ELF file is: kind, libc, allocators, who provides malloc, and how we know |
//! | [`marker`] | the ELF note that says what reheap put in, and whether the program uses it |
//! | [`baked`] | objects that carry baked-in tuning |
//! | [`empty`] | empty libraries for other processors |
//! | [`bindings`] | where a linked file keeps the address of its malloc |
//! | [`imports`] | which functions and versions a library takes from its libc |
//! | [`linkage`] | which libraries and names a linked file takes from others |
//! | [`error`] | why a file cannot be read as ELF |
//! | [`source`] | reading bytes on demand, so that a file of any size needs little memory |
#![forbid(unsafe_code)]

pub mod archive;
pub mod baked;
pub mod bindings;
pub mod derive;
pub mod empty;
pub mod error;
pub mod family;
pub mod identify;
pub mod imports;
pub mod linkage;
pub mod marker;
pub mod preload_objects;
pub mod rewrite;
pub mod sections;
pub mod source;
pub mod symbols;
mod tables;

/// A processor architecture that reheap can derive a libc for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    /// x86-64 (`EM_X86_64`).
    X86_64,
    /// 64-bit Arm, little-endian (`EM_AARCH64`).
    Aarch64,
}

impl Architecture {
    /// Every architecture that reheap links for.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The value of `e_machine` in an ELF header.
    pub fn elf_machine(self) -> u16 {
        match self {
            Self::X86_64 => object::elf::EM_X86_64.0,
            Self::Aarch64 => object::elf::EM_AARCH64.0,
        }
    }

    /// The architecture of an ELF machine number, if reheap knows it.
    pub(crate) fn from_machine(machine: object::elf::Machine) -> Option<Self> {
        match machine {
            object::elf::EM_X86_64 => Some(Self::X86_64),
            object::elf::EM_AARCH64 => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The name as target triples and `uname -m` spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    fn writer_architecture(self) -> object::Architecture {
        match self {
            Self::X86_64 => object::Architecture::X86_64,
            Self::Aarch64 => object::Architecture::Aarch64,
        }
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
