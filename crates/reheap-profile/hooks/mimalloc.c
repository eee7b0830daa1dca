// mimalloc's own functions, which Rust programs call that have it as their global allocator (mimalloc.h).

DECLARE_NEXT(malloc_like, mi_malloc, NULL);
DECLARE_NEXT(malloc_like, mi_zalloc, NULL);
DECLARE_NEXT(calloc_like, mi_calloc, NULL);
DECLARE_NEXT(realloc_like, mi_realloc, NULL);
DECLARE_NEXT(free_like, mi_free, NULL);

MALLOC_HOOK(mi_malloc, MALLOC)
MALLOC_HOOK(mi_zalloc, CALLOC)
CALLOC_HOOK(mi_calloc, CALLOC)
REALLOC_HOOK(mi_realloc, REALLOC)
FREE_HOOK(mi_free, FREE)

typedef void *mi_realloc_aligned_like(void *, size_t, size_t);
DECLARE_NEXT(calloc_like, mi_malloc_aligned, NULL);
DECLARE_NEXT(calloc_like, mi_zalloc_aligned, NULL);
DECLARE_NEXT(mi_realloc_aligned_like, mi_realloc_aligned, NULL);

#define MI_ALIGNED_HOOK(name, function) \
    EXPORTED void *HOOK(name)(size_t size, size_t alignment) { \
        struct slot *slot = enter(); \
        if (unlikely(!slot)) return NEXT(name)(size, alignment); \
        void *block = INSIDE(slot, NEXT(name)(size, alignment)); \
        return NOTE_ALLOCATION(slot, function, block, size, alignment); \
    }

MI_ALIGNED_HOOK(mi_malloc_aligned, ALIGNED_ALLOC)
MI_ALIGNED_HOOK(mi_zalloc_aligned, CALLOC)

EXPORTED void *HOOK(mi_realloc_aligned)(void *block, size_t size, size_t alignment) {
    struct slot *slot = enter();
    if (unlikely(!slot)) return NEXT(mi_realloc_aligned)(block, size, alignment);
    struct entry entry = before_realloc(slot, block);
    void *moved = INSIDE(slot, NEXT(mi_realloc_aligned)(block, size, alignment));
    REALLOCATED(slot, REALLOC, block, entry, moved, size, alignment);
    return moved;
}
