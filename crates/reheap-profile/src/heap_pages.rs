//! What is in the pages of a heap: live blocks, what the allocator gave beyond them, and nothing.
//!
//! Only blocks are known, and which pages are in memory. So this holds for any allocator, and it says nothing of memory
//! in which no block was ever seen: an allocator's own data, or what the program mapped itself.

use reheap_proc::pagemap::Residence;
use std::collections::HashMap;
use std::ops::Range;

/// Pages are kept for so much address space together.
const AREA_BYTES: u64 = 64 << 20;
/// Between two neighbours, an allocator has no room for another block in so few bytes; it has headers there.
const NO_BLOCK_BYTES: u64 = 16;

/// A block, as the hooks recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) address: u64,
    /// What was asked for.
    pub(crate) bytes: u64,
    pub(crate) is_live: bool,
}

/// How the resident pages of a heap are used, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Use {
    /// What was asked for, of live blocks.
    pub(crate) live: u64,
    /// What the allocator gave beyond that.
    pub(crate) rounding: u64,
    /// The rest of pages that hold a live block.
    pub(crate) free_in_pages: u64,
    /// Pages in which blocks were, and are no more.
    pub(crate) free_pages: u64,
}

/// The pages of a heap. Blocks are to be added in the order of their addresses.
pub(crate) struct HeapPages<R, X> {
    residence: R,
    extra_bytes: X,
    page_bytes: u64,
    areas: Vec<Vec<Page>>,
    /// The numbers of the areas, and where each is.
    numbers: Vec<u64>,
    by_number: HashMap<u64, usize>,
    /// The area that was used last.
    latest: (u64, usize),
    /// The latest live block, of which is not known yet where its neighbour begins.
    pending: Option<Block>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Page {
    residence: Residence,
    holds: Holds,
    live: u32,
    rounding: u32,
}

/// What is known of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    #[default]
    Unknown,
    FreedBlocks,
    LiveBlocks,
}

#[derive(Clone, Copy)]
enum Bytes {
    Freed,
    Rounding,
    Live,
}

