//! The processors that reheap derives libcs for, in one table.
//!
//! The ABI supplements of the processors name their relocations: those of x86-64, i386, Arm, AArch64, RISC-V, LoongArch
//! and the 64-bit PowerPC ELFv2 ABI. To add a processor, add a variant and a row. The triples of its targets are in
//! `reheap-allocators/src/target.rs`.

use object::elf;
use object::elf::RelocationType;

/// A processor architecture that reheap can derive a libc for. All of them are little-endian.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum Architecture {
    /// x86-64 (`EM_X86_64`).
    X86_64,
    /// 64-bit Arm, little-endian (`EM_AARCH64`).
    Aarch64,
    /// 64-bit RISC-V (`EM_RISCV`).
    Riscv64,
    /// 64-bit LoongArch (`EM_LOONGARCH`).
    Loongarch64,
    /// 64-bit PowerPC, little-endian (`EM_PPC64`).
    Powerpc64le,
    /// 32-bit x86 (`EM_386`).
    I686,
    /// 32-bit Arm, little-endian (`EM_ARM`).
    Armv7,
}

/// How wide the addresses of an ELF file are (`EI_CLASS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// `ELFCLASS32`.
    Bits32,
    /// `ELFCLASS64`.
    Bits64,
}

impl Class {
    /// The size of an address.
    pub fn word_bytes(self) -> usize {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }

    /// The address that is this far from another; addresses wrap around.
    pub(crate) fn address(self, sum: u64) -> u64 {
        match self {
            Self::Bits32 => sum & u64::from(u32::MAX),
            Self::Bits64 => sum,
        }
    }

    pub(crate) fn of_64_bit(is_64_bit: bool) -> Self {
        if is_64_bit {
            Self::Bits64
        } else {
            Self::Bits32
        }
    }
}

/// How a linker writes the distance from a word to a symbol into that word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Distance {
    /// By one relocation.
    Relative(RelocationType),
    /// By one that adds the symbol's address and one that subtracts the word's own.
    Difference {
        /// Names the symbol.
        add: RelocationType,
        /// Names the place of the word.
        subtract: RelocationType,
    },
}

struct Row {
    architecture: Architecture,
    name: &'static str,
    machine: elf::Machine,
    class: Class,
    writer: object::Architecture,
    /// Writes the address of a symbol.
    address: RelocationType,
    distance: Distance,
}

const TABLE: [Row; Architecture::ALL.len()] = [
    Row {
        architecture: Architecture::X86_64,
        name: "x86_64",
        machine: elf::EM_X86_64,
        class: Class::Bits64,
        writer: object::Architecture::X86_64,
        address: elf::R_X86_64_64,
        distance: Distance::Relative(elf::R_X86_64_PC64),
    },
    Row {
        architecture: Architecture::Aarch64,
        name: "aarch64",
        machine: elf::EM_AARCH64,
        class: Class::Bits64,
        writer: object::Architecture::Aarch64,
        address: elf::R_AARCH64_ABS64,
        distance: Distance::Relative(elf::R_AARCH64_PREL64),
    },
    Row {
        architecture: Architecture::Riscv64,
        name: "riscv64",
        machine: elf::EM_RISCV,
        class: Class::Bits64,
        writer: object::Architecture::Riscv64,
        address: elf::R_RISCV_64,
        distance: Distance::Difference {
            add: elf::R_RISCV_ADD64,
            subtract: elf::R_RISCV_SUB64,
        },
    },
    Row {
        architecture: Architecture::Loongarch64,
        name: "loongarch64",
        machine: elf::EM_LOONGARCH,
        class: Class::Bits64,
        writer: object::Architecture::LoongArch64,
        address: elf::R_LARCH_64,
        distance: Distance::Difference {
            add: elf::R_LARCH_ADD64,
            subtract: elf::R_LARCH_SUB64,
        },
    },
    Row {
        architecture: Architecture::Powerpc64le,
        name: "ppc64le",
        machine: elf::EM_PPC64,
        class: Class::Bits64,
        writer: object::Architecture::PowerPc64,
        address: elf::R_PPC64_ADDR64,
        distance: Distance::Relative(elf::R_PPC64_REL64),
    },
    Row {
        architecture: Architecture::I686,
        name: "i686",
        machine: elf::EM_386,
        class: Class::Bits32,
        writer: object::Architecture::I386,
        address: elf::R_386_32,
        distance: Distance::Relative(elf::R_386_PC32),
    },
    Row {
        architecture: Architecture::Armv7,
        name: "arm",
        machine: elf::EM_ARM,
        class: Class::Bits32,
        writer: object::Architecture::Arm,
        address: elf::R_ARM_ABS32,
        distance: Distance::Relative(elf::R_ARM_REL32),
    },
];

