// The functions that stand in front of the program's own.
//
// `reheap_next_malloc` and the like are what stands behind them. In a preload each begins with a function that finds the
// next of that name, so no call has to ask whether it was found. In a static program reheap writes the address of the
// original's relocated beginning there, before anything calls it.

#define NEXT(name) next_##name
// What stands behind a hook. reheap knows it by another name: what has only a hidden name needs no look-up in a table.
#define DECLARE_NEXT(type, name, first) \
    HIDDEN type *NEXT(name) = first; \
    EXPORTED extern type *reheap_next_##name __attribute__((alias("next_" #name)))
#define HOOK(name) reheap_hook_##name

// --- Finding what is behind, in a preload.

extern void *dlsym(void *, const char *) __attribute__((weak));
#define RTLD_NEXT ((void *)-1L)

// dlsym may allocate itself (glibc before 2.34 does), while it is being asked for the functions that do that.
static char early_memory[64 << 10] __attribute__((aligned(64)));
static u64 early_used;
static u64 searching; // the thread that searches, by its pointer; 0: none

static void *early(size_t size) {
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded < size || rounded > sizeof early_memory) return NULL;
    u64 before = __atomic_fetch_add(&early_used, rounded, __ATOMIC_RELAXED);
    return before <= sizeof early_memory - rounded ? early_memory + before : NULL;
}

INLINE int is_early(const void *block) { return (u64)block - (u64)early_memory < sizeof early_memory; }

typedef void *malloc_like(size_t);
typedef void *calloc_like(size_t, size_t);
typedef void *realloc_like(void *, size_t);
typedef void free_like(void *);
typedef int posix_memalign_like(void **, size_t, size_t);
typedef void *reallocarray_like(void *, size_t, size_t);
typedef void free_sized_like(void *, size_t);
typedef void free_aligned_sized_like(void *, size_t, size_t);
typedef int prctl_like(int, u64, u64, u64, u64);
typedef size_t usable_size_like(void *);
typedef long syscall_like(long, long, long, long, long, long, long);

static malloc_like find_malloc, find_valloc, find_pvalloc;
static calloc_like find_calloc, find_aligned_alloc, find_memalign;
static realloc_like find_realloc;
static free_like find_free;
static posix_memalign_like find_posix_memalign;
static reallocarray_like find_reallocarray;
static free_sized_like find_free_sized;
static free_aligned_sized_like find_free_aligned_sized;
static prctl_like find_prctl;
static syscall_like find_syscall;

DECLARE_NEXT(malloc_like, malloc, find_malloc);
DECLARE_NEXT(malloc_like, valloc, find_valloc);
DECLARE_NEXT(malloc_like, pvalloc, find_pvalloc);
DECLARE_NEXT(calloc_like, calloc, find_calloc);
DECLARE_NEXT(calloc_like, aligned_alloc, find_aligned_alloc);
DECLARE_NEXT(calloc_like, memalign, find_memalign);
DECLARE_NEXT(realloc_like, realloc, find_realloc);
DECLARE_NEXT(free_like, free, find_free);
DECLARE_NEXT(posix_memalign_like, posix_memalign, find_posix_memalign);
DECLARE_NEXT(reallocarray_like, reallocarray, find_reallocarray);
DECLARE_NEXT(free_sized_like, free_sized, find_free_sized);
DECLARE_NEXT(free_aligned_sized_like, free_aligned_sized, find_free_aligned_sized);
DECLARE_NEXT(prctl_like, prctl, find_prctl);
DECLARE_NEXT(syscall_like, syscall, find_syscall);
DECLARE_NEXT(usable_size_like, malloc_usable_size, NULL);

// The next function of that name, or NULL if there is none, or if this thread is just about to find out.
static void *find(const char *name) {
    u64 me = thread_pointer();
    if (__atomic_load_n(&searching, __ATOMIC_RELAXED) == me || !dlsym) return NULL;
    u64 before = __atomic_exchange_n(&searching, me, __ATOMIC_RELAXED);
    void *found = dlsym(RTLD_NEXT, name);
    __atomic_store_n(&searching, before, __ATOMIC_RELAXED);
    return found;
}

