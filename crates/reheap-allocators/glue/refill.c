// mimalloc 2's malloc, with a shorter way to the blocks that the program has freed.
//
// A page has two lists of free blocks: malloc takes from one, free puts into the other. When the first is empty, mimalloc
// takes its slow path, where it finds the same page again and swaps the lists: some 120 instructions. The lists of a page
// that is not used much have 4 KiB of blocks together. So if a program keeps one block of 600 bytes, and allocates and
// frees another over and over, that happens at every fifth malloc. Rust's standard library is enough for that: in musl it
// keeps a block of 544 bytes, for the guard pages of stacks, on the first thread that the program starts.
//
// Here malloc swaps the lists itself where the slow path would do nothing else. That is, if
//
// - the hundredth call since the slow path last did its other work is not due (`generic_count`). Then it collects what
//   other threads have freed. The calls that swap here count as calls of the slow path;
// - other threads have freed no block of this page, which would have to be collected too;
// - the block is not the last of its page, which then would have to go to the queue of full pages.
//
// Everything else is as in mi_malloc of mimalloc 2.3.2 (src/alloc.c) and _mi_malloc_generic (src/page.c), or calls it.
#define MI_DEBUG 0
#include "mimalloc/internal.h"
#include "mimalloc/prim.h"

#define CACHE_LINE 64

void *__reheap_malloc_shared(size_t size);
void __reheap_free(void *block);
bool __reheap_extend(void *block, size_t size);

// As in _mi_malloc_generic.
#define CALLS_UNTIL_WORK_IS_DUE 100

static inline void *take(mi_page_t *page, mi_block_t *block) {
    page->free = mi_block_next(page, block);
    page->used++;
    return block;
}

// The slow path does nothing but swap the lists. The page that stands for no page has an empty `local_free`, too.
static inline bool is_enough_to_swap(const mi_heap_t *heap, const mi_page_t *page) {
    return page->local_free != NULL && mi_page_thread_free(page) == NULL && page->used + 1 < page->reserved
        && heap->generic_count + 1 < CALLS_UNTIL_WORK_IS_DUE;
}

// The thread has no page for blocks of this size that is not full. Perhaps it hardly uses the size (shared_heaps.c).
static void *from_slow_path(mi_heap_t *heap, size_t size, bool is_zero) {
    if (size <= MI_SMALL_SIZE_MAX ? _mi_heap_get_free_small_page(heap, size) == &_mi_page_empty
                                  : heap == &_mi_heap_empty && size <= MI_SMALL_OBJ_SIZE_MAX) {
        void *block = __reheap_malloc_shared(size);
        if (block) return is_zero ? memset(block, 0, size) : block;
    }
    return _mi_malloc_generic(heap, size, is_zero, 0, NULL);
}

static __attribute__((noinline)) void *refill(mi_heap_t *heap, size_t size, mi_page_t *page) {
    if (!is_enough_to_swap(heap, page)) return from_slow_path(heap, size, false);
    heap->generic_count++;
    mi_block_t *block = page->local_free;
    page->local_free = NULL;
    page->free_is_zero = false;
    page->retire_expire = 0;
    return take(page, block);
}

void *__reheap_malloc(size_t size) {
    mi_heap_t *heap = mi_prim_get_default_heap();
    if (mi_unlikely(size > MI_SMALL_SIZE_MAX)) return from_slow_path(heap, size, false);
    mi_page_t *page = _mi_heap_get_free_small_page(heap, size);
    mi_block_t *block = page->free;
    if (mi_unlikely(block == NULL)) return refill(heap, size, page);
    return take(page, block);
}

// For calloc.
void *__reheap_zalloc(size_t size) {
    mi_heap_t *heap = mi_prim_get_default_heap();
    if (mi_unlikely(size > MI_SMALL_SIZE_MAX)) return from_slow_path(heap, size, true);
    mi_page_t *page = _mi_heap_get_free_small_page(heap, size);
    mi_block_t *block = page->free;
    if (mi_unlikely(block == NULL)) return from_slow_path(heap, size, true);
    take(page, block);
    if (page->free_is_zero) block->next = 0;
    else _mi_memzero_aligned(block, page->block_size);
    return block;
}

// As mi_realloc. A block of a shared heap may be four times as large as was asked for, or more, and grows into that.
void *__reheap_inner_realloc(void *block, size_t size) {
    size_t usable = mi_usable_size(block); // 0 for NULL
    if (0 < size && size <= usable && (size >= usable / 2 || usable <= CACHE_LINE)) return block;
    if (size > usable && usable > MI_MEDIUM_OBJ_SIZE_MAX && __reheap_extend(block, size)) return block;
    void *moved = __reheap_malloc(size);
    if (mi_unlikely(!moved || !block)) return moved;
    _mi_memcpy(moved, block, size < usable ? size : usable);
    __reheap_free(block);
    return moved;
}
