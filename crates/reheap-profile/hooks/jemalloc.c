// jemalloc's own functions, which Rust programs call that have it as their global allocator (jemalloc(3)). The alignment
// is in the lowest six bits of the flags, as its logarithm.

typedef void *mallocx_like(size_t, int);
typedef void *rallocx_like(void *, size_t, int);
typedef void sdallocx_like(void *, size_t, int);
DECLARE_NEXT(malloc_like, je_malloc, NULL);
DECLARE_NEXT(calloc_like, je_calloc, NULL);
DECLARE_NEXT(calloc_like, je_aligned_alloc, NULL);
DECLARE_NEXT(realloc_like, je_realloc, NULL);
DECLARE_NEXT(free_like, je_free, NULL);
DECLARE_NEXT(posix_memalign_like, je_posix_memalign, NULL);

MALLOC_HOOK(je_malloc, MALLOC)
CALLOC_HOOK(je_calloc, CALLOC)
REALLOC_HOOK(je_realloc, REALLOC)
FREE_HOOK(je_free, FREE)
ALIGNED_HOOK(je_aligned_alloc, ALIGNED_ALLOC)
POSIX_MEMALIGN_HOOK(je_posix_memalign, POSIX_MEMALIGN)

DECLARE_NEXT(mallocx_like, je_mallocx, NULL);
DECLARE_NEXT(rallocx_like, je_rallocx, NULL);
DECLARE_NEXT(sdallocx_like, je_sdallocx, NULL);
typedef void dallocx_like(void *, int);
DECLARE_NEXT(dallocx_like, je_dallocx, NULL);

EXPORTED void *HOOK(je_mallocx)(size_t size, int flags) {
    struct slot *slot = enter();
    if (unlikely(!slot)) return NEXT(je_mallocx)(size, flags);
    void *block = INSIDE(slot, NEXT(je_mallocx)(size, flags));
    return NOTE_ALLOCATION(slot, MALLOCX, block, size, (u64)1 << (flags & 63));
}

EXPORTED void *HOOK(je_rallocx)(void *block, size_t size, int flags) {
    struct slot *slot = enter();
    if (unlikely(!slot)) return NEXT(je_rallocx)(block, size, flags);
    struct entry entry = before_realloc(slot, block);
    void *moved = INSIDE(slot, NEXT(je_rallocx)(block, size, flags));
    REALLOCATED(slot, RALLOCX, block, entry, moved, size, (u64)1 << (flags & 63));
    return moved;
}

FREE_HOOK_OF(je_sdallocx, SDALLOCX, (void *block, size_t size, int flags), (block, size, flags))
FREE_HOOK_OF(je_dallocx, DALLOCX, (void *block, int flags), (block, flags))