static void *find_malloc(size_t size) {
    malloc_like *found = find("malloc");
    if (!found) return early(size);
    NEXT(malloc) = found;
    return found(size);
}

static void *find_calloc(size_t many, size_t size) {
    calloc_like *found = find("calloc");
    size_t bytes;
    if (!found) return __builtin_mul_overflow(many, size, &bytes) ? NULL : early(bytes); // it is zero
    NEXT(calloc) = found;
    return found(many, size);
}

static void *find_realloc(void *block, size_t size) {
    realloc_like *found = find("realloc");
    if (!found) return NULL;
    NEXT(realloc) = found;
    return found(block, size);
}

static void find_free(void *block) {
    free_like *found = find("free");
    if (!found) return;
    NEXT(free) = found;
    found(block);
}

static void *find_aligned_alloc(size_t alignment, size_t size) {
    calloc_like *found = find("aligned_alloc");
    if (!found) return NULL;
    NEXT(aligned_alloc) = found;
    return found(alignment, size);
}

static void *find_memalign(size_t alignment, size_t size) {
    calloc_like *found = find("memalign");
    if (!found) return NULL;
    NEXT(memalign) = found;
    return found(alignment, size);
}

static void *find_valloc(size_t size) {
    malloc_like *found = find("valloc");
    if (!found) return NULL;
    NEXT(valloc) = found;
    return found(size);
}

static void *find_pvalloc(size_t size) {
    malloc_like *found = find("pvalloc");
    if (!found) return NULL;
    NEXT(pvalloc) = found;
    return found(size);
}

static int find_posix_memalign(void **out, size_t alignment, size_t size) {
    enum { ENOMEM = 12 };
    posix_memalign_like *found = find("posix_memalign");
    if (!found) return ENOMEM;
    NEXT(posix_memalign) = found;
    return found(out, alignment, size);
}

static void *find_reallocarray(void *block, size_t many, size_t size) {
    reallocarray_like *found = find("reallocarray");
    if (found) {
        NEXT(reallocarray) = found;
        return found(block, many, size);
    }
    size_t bytes;
    return __builtin_mul_overflow(many, size, &bytes) ? NULL : NEXT(realloc)(block, bytes);
}

static void find_free_sized(void *block, size_t size) {
    free_sized_like *found = find("free_sized");
    if (!found) {
        NEXT(free)(block);
        return;
    }
    NEXT(free_sized) = found;
    found(block, size);
}

static void find_free_aligned_sized(void *block, size_t alignment, size_t size) {
    free_aligned_sized_like *found = find("free_aligned_sized");
    if (!found) {
        NEXT(free)(block);
        return;
    }
    NEXT(free_aligned_sized) = found;
    found(block, alignment, size);
}

static int find_prctl(int option, u64 a, u64 b, u64 c, u64 d) {
    prctl_like *found = find("prctl");
    if (!found) return -1;
    NEXT(prctl) = found;
    return found(option, a, b, c, d);
}

static long find_syscall(long number, long a, long b, long c, long d, long e, long f) {
    syscall_like *found = find("syscall");
    if (!found) return -1;
    NEXT(syscall) = found;
    return found(number, a, b, c, d, e, f);
}

// --- The hooks.

#define NOTE_ALLOCATION(slot, function, block, size, alignment) ({ \
    CAPTURE_CALLER((slot)->caller.registers); \
    note_allocation(slot, function, block, size, alignment); \
})

#define RETURN_ALLOCATED(slot, function, block, size) \
    do { \
        if (unlikely(!note_block_quickly(slot, block, size))) return NOTE_ALLOCATION(slot, function, block, size, 0); \
        count_allocation(slot, function, 1); \
        is_now(slot, 0); \
        return block; \
    } while (0)

// Allocators' own functions have the same shapes as those of the family, so each shape is here once.
#define MALLOC_HOOK(name, function) \
    EXPORTED void *HOOK(name)(size_t size) { \
        struct slot *slot = enter(); \
        if (unlikely(!slot)) return NEXT(name)(size); \
        void *block = INSIDE(slot, NEXT(name)(size)); \
        RETURN_ALLOCATED(slot, function, block, size); \
    }

