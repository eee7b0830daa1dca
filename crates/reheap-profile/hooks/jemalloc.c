// jemalloc's own functions, which Rust programs call that have it as their global allocator (jemalloc(3)). The alignment
// is in the lowest six bits of the flags, as its logarithm.

typedef void *mallocx_like(size_t, int);
typedef void *rallocx_like(void *, size_t, int);
typedef void sdallocx_like(void *, size_t, int);
EXPORTED mallocx_like *NEXT(je_mallocx);
EXPORTED rallocx_like *NEXT(je_rallocx);
EXPORTED sdallocx_like *NEXT(je_sdallocx);

EXPORTED void *HOOK(je_mallocx)(size_t size, int flags) {
    struct caller caller = enter(MALLOCX, STACK);
    if (unlikely(!caller.slot)) return NEXT(je_mallocx)(size, flags);
    void *block = INSIDE(caller, STACK, NEXT(je_mallocx)(size, flags));
    aligned(caller, (size_t)1 << (flags & 63), block, size, FRAME);
    return block;
}

EXPORTED void *HOOK(je_rallocx)(void *block, size_t size, int flags) {
    struct caller caller = enter(RALLOCX, STACK);
    if (unlikely(!caller.slot)) return NEXT(je_rallocx)(block, size, flags);
    struct entry entry = block ? take_entry(block) : (struct entry){0};
    void *moved = INSIDE(caller, STACK, NEXT(je_rallocx)(block, size, flags));
    reallocated(caller, block, entry, moved, size, FRAME);
    return moved;
}

EXPORTED void HOOK(je_sdallocx)(void *block, size_t size, int flags) {
    FREE_BLOCK(SDALLOCX, block, NEXT(je_sdallocx)(block, size, flags));
}
