// A large block of mimalloc 2 grows in place, if nothing is behind it.
//
// mimalloc copies a block that grows, and keeps the memory of the old one. A vector that is filled leaves blocks of 64,
// 128 and 256 KiB behind, and the next one goes the same way through other places. A search tool whose threads fill
// vectors of 1 MiB again and again needed an eighth more memory so. A loop that does nothing else needed 5 times the time.
//
// A block of more than 64 KiB is alone in its page, which is some slices of 64 KiB in a row (MI_SEGMENT_SLICE_SIZE). What
// is behind it in the segment is free, or another page. So the page takes over slices from there.
//
// It is done only where nothing else is concerned:
//
// - the segment is the thread's own;
// - the block is at the beginning of its page. With a large alignment it may not be;
// - the slices count as committed. Those that were given back do, unless the system does not overcommit.
//
// This is for mimalloc 2.3.2. It does what mi_segments_page_find_and_allocate does with a free span (src/segment.c).
#define MI_DEBUG 0
#include "mimalloc/internal.h"
#include "mimalloc/prim.h"

// The first queue whose spans may be as long. That before it, for 1 as well, is never used.
static mi_span_queue_t *queue_of(size_t slices, mi_segments_tld_t *segments) {
    mi_span_queue_t *queue = &segments->spans[1];
    while (queue->slice_count < slices) queue++;
    return queue;
}

static void take_from_queue(mi_span_queue_t *queue, mi_slice_t *span) {
    if (span->prev) span->prev->next = span->next;
    else queue->first = span->next;
    if (span->next) span->next->prev = span->prev;
    else queue->last = span->prev;
    span->prev = span->next = NULL;
}

static void put_into_queue(mi_span_queue_t *queue, mi_slice_t *span) {
    span->prev = NULL;
    span->next = queue->first;
    if (span->next) span->next->prev = span;
    else queue->last = span;
    queue->first = span;
}

// A free span begins here.
static void begin_span(mi_slice_t *span, size_t slices, mi_segments_tld_t *segments) {
    mi_slice_t *last = span + slices - 1;
    last->slice_count = 0;
    last->slice_offset = (uint32_t)(sizeof *span * (slices - 1));
    last->block_size = 0;
    span->slice_count = (uint32_t)slices;
    span->slice_offset = 0;
    span->block_size = 0;
    put_into_queue(queue_of(slices, segments), span);
}

// A page has this slice, too.
static void join(mi_slice_t *page, mi_slice_t *slice) {
    slice->slice_count = 0;
    slice->slice_offset = (uint32_t)(sizeof *page * (size_t)(slice - page));
    slice->block_size = 1;
}

static bool is_set(const mi_commit_mask_t *mask, size_t slice) {
    return mask->mask[slice / MI_COMMIT_MASK_FIELD_BITS] >> slice % MI_COMMIT_MASK_FIELD_BITS & 1;
}

static bool are_committed(const mi_segment_t *segment, size_t first, size_t end) {
    while (first < end && is_set(&segment->commit_mask, first)) first++;
    return first == end;
}

static void keep_from_purge(mi_segment_t *segment, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        segment->purge_mask.mask[i / MI_COMMIT_MASK_FIELD_BITS] &= ~((size_t)1 << i % MI_COMMIT_MASK_FIELD_BITS);
    }
}

static void take_slices(mi_segment_t *segment, mi_page_t *page, size_t slices, mi_segments_tld_t *segments) {
    size_t held = page->slice_count, first = (size_t)(page - segment->slices);
    mi_slice_t *next = page + held;
    size_t rest = held + next->slice_count - slices;
    take_from_queue(queue_of(next->slice_count, segments), next);
    if (rest) begin_span(page + slices, rest, segments);
    for (size_t i = held; i < slices && i <= MI_MAX_SLICE_OFFSET_COUNT; i++) join(page, page + i);
    join(page, page + slices - 1);
    keep_from_purge(segment, first + held, first + slices);
    page->slice_count = (uint32_t)slices;
    page->block_size = slices * MI_SEGMENT_SLICE_SIZE;
    page->block_size_shift = _mi_is_power_of_two(page->block_size) ? (uint8_t)mi_ctz(page->block_size) : 0;
}

// Whether the block now has that many bytes.
bool __reheap_extend(void *block, size_t size) {
    if (size > MI_LARGE_OBJ_SIZE_MAX) return false;
    mi_segment_t *segment = _mi_ptr_segment(block);
    if (segment->kind != MI_SEGMENT_NORMAL) return false;
    if (mi_atomic_load_relaxed(&segment->thread_id) != _mi_prim_thread_id()) return false;
    mi_page_t *page = _mi_segment_page_of(segment, block);
    if (page->block_size <= MI_MEDIUM_OBJ_SIZE_MAX || page->page_start != block) return false;
    mi_slice_t *next = page + page->slice_count, *end = segment->slices + segment->slice_entries;
    size_t slices = _mi_divide_up(size, MI_SEGMENT_SLICE_SIZE), first = (size_t)(page - segment->slices);
    if (slices <= page->slice_count || next >= end || next->block_size != 0) return false;
    if (slices > (size_t)page->slice_count + next->slice_count) return false;
    if (!are_committed(segment, first + page->slice_count, first + slices)) return false;
    take_slices(segment, page, slices, &mi_page_heap(page)->tld->segments);
    return true;
}