#define CALLOC_HOOK(name, function) \
    EXPORTED void *HOOK(name)(size_t many, size_t size) { \
        struct slot *slot = enter(); \
        if (unlikely(!slot)) return NEXT(name)(many, size); \
        void *block = INSIDE(slot, NEXT(name)(many, size)); \
        size_t bytes; \
        if (__builtin_mul_overflow(many, size, &bytes)) bytes = SIZE_MAX; \
        RETURN_ALLOCATED(slot, function, block, bytes); \
    }

MALLOC_HOOK(malloc, MALLOC)
CALLOC_HOOK(calloc, CALLOC)

// Counts a block as freed before the allocator gets it, because then another thread may. What most blocks need is apart from
// all other code, so that it has little to save on the stack.
#define FREE_HOOK_OF(name, function, parameters, arguments) \
    static __attribute__((noinline)) void slowly_##name parameters { \
        struct slot *slot = enter(); \
        if (unlikely(is_early(block))) { \
            if (slot) is_now(slot, 0); \
            return; \
        } \
        if (unlikely(!slot)) { \
            NEXT(name) arguments; \
            return; \
        } \
        is_now(slot, IN_HOOK); \
        note_freeing(slot, function, block); \
        (void)INSIDE_AT_LAST(slot, (NEXT(name) arguments, 0)); \
    } \
    EXPORTED void HOOK(name) parameters { \
        struct slot *slot = enter_quickly(); \
        if (likely(slot)) is_now(slot, IN_HOOK); \
        if (unlikely(!slot || !note_free_quickly(slot, block))) { \
            slowly_##name arguments; \
            return; \
        } \
        count_free(slot, function, 1); \
        (void)INSIDE_AT_LAST(slot, (NEXT(name) arguments, 0)); \
    }

#define FREE_HOOK(name, function) FREE_HOOK_OF(name, function, (void *block), (block))

FREE_HOOK(free, FREE)
FREE_HOOK_OF(free_sized, FREE_SIZED, (void *block, size_t size), (block, size))
FREE_HOOK_OF(free_aligned_sized, FREE_ALIGNED_SIZED, (void *block, size_t alignment, size_t size), (block, alignment, size))

// An early block cannot be given to a realloc that does not know it.
static void *move_early(void *block, size_t size) {
    void *moved = NEXT(malloc)(size);
    size_t to_end = sizeof early_memory - (size_t)((char *)block - early_memory);
    if (moved) {
        for (size_t i = 0; i < size && i < to_end; i++) ((volatile char *)moved)[i] = ((char *)block)[i];
    }
    return moved;
}

// The block as it was recorded; from now on it is not, because the allocator may give it to another thread.
INLINE struct entry before_realloc(struct slot *slot, void *block) {
    if (!block) return (struct entry){0};
    if (unlikely(trace)) trace_it(slot, REHEAP_TRACED_INTO_REALLOC, block, 0, 0);
    return take_entry(block);
}

// It did nothing, so what was known of the block is so again.
static void give_back_entry(const void *block, struct entry entry) {
    struct entry *again = find_entry(block);
    if (again) *again = entry;
}

// A realloc that gave no block.
static void not_reallocated(struct slot *slot, void *old, struct entry entry, struct allocation made) {
    if (unlikely(trace)) trace_allocation(slot, made.function, made.block, made.size, made.alignment);
    ADD(slot->calls[made.function], 1);
    give_back_entry(old, entry);
    if (made.size != 0) {
        ADD(slot->failed, 1);
        return;
    }
    // glibc frees the block. musl and others give a block of no bytes, and do not come here.
    ADD(slot->emptied, 1);
    if (note_free(slot, old)) ADD(slot->calls[FREE], -1);
}

