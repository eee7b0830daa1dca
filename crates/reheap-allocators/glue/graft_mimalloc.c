// mimalloc 2 in a finished executable: how it starts, and how it lets go of a thread that has ended.
//
// - No constructor runs. So the recipe makes mimalloc call `__reheap_graft_begins` where it begins, which is at the first
//   malloc.
// - mimalloc knows the blocks of a thread by the thread pointer. A new thread may have that of one that ended, and would
//   free the other's blocks as its own, while a third thread gives up the other's heap (`graft_threads.c`). So the number of
//   a thread that has a heap has a count in its upper bits, which no pointer has. The main thread has none: its heap stays.
// - Whoever ends another thread has its number and its heap for as long.
#define MI_DEBUG 0
#include "mimalloc/internal.h"
#include "mimalloc/prim.h"
#include <stdatomic.h>
#include <stdint.h>

// Linux gives no program that does not ask for it an address with more bits (Documentation/arch/x86/x86_64/5level-paging,
// Documentation/arch/arm64/memory).
#define POINTER_BITS 48

void __reheap_register_error_handler(void);

// Added to the thread pointer; see the recipe.
__thread __attribute__((tls_model("initial-exec"))) uintptr_t __reheap_thread_count;

static _Atomic(uintptr_t) threads;
static __thread __attribute__((tls_model("initial-exec"))) bool is_ending_another;

void __reheap_graft_begins(void) {
    __reheap_register_error_handler();
}

// mimalloc tells of a heap before it makes anything in it.
int __reheap_thread_begins(const void *value) {
    mi_heap_t *heap = (mi_heap_t *)value;
    if (is_ending_another || heap == _mi_heap_main_get() || !mi_heap_is_initialized(heap)) return 0;
    uintptr_t count = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % UINT16_MAX + 1;
    __reheap_thread_count = count << POINTER_BITS;
    heap->thread_id = _mi_prim_thread_id();
    return 1;
}

void __reheap_end_thread(void *value, void (*end)(void *)) {
    mi_heap_t *heap = value, *own = mi_prim_get_default_heap();
    uintptr_t own_count = __reheap_thread_count;
    is_ending_another = true;
    __reheap_thread_count += heap->thread_id - _mi_prim_thread_id();
    _mi_heap_default = heap;
    end(heap);
    __reheap_thread_count = own_count;
    _mi_heap_default = own;
    is_ending_another = false;
}
