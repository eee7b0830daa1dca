// mimalloc 2's free, with another path for the last block of a page.
//
// A program that allocates and frees a block over and over empties the block's page with each free. mimalloc then does
// three slow things:
//
// - It looks up the queue of the page, and marks the page as retired.
// - It puts the block behind all others of the page, so the next one is not in the processor's cache.
// - It gives the page back after 16 more mallocs that needed a new page. A program that cycles through more than 16
//   sizes then does nothing but make pages.
//
// Here the block goes on top, where malloc finds it next. Each such free makes the mark last longer, and does not set
// it again.
//
// Two properties must survive:
//
// - mimalloc gives a marked page back only while the heap's page_retired_min and page_retired_max enclose its queue.
//   Another page in front of it, reclaimed from a thread that ended, hides it from the code that sets the two. So if
//   they do not enclose a page, mimalloc's own free handles it, which moves them.
// - malloc must run out of blocks now and then, because only then does it collect what other threads have freed, and
//   give memory back. With mimalloc's own free this happens after as many blocks as fit into 4 KiB, about a hundred of
//   40 bytes. The mark is full after as many. Then mimalloc's own free runs, and malloc finds no block on top.
//
// The program `churn` does nothing else. With mimalloc's own free it needs 1.3 times glibc's time, with this one three
// quarters.
//
// Everything else is as in mi_free of mimalloc 2.3.2 (src/free.c), or calls it.
#define MI_DEBUG 0
#include "mimalloc/internal.h"
#include "mimalloc/prim.h"

// The largest value of retire_expire, which has 7 bits.
#define EXPIRE_MAX 127

// No other page has blocks of this size.
static inline bool is_alone(const mi_page_t *page) {
    return ((uintptr_t)page->next | (uintptr_t)page->prev) == 0;
}

// The number of the page's queue, from 1; 0 until it is looked up. mimalloc does not use this word, and clears it with
// the rest of the page.
static inline size_t queue_of(const mi_page_t *page) {
    return (size_t)page->padding[0];
}

static inline bool is_enclosed(const mi_page_t *page) {
    const mi_heap_t *heap = mi_page_heap(page);
    return heap->page_retired_min <= queue_of(page) && queue_of(page) <= heap->page_retired_max;
}

// Marked, and the mark is not full. If it is a call, clang saves registers on every path of `free`.
static inline __attribute__((always_inline)) bool is_retired(const mi_page_t *page) {
    return page->retire_expire - 1u < EXPIRE_MAX - 1u && is_alone(page) && is_enclosed(page);
}

// malloc allocates larger blocks only on its slow path, which also clears the mark. A page that is alone in the queue
// for its size stays when its last block is freed. If the mark is full, the blocks of `free` go behind those of
// `local_free`, so the next malloc finds none and takes the path on which mimalloc collects. `local_free` has only two
// blocks then, unless several were in use at a time, and that happens only once.
static __attribute__((noinline)) void free_last(mi_page_t *page, mi_block_t *block) {
    if (page->block_size > MI_SMALL_SIZE_MAX || !is_alone(page)) return mi_free(block);
    bool is_due = page->retire_expire == EXPIRE_MAX;
    mi_free(block);
    if (!queue_of(page)) page->padding[0] = (void *)_mi_bin(page->block_size);
    if (!is_due) return;
    mi_block_t *last = block;
    for (mi_block_t *next; (next = mi_block_next(page, last)) != NULL;) last = next;
    mi_block_set_next(page, last, page->free);
    page->free = NULL;
}

bool __reheap_free_shared(mi_threadid_t owner, void *block);

// Another thread's block, or one whose page has flags set.
static __attribute__((noinline)) void free_by_owner(mi_segment_t *segment, void *block) {
    if (!__reheap_free_shared(mi_atomic_load_relaxed(&segment->thread_id), block)) mi_free(block);
}

// At the beginning of a segment are a few blocks with a large alignment, and no other of mimalloc's. There NULL is, too.
static __attribute__((noinline)) void free_at_segment_start(void *block) {
    if (!__reheap_free_grown(block)) mi_free(block);
}

// It begins with a cache line. In the middle of one, `churn` needs 1.15 times the time.
__attribute__((aligned(64))) void __reheap_free(void *block) {
    size_t offset = (uintptr_t)block & MI_SEGMENT_MASK;
    if (mi_unlikely(!offset)) return free_at_segment_start(block);
    mi_segment_t *segment = (mi_segment_t *)((uint8_t *)block - offset);
    mi_page_t *page = _mi_segment_page_of(segment, block);
    bool is_local = _mi_prim_thread_id() == mi_atomic_load_relaxed(&segment->thread_id);
    // With flags set, the page is full, or the pointer may point into the middle of a block.
    if (mi_unlikely(!is_local || page->flags.full_aligned)) return free_by_owner(segment, block);
    if (mi_likely(page->used > 1)) {
        mi_block_set_next(page, block, page->local_free);
        page->local_free = block;
        page->used--;
    } else if (mi_likely(is_retired(page))) {
        mi_block_set_next(page, block, page->free);
        page->free = block;
        page->used = 0;
        page->retire_expire++;
        page->free_is_zero = false; // calloc has to clear the block
    } else {
        free_last(page, block);
    }
}
