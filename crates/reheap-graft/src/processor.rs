//! The processors whose programs can get hooks, and whose stacks can be unwound.
//!
//! `reheap_elf::Architecture` has more: a libc is derived for all of those, and needs no code of reheap's own for any.

use object::elf;

/// A processor that reheap can profile programs of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Processor {
    /// x86-64.
    X86_64,
    /// 64-bit Arm, little-endian.
    Aarch64,
}

impl Processor {
    /// The one that this program runs on.
    pub const fn native() -> Self {
        if cfg!(target_arch = "aarch64") {
            Self::Aarch64
        } else {
            Self::X86_64
        }
    }

    /// That of an ELF machine number.
    pub fn from_machine(machine: elf::Machine) -> Option<Self> {
        match machine {
            elf::EM_X86_64 => Some(Self::X86_64),
            elf::EM_AARCH64 => Some(Self::Aarch64),
            _ => None,
        }
    }
}