impl<R, X> HeapPages<R, X>
where
    R: FnMut(Range<u64>) -> Vec<Residence>,
    X: Fn(u64) -> u64,
{
    /// `residence` tells of the pages of a range, and `extra_bytes` what the allocator gives on average beyond so many
    /// bytes.
    pub(crate) fn new(page_bytes: u64, residence: R, extra_bytes: X) -> Self {
        Self {
            residence,
            extra_bytes,
            page_bytes,
            areas: Vec::new(),
            numbers: Vec::new(),
            by_number: HashMap::new(),
            latest: (u64::MAX, 0),
            pending: None,
        }
    }

    /// Sees now which pages around that address are in memory, and not when the first block there is added.
    pub(crate) fn see(&mut self, address: u64) {
        self.area(address / AREA_BYTES);
    }

    pub(crate) fn add(&mut self, block: Block) {
        if block.is_live {
            self.settle(block.address);
            self.pending = Some(block);
        } else {
            self.mark(block.address, block.bytes.max(1), Bytes::Freed);
        }
    }

    /// That range is an allocator's and nobody else's: if any block was in it, all of its pages are the heap's.
    pub(crate) fn is_allocators(&mut self, range: Range<u64>) {
        if self.has(&range, |holds| holds != Holds::Unknown) {
            self.mark(range.start, range.end - range.start, Bytes::Freed);
        }
    }

    /// That range may be anybody's. Without a live block in it, what was freed there has perhaps been given back, and the
    /// addresses are used for something else.
    pub(crate) fn may_be_others(&mut self, range: Range<u64>) {
        if self.has(&range, |holds| holds == Holds::LiveBlocks) {
            return;
        }
        for page in self.pages(&range) {
            page.holds = Holds::Unknown;
        }
    }

    fn has(&mut self, range: &Range<u64>, what: impl Fn(Holds) -> bool) -> bool {
        self.settle(u64::MAX);
        self.pages(range).any(|page| what(page.holds))
    }

    /// The pages of a range of which something is known.
    fn pages(&mut self, range: &Range<u64>) -> impl Iterator<Item = &mut Page> {
        let page_bytes = self.page_bytes;
        let range = range.clone();
        let areas = self.numbers.iter().zip(&mut self.areas);
        areas.flat_map(move |(number, pages)| {
            let start = number * AREA_BYTES;
            let place =
                |address: u64| (address.clamp(start, start + AREA_BYTES) - start) / page_bytes;
            let (first, behind) = (place(range.start), place(range.end));
            pages.iter_mut().take(behind as usize).skip(first as usize)
        })
    }

    /// How the pages are used that are in memory, and those among them that nobody shares.
    pub(crate) fn finish(mut self) -> (Use, Use) {
        self.settle(u64::MAX);
        let (mut all, mut own) = (Use::default(), Use::default());
        for page in self.areas.iter().flatten() {
            let used = page.used(self.page_bytes);
            match page.residence {
                Residence::Absent => {}
                Residence::Shared => all.add(used),
                Residence::Own => {
                    all.add(used);
                    own.add(used);
                }
            }
        }
        (all, own)
    }

    /// The next live block begins there, or later.
    fn settle(&mut self, next: u64) {
        let Some(block) = self.pending.take() else {
            return;
        };
        let end = block.address.saturating_add(block.bytes);
        let gap = next.saturating_sub(end);
        let extra = (self.extra_bytes)(block.bytes);
        let rounding = if gap <= extra + NO_BLOCK_BYTES {
            gap
        } else {
            extra
        };
        self.mark(block.address, block.bytes, Bytes::Live);
        // It holds its page, also if it is empty.
        self.mark(
            end,
            rounding.max(u64::from(block.bytes == 0)),
            Bytes::Rounding,
        );
    }

    fn mark(&mut self, start: u64, bytes: u64, what: Bytes) {
        let page_bytes = self.page_bytes;
        let (mut at, end) = (start, start.saturating_add(bytes));
        while at < end {
            let area_end = (at - at % AREA_BYTES).saturating_add(AREA_BYTES).min(end);
            let pages = self.area(at / AREA_BYTES);
            while at < area_end {
                let page_end = (at - at % page_bytes + page_bytes).min(area_end);
                if let Some(page) = pages.get_mut((at % AREA_BYTES / page_bytes) as usize) {
                    page.mark((page_end - at) as u32, what);
                }
                at = page_end;
            }
        }
    }

    /// The pages of an area; none if nothing of it is in memory.
    fn area(&mut self, number: u64) -> &mut Vec<Page> {
        if self.latest.0 != number {
            let known = self.by_number.get(&number).copied();
            self.latest = (number, known.unwrap_or_else(|| self.make_area(number)));
        }
        &mut self.areas[self.latest.1]
    }

    fn make_area(&mut self, number: u64) -> usize {
        let start = number * AREA_BYTES;
        let residences = (self.residence)(start..start.saturating_add(AREA_BYTES));
        let is_empty = residences
            .iter()
            .all(|residence| *residence == Residence::Absent);
        let pages = residences.into_iter().map(|residence| Page {
            residence,
            ..Page::default()
        });
        self.areas.push(if is_empty {
            Vec::new()
        } else {
            pages.collect()
        });
        let index = self.areas.len() - 1;
        self.numbers.push(number);
        self.by_number.insert(number, index);
        index
    }
}

impl Page {
    fn mark(&mut self, bytes: u32, what: Bytes) {
        match what {
            Bytes::Freed => self.holds = self.holds.max(Holds::FreedBlocks),
            Bytes::Rounding => {
                self.holds = Holds::LiveBlocks;
                self.rounding = self.rounding.saturating_add(bytes);
            }
            Bytes::Live => {
                self.holds = Holds::LiveBlocks;
                self.live = self.live.saturating_add(bytes);
            }
        }
    }

    fn used(&self, page_bytes: u64) -> Use {
        match self.holds {
            Holds::Unknown => Use::default(),
            Holds::FreedBlocks => Use {
                free_pages: page_bytes,
                ..Use::default()
            },
            Holds::LiveBlocks => {
                // While the program runs, a block may be seen twice.
                let live = u64::from(self.live).min(page_bytes);
                let rounding = u64::from(self.rounding).min(page_bytes - live);
                Use {
                    live,
                    rounding,
                    free_in_pages: page_bytes - live - rounding,
                    free_pages: 0,
                }
            }
        }
    }
}

