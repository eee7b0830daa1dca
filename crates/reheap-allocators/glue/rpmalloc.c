// rpmalloc wants every thread to be announced and taken leave of. Its own way, wrapping pthread_create, asks dlsym for
// the real one and so dies in a static executable; here a thread is announced by its first call instead, and taken leave
// of by the destructor of a thread-specific value.
//
// Fork: a thread that is inside rpmalloc when another one forks does not exist in the child, and its spin locks are never
// given back there. They are inlined and cannot be intercepted, so there is a gate around each call: every thread has a
// slot that says whether it is inside; before a fork the gate closes, and fork waits until nobody is. The two sides are
// ordered by membarrier(2), so that the side that is taken often needs two plain stores and a load only.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int rpmalloc_initialize(void);
void rpmalloc_thread_initialize(void);
void rpmalloc_thread_finalize(int release_caches);
void *rpmalloc(size_t);
void *rpcalloc(size_t, size_t);
void *rprealloc(void *, size_t);
void *rpmemalign(size_t, size_t);
void rpfree(void *);
size_t rpmalloc_usable_size(void *);

// Kernel ABI, membarrier(2); not every musl installation has the kernel's headers.
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED 8
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED 16

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

// Slots are never given back to the system: a thread may allocate after its last destructor and so keep one for good.
struct slot {
    _Alignas(64) atomic_int inside;
    atomic_int taken;
    struct slot *next;
};

static _Atomic(struct slot *) slots;
static _Thread_local struct slot *mine;
static atomic_int closed;
static int has_membarrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t leave_key;

void *__reheap_malloc(size_t size);

static struct slot *take_slot(void) {
    for (struct slot *slot = atomic_load(&slots); slot; slot = slot->next) {
        int free = 0;
        if (atomic_compare_exchange_strong(&slot->taken, &free, 1)) return slot;
    }
    struct slot *slot = mmap(NULL, sizeof *slot, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slot == MAP_FAILED) return NULL;
    atomic_store(&slot->taken, 1);
    slot->next = atomic_load(&slots);
    while (!atomic_compare_exchange_weak(&slots, &slot->next, slot)) {}
    return slot;
}

static void enter_slot(struct slot *slot) {
    for (;;) {
        atomic_store_explicit(&slot->inside, 1, memory_order_relaxed);
        if (likely(has_membarrier)) atomic_signal_fence(memory_order_seq_cst);
        else atomic_thread_fence(memory_order_seq_cst);
        if (likely(!atomic_load_explicit(&closed, memory_order_relaxed))) return;
        atomic_store(&slot->inside, 0);
        while (atomic_load(&closed)) sched_yield();
    }
}

static void leave_slot(struct slot *slot) {
    atomic_store_explicit(&slot->inside, 0, memory_order_release);
}

// A later destructor may allocate again: that announces the thread anew, and sets the value anew, so that this runs once
// more (POSIX: up to PTHREAD_DESTRUCTOR_ITERATIONS times).
static void take_leave(void *value) {
    struct slot *slot = value;
    enter_slot(slot);
    rpmalloc_thread_finalize(1);
    mine = NULL;
    leave_slot(slot);
    atomic_store(&slot->taken, 0);
}

static void initialize(void) {
    has_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    rpmalloc_initialize();
    pthread_key_create(&leave_key, take_leave);
}

__attribute__((noinline, cold)) static struct slot *announce(void) {
    int errno_before = errno;
    pthread_once(&once, initialize);
    struct slot *slot = take_slot();
    if (slot) {
        enter_slot(slot);
        rpmalloc_thread_initialize();
        leave_slot(slot);
        mine = slot;
        pthread_setspecific(leave_key, slot);
    }
    errno = errno_before;
    return slot;
}

// The slot to leave again, or NULL where there is no memory even for that.
static inline struct slot *enter(void) {
    struct slot *slot = mine;
    if (unlikely(!slot) && !(slot = announce())) return NULL;
    enter_slot(slot);
    return slot;
}

static inline void *leave_with(struct slot *slot, void *block) {
    leave_slot(slot);
    if (unlikely(!block)) errno = ENOMEM;
    return block;
}

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

// rpmalloc cannot align to a span (64 KiB) or more, and to more than a page only by trying. Such blocks are mapped here,
// aligned to a span at least. rpmalloc's own blocks never lie at the start of a span, its header does: so the address
// tells whose a block is. In the page in front of the block stands what was mapped.
enum { SPAN = 65536, PAGE = 4096 };

struct mapping {
    char *base;
    size_t length;
    size_t size;
};

static int is_mapped(void *block) {
    return ((uintptr_t)block & (SPAN - 1)) == 0;
}

static struct mapping *mapping_of(void *block) {
    return (struct mapping *)((char *)block - PAGE);
}

static void *map_aligned(size_t alignment, size_t size) {
    if (alignment < SPAN) alignment = SPAN;
    size_t length;
    if (__builtin_add_overflow(size, alignment + PAGE, &length) || length > PTRDIFF_MAX) return no_memory();
    char *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return no_memory();
    uintptr_t address = ((uintptr_t)base + PAGE + alignment - 1) & ~(uintptr_t)(alignment - 1);
    *mapping_of((void *)address) = (struct mapping){base, length, size};
    return (void *)address;
}

static void unmap(void *block) {
    int errno_before = errno;
    munmap(mapping_of(block)->base, mapping_of(block)->length);
    errno = errno_before;
}

// Moves the contents to a block of rpmalloc's: realloc need not keep an alignment.
static void *move_from_mapping(void *block, size_t size) {
    void *moved = __reheap_malloc(size);
    if (!moved) return NULL;
    size_t held = mapping_of(block)->size;
    memcpy(moved, block, held < size ? held : size);
    unmap(block);
    return moved;
}

void *__reheap_malloc(size_t size) {
    if (unlikely(size > PTRDIFF_MAX)) return no_memory();
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, rpmalloc(size)) : no_memory();
}

void *__reheap_calloc(size_t count, size_t size) {
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX)) return no_memory();
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, rpcalloc(count, size)) : no_memory();
}

void *__reheap_realloc(void *block, size_t size) {
    if (unlikely(size > PTRDIFF_MAX)) return no_memory();
    if (unlikely(is_mapped(block)) && block) return move_from_mapping(block, size);
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, rprealloc(block, size ? size : 1)) : no_memory();
}

void *__reheap_memalign(size_t alignment, size_t size) {
    if (alignment > PAGE) return map_aligned(alignment, size);
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, rpmemalign(alignment, size)) : no_memory();
}

void __reheap_free(void *block) {
    if (unlikely(is_mapped(block))) {
        if (block) unmap(block);
        return;
    }
    struct slot *slot = enter();
    if (unlikely(!slot)) return; // no memory to announce this thread: the block is lost, which beats a crash
    int errno_before = errno;
    rpfree(block);
    errno = errno_before;
    leave_slot(slot);
}

size_t __reheap_malloc_usable_size(void *block) {
    return is_mapped(block) ? mapping_of(block)->size : rpmalloc_usable_size(block);
}

// musl calls it with -1 before a fork, 0 after it in the parent, 1 in the child, and serializes forks.
void __malloc_atfork(int who) {
    if (who < 0) {
        atomic_store(&closed, 1);
        if (has_membarrier) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        for (struct slot *slot = atomic_load(&slots); slot; slot = slot->next) {
            while (slot != mine && atomic_load(&slot->inside)) sched_yield();
        }
        return;
    }
    atomic_store(&closed, 0);
}
