// rpmalloc must learn when a thread begins and ends. Its own way is to wrap pthread_create. That asks dlsym for the
// real one and crashes in a static executable. Here the gate announces a thread at its first call.
int rpmalloc_initialize(void);
void rpmalloc_thread_initialize(void);
void rpmalloc_thread_finalize(int release_caches);
void *rpmalloc(size_t);
void *rpcalloc(size_t, size_t);
void *rprealloc(void *, size_t);
void *rpmemalign(size_t, size_t);
void rpfree(void *);
size_t rpmalloc_usable_size(void *);
void *__reheap_malloc(size_t);

// As in rpmalloc.h.
typedef struct {
    size_t mapped, mapped_peak, cached, huge_alloc, huge_alloc_peak, mapped_total, unmapped_total;
} rpmalloc_global_statistics_t;
void rpmalloc_global_statistics(rpmalloc_global_statistics_t *);

#ifdef REHEAP_PRELOAD
// All memory that rpmalloc has from the system, for glibc.c. rpmalloc itself counts it only in a slower build.
static atomic_size_t mapped, mapped_most;

static void *counted_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    void *start = mmap(address, length, protection, flags, file, offset);
    if (start == MAP_FAILED) return start;
    size_t now = atomic_fetch_add(&mapped, length) + length, most = atomic_load(&mapped_most);
    while (most < now && !atomic_compare_exchange_weak(&mapped_most, &most, now)) {}
    return start;
}

int __reheap_munmap(void *start, size_t length) {
    int error = munmap(start, length);
    if (!error) atomic_fetch_sub(&mapped, length);
    return error;
}

#define mmap counted_mmap
#define munmap __reheap_munmap
#endif

// rpmalloc crashes if it cannot map a heap for a thread (_rpmalloc_heap_allocate does not check). It maps sixteen heaps
// at once, and keeps those of threads that ended. So this file counts the free ones, and makes a mapping in advance for
// when there are none. A thread begins only if there is one or the other.
enum { IN_ONE_MAPPING = 16, IN_ADVANCE = 1 << 20 };

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static int has_started;
static int free_heaps;
static char *in_advance;
static _Thread_local int takes_heap;
// The mapping that the heap being taken is in, if it is new.
static char *new_heaps;
static size_t new_heaps_length;

// rpmalloc's mmap. While a thread takes a heap, rpmalloc maps nothing but heaps.
void *__reheap_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    void *start = mmap(address, length, protection, flags, file, offset);
    if (likely(!takes_heap)) return start;
    if (start == MAP_FAILED && in_advance && length <= IN_ADVANCE) {
        start = in_advance;
        in_advance = NULL;
        if (length < IN_ADVANCE) munmap((char *)start + length, IN_ADVANCE - length);
    }
    if (start == MAP_FAILED) return start;
    free_heaps += IN_ONE_MAPPING;
    new_heaps = start;
    new_heaps_length = length;
    return start;
}

// rpmalloc's memset. It clears all sixteen heaps, of 60 KiB each, and a program with one thread uses a few KiB of one. In
// a new mapping they are clear, and the pages that nobody writes to cost nothing.
void *__reheap_clear(void *block, int byte, size_t length) {
    if (unlikely(takes_heap) && (uintptr_t)block - (uintptr_t)new_heaps < new_heaps_length) return block;
    return memset(block, byte, length);
}

static int is_mapped_in_advance(void) {
    if (in_advance) return 1;
    char *start = mmap(NULL, IN_ADVANCE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start != MAP_FAILED) in_advance = start;
    return in_advance != NULL;
}

static int thread_begins(void) {
    pthread_mutex_lock(&starting);
    int can_begin = is_mapped_in_advance() || free_heaps > 0;
    if (can_begin) {
        takes_heap = 1;
        if (!has_started) rpmalloc_initialize();
        rpmalloc_thread_initialize();
        takes_heap = 0;
        new_heaps_length = 0;
        has_started = 1;
        free_heaps--;
    }
    pthread_mutex_unlock(&starting);
    return can_begin;
}

static void thread_ends(void) {
    rpmalloc_thread_finalize(1);
    pthread_mutex_lock(&starting);
    free_heaps++;
    pthread_mutex_unlock(&starting);
}

// rpmalloc cannot align to a span (64 KiB) or more, and to more than a page only by trying. This file maps such blocks,
// aligned to at least a span. rpmalloc's own blocks are never at the start of a span, because its header is there. So
// the address shows whose a block is. The page in front of the block describes the mapping.
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

// Moves the contents to a block of rpmalloc's. realloc need not keep an alignment.
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

void *__reheap_inner_realloc(void *block, size_t size) {
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
        if (block && !__reheap_free_grown(block)) unmap(block);
        return;
    }
    struct slot *slot = enter();
    if (unlikely(!slot)) return; // no memory to announce this thread: losing the block is better than a crash
    int errno_before = errno;
    rpfree(block);
    errno = errno_before;
    leave(slot);
}

size_t __reheap_inner_malloc_usable_size(void *block) {
    return is_mapped(block) ? mapping_of(block)->size : rpmalloc_usable_size(block);
}

#ifdef REHEAP_PRELOAD
// For glibc.c. It counts as free only the spans in the cache that all threads share.
void __reheap_usage(size_t *used, size_t *kept, size_t *most) {
    rpmalloc_global_statistics_t global;
    rpmalloc_global_statistics(&global);
    size_t total = atomic_load(&mapped);
    *kept = global.cached < total ? global.cached : total;
    *used = total - *kept;
    *most = atomic_load(&mapped_most);
    *used += __reheap_grown_total();
}

// Moves this thread's cache to the cache that all threads share, and to the system if that one is full.
int __reheap_collect(void) {
    struct slot *slot = enter();
    if (!slot) return 0;
    size_t before = atomic_load(&mapped);
    thread_ends();
    int has_begun = thread_begins();
    leave(slot);
    if (!has_begun) { // another thread was quicker; the next call tries again
        give_back(slot);
        pthread_setspecific(leave_key, NULL);
    }
    return atomic_load(&mapped) < before;
}

int __reheap_keep(int for_good) {
    (void)for_good;
    return 0;
}
#endif