impl Architecture {
    /// Every architecture that reheap links static executables for.
    pub const ALL: [Self; 7] = [
        Self::X86_64,
        Self::Aarch64,
        Self::Riscv64,
        Self::Loongarch64,
        Self::Powerpc64le,
        Self::I686,
        Self::Armv7,
    ];

    /// Those that reheap itself runs on. Only they have preloads and memory functions of reheap's own.
    pub const WITH_PRELOADS: [Self; 2] = [Self::X86_64, Self::Aarch64];

    fn row(self) -> &'static Row {
        let mut rows = TABLE.iter();
        let row = rows.find(|row| row.architecture == self);
        row.expect("a test finds every architecture in the table")
    }

    /// The value of `e_machine` in an ELF header.
    pub fn elf_machine(self) -> u16 {
        self.row().machine.0
    }

    /// How wide its addresses are.
    pub fn class(self) -> Class {
        self.row().class
    }

    /// The architecture of an ELF machine number and a class, if reheap knows it.
    pub(crate) fn from_machine(machine: elf::Machine, class: Class) -> Option<Self> {
        let mut rows = TABLE.iter();
        let row = rows.find(|row| row.machine == machine && row.class == class);
        row.map(|row| row.architecture)
    }

    /// The name as [`crate::identify`] gives it; mostly that of `uname -m`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The relocation that writes a symbol's address.
    pub(crate) fn address_relocation(self) -> RelocationType {
        self.row().address
    }

    /// The relocations that write the distance to a symbol.
    pub(crate) fn distance(self) -> Distance {
        self.row().distance
    }

    /// Those for a function that the program may lack, which is then at address 0.
    ///
    /// mold writes no distance to address 0 into a program that runs at any address, unless the relocation is that of a
    /// call. On x86 a call has a plain distance, of 32 bits with a sign.
    pub(crate) fn distance_to_weak(self) -> Distance {
        match self {
            Self::X86_64 => Distance::Relative(elf::R_X86_64_PLT32),
            Self::I686 => Distance::Relative(elf::R_386_PLT32),
            _ => self.distance(),
        }
    }

    pub(crate) fn writer_architecture(self) -> object::Architecture {
        self.row().writer
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What the objects of one libc have in common.
///
/// `e_flags` name the ABI: on RISC-V and LoongArch that of floating-point arguments, on PowerPC the version. Linkers
/// refuse to mix them. So an object that reheap adds to a libc has the flags of the libc's own objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    /// The processor.
    pub architecture: Architecture,
    /// `e_flags` of the ELF header.
    pub flags: u32,
}

impl From<Architecture> for Platform {
    /// One whose objects have no flags, as those of x86-64 and AArch64.
    fn from(architecture: Architecture) -> Self {
        Self {
            architecture,
            flags: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_has_a_row_and_is_found_by_its_machine() {
        for architecture in Architecture::ALL {
            let row = architecture.row();
            assert_eq!(
                Architecture::from_machine(row.machine, row.class),
                Some(architecture)
            );
        }
    }

    #[test]
    fn x32_is_not_x86_64() {
        assert_eq!(
            Architecture::from_machine(elf::EM_X86_64, Class::Bits32),
            None
        );
    }
}
