//! Limits of a process that leave an allocator too little address space: what `ulimit -v` and `ulimit -d` set.
//!
//! Allocators reserve more than they use. Where the limit is too low for that, one aborts when the program starts, another
//! gives no block ever, and a dynamic linker that cannot load a library goes on without it. None of them says why. Limits
//! are inherited, so those of this process tell.

use reheap_allocators::catalogue::{Allocator, CATALOGUE};
use reheap_allocators::target::Libc;
use rustix::process::{Resource, getrlimit};
use std::fmt;

/// A limit under which no program can start with the allocator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TooLow {
    allocator: &'static str,
    needed_bytes: u64,
    limit: Limit,
    libc: Libc,
}

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

/// The limit of this process that the allocator cannot start under in a program of that libc, if there is one.
pub(crate) fn too_low(allocator: &'static Allocator, libc: Libc) -> Option<TooLow> {
    let limit = lowest()?;
    let needed_bytes = allocator.address_space.bytes(libc);
    (limit.bytes < needed_bytes).then_some(TooLow {
        allocator: allocator.name,
        needed_bytes,
        limit,
        libc,
    })
}

/// The lower one of the two, if there is any. RLIMIT_DATA counts private writable mappings since Linux 4.7.
fn lowest() -> Option<Limit> {
    let limit = |resource, kind| {
        let bytes = getrlimit(resource).current?;
        Some(Limit { bytes, kind })
    };
    [
        limit(Resource::As, Kind::AddressSpace),
        limit(Resource::Data, Kind::Data),
    ]
    .into_iter()
    .flatten()
    .min_by_key(|limit| limit.bytes)
}

/// The lower limit of address space in bytes, if there is one.
pub(crate) fn lowest_bytes() -> Option<u64> {
    Some(lowest()?.bytes)
}

impl TooLow {
    /// What to do about it.
    pub(crate) fn way_out(&self) -> String {
        let flag = self.limit.kind.flag();
        let fits = |row: &&Allocator| {
            row.build.is_some() && row.address_space.bytes(self.libc) < self.limit.bytes / 2
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

impl fmt::Display for TooLow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (needed, limit) = (shown(self.needed_bytes), shown(self.limit.bytes));
        let (allocator, flag) = (self.allocator, self.limit.kind.flag());
        let of = match self.limit.kind {
            Kind::AddressSpace => "address space",
            Kind::Data => "data",
        };
        write!(
            f,
            "{allocator} reserves {needed} of address space when the program starts, and the limit of {of} is {limit} (`ulimit {flag}`)"
        )
    }
}

impl Kind {
    /// Of the shell's `ulimit`.
    fn flag(self) -> &'static str {
        match self {
            Self::AddressSpace => "-v",
            Self::Data => "-d",
        }
    }
}

/// A size in the largest unit that leaves at least ten of it, or exactly some.
pub(crate) fn shown(bytes: u64) -> String {
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
