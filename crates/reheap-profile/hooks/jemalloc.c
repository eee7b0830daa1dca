// jemalloc's own functions, which Rust programs call that have it as their global allocator (jemalloc(3)). The alignment
// is in the lowest six bits of the flags, as its logarithm.

typedef void *mallocx_like(size_t, int);
typedef void *rallocx_like(void *, size_t, int);
typedef void sdallocx_like(void *, size_t, int);
EXPORTED malloc_like *NEXT(je_malloc);
EXPORTED calloc_like *NEXT(je_calloc), *NEXT(je_aligned_alloc);
EXPORTED realloc_like *NEXT(je_realloc);
EXPORTED free_like *NEXT(je_free);
EXPORTED posix_memalign_like *NEXT(je_posix_memalign);

MALLOC_HOOK(je_malloc, MALLOC)
CALLOC_HOOK(je_calloc, CALLOC)
REALLOC_HOOK(je_realloc, REALLOC)
FREE_HOOK(je_free, FREE)
ALIGNED_HOOK(je_aligned_alloc, ALIGNED_ALLOC)
POSIX_MEMALIGN_HOOK(je_posix_memalign, POSIX_MEMALIGN)

EXPORTED mallocx_like *NEXT(je_mallocx);
EXPORTED rallocx_like *NEXT(je_rallocx);
EXPORTED sdallocx_like *NEXT(je_sdallocx);
typedef void dallocx_like(void *, int);
EXPORTED dallocx_like *NEXT(je_dallocx);

EXPORTED void *HOOK(je_mallocx)(size_t size, int flags) {
    struct caller caller = enter(MALLOCX, STACK);
    if (unlikely(!caller.slot)) return NEXT(je_mallocx)(size, flags);
    void *block = INSIDE(caller, STACK, NEXT(je_mallocx)(size, flags));
    TRACE(caller, MALLOCX, block, size, (u64)1 << (flags & 63));
    aligned(caller, (size_t)1 << (flags & 63), block, size, FRAME);
    return block;
}

EXPORTED void *HOOK(je_rallocx)(void *block, size_t size, int flags) {
    struct caller caller = enter(RALLOCX, STACK);
    if (unlikely(!caller.slot)) return NEXT(je_rallocx)(block, size, flags);
    struct entry entry = before_realloc(caller, block);
    void *moved = INSIDE(caller, STACK, NEXT(je_rallocx)(block, size, flags));
    TRACE(caller, RALLOCX, moved, size, (u64)1 << (flags & 63));
    reallocated(caller, block, entry, moved, size, FRAME);
    return moved;
}

EXPORTED void HOOK(je_sdallocx)(void *block, size_t size, int flags) {
    FREE_BLOCK(SDALLOCX, block, NEXT(je_sdallocx)(block, size, flags));
}

EXPORTED void HOOK(je_dallocx)(void *block, int flags) {
    FREE_BLOCK(DALLOCX, block, NEXT(je_dallocx)(block, flags));
}
