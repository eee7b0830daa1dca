//! The processors for which there are hooks and jumps to them.

use object::elf;

/// A processor whose programs can get hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Architecture {
    /// That of an ELF machine number.
    pub(crate) fn from_machine(machine: elf::Machine) -> Option<Self> {
        match machine {
            elf::EM_X86_64 => Some(Self::X86_64),
            elf::EM_AARCH64 => Some(Self::Aarch64),
            _ => None,
        }
    }
}
