//! What allocators of the catalogue are known not to work with, and the address space that the hardened ones reserve.

use super::{AddressSpace, MissingOn};
use crate::target::Architecture;

pub(super) const MIMALLOC_3_LIMITS: &[&str] = &[
    "a thread that starts when no memory is left may crash in `realloc` of another thread's block",
];
pub(super) const SNMALLOC_CHECKS_LIMITS: &[&str] = &[
    "needs a C++20 compiler to build",
    "when memory runs out while a thread ends, it may end the program instead of returning NULL",
    "where memory cannot be made accessible, as under `ulimit -d`, it ends the program",
];
pub(super) const SNMALLOC_LIMITS: &[&str] = SNMALLOC_CHECKS_LIMITS.split_at(2).0;
// For each of four arenas and 49 size classes 64 GiB for blocks, and 768 or 512 MiB for their metadata. Random gaps add
// up to 128 GiB.
pub(super) const HARDENED_MALLOC_ADDRESS_SPACE: AddressSpace =
    AddressSpace::inaccessible(12_690 << 10);
pub(super) const HARDENED_MALLOC_LIGHT_ADDRESS_SPACE: AddressSpace =
    AddressSpace::inaccessible(12_640 << 10);
pub(super) const HARDENED_MALLOC_LIMITS: &[&str] = &[
    "works only with pages of 4 KiB",
    "each slab has a guard region of its own: under the kernel's usual limit of 65,530 mappings, malloc fails after about 100 MiB in blocks of 64 bytes (raise vm.max_map_count)",
    "a fork takes longer, because the kernel copies all mappings",
    "freed blocks keep their addresses for a while, also under `ulimit -v`, which does not limit small blocks",
];
pub(super) const HARDENED_MALLOC_LIGHT_LIMITS: &[&str] = &[
    HARDENED_MALLOC_LIMITS[0],
    "one in eight slabs is a guard region: under the kernel's usual limit of 65,530 mappings, malloc fails after about 800 MiB in blocks of 64 bytes (raise vm.max_map_count)",
    HARDENED_MALLOC_LIMITS[3],
];
pub(super) const HARDENED_MALLOC_MISSING_ON: &[MissingOn] = &[
    MissingOn {
        architectures: &[Architecture::I686, Architecture::Armv7],
        reason: "it computes with 128-bit integers, which compilers do not have on 32-bit processors, and it reserves more addresses than these have",
    },
    MissingOn {
        architectures: &[Architecture::Riscv64],
        reason: "it reserves 12 TiB of addresses, and most RISC-V processors give a program 256 GiB (Sv39)",
    },
    MissingOn {
        architectures: &[Architecture::Loongarch64, Architecture::Powerpc64le],
        reason: "it works only with pages of 4 KiB, and kernels for these processors have pages of 16 or 64 KiB",
    },
];
pub(super) const SNMALLOC_MISSING_ON: &[MissingOn] = &[MissingOn {
    architectures: &[Architecture::Loongarch64],
    reason: "version 0.7.6 has no code for LoongArch, and does not compile",
}];
