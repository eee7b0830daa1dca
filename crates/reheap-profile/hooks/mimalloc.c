// mimalloc's own functions, which Rust programs call that have it as their global allocator (mimalloc.h).

EXPORTED malloc_like *NEXT(mi_malloc), *NEXT(mi_zalloc);
EXPORTED calloc_like *NEXT(mi_calloc);
EXPORTED realloc_like *NEXT(mi_realloc);
EXPORTED free_like *NEXT(mi_free);

MALLOC_HOOK(mi_malloc, MALLOC)
MALLOC_HOOK(mi_zalloc, CALLOC)
CALLOC_HOOK(mi_calloc, CALLOC)
REALLOC_HOOK(mi_realloc, REALLOC)
FREE_HOOK(mi_free, FREE)

typedef void *mi_realloc_aligned_like(void *, size_t, size_t);
EXPORTED calloc_like *NEXT(mi_malloc_aligned);
EXPORTED calloc_like *NEXT(mi_zalloc_aligned);
EXPORTED mi_realloc_aligned_like *NEXT(mi_realloc_aligned);

EXPORTED void *HOOK(mi_malloc_aligned)(size_t size, size_t alignment) {
    struct caller caller = enter(ALIGNED_ALLOC, STACK);
    if (unlikely(!caller.slot)) return NEXT(mi_malloc_aligned)(size, alignment);
    void *block = INSIDE(caller, STACK, NEXT(mi_malloc_aligned)(size, alignment));
    TRACE(caller, ALIGNED_ALLOC, block, size, alignment);
    aligned(caller, alignment, block, size, FRAME);
    return block;
}

EXPORTED void *HOOK(mi_zalloc_aligned)(size_t size, size_t alignment) {
    struct caller caller = enter(CALLOC, STACK);
    if (unlikely(!caller.slot)) return NEXT(mi_zalloc_aligned)(size, alignment);
    void *block = INSIDE(caller, STACK, NEXT(mi_zalloc_aligned)(size, alignment));
    TRACE(caller, ALIGNED_ALLOC, block, size, alignment);
    aligned(caller, alignment, block, size, FRAME);
    return block;
}

EXPORTED void *HOOK(mi_realloc_aligned)(void *block, size_t size, size_t alignment) {
    struct caller caller = enter(REALLOC, STACK);
    if (unlikely(!caller.slot)) return NEXT(mi_realloc_aligned)(block, size, alignment);
    struct entry entry = before_realloc(caller, block);
    void *moved = INSIDE(caller, STACK, NEXT(mi_realloc_aligned)(block, size, alignment));
    TRACE(caller, REALLOC, moved, size, alignment);
    reallocated(caller, block, entry, moved, size, FRAME);
    return moved;
}
