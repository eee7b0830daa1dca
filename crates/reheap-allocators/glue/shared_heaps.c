// The first blocks of each size that a thread allocates, from heaps that threads share.
//
// mimalloc gives a thread a heap, a segment of 32 MiB, and for each size a page of its own, of which at least 4 KiB are
// touched at once. A thread that keeps 40 blocks of 40 sizes has 20 KiB in use and 137 KiB in memory. Servers have
// thousands of such threads.
//
// So a thread gets the first blocks of a size from a heap that others use too, and a page of its own only when it asks
// for more. A thread that allocates little never has a heap. Programs whose threads come and go also save the time that
// it takes to make one.
//
// - A shared heap is mimalloc's own kind of heap behind a lock. Nobody waits for it long: whoever finds all of them
//   locked a few times allocates as if they were not there. So a fork needs no care. In the child a heap may stay locked,
//   and is not used. Nor does a signal handler, which may interrupt the thread that has the lock.
// - Its segments bear its address in place of a thread's number. So each thread takes its blocks for another thread's,
//   and frees them as such if it does not get the lock. mimalloc writes the current thread's number into a new segment.
//   Here it is replaced before anybody else has a block of the segment.
// - The heaps are a subprocess of their own, in mimalloc's terms. So they never take over segments of threads that
//   ended, whose number mimalloc would set as well.
// - Blocks of two threads never share a cache line: blocks have a multiple of 64 bytes, and mimalloc aligns these.
// - The main thread does not come here, and the first few others do not either: a shared heap has pages of its own.
//
// This is for mimalloc 2.3.2. It calls mimalloc's functions for the heap of a thread (src/init.c), and for blocks that
// other threads have freed (src/free.c).
#define MI_DEBUG 0
#include "mimalloc/internal.h"
#include "mimalloc/prim.h"
#include <sched.h>

#define CACHE_LINE 64

// Of each size and thread.
#define FIRST_BLOCKS 8

// With so few heaps, one more costs less than the pages of a shared heap.
#define HEAPS_MIN 8

// How often a thread looks. If it finds all locked, some of those that locked them wait for a processor.
#define TURNS 4

typedef struct {
    _Atomic(bool) is_locked;
    bool is_made;
    mi_heap_t heap;
    mi_tld_t data;
} mi_decl_align(CACHE_LINE) shared_heap_t;

// The second one is used only if the first is locked, and so on.
static shared_heap_t shared_heaps[4];
#define SHARED_HEAPS (sizeof shared_heaps / sizeof *shared_heaps)
static mi_subproc_t subprocess;

static __thread __attribute__((tls_model("initial-exec"))) uint8_t blocks_of_bin[MI_BIN_HUGE];

static bool try_lock(shared_heap_t *shared) {
    return !mi_atomic_load_relaxed(&shared->is_locked) && !mi_atomic_exchange_acq_rel(&shared->is_locked, true);
}

static void unlock(shared_heap_t *shared) {
    mi_atomic_store_release(&shared->is_locked, false);
}

static void make(shared_heap_t *shared) {
    _mi_tld_init(&shared->data, &shared->heap);
    shared->data.segments.subproc = &subprocess;
    _mi_heap_init(&shared->heap, &shared->data, _mi_arena_id_none(), true /* reclaims nothing */, 0);
    shared->heap.thread_id = (mi_threadid_t)shared;
    shared->is_made = true;
}

static shared_heap_t *lock_any(void) {
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < SHARED_HEAPS; i++) {
            shared_heap_t *shared = &shared_heaps[i];
            if (!try_lock(shared)) continue;
            if (!shared->is_made) make(shared);
            return shared;
        }
        sched_yield();
    }
    return NULL;
}

// With the option, mimalloc hands full segments of a heap over to others.
static bool is_for_this_thread(void) {
    return _mi_current_thread_count() > HEAPS_MIN && !_mi_is_main_thread()
        && mi_option_get(mi_option_target_segments_per_thread) <= 0;
}

// A block, or NULL if the thread is to use its own heap.
void *__reheap_malloc_shared(size_t size) {
    uint8_t *blocks = &blocks_of_bin[_mi_bin(size)];
    if (*blocks == FIRST_BLOCKS || !is_for_this_thread()) return NULL;
    shared_heap_t *shared = lock_any();
    if (!shared) return NULL;
    ++*blocks;
    void *block = mi_heap_malloc(&shared->heap, size ? _mi_align_up(size, CACHE_LINE) : CACHE_LINE);
    if (block) mi_atomic_store_release(&_mi_ptr_segment(block)->thread_id, (mi_threadid_t)shared);
    unlock(shared);
    return block;
}

// False if it is not a shared heap's block, or the heap is locked.
bool __reheap_free_shared(mi_threadid_t owner, void *block) {
    if (owner - (mi_threadid_t)shared_heaps >= sizeof shared_heaps) return false;
    shared_heap_t *shared = (shared_heap_t *)owner;
    if (!try_lock(shared)) return false;
    bool is_freed = _mi_free_delayed_block(block);
    unlock(shared);
    return is_freed;
}