// What a call of realloc did with `old`, which was recorded as `entry` until then: it allocated a block of the new size, and
// freed the old one. So it counts wherever the new block is, as an allocator may have to move it or not.
static void reallocated(struct slot *slot, void *old, struct entry entry, struct allocation made) {
    if (old && !made.block) {
        not_reallocated(slot, old, entry, made);
        return;
    }
    if (old) {
        u64 before = size_of(entry.block);
        ADD(slot->in_place, made.block == old);
        ADD(slot->moved, made.block != old);
        if (made.block != old) ADD(slot->copied_bytes, before < made.size ? before : made.size);
        // The new block counts as allocated first, so that no old one seems to have been freed before the next allocation.
        if (slot_of(entry.block) == number_of(slot)) entry.number--;
        if (note_freed(slot, old, entry)) ADD(slot->calls[FREE], -1);
    }
    note_call(slot, made);
}

#define REALLOCATED(slot, function, old, entry, block, size, alignment) \
    do { \
        CAPTURE_CALLER((slot)->caller.registers); \
        reallocated(slot, old, entry, (struct allocation){function, block, size, alignment}); \
        is_now(slot, 0); \
    } while (0)

#define REALLOC_HOOK(name, function) \
    EXPORTED void *HOOK(name)(void *block, size_t size) { \
        if (unlikely(is_early(block))) return move_early(block, size); \
        struct slot *slot = enter(); \
        if (unlikely(!slot)) return NEXT(name)(block, size); \
        struct entry entry = before_realloc(slot, block); \
        void *moved = INSIDE(slot, NEXT(name)(block, size)); \
        REALLOCATED(slot, function, block, entry, moved, size, 0); \
        return moved; \
    }

REALLOC_HOOK(realloc, REALLOC)

EXPORTED void *HOOK(reallocarray)(void *block, size_t many, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(many, size, &bytes)) bytes = SIZE_MAX;
    if (unlikely(is_early(block))) return move_early(block, bytes);
    struct slot *slot = enter();
    if (unlikely(!slot)) return NEXT(reallocarray)(block, many, size);
    struct entry entry = before_realloc(slot, block);
    void *moved = INSIDE(slot, NEXT(reallocarray)(block, many, size));
    REALLOCATED(slot, REALLOCARRAY, block, entry, moved, bytes, 0);
    return moved;
}

#define ALIGNED_HOOK(name, function) \
    EXPORTED void *HOOK(name)(size_t alignment, size_t size) { \
        struct slot *slot = enter(); \
        if (unlikely(!slot)) return NEXT(name)(alignment, size); \
        void *block = INSIDE(slot, NEXT(name)(alignment, size)); \
        return NOTE_ALLOCATION(slot, function, block, size, alignment); \
    }

#define POSIX_MEMALIGN_HOOK(name, function) \
    EXPORTED int HOOK(name)(void **out, size_t alignment, size_t size) { \
        struct slot *slot = enter(); \
        if (unlikely(!slot)) return NEXT(name)(out, alignment, size); \
        int error = INSIDE(slot, NEXT(name)(out, alignment, size)); \
        (void)NOTE_ALLOCATION(slot, function, error ? NULL : *out, size, alignment); \
        return error; \
    }

ALIGNED_HOOK(aligned_alloc, ALIGNED_ALLOC)
ALIGNED_HOOK(memalign, MEMALIGN)
POSIX_MEMALIGN_HOOK(posix_memalign, POSIX_MEMALIGN)

enum { PAGE = 4096 };

// valloc and pvalloc.
#define PAGES_HOOK(name, function) \
    EXPORTED void *HOOK(name)(size_t size) { \
        struct slot *slot = enter(); \
        if (unlikely(!slot)) return NEXT(name)(size); \
        void *block = INSIDE(slot, NEXT(name)(size)); \
        return NOTE_ALLOCATION(slot, function, block, size, PAGE); \
    }

PAGES_HOOK(valloc, VALLOC)
PAGES_HOOK(pvalloc, PVALLOC)

// A program that is about to limit its own system calls.
EXPORTED int HOOK(prctl)(int option, u64 a, u64 b, u64 c, u64 d) {
    enum { PR_SET_SECCOMP = 22 };
    if (option == PR_SET_SECCOMP) quiet = 1;
    return NEXT(prctl)(option, a, b, c, d);
}

EXPORTED long HOOK(syscall)(long number, long a, long b, long c, long d, long e, long f) {
    if (number == SYS_seccomp) quiet = 1;
    return NEXT(syscall)(number, a, b, c, d, e, f);
}
