// realloc for large blocks that grow, such as vectors, strings and files that are read whole: in mappings of their own.
//
// Allocators copy a block that outgrows its place. While they do, there are both, and every page of the new one is touched
// first. glibc and musl instead let the kernel move the pages of a large block (mremap(2)). Here a large block that grows
// leaves the allocator once. From then on it is a "grown block": one mapping, which the kernel extends in place, or moves
// if something is behind it. When the block is freed, all its memory goes back to the system.
//
// - A grown block begins at a multiple of SLOT, where few blocks of an allocator begin. So `free` needs one test of the
//   address, and the allocator's own path stays as fast as it was. What is there is in a table with an entry for each slot.
// - Fresh pages cost more than copying into pages that the allocator has kept. A program that needs large buffers again and
//   again must not pay for that each time, nor one whose hash table becomes larger and smaller over and over. So a block
//   leaves the allocator only if it is larger than all the grown blocks that were freed before, or became much smaller. That
//   ends at KEEP_MAX. glibc decides by such a rule where a block comes from (M_MMAP_THRESHOLD in mallopt(3)).
// - A program that adds a little at a time gets room for a quarter more: then the kernel is asked, or the block copied, as
//   many times as the logarithm of the size says. Room is address space. A page of it costs memory when it is touched.
// - A mapping is one of 65,530 that a process may have (vm.max_map_count). Beyond COUNT_MAX grown blocks, the others stay
//   in the allocator.
// - Whatever the kernel refuses (RLIMIT_AS, strict overcommit, seccomp), the allocator does as it did before.
//
// There are no locks, so nothing here can be held in a fork. The entry of a slot belongs to whoever owns the block.
//
// Moving the pages out of the allocator's memory, instead of the one copy, was rejected: with MREMAP_DONTUNMAP the kernel
// unlocks all of the mapping that they were in, which is wrong for programs that called mlockall(2).
//
// `__reheap_inner_…` are the allocator's own functions.
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE ((size_t)256 << 10)
#define KEEP_MAX ((size_t)32 << 20)
#define PART ((size_t)4 << 20)
#define COUNT_MAX 4096

// The kernel gives addresses beyond 48 bits only to those who ask for them. The table has two levels.
#if UINTPTR_MAX > UINT32_MAX
#define SLOTS ((uintptr_t)1 << 23)
#define SLOTS_IN_GROUP ((uintptr_t)1 << 11)
#else
#define SLOTS ((uintptr_t)1 << 10)
#define SLOTS_IN_GROUP ((uintptr_t)1 << 10)
#endif

void *__reheap_malloc(size_t);
void __reheap_free(void *);
void *__reheap_inner_realloc(void *, size_t);
size_t __reheap_inner_malloc_usable_size(void *);

typedef _Atomic(size_t) length; // of the block in a slot; 0 if there is none

static _Atomic(length *) groups[SLOTS / SLOTS_IN_GROUP];
static atomic_size_t leaves_from = LARGE, total;
static atomic_int count;

// --- The table.

static uintptr_t slot_of(const void *block) {
    return (uintptr_t)block / SLOT;
}

static length *entry_of(const void *block) {
    if (slot_of(block) >= SLOTS) return NULL;
    length *group = atomic_load(&groups[slot_of(block) / SLOTS_IN_GROUP]);
    return group ? &group[slot_of(block) % SLOTS_IN_GROUP] : NULL;
}

static length *make_entry(const void *block) {
    if (slot_of(block) >= SLOTS) return NULL;
    _Atomic(length *) *group = &groups[slot_of(block) / SLOTS_IN_GROUP];
    if (!atomic_load(group)) {
        size_t bytes = SLOTS_IN_GROUP * sizeof(length);
        length *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *none = NULL;
        if (made == MAP_FAILED) return NULL;
        if (!atomic_compare_exchange_strong(group, &none, made)) munmap(made, bytes);
    }
    return entry_of(block);
}

size_t __reheap_grown_size(const void *block) {
    if (!may_be_grown(block)) return 0;
    length *entry = entry_of(block);
    return entry ? atomic_load_explicit(entry, memory_order_relaxed) : 0;
}

size_t __reheap_grown_total(void) {
    return atomic_load(&total);
}

static void note(length *entry, size_t held, size_t holds) {
    atomic_store_explicit(entry, holds, memory_order_relaxed);
    atomic_fetch_add(&total, holds - held);
}

// --- The mappings.

// Whole pages for that many bytes.
static size_t pages(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) & ~(page - 1);
}

