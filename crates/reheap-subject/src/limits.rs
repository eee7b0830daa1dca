//! Finds limits that leave an allocator too little address space: those of `ulimit -v` and `ulimit -d`.
//!
//! Allocators reserve more than they use. If the limit is too low for that, one aborts when the program starts, and
//! another never returns a block. A dynamic linker that cannot load a library goes on without it. None of them says
//! why. Limits are inherited, so reheap can look at its own.

use crate::program::Program;
use reheap_allocators::catalogue::{Allocator, CATALOGUE};
use reheap_allocators::target::Libc;
use rustix::process::{Resource, getrlimit};
use std::fmt;

/// A limit that leaves a program with the allocator nothing, or so little that it may not be enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    allocator: &'static str,
    needed_bytes: u64,
    /// What the files of the program need.
    mapped_bytes: u64,
    limit: Limit,
    libc: Libc,
}

/// Less than this may be too little. Beside its files and what the allocator reserves, `true` needs up to 1 MiB, `ls`
/// up to 3 and Python for a program of one line up to 21, with the allocator that needs most (`ulimit -v`, found by
/// bisection).
const ENOUGH_BYTES: u64 = 32 << 20;

/// One of the two limits that reserved memory counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    bytes: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    AddressSpace,
    Data,
}

/// The limit of this process that leaves too little for the allocator in this program.
pub fn shortage(allocator: &'static Allocator, program: &Program, libc: Libc) -> Option<Shortage> {
    if allocator.address_space.bytes(libc) == 0 {
        return None; // the libc's own
    }
    let shortage = |limit: Limit| Shortage {
        allocator: allocator.name,
        needed_bytes: limit.kind.taken_by(allocator, libc),
        mapped_bytes: match limit.kind {
            Kind::AddressSpace => program.mapped_bytes(),
            Kind::Data => 0, // most of a file is code and constants
        },
        limit,
        libc,
    };
    let shortages = limits().map(shortage);
    let worst = shortages.min_by_key(Shortage::left_bytes)?;
    (worst.left_bytes() < Some(ENOUGH_BYTES)).then_some(worst)
}

/// The limits that are set. RLIMIT_DATA counts private writable mappings since Linux 4.7.
fn limits() -> impl Iterator<Item = Limit> {
    let limit = |(resource, kind)| {
        let bytes = getrlimit(resource).current?;
        Some(Limit { bytes, kind })
    };
    let limits = [
        (Resource::As, Kind::AddressSpace),
        (Resource::Data, Kind::Data),
    ];
    limits.into_iter().filter_map(limit)
}

/// The limit of address space in bytes, if there is one.
pub fn address_space_bytes() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// The lower limit of address space in bytes, if there is one.
pub fn lowest_bytes() -> Option<u64> {
    limits().map(|limit| limit.bytes).min()
}

impl Shortage {
    /// Whether the program cannot even start.
    pub fn prevents_start(&self) -> bool {
        self.left_bytes().is_none()
    }

    /// What the limit leaves for everything else; `None` if it is too low for the files and the allocator.
    fn left_bytes(&self) -> Option<u64> {
        let taken = self.needed_bytes.saturating_add(self.mapped_bytes);
        self.limit.bytes.checked_sub(taken)
    }

    /// What to do about it.
    pub fn way_out(&self) -> String {
        let flag = self.limit.kind.flag();
        let fits = |row: &&Allocator| {
            let taken = self.limit.kind.taken_by(row, self.libc) + self.mapped_bytes;
            row.build.is_some() && taken < self.limit.bytes / 2
        };
        let fitting: Vec<&str> = CATALOGUE.iter().filter(fits).map(|row| row.name).collect();
        match fitting.first() {
            Some(name) => format!(
                "choose an allocator that reserves less, such as `-a {name}`, or raise the limit with `ulimit {flag}`"
            ),
            None => format!("raise the limit with `ulimit {flag}`"),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needed, limit) = (shown(self.needed_bytes), shown(self.limit.bytes));
        let (allocator, flag) = (self.allocator, self.limit.kind.flag());
        let of = match self.limit.kind {
            Kind::AddressSpace => "address space",
            Kind::Data => "data",
        };
        write!(
            f,
            "{allocator} reserves {needed} of address space when the program starts, "
        )?;
        // If the allocator alone is too big, the program does not matter.
        if self.mapped_bytes > 0 && self.needed_bytes <= self.limit.bytes {
            let mapped = shown(self.mapped_bytes);
            write!(f, "the program and its libraries need {mapped}, ")?;
        }
        write!(f, "and the {of} limit is {limit} (`ulimit {flag}`)")?;
        match self.left_bytes() {
            Some(left) => write!(f, ": only {} are left", shown(left)),
            None => Ok(()),
        }
    }
}

impl Kind {
    /// How much of such a limit an allocator takes before a program's first block.
    fn taken_by(self, allocator: &Allocator, libc: Libc) -> u64 {
        let reserved = allocator.address_space;
        match self {
            Self::Data if !reserved.counts_as_data => 0,
            Self::Data | Self::AddressSpace => reserved.bytes(libc),
        }
    }

    /// The flag of the shell's `ulimit`.
    fn flag(self) -> &'static str {
        match self {
            Self::AddressSpace => "-v",
            Self::Data => "-d",
        }
    }
}

/// A size in the largest unit of which it has at least ten, or a whole number.
pub fn shown(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = |(_, shift): &&(&str, u32)| {
        let one = 1_u64 << shift;
        bytes >= 10 * one || (bytes >= one && bytes.is_multiple_of(one))
    };
    match units.iter().find(fits) {
        Some((unit, shift)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_a_unit_that_keeps_their_meaning() {
        assert_eq!(shown(256 << 30), "256 GiB");
        assert_eq!(shown(32_000_000 << 10), "30 GiB");
        assert_eq!(shown(2 << 20), "2 MiB");
        assert_eq!(shown(30_000 << 10), "29 MiB");
        assert_eq!(shown(1_500 << 10), "1500 KiB");
        assert_eq!(shown(1), "1 bytes");
    }
}
