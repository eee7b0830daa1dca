//! Sums up where the memory of a process is: resident by kind, heap, arenas, huge pages.
//!
//! Arenas of glibc have no names by default, but a shape (glibc `malloc/arena.c`): each heap of a thread's arena begins
//! at a multiple of 64 MiB and keeps that much address space, of which the unused end is not accessible. Other
//! allocators name their mappings, as does glibc with its tunable `glibc.mem.decorate_maps`; those names are shown as
//! they are.

use crate::maps::Mapping;
use crate::status::Status;
use serde::Serialize;
use std::collections::BTreeMap;

/// Sizes in bytes; `None` where the kernel does not tell.
#[derive(Debug, Default, Serialize)]
pub struct Memory {
    /// Resident now.
    pub resident_bytes: Option<u64>,
    /// The most that was resident at any time.
    pub resident_bytes_max: Option<u64>,
    /// Resident heaps, stacks and other memory without a file.
    pub anonymous_bytes: Option<u64>,
    /// Resident code and other contents of files.
    pub file_bytes: Option<u64>,
    /// Resident memory shared with other processes.
    pub shared_bytes: Option<u64>,
    /// Swapped out.
    pub swapped_bytes: Option<u64>,
    /// Resident in transparent huge pages.
    pub huge_page_bytes: u64,
    /// Huge pages that were set aside for it (hugetlbfs).
    pub reserved_huge_page_bytes: Option<u64>,
    /// Whether it may get transparent huge pages at all.
    pub huge_pages_allowed: Option<bool>,
    /// Areas that have to do with allocation.
    pub areas: Vec<Area>,
}

/// Mappings of one kind together.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Area {
    /// What they are.
    pub name: String,
    /// How many.
    pub count: usize,
    /// Their address space.
    pub mapped_bytes: u64,
    /// What of it is resident.
    pub resident_bytes: u64,
}

impl Memory {
    /// Sums up mappings.
    pub fn of(status: &Status, mappings: &[Mapping]) -> Self {
        Self {
            resident_bytes: status.bytes("VmRSS"),
            resident_bytes_max: status.bytes("VmHWM"),
            anonymous_bytes: status.bytes("RssAnon"),
            file_bytes: status.bytes("RssFile"),
            shared_bytes: status.bytes("RssShmem"),
            swapped_bytes: status.bytes("VmSwap"),
            huge_page_bytes: mappings.iter().map(|mapping| mapping.huge_bytes).sum(),
            reserved_huge_page_bytes: status.bytes("HugetlbPages"),
            huge_pages_allowed: status.field("THP_enabled").map(|value| value == "1"),
            areas: areas(mappings),
        }
    }
}

/// The heap of brk(2), arenas of glibc, and everything that has a name.
fn areas(mappings: &[Mapping]) -> Vec<Area> {
    let mut areas: BTreeMap<String, Area> = BTreeMap::new();
    let mut add = |name: String, mapped_bytes: u64, resident_bytes: u64| {
        let area = areas.entry(name.clone()).or_insert(Area {
            name,
            count: 0,
            mapped_bytes: 0,
            resident_bytes: 0,
        });
        area.count += 1;
        area.mapped_bytes += mapped_bytes;
        area.resident_bytes += resident_bytes;
    };
    for (index, mapping) in mappings.iter().enumerate() {
        let label = mapping.label();
        let name = match label.as_deref() {
            Some("[heap]") => "heap",
            Some(label) => match label
                .strip_prefix("[anon:")
                .and_then(|l| l.strip_suffix(']'))
            {
                Some(name) => name,
                None => continue,
            },
            None if is_arena(mapping, mappings.get(index + 1)) => "glibc arena",
            None => continue,
        };
        add(name.to_owned(), mapping.bytes(), mapping.resident_bytes);
    }
    areas.into_values().collect()
}

/// Whether a mapping is the used part of a heap of a glibc arena; `next` is the mapping behind it.
pub fn is_arena(mapping: &Mapping, next: Option<&Mapping>) -> bool {
    const HEAP_BYTES: u64 = 64 << 20;
    let is_anonymous = |mapping: &Mapping| mapping.path.as_os_str().is_empty();
    let begins_like_one = is_anonymous(mapping)
        && mapping.is_writable
        && mapping.start.is_multiple_of(HEAP_BYTES)
        && mapping.bytes() <= HEAP_BYTES;
    let rest_is_kept = next.is_some_and(|next| {
        is_anonymous(next)
            && !next.is_readable
            && next.start == mapping.end
            && next.end == mapping.start + HEAP_BYTES
    });
    begins_like_one && (rest_is_kept || mapping.bytes() == HEAP_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps;

    #[test]
    fn arenas_of_glibc_are_known_by_their_shape_and_others_by_name() {
        let mappings = maps::parse(
            b"7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \nRss: 8 kB\n\
            7f0000021000-7f0004000000 ---p 00000000 00:00 0 \n\
            7f0008000000-7f0008021000 rw-p 00000000 00:00 0 \nRss: 4 kB\n\
            7f0008021000-7f000c000000 ---p 00000000 00:00 0 \n\
            7f0010000000-7f0010021000 rw-p 00000000 00:00 0 \n\
            7f0020000000-7f0020100000 rw-p 00000000 00:00 0 [anon:jemalloc_pg]\nRss: 64 kB\n\
            55d000000000-55d000021000 rw-p 00000000 00:00 0 [heap]\nRss: 12 kB\n",
        );
        let names: Vec<_> = areas(&mappings)
            .into_iter()
            .map(|area| (area.name, area.count, area.resident_bytes))
            .collect();
        let expected = [
            ("glibc arena".to_owned(), 2, 12 << 10),
            ("heap".to_owned(), 1, 12 << 10),
            ("jemalloc_pg".to_owned(), 1, 64 << 10),
        ];
        assert_eq!(names, expected);
    }
}
