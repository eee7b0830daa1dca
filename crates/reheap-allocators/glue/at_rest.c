// mimalloc 2 gives free memory back by amount, and when a thread ends.
//
// mimalloc notes which pages are free, and gives them back after `purge_delay`. But it looks at the time only when it
// makes or frees a page, and for free segments only when it frees another. So a program that frees all it has, and then
// waits, keeps it for ever. With `purge_delay=0` each page goes back at once. A program whose pages come and go, such as a
// JavaScript interpreter, then needs three times as long.
//
// Here it gives them back by amount, and keeps as much as `debt.c` says. A thread counts the pages that it frees, and looks
// when they may be enough. When it ends, it leaves less.
//
// `purge_delay` keeps its meaning: with 0 nothing is kept anyway, and nothing goes by amount with a longer time than the
// preset, or with -1.
//
// The recipe makes mimalloc 2.3.2 call three functions here:
//
// - `__reheap_page_is_free` where it frees a page (mi_segment_page_clear, src/segment.c), in place of
//   mi_segment_schedule_purge, whose work this does, too. The page has no blocks then, and is not yet among the free spans
//   of its segment. mimalloc's function would also note the free spans beside the page, which may never have been used.
// - `__reheap_segment_is_made` where it has memory for a segment (mi_segment_os_alloc, the same file).
// - `__reheap_key_create` and `__reheap_set_specific` in place of the libc's functions (src/prim/unix/prim.c).
#define MI_DEBUG 0
#include "mimalloc/internal.h"
#include "mimalloc/prim.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define PURGE_DELAY_MS_MAX 100

// What is known of the pages and segments of a heap, in bytes.
typedef struct {
    const mi_segments_tld_t *segments;
    size_t resident;  // used or kept: at the last look, and what it got since from an arena that kept it
    size_t freed;     // since then
    size_t freed_max; // until the next look
    debt_t debt;
    size_t inherited; // of what threads had returned that ended before this one began
    bool is_ending;
} at_rest_t;

static _Thread_local at_rest_t thread;

// Heaps that threads share (`shared_heaps.c`). Whoever is here has the lock of the heap.
#define SHARED_HEAPS 4
static _Atomic(const mi_segments_tld_t *) shared_segments[SHARED_HEAPS];
static at_rest_t shared[SHARED_HEAPS];

static _Atomic(size_t) left_returned;  // by threads that ended, and not used again
static _Atomic(size_t) kept_in_arenas; // of segments that were freed

// One bit stands for one slice.
static size_t marked_bytes(const mi_commit_mask_t *mask, size_t first, size_t end) {
    size_t bits = 0;
    while (first < end) {
        size_t offset = first % MI_COMMIT_MASK_FIELD_BITS;
        size_t length = minimum(end - first, MI_COMMIT_MASK_FIELD_BITS - offset);
        size_t field = mask->mask[first / MI_COMMIT_MASK_FIELD_BITS] << (MI_COMMIT_MASK_FIELD_BITS - offset - length);
        bits += (size_t)__builtin_popcountl(field >> (MI_COMMIT_MASK_FIELD_BITS - length));
        first += length;
    }
    return bits * MI_SEGMENT_SLICE_SIZE;
}

// The free pages of a thread, and those of them that would go back.
static void survey(const mi_segments_tld_t *segments, size_t *free, size_t *kept) {
    *free = *kept = 0;
    for (size_t bin = 0; bin <= MI_SEGMENT_BIN_MAX; bin++) {
        for (mi_slice_t *span = segments->spans[bin].first; span; span = span->next) {
            mi_segment_t *segment = _mi_ptr_segment(span);
            size_t first = (size_t)(span - segment->slices);
            *free += span->slice_count * MI_SEGMENT_SLICE_SIZE;
            *kept += marked_bytes(&segment->purge_mask, first, first + span->slice_count);
        }
    }
}

static void give_back(const mi_segments_tld_t *segments) {
    for (size_t bin = 0; bin <= MI_SEGMENT_BIN_MAX; bin++) {
        for (mi_slice_t *span = segments->spans[bin].first; span; span = span->next) {
            _mi_segment_collect(_mi_ptr_segment(span), true);
        }
    }
    if (atomic_exchange(&kept_in_arenas, 0)) _mi_arenas_collect(true);
}

// So many bytes came from the system.
static void count_as_used(at_rest_t *heap, size_t bytes, mi_msecs_t now) {
    size_t own = use_again(&heap->debt, bytes);
    size_t left = atomic_load_explicit(&left_returned, memory_order_relaxed);
    size_t others = minimum(bytes - own, minimum(heap->inherited, left));
    if (!others || !atomic_compare_exchange_strong(&left_returned, &left, left - others)) others = 0;
    heap->inherited -= others;
    owe(own + others, now);
}

// A page of so many bytes becomes free. Returns whether everything else that was kept went back.
static bool look(at_rest_t *heap, const mi_segments_tld_t *segments, size_t bytes) {
    size_t free, kept;
    survey(segments, &free, &kept);
    size_t used = segments->current_size - free;
    mi_msecs_t now = _mi_clock_now();
    count_as_used(heap, difference(used + kept, heap->resident), now);
    heap->resident = used + kept;
    heap->freed = 0;
    used -= bytes;
    kept += bytes + atomic_load_explicit(&kept_in_arenas, memory_order_relaxed);
    size_t max = kept_max(used, _mi_current_thread_count());
    if (heap->is_ending) max /= 4;
    bool is_due = is_too_much(&heap->debt, kept, max, now);
    if (is_due) {
        give_back(segments);
        have_returned(&heap->debt, kept);
        kept = 0;
        heap->resident = used;
    }
    heap->freed_max = maximum(difference(max, kept) / 5 * 4, max / 8);
    return is_due;
}

