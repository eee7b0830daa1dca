// The cheapest allocator imaginable, to say how much time any allocator could still save. Not meant for use.
//
// It protects nothing, checks nothing and gives nothing back to the system: what is left is what an allocator cannot do
// without. A malloc takes the first block of its thread's list for the size class, a free puts it back. Three things keep
// that from being slower than a real allocator, which would make it no limit:
//
// - First touches. A page that the program touches costs the kernel more than a thousand mallocs cost us, so memory is
//   populated in steps that grow with what is in use, and from some MiB on lies in huge pages.
// - Cache lines. The size class of a block stands in a table with a byte for each KiB of the heap, not in front of each
//   block: headers would make small blocks half as large again (seen: trees take 1.7 times as long), and one at the start
//   of each region would be in the same cache set as all others.
// - Blocks that one thread allocates and another frees. They go to the list of the thread that frees; now and then it
//   hands over what it does not need, and so does a thread that ends.
//
// It is a bound for the work of an allocator, not for the order of what it gives out: on a large tree that is freed and
// built again, over and over, mimalloc 3 with its list for each page was seen to need a third less time in all.
//
// There are no locks after the first malloc. Threads meet on lock-free stacks, so that a fork needs no attention either:
// what the lists of other threads held is lost in the child.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

// Kernel ABI, madvise(2) and mremap(2); older headers lack them, and older kernels refuse them: then pages come one by one.
#define POPULATE_WRITE 23
#define REMAP_DONTUNMAP 4

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define RARE __attribute__((noinline, cold))

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define SIZE_MAX_BYTES (16 * GIB)

enum {
    CLASSES = 256,
    CLASS_OF_1_KIB = 64,
    CLASS_OF_256_KIB = 128, // the largest class that threads keep lists of
    PATIENCE_MIN = 1,
    PATIENCE_MAX = 255,
};

// Address space is reserved at once, so that an address alone finds its place in the table. Where there is a limit to it
// (RLIMIT_AS), less is taken.
#define RESERVED (64 * GIB)
#define GRANULE KIB
#define STEP_MIN (32 * KIB)
#define STEP_MAX (2 * MIB)
// A program that needs little should not pay for a huge page.
#define IN_SMALL_PAGES (4 * MIB)
#define HUGE_PAGE (2 * MIB)
// Blocks of more than 256 KiB all lie at multiples of this, and a few others do: see free.
#define RARE_ALIGNMENT (4 * KIB)

// A free block. One that is first in a list which was handed over also knows the list below it.
struct block {
    struct block *next;
    struct block *below;
};

// Memory that is not carved up yet.
struct chunk {
    char *cursor, *end;
};

// Rare frees until a list is looked after: from now, and after that.
struct patience {
    unsigned char left, next;
};

static _Thread_local struct {
    struct block *lists[CLASS_OF_256_KIB + 1];
    struct chunk chunk;
    size_t taken;   // bytes, for all chunks
    unsigned spans; // carved up
    int announced;
    struct patience patience[CLASS_OF_256_KIB + 1];
} mine;

static unsigned char class_table[RESERVED / GRANULE];

static _Atomic(char *) base;
static char *middle, *limit;
// Blocks up to 256 KiB come from the lower half, others from the upper one.
static _Atomic(char *) lower_cursor, upper_cursor;
static pthread_key_t end_of_thread;

// --- Size classes: steps of 16 bytes up to 1 KiB, because no other step is found in so few instructions; then eight from
// one power of two to the next. From 256 bytes on, blocks begin with half a cache line at least, from 512 on with a whole
// one: memset and memcpy are quicker so, and several classes have blocks of the same size.

static inline unsigned class_for_more_than_1_kib(size_t size) {
    size_t last = size - 1;
    unsigned exponent = 63 - (unsigned)__builtin_clzl(last);
    return CLASS_OF_1_KIB + 1 + (exponent - 10) * 8 + ((last >> (exponent - 3)) & 7);
}

static inline size_t size_of_class(unsigned class) {
    if (class <= CLASS_OF_1_KIB) {
        size_t alignment = class <= 16 ? 16 : class <= 32 ? 32 : 64;
        return (class * 16 + alignment - 1) & ~(alignment - 1);
    }
    unsigned step = class - CLASS_OF_1_KIB - 1;
    return (size_t)(9 + step % 8) << (7 + step / 8);
}

