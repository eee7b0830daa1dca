// mimalloc in a finished executable: how it starts, and how it lets go of a thread that has ended.
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
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Linux gives no program that does not ask for it an address with more bits (Documentation/arch/x86/x86_64/5level-paging,
// Documentation/arch/arm64/memory).
#define POINTER_BITS 48

#if MI_MALLOC_VERSION >= 30000
// Version 3 calls what a thread has of a heap a theap.
typedef mi_theap_t heap_of_thread_t;
extern mi_theap_t theap_main;

static mi_threadid_t *number_of(heap_of_thread_t *heap) {
    return &heap->tld->thread_id;
}

static bool belongs_to_main_thread(const heap_of_thread_t *heap) {
    return heap == &theap_main;
}

static bool is_made(const heap_of_thread_t *heap) {
    return mi_theap_is_initialized(heap);
}

// Also where it looks for those that are not a program's default, of which it has one.
static void set_own_heap(heap_of_thread_t *heap) {
    __mi_theap_default = heap;
    __mi_theap_main = heap;
}

static heap_of_thread_t *own_heap(void) {
    return _mi_theap_default();
}

static int process;

static void begin(void) {
    process = getpid();
    _mi_prim_thread_init_auto_done();
}

// A thread that looks whether it can use an abandoned page takes the page's bit away for a few instructions. Whoever wants
// to take it for good waits until it is back (mi_bitmap_clear_once_set). In the child of a fork, the thread that has it may be
// missing. One that is there would have put it back in this time, even if it had to wait for a processor.
#define MS_MAX 200

void __reheap_await_bit(void *of, size_t bit) {
    _Atomic(size_t) *field = of;
    size_t mask = (size_t)1 << bit;
    for (int ms = 0; !(atomic_load_explicit(field, memory_order_acquire) & mask);) {
        if (getpid() == process) {
            sched_yield();
        } else if (ms++ < MS_MAX) {
            syscall(SYS_nanosleep, &(struct timespec){.tv_nsec = 1000000}, NULL);
        } else {
            atomic_fetch_or(field, mask);
        }
    }
}
#else
typedef mi_heap_t heap_of_thread_t;

static mi_threadid_t *number_of(heap_of_thread_t *heap) {
    return &heap->thread_id;
}

static bool belongs_to_main_thread(const heap_of_thread_t *heap) {
    return heap == _mi_heap_main_get();
}

static bool is_made(const heap_of_thread_t *heap) {
    return mi_heap_is_initialized((heap_of_thread_t *)heap);
}

static void set_own_heap(heap_of_thread_t *heap) {
    _mi_heap_default = heap;
}

static heap_of_thread_t *own_heap(void) {
    return mi_prim_get_default_heap();
}

static void begin(void) {}
#endif

void __reheap_register_error_handler(void);

// Added to the thread pointer; see the recipe.
__thread __attribute__((tls_model("initial-exec"))) uintptr_t __reheap_thread_count;

static _Atomic(uintptr_t) threads;
static __thread __attribute__((tls_model("initial-exec"))) bool is_ending_another;

void __reheap_graft_begins(void) {
    __reheap_register_error_handler();
    begin();
}

// mimalloc tells of a heap before it makes anything in it.
int __reheap_thread_begins(const void *value) {
    heap_of_thread_t *heap = (heap_of_thread_t *)value;
    if (is_ending_another || !is_made(heap) || belongs_to_main_thread(heap)) return 0;
    uintptr_t count = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % UINT16_MAX + 1;
    __reheap_thread_count = count << POINTER_BITS;
    *number_of(heap) = _mi_prim_thread_id();
    return 1;
}

void __reheap_end_thread(void *value, void (*end)(void *)) {
    heap_of_thread_t *heap = value, *own = own_heap();
    uintptr_t own_count = __reheap_thread_count;
    is_ending_another = true;
    __reheap_thread_count += *number_of(heap) - _mi_prim_thread_id();
    set_own_heap(heap);
    end(heap);
    __reheap_thread_count = own_count;
    set_own_heap(own);
    is_ending_another = false;
}