// As mi_segment_schedule_purge does it.
static void schedule(mi_segment_t *segment, size_t first, size_t end) {
    long delay = mi_option_get(mi_option_purge_delay);
    for (size_t i = first; i < end; i++) {
        size_t field = i / MI_COMMIT_MASK_FIELD_BITS, bit = (size_t)1 << i % MI_COMMIT_MASK_FIELD_BITS;
        segment->purge_mask.mask[field] |= segment->commit_mask.mask[field] & bit;
    }
    if (segment->purge_expire == 0) segment->purge_expire = _mi_clock_now() + delay;
    else segment->purge_expire += mi_option_get(mi_option_purge_extend_delay);
    if (delay == 0) _mi_segment_collect(segment, true);
}

// mimalloc marks no slices of a segment that is one huge page.
static size_t kept_of_segment(const mi_segment_t *segment) {
    if (segment->kind == MI_SEGMENT_HUGE) return segment->segment_size;
    return marked_bytes(&segment->purge_mask, 0, MI_COMMIT_MASK_BITS);
}

// An arena gets the segment next. Its first words stay as they are until the arena gives them back, or away in the middle
// of another segment. mimalloc uses this one only for segments that are abandoned.
static void keep_in_arena(mi_segment_t *segment) {
    segment->abandoned_visits = kept_of_segment(segment);
    atomic_fetch_add_explicit(&kept_in_arenas, segment->abandoned_visits, memory_order_relaxed);
}

static at_rest_t *heap_of(const mi_segments_tld_t *segments) {
    if (thread.segments != segments && !thread.is_ending) {
        thread.segments = &mi_prim_get_default_heap()->tld->segments;
    }
    if (thread.segments == segments) return &thread;
    for (size_t i = 0; i < SHARED_HEAPS; i++) {
        const mi_segments_tld_t *none = NULL;
        bool is_new = atomic_compare_exchange_strong(&shared_segments[i], &none, segments);
        if (is_new || none == segments) return &shared[i];
    }
    return NULL;
}

// mimalloc clears it afterwards.
void __reheap_segment_is_made(mi_segment_t *segment, const mi_segments_tld_t *segments) {
    if (segment->memid.memkind != MI_MEM_ARENA || segment->cookie != _mi_ptr_cookie(segment)) return;
    size_t bytes = segment->abandoned_visits;
    size_t kept = atomic_load_explicit(&kept_in_arenas, memory_order_relaxed);
    if (bytes > kept || !atomic_compare_exchange_strong(&kept_in_arenas, &kept, kept - bytes)) return;
    at_rest_t *heap = heap_of(segments);
    if (heap) heap->resident += bytes;
}

static void give_page_back(mi_segment_t *segment, size_t first, size_t slices) {
    if (segment->kind != MI_SEGMENT_HUGE) return _mi_segment_collect(segment, true);
    void *start = (char *)segment + first * MI_SEGMENT_SLICE_SIZE;
    if (segment->allow_purge) madvise(start, slices * MI_SEGMENT_SLICE_SIZE, MADV_DONTNEED);
}

static bool goes_by_amount(void) {
    long delay = mi_option_get(mi_option_purge_delay);
    return 0 < delay && delay <= PURGE_DELAY_MS_MAX;
}

void __reheap_page_is_free(mi_page_t *page, mi_segments_tld_t *segments) {
    mi_segment_t *segment = _mi_page_segment(page);
    size_t first = (size_t)((mi_slice_t *)page - segment->slices), slices = page->slice_count;
    if (segment->kind != MI_SEGMENT_HUGE && segment->allow_purge) schedule(segment, first, first + slices);
    bool is_abandoned = mi_atomic_load_relaxed(&segment->thread_id) == 0;
    if (is_abandoned || !goes_by_amount()) return;
    at_rest_t *heap = heap_of(segments);
    if (!heap) return;
    heap->freed += slices * MI_SEGMENT_SLICE_SIZE;
    bool goes_to_arena = segment->used == 1 && segment->memid.memkind == MI_MEM_ARENA;
    bool is_due = false;
    if (heap->freed >= heap->freed_max) {
        int errno_before = errno;
        is_due = look(heap, segments, slices * MI_SEGMENT_SLICE_SIZE);
        if (is_due) give_page_back(segment, first, slices);
        errno = errno_before;
    }
    if (goes_to_arena && !is_due) keep_in_arena(segment);
}

static void (*end_thread)(void *);

static void end_thread_at_rest(void *heap) {
#ifdef REHEAP_GRAFT
    at_rest_t own = thread; // another thread ends this one
    memset(&thread, 0, sizeof thread);
#endif
    thread.segments = &((mi_heap_t *)heap)->tld->segments;
    thread.is_ending = true;
    thread.freed_max = 0;
    end_thread(heap);
    atomic_fetch_add_explicit(&left_returned, thread.debt.returned, memory_order_relaxed);
#ifdef REHEAP_GRAFT
    thread = own;
#else
    memset(&thread, 0, sizeof thread); // a destructor that runs later may allocate
#endif
}

// mimalloc's pthread_key_create, which it calls once.
int __reheap_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    end_thread = destructor;
    return pthread_key_create(key, end_thread_at_rest);
}

// mimalloc's pthread_setspecific, which it calls when a thread begins and when it ends.
int __reheap_set_specific(pthread_key_t key, const void *heap) {
    thread.inherited = atomic_load_explicit(&left_returned, memory_order_relaxed);
    return pthread_setspecific(key, heap);
}