static inline unsigned class_for(size_t size) {
    return likely(size <= KIB) ? (unsigned)((size + 15) / 16) : class_for_more_than_1_kib(size);
}

static inline unsigned char *class_at(const void *address) {
    return &class_table[(uintptr_t)address / GRANULE % (RESERVED / GRANULE)];
}

// --- What threads hand over: a stack of lists for each class, and in place of class 0 one of chunks. A head is the place
// of a block in the reserved memory and, against another thread's pop and push in between, a count of changes.

static _Atomic uint64_t stacks[CLASSES];

static inline uint64_t head(struct block *first, uint64_t before) {
    uint64_t place = first ? (uint64_t)((char *)first - base) / 16 : 0;
    return ((before >> 32) + 1) << 32 | place;
}

static void hand_over(unsigned class, struct block *first) {
    uint64_t before = atomic_load(&stacks[class]);
    do {
        uint64_t place = before & UINT32_MAX;
        first->below = place ? (struct block *)(base + place * 16) : NULL;
    } while (!atomic_compare_exchange_weak(&stacks[class], &before, head(first, before)));
}

// Another thread may have taken the first block already and write into it: what is read then is not used, because the
// count has changed.
static struct block *take_over(unsigned class) {
    uint64_t before = atomic_load(&stacks[class]);
    for (;;) {
        uint64_t place = before & UINT32_MAX;
        if (!place) return NULL;
        struct block *first = (struct block *)(base + place * 16);
        struct block *below = *(struct block *volatile *)&first->below;
        if (atomic_compare_exchange_weak(&stacks[class], &before, head(below, before))) return first;
    }
}

// --- Memory.

static void take_leave(void *unused) {
    (void)unused;
    mine.announced = 0; // a later destructor may allocate: then this runs again
    for (unsigned class = 1; class <= CLASS_OF_256_KIB; class++) {
        if (mine.lists[class]) hand_over(class, mine.lists[class]);
        mine.lists[class] = NULL;
    }
    if (mine.chunk.end - mine.chunk.cursor >= (ptrdiff_t)GRANULE) {
        *(struct chunk *)mine.chunk.cursor = (struct chunk){.cursor = mine.chunk.end};
        hand_over(0, (struct block *)mine.chunk.cursor);
    }
    mine.chunk = (struct chunk){NULL, NULL};
    mine.taken = 0;
}

static char *align_up(char *address, size_t alignment) {
    return (char *)(((uintptr_t)address + alignment - 1) & ~(uintptr_t)(alignment - 1));
}