// Addresses for a grown block. It counts as writable already, so the kernel refuses what would not fit.
static void *reserve(size_t size) {
    char *start = mmap(NULL, size + SLOT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    char *block = start + (-(uintptr_t)start & (SLOT - 1)), *end = start + size + SLOT;
    if (block > start) munmap(start, (size_t)(block - start));
    if (end > block + size) munmap(block + size, (size_t)(end - (block + size)));
    if (make_entry(block) && mprotect(block, size, PROT_READ | PROT_WRITE) == 0) return block;
    munmap(block, size);
    return NULL;
}

static void *make(size_t size) {
    if (atomic_fetch_add(&count, 1) < COUNT_MAX) {
        void *block = reserve(size);
        if (block) {
            note(entry_of(block), 0, size);
            return block;
        }
    }
    atomic_fetch_sub(&count, 1);
    return NULL;
}

static void unmap(void *block, size_t held) {
    note(entry_of(block), held, 0); // first: another thread may get the addresses at once
    munmap(block, held);
    atomic_fetch_sub(&count, 1);
}

// The block with another length, here or elsewhere. If the kernel refuses to move it, it may have removed the reservation
// or not. Another thread may have a mapping there by now, so the addresses remain as they are.
static void *remap(void *block, size_t held, size_t wanted) {
    if (mremap(block, held, wanted, 0) != MAP_FAILED) {
        note(entry_of(block), held, wanted);
        return block;
    }
    if (errno == EFAULT) return NULL; // the program has changed a part of it, by mprotect for example
    void *moved = reserve(wanted);
    if (!moved) return NULL;
    length *old = entry_of(block);
    atomic_store_explicit(old, 0, memory_order_relaxed); // see `unmap`
    if (mremap(block, held, wanted, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == MAP_FAILED) {
        atomic_store_explicit(old, held, memory_order_relaxed);
        return NULL;
    }
    note(entry_of(moved), held, wanted);
    return moved;
}

// --- realloc and free.

static size_t room(size_t held, size_t size) {
    return size - held < held / 4 ? size / 4 : 0;
}

// A block of this size has been freed, or has become much smaller. What is like it stays in the allocator from now on.
static void stay_up_to(size_t held) {
    size_t before = atomic_load_explicit(&leaves_from, memory_order_relaxed);
    if (before < held && held <= KEEP_MAX) atomic_store_explicit(&leaves_from, held, memory_order_relaxed);
}

// Copies a grown block to one of the allocator's.
static void *return_to_allocator(void *block, size_t held, size_t size) {
    void *copy = __reheap_malloc(size);
    if (!copy) return NULL;
    memcpy(copy, block, held < size ? held : size);
    unmap(block, held);
    return copy;
}

static void *shrink(void *block, size_t held, size_t size) {
    if (size < LARGE / 2 || (size <= held / 2 && held <= KEEP_MAX)) {
        stay_up_to(held);
        void *copy = return_to_allocator(block, held, size);
        if (copy) return copy;
    }
    size_t wanted = pages(size ? size : 1);
    if (wanted < held - held / 4 && mremap(block, held, wanted, 0) != MAP_FAILED) note(entry_of(block), held, wanted);
    return block;
}

static void *grow(void *block, size_t held, size_t size) {
    void *grown = remap(block, held, pages(size + room(held, size)));
    if (!grown) grown = remap(block, held, pages(size));
    return grown ? grown : return_to_allocator(block, held, size);
}

// Empties whole pages. The next one who touches them gets zeroes. Fails for memory that is locked.
static void drop(char *from, size_t size) {
    size_t page = pages(1);
    char *start = from + (-(uintptr_t)from & (page - 1)), *end = from + size;
    end -= (uintptr_t)end & (page - 1);
    if (start < end) madvise(start, (size_t)(end - start), MADV_DONTNEED);
}

// Copies a block of the allocator's to another place, and frees it. The pages of a very large one go back to the system
// on the way, so that there are never both.
static void *move(void *to, char *block, size_t held, size_t size) {
    size_t part = held > KEEP_MAX ? PART : held, common = held < size ? held : size;
    for (size_t done = 0; done < common; done += part) {
        size_t bytes = common - done < part ? common - done : part;
        memcpy((char *)to + done, block + done, bytes);
        if (held > KEEP_MAX) drop(block + done, bytes);
    }
    if (held > KEEP_MAX) drop(block + common, held - common);
    __reheap_free(block);
    return to;
}

// A block of the allocator's grows.
static void *leave(void *block, size_t held, size_t size) {
    if (size > atomic_load_explicit(&leaves_from, memory_order_relaxed)) {
        void *grown = make(pages(size + room(held, size)));
        if (!grown) grown = make(pages(size));
        if (grown) return move(grown, block, held, size);
    }
    void *moved = room(held, size) ? __reheap_inner_realloc(block, size + room(held, size)) : NULL;
    return moved ? moved : __reheap_inner_realloc(block, size);
}

// A block of the allocator's shrinks. What it no longer needs goes back to the system if that is much.
static void *stay(void *block, size_t held, size_t size) {
    int is_much = held > KEEP_MAX && size < held / 2;
    void *copy = is_much ? __reheap_malloc(size) : NULL;
    return copy ? move(copy, block, held, size) : __reheap_inner_realloc(block, size);
}

static void *resize(void *block, size_t size) {
    size_t held = __reheap_grown_size(block);
    if (held) return size <= held ? shrink(block, held, size) : grow(block, held, size);
    held = __reheap_inner_malloc_usable_size(block);
    return size <= held ? stay(block, held, size) : leave(block, held, size);
}

static __attribute__((noinline)) void *resize_large(void *block, size_t size) {
    if (!block || size > PTRDIFF_MAX) return __reheap_inner_realloc(block, size);
    int errno_before = errno;
    void *resized = resize(block, size);
    errno = resized ? errno_before : ENOMEM;
    return resized;
}

void *__reheap_realloc(void *block, size_t size) {
    if (size > LARGE || may_be_grown(block)) return resize_large(block, size);
    return __reheap_inner_realloc(block, size);
}

int __reheap_free_grown(void *block) {
    size_t held = __reheap_grown_size(block);
    if (!held) return 0;
    int errno_before = errno;
    stay_up_to(held);
    unmap(block, held);
    errno = errno_before;
    return 1;
}

size_t __reheap_malloc_usable_size(void *block) {
    size_t grown = __reheap_grown_size(block);
    return grown ? grown : __reheap_inner_malloc_usable_size(block);
}