impl Use {
    pub(crate) fn bytes(&self) -> u64 {
        self.live + self.rounding + self.free_in_pages + self.free_pages
    }

    fn add(&mut self, more: Self) {
        self.live += more.live;
        self.rounding += more.rounding;
        self.free_in_pages += more.free_in_pages;
        self.free_pages += more.free_pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    type Pages = HeapPages<Box<dyn FnMut(Range<u64>) -> Vec<Residence>>, Box<dyn Fn(u64) -> u64>>;

    /// What is found in a heap all of whose pages are in memory from page 1 to page `last`.
    fn used(last: u64, extra: u64, blocks: &[(u64, u64, bool)]) -> [u64; 4] {
        used_in(last, extra, blocks, |_| {})
    }

    fn used_in(
        last: u64,
        extra: u64,
        blocks: &[(u64, u64, bool)],
        ranges: impl FnOnce(&mut Pages),
    ) -> [u64; 4] {
        let residence = move |range: Range<u64>| {
            let pages = range.start / PAGE..range.end / PAGE;
            let of_page = move |page| {
                if (1..=last).contains(&page) {
                    Residence::Own
                } else {
                    Residence::Absent
                }
            };
            pages.map(of_page).collect()
        };
        let mut pages: Pages = HeapPages::new(PAGE, Box::new(residence), Box::new(move |_| extra));
        for &(address, bytes, is_live) in blocks {
            pages.add(Block {
                address,
                bytes,
                is_live,
            });
        }
        ranges(&mut pages);
        let (all, own) = pages.finish();
        assert_eq!(all, own);
        [all.live, all.rounding, all.free_in_pages, all.free_pages]
    }

    #[test]
    fn a_page_with_one_live_block_is_not_free() {
        let blocks = [(PAGE, 100, true), (2 * PAGE, 100, false)];
        assert_eq!(used(9, 12, &blocks), [100, 12, PAGE - 112, PAGE]);
        assert_eq!(used(1, 12, &blocks), [100, 12, PAGE - 112, 0]);
        assert_eq!(used(9, 0, &[(PAGE, 0, true)]), [0, 1, PAGE - 1, 0]);
    }

    #[test]
    fn the_parts_of_a_block_that_were_never_touched_are_not_resident() {
        let blocks = [(PAGE, 200 << 20, true)];
        assert_eq!(used(3, 0, &blocks), [3 * PAGE, 0, 0, 0]);
        let freed = [(PAGE, 200 << 20, false)];
        assert_eq!(used(3, 0, &freed), [0, 0, 0, 3 * PAGE]);
    }

    #[test]
    fn what_neighbours_have_between_them_is_rounding() {
        let blocks = [
            (PAGE, 20, true),
            (PAGE + 32, 24, true),
            (PAGE + 512, 24, true),
        ];
        assert_eq!(used(1, 4, &blocks), [68, 12 + 4 + 4, PAGE - 88, 0]);
    }

    #[test]
    fn freed_blocks_below_a_live_one_do_not_count() {
        let blocks = [
            (PAGE, 3 * PAGE, true),
            (2 * PAGE, 64, false),
            (3 * PAGE, 2 * PAGE, false),
        ];
        assert_eq!(used(9, 0, &blocks), [3 * PAGE, 0, 0, PAGE]);
    }

    #[test]
    fn addresses_of_freed_blocks_may_be_used_for_something_else() {
        let range = || PAGE..9 * PAGE;
        let freed = [(PAGE, 100, false)];
        assert_eq!(used(9, 0, &freed), [0, 0, 0, PAGE]);
        let none = used_in(9, 0, &freed, |pages| pages.may_be_others(range()));
        assert_eq!(none, [0; 4]);
        let all = used_in(9, 0, &freed, |pages| pages.is_allocators(range()));
        assert_eq!(all, [0, 0, 0, 8 * PAGE]);
        let beside = [freed[0], (5 * PAGE, PAGE, true)];
        let some = used_in(9, 0, &beside, |pages| pages.may_be_others(range()));
        assert_eq!(some, [PAGE, 0, 0, PAGE]);
        let unseen = used_in(9, 0, &[], |pages| pages.is_allocators(range()));
        assert_eq!(unseen, [0; 4]);
    }
}