static void *reserve(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void begin(void) {
    size_t size = RESERVED;
    char *memory = reserve(size);
    if (!memory) {
        while (size > 2 * MIB && !(memory = reserve(size))) size /= 2;
        if (!memory) return;
        munmap(memory + size / 2, size / 2); // the other half is for stacks and files
        size /= 2;
    }
    limit = memory + size;
    middle = align_up(memory + size / 2, HUGE_PAGE);
    if (middle > limit) middle = limit;
    char *lower_huge = align_up(memory + IN_SMALL_PAGES, HUGE_PAGE);
    char *upper_huge = middle + IN_SMALL_PAGES;
    if (lower_huge < middle) madvise(lower_huge, (size_t)(middle - lower_huge), MADV_HUGEPAGE);
    if (upper_huge < limit) madvise(upper_huge, (size_t)(limit - upper_huge), MADV_HUGEPAGE);
    lower_cursor = align_up(memory + 1, RARE_ALIGNMENT); // place 0 is for the empty stack
    upper_cursor = middle;
    pthread_key_create(&end_of_thread, take_leave);
    base = memory;
}

// The first mallocs of two threads may come at once: musl makes threads without a malloc.
RARE static int announce(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    if (!base) return 0;
    mine.announced = 1;
    pthread_setspecific(end_of_thread, &mine);
    return 1;
}

static char *advance(_Atomic(char *) *cursor, size_t size, char *end) {
    char *before = atomic_load(cursor);
    do {
        if (size > (size_t)(end - before)) return NULL;
    } while (!atomic_compare_exchange_weak(cursor, &before, before + size));
    return before;
}

static int refill(struct chunk *chunk, size_t needed) {
    struct chunk *left = (struct chunk *)take_over(0);
    if (left && (size_t)(left->cursor - (char *)left) >= needed) {
        *chunk = (struct chunk){(char *)left, left->cursor};
        return 1;
    }
    size_t step = mine.taken / 4 / STEP_MIN * STEP_MIN;
    if (step < STEP_MIN) step = STEP_MIN;
    if (step > STEP_MAX) step = STEP_MAX;
    if (step < needed) step = (needed + STEP_MIN - 1) / STEP_MIN * STEP_MIN;
    char *memory = advance(&lower_cursor, step, middle);
    if (!memory) return 0;
    madvise(memory, step, POPULATE_WRITE);
    mine.taken += step;
    if (memory != chunk->end) chunk->cursor = memory;
    chunk->end = memory + step;
    return 1;
}

// A span of blocks of one class. The first block that is given out is not the first in the span: that of every class
// would share cache sets with all others'.
static struct block *carve(unsigned class) {
    size_t size = size_of_class(class);
    size_t span = size > 8 * KIB ? size : 4 * size;
    if (span < mine.taken / 256) span = mine.taken / 256;
    if (span > 16 * KIB) span = size > 8 * KIB ? size : 16 * KIB / size * size;
    span = (span + GRANULE - 1) / GRANULE * GRANULE;
    // As aligned as a multiple of the size can be, up to a page: memalign counts on it.
    size_t alignment = size & -size;
    alignment = alignment < GRANULE ? GRANULE : alignment > 4 * KIB ? 4 * KIB : alignment;

    struct chunk *chunk = &mine.chunk;
    if (align_up(chunk->cursor, alignment) + span > chunk->end && !refill(chunk, span + alignment)) return NULL;
    char *memory = align_up(chunk->cursor, alignment);
    chunk->cursor = memory + span;
    memset(class_at(memory), (int)class, span / GRANULE);

    size_t count = span / size;
    size_t start = (size_t)((++mine.spans * 2654435769u) >> 16) * count >> 16; // Knuth's multiplicative hash
    struct block *list = NULL;
    for (size_t i = count; i-- > 0;) {
        size_t place = start + i < count ? start + i : start + i - count;
        struct block *block = (struct block *)(memory + place * size);
        block->next = list;
        list = block;
    }
    return list;
}

// The kernel has zeroed it.
static void *fresh_large(unsigned class, size_t alignment) {
    size_t size = size_of_class(class);
    size_t space = alignment > RARE_ALIGNMENT ? size + alignment : size;
    char *memory = advance(&upper_cursor, space, limit);
    if (!memory) return NULL;
    memory = align_up(memory, alignment > RARE_ALIGNMENT ? alignment : RARE_ALIGNMENT);
    *class_at(memory) = (unsigned char)class;
    if (size <= MIB) madvise(memory, size, POPULATE_WRITE);
    return memory;
}

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

static void *given(void *block, int errno_before) {
    errno = block ? errno_before : ENOMEM;
    return block;
}

// --- The six primitives.

RARE static void *malloc_anew(unsigned class) {
    int errno_before = errno;
    if (!class) class = 1; // malloc(0): nothing is ever in that list
    if (!mine.announced && !announce()) return no_memory();
    struct block *list = take_over(class);
    if (!list) list = carve(class);
    if (list) mine.lists[class] = list->next;
    return given(list, errno_before);
}

enum contents { ANY, ZERO };

RARE static void *malloc_large(size_t size, enum contents contents) {
    int errno_before = errno;
    if (size > SIZE_MAX_BYTES || (!mine.announced && !announce())) return no_memory();
    unsigned class = class_for_more_than_1_kib(size);
    void *block = take_over(class);
    if (block && contents == ZERO) memset(block, 0, size);
    return given(block ? block : fresh_large(class, 1), errno_before);
}

static inline void *take(unsigned class) {
    struct block *block = mine.lists[class];
    if (unlikely(!block)) return malloc_anew(class);
    struct block *next = block->next;
    __builtin_prefetch(next, 1); // the next malloc reads it, and the program writes it then
    mine.lists[class] = next;
    return block;
}

void *__reheap_malloc(size_t size) {
    if (likely(size <= KIB)) return take(class_for(size));
    if (likely(size <= 256 * KIB)) return take(class_for_more_than_1_kib(size));
    return malloc_large(size, ANY);
}

void *__reheap_calloc(size_t count, size_t size) {
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(count, size, &bytes))) return no_memory();
    if (unlikely(bytes > 256 * KIB)) return malloc_large(bytes, ZERO);
    void *block = take(class_for(bytes));
    return likely(block) ? memset(block, 0, bytes) : NULL;
}

