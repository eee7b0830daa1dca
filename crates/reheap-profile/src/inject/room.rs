//! Where there is room for the hooks in a process.
//!
//! A jump of five bytes (x86-64) or four (aarch64) reaches 2 GiB or 128 MiB. So the hooks must be near the program.
//! Directly behind a program begins its heap, which grows; hooks there would end its growth. So they go in front of it.

use reheap_proc::maps::Mapping;
use std::ops::Range;
use std::path::Path;

/// Space that stays free on both sides, so that an overrun does not reach the hooks unnoticed.
const GUARD_BYTES: u64 = 64 << 10;
/// The lowest address that anyone may map, unless the system says otherwise (`vm.mmap_min_addr`).
const LOWEST: u64 = 64 << 10;
/// The heap begins up to 32 MiB behind the program, at random, and grows up.
const HEAP_BYTES: u64 = 256 << 20;
/// Stacks grow down, up to a limit that may change.
const STACK_BYTES: u64 = 16 << 30;

/// A free range of `bytes` near `image`, so that a jump of `reach` gets from any byte of one to any of the other.
pub(crate) fn room_near(
    mappings: &[Mapping],
    image: &Range<u64>,
    bytes: u64,
    reach: u64,
    page_bytes: u64,
) -> Option<u64> {
    let lowest = image.end.saturating_sub(reach).max(LOWEST);
    let highest = image.start.saturating_add(reach);
    let gaps = gaps(mappings);
    let fits = |start: u64, gap: &Range<u64>| {
        start >= gap.start + GUARD_BYTES
            && start + bytes + GUARD_BYTES <= gap.end
            && start >= lowest
            && start + bytes <= highest
    };
    let round_down = |address: u64| address / page_bytes * page_bytes;
    let below = gaps.iter().rev().filter(|gap| gap.end <= image.start);
    let below = below.filter_map(|gap| {
        let start = round_down(gap.end.checked_sub(bytes + GUARD_BYTES)?);
        fits(start, gap).then_some(start)
    });
    let above = gaps.iter().filter(|gap| gap.start >= image.end);
    let above = above.filter_map(|gap| {
        // As far from the program as a jump reaches, because the heap comes from there.
        let end = gap.end.saturating_sub(GUARD_BYTES).min(highest);
        let start = round_down(end.checked_sub(bytes)?);
        (fits(start, gap) && start >= image.end + HEAP_BYTES.min(reach / 2)).then_some(start)
    });
    below.chain(above).next()
}

/// The free ranges between mappings, without what a stack may grow into.
fn gaps(mappings: &[Mapping]) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut end = 0;
    for mapping in mappings {
        let room_end = if mapping.path == Path::new("[stack]") {
            mapping.start.saturating_sub(STACK_BYTES)
        } else {
            mapping.start
        };
        if room_end > end {
            gaps.push(end..room_end);
        }
        end = end.max(mapping.end);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use reheap_proc::maps;

    const PAGE: u64 = 4096;
    const REACH: u64 = 0x7fff_0000;

    fn mappings(lines: &str) -> Vec<Mapping> {
        let mappings = maps::parse(lines.as_bytes());
        assert_eq!(mappings.len(), lines.lines().count());
        mappings
    }

    #[test]
    fn hooks_go_in_front_of_a_program_at_a_fixed_address() {
        let maps = mappings(
            "00400000-00401000 r--p 00000000 fe:00 1 /a\n00401000-00402000 r-xp 00001000 fe:00 1 /a\n\
             7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]",
        );
        let start = room_near(&maps, &(0x40_0000..0x40_2000), 0x8000, REACH, PAGE).unwrap();
        assert_eq!(start, 0x40_0000 - GUARD_BYTES - 0x8000);
    }

    #[test]
    fn without_room_in_front_they_go_far_behind_the_heap() {
        let maps = mappings(
            "00010000-00402000 r-xp 00000000 fe:00 1 /a\n01400000-01500000 rw-p 00000000 00:00 0 [heap]\n\
             7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]",
        );
        let image = 0x1_0000..0x40_2000;
        let found = room_near(&maps, &image, 0x8000, REACH, PAGE).unwrap();
        assert!(found > 0x0150_0000 + HEAP_BYTES, "{found:#x}");
        assert!(found + 0x8000 - image.start <= REACH, "{found:#x}");
    }

    #[test]
    fn a_full_neighbourhood_has_no_room() {
        let maps = mappings(
            "00001000-90000000 rw-p 00000000 00:00 0 \n90000000-90001000 r-xp 00000000 00:00 0 /a\n\
             90001000-200000000 rw-p 00000000 00:00 0 ",
        );
        let found = room_near(&maps, &(0x9000_0000..0x9000_1000), 0x8000, REACH, PAGE);
        assert_eq!(found, None);
    }
}