// Keeps what a thread is likely to need next of a list, and hands the rest over. The longer there was none, the longer
// until the next look: the block that reminds us may be one that comes and goes all the time.
static void trim(unsigned class) {
    struct patience *patience = &mine.patience[class];
    if (patience->left--) return;
    size_t kept = 16 * KIB / size_of_class(class);
    kept = kept < 4 ? 4 : kept > 64 ? 64 : kept;
    struct block *last = mine.lists[class];
    while (last && --kept) last = last->next;
    if (last && last->next) {
        hand_over(class, last->next);
        last->next = NULL;
        patience->next = PATIENCE_MIN;
    } else if (patience->next < PATIENCE_MAX) {
        patience->next = patience->next * 2 + 1;
    }
    patience->left = patience->next;
}

static inline void give_back(void *memory, unsigned class) {
    struct block *block = memory;
    block->next = mine.lists[class];
    mine.lists[class] = block;
}

RARE static void free_rare(void *block) {
    if (!block) return;
    unsigned class = *class_at(block);
    if (class > CLASS_OF_256_KIB) return hand_over(class, block);
    give_back(block, class);
    trim(class);
}

// One test, for no block, for a large one, and for one of 256 others: those remind us to look after the list.
void __reheap_free(void *block) {
    if (unlikely((uintptr_t)block % RARE_ALIGNMENT == 0)) return free_rare(block);
    give_back(block, *class_at(block));
}

// Moves pages, not bytes. The old address range stays mapped, because take_over may still look at it.
static int move_pages(void *from, void *to, size_t size) {
    return mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | REMAP_DONTUNMAP, to) != MAP_FAILED;
}

void *__reheap_realloc(void *block, size_t size) {
    if (!block) return __reheap_malloc(size);
    size_t held = size_of_class(*class_at(block));
    if (size <= held && size >= held / 2) return block;
    void *moved = __reheap_malloc(size);
    if (unlikely(!moved)) return NULL;
    size_t used = size < held ? size : held;
    int errno_before = errno;
    if (used <= 256 * KIB || !move_pages(block, moved, used)) memcpy(moved, block, used);
    errno = errno_before;
    __reheap_free(block);
    return moved;
}

// More than a page: rarely wanted, and the one before may do.
static void *memalign_large(size_t alignment, size_t size) {
    int errno_before = errno;
    if (size > SIZE_MAX_BYTES || alignment > SIZE_MAX_BYTES) return no_memory();
    if (!mine.announced && !announce()) return no_memory();
    unsigned class = class_for(size > 256 * KIB ? size : 256 * KIB + 1);
    struct block *block = take_over(class);
    if (block && (uintptr_t)block % alignment) {
        hand_over(class, block);
        block = NULL;
    }
    return given(block ? block : fresh_large(class, alignment), errno_before);
}

// Within a page, the blocks of a class are as aligned as their size.
void *__reheap_memalign(size_t alignment, size_t size) {
    if (alignment > 4 * KIB || size > 256 * KIB - alignment) return memalign_large(alignment, size);
    unsigned class = class_for(size ? size : 1);
    while (size_of_class(class) % alignment) class++;
    return take(class);
}

size_t __reheap_malloc_usable_size(void *block) {
    return size_of_class(*class_at(block));
}

#ifdef REHEAP_PRELOAD
// For the fork handlers that every preload has: nothing to do, see above.
void __malloc_atfork(int who) {
    (void)who;
}

// For glibc.c.
void __reheap_usage(size_t *used, size_t *kept, size_t *most) {
    char *start = atomic_load(&base);
    *used = start ? (size_t)(lower_cursor - start) + (size_t)(upper_cursor - middle) : 0;
    *kept = 0;
    *most = *used;
}

int __reheap_collect(void) {
    return 0;
}

int __reheap_keep(int for_good) {
    return for_good; // it never gives anything back
}
#endif
