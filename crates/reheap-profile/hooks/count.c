// What the hooks note at each call, in the slot of the thread: plain additions, no lock, and no cache line that another
// thread writes to.

enum function {
    MALLOC, CALLOC, REALLOC, FREE, ALIGNED_ALLOC, POSIX_MEMALIGN, MEMALIGN, VALLOC, PVALLOC, REALLOCARRAY,
    FREE_SIZED, FREE_ALIGNED_SIZED, MALLOCX, RALLOCX, SDALLOCX, DALLOCX, FUNCTIONS,
};
_Static_assert((int)FUNCTIONS <= (int)FUNCTIONS_MAX, "there is a counter for each function");

// The same in a trace.
static const u8 traced_as[FUNCTIONS] = {
    [MALLOC] = REHEAP_TRACED_MALLOC,
    [CALLOC] = REHEAP_TRACED_CALLOC,
    [REALLOC] = REHEAP_TRACED_REALLOC,
    [FREE] = REHEAP_TRACED_FREE,
    [ALIGNED_ALLOC] = REHEAP_TRACED_ALIGNED_ALLOC,
    [POSIX_MEMALIGN] = REHEAP_TRACED_POSIX_MEMALIGN,
    [MEMALIGN] = REHEAP_TRACED_MEMALIGN,
    [VALLOC] = REHEAP_TRACED_VALLOC,
    [PVALLOC] = REHEAP_TRACED_PVALLOC,
    [REALLOCARRAY] = REHEAP_TRACED_REALLOCARRAY,
    [FREE_SIZED] = REHEAP_TRACED_FREE,
    [FREE_ALIGNED_SIZED] = REHEAP_TRACED_FREE,
    [MALLOCX] = REHEAP_TRACED_MALLOCX,
    [RALLOCX] = REHEAP_TRACED_RALLOCX,
    [SDALLOCX] = REHEAP_TRACED_SDALLOCX,
    [DALLOCX] = REHEAP_TRACED_FREE,
};

enum {
    HUGE_BYTES_LOG2 = 25,       // HUGE_BYTES in profile.rs
    STEP_BYTES = 32 << 10,      // how much live memory a thread keeps to itself before it tells its process
    USABLE_EVERY = 64,          // of each bucket, one block of so many is asked for its usable size
    TICKS_PER_MILLISECOND_LOG2 = 3,
};

static size_t (*next_usable_size)(void *);

// In a hook: a place in its part of the stack.
#define STACK ((u64)__builtin_frame_address(0))

// The slot of the thread, or none if this call is passed on as it is: there is no place for it, or it comes from inside the
// allocator. A call that was left by longjmp does not count as the outer one for ever: the stack shows it is over.
INLINE struct slot *enter(void) {
    u64 pointer = thread_pointer();
    struct slot *slot = remembered_slot(pointer);
    if (unlikely(!slot)) slot = find_slot(pointer);
    return likely(slot && STACK >= slot->inside) ? slot : NULL;
}

// The same, or NULL if the slot must be looked for.
INLINE struct slot *enter_quickly(void) {
    struct slot *slot = remembered_slot(thread_pointer());
    return likely(slot && STACK >= slot->inside) ? slot : NULL;
}

// reheap looks where the threads are, to see how long the allocator takes, and the hooks.
INLINE void is_now(struct slot *slot, u64 where) { __atomic_store_n(&slot->inside, where, __ATOMIC_RELAXED); }

// Around the allocator's own function, and nothing of ours. Where the thread is behind it: in the hook, or in the program.
#define INSIDE_THEN(slot, call, where) ({ \
    is_now(slot, STACK); \
    __auto_type result = (call); \
    is_now(slot, where); \
    result; \
})
#define INSIDE(slot, call) INSIDE_THEN(slot, call, IN_HOOK)
#define INSIDE_AT_LAST(slot, call) INSIDE_THEN(slot, call, 0)

// A call as it is traced: an allocation after the allocator gave the block, a free before it gets it.
RARE void trace_it(struct slot *slot, enum reheap_traced as, const void *block, u64 size, u64 alignment) {
    trace_call(trace, trace_ring_at(place_of(slot), number_of(slot)), as, block, size, alignment);
}

// 0, then steps of 8 bytes, then four for each power of two.
INLINE u32 bucket_of_size(u64 size) {
    if (likely(size <= FINE_BYTES)) return (u32)(size + 7) / 8;
    u32 log2 = 63 - (u32)__builtin_clzll(size - 1);
    u32 bucket = FINE_SIZES + (log2 - 8) * 4 + (u32)((size - 1) >> (log2 - 2) & 3);
    return bucket < SIZES ? bucket : SIZES - 1;
}

// 0 for 0, and otherwise one more than the logarithm.
INLINE u32 bucket_of(u32 value) { return (u32)__builtin_clzll(2 * (u64)value + 1) ^ 63; }

INLINE u32 ticks_now(void) { return (u32)__atomic_load_n(&shared->now, __ATOMIC_RELAXED); }

static void tell_place(struct place *place, struct slot *slot) {
    u64 bytes = bytes_of(&slot->allocated) - bytes_of(&slot->freed), blocks = live_blocks_of(slot);
    i64 more_bytes = (i64)(bytes - slot->told_bytes), more_blocks = (i64)(blocks - slot->told_blocks);
    ADD(slot->told_bytes, more_bytes);
    ADD(slot->told_blocks, more_blocks);
    note_in_past(more_bytes, more_blocks);
    i64 live_blocks = __atomic_add_fetch(&place->live_blocks, more_blocks, __ATOMIC_RELAXED);
    i64 live = __atomic_add_fetch(&place->live_bytes, more_bytes, __ATOMIC_RELAXED);
    i64 peak = __atomic_load_n(&place->peak_bytes, __ATOMIC_RELAXED);
    while (live > peak) {
        if (__atomic_compare_exchange_n(&place->peak_bytes, &peak, live, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            __atomic_store_n(&place->peak_blocks, live_blocks, __ATOMIC_RELAXED);
            __atomic_store_n(&place->peak_at, __atomic_load_n(&shared->now, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
            break;
        }
    }
}

// After a change of live memory: tells the place where it is much, and says for how many bytes the next ones need no look
// at it. Where every call is traced, each has more to do than to count.
static void look_at_live(struct slot *slot) {
    i64 pending = (i64)(bytes_of(&slot->allocated) - bytes_of(&slot->freed) - slot->told_bytes);
    if (unlikely((u64)(pending + STEP_BYTES) > 2 * STEP_BYTES)) {
        tell_place(place_of(slot), slot);
        pending = 0;
    }
    u64 until_sample = slot->sample_at - bytes_of(&slot->allocated), until_told = (u64)(STEP_BYTES - pending);
    grant(&slot->allocated, trace ? (u64)-1 : until_told < until_sample ? until_told : until_sample);
    grant(&slot->freed, trace ? (u64)-1 : (u64)(STEP_BYTES + pending));
}

RARE void look_at_usable(struct slot *slot, u32 bucket, void *block, u64 size) {
    if (!next_usable_size) return;
    struct usable *usable = &slot->usable[bucket];
    ADD(usable->usable, next_usable_size(block));
    ADD(usable->requested, size);
    ADD(usable->blocks, 1);
}

// Writes down what belongs to the block from now on.
static void record_block(struct slot *slot, const void *block, u64 size) {
    u64 sampled = 0;
    ADD(slot->allocated.left, -size);
    slot->sample_at -= size == 0; // an empty block counts as a byte
    if (unlikely(bytes_of(&slot->allocated) >= slot->sample_at) && shared->every) {
        sampled = sample(slot, block, size) ? SAMPLED : 0;
    }
    struct place *place = place_of(slot);
    struct entry *entry = entry_for(place, block);
    if (unlikely(!entry)) {
        ADD(slot->allocated.left, size);
        __atomic_fetch_add(&place->lost_blocks, 1, __ATOMIC_RELAXED);
        return;
    }
    entry->tick = ticks_now();
    entry->number = (u32)slot->number;
    entry->block = slot->mark | sampled | size << SIZE_SHIFT;
    keep_pace(slot);
    look_at_live(slot);
}

static void note_size(struct slot *slot, void *block, u64 size) {
    u32 bucket = bucket_of_size(size);
    u64 before;
    if (likely(size <= FINE_BYTES)) {
        before = slot->small[size];
        ADD(slot->small[size], 1);
    } else {
        struct pair *large = &slot->large[bucket - FINE_SIZES];
        before = large->blocks;
        ADD(large->blocks, 1);
        ADD(large->bytes, size);
    }
    if (unlikely(size >> HUGE_BYTES_LOG2)) ADD(slot->huge, 1);
    if (unlikely(before % USABLE_EVERY == 0)) look_at_usable(slot, bucket, block, size);
}

// A new block, or none.
static void note_block(struct slot *slot, void *block, u64 size) {
    if (unlikely(!block)) {
        ADD(slot->failed, size != 0);
        return;
    }
    note_size(slot, block, size);
    ADD(slot->number, 1);
    record_block(slot, block, size);
}

INLINE int spend(struct budget *budget, u64 bytes) {
    ADD(budget->left, -bytes);
    if (likely(budget->left >= 0)) return 1;
    ADD(budget->left, bytes);
    return 0;
}

// What most allocations need: a new small block, and nothing to do but to count. Otherwise 0, and nothing is counted yet.
INLINE int note_block_quickly(struct slot *slot, const void *block, u64 size) {
    if (unlikely(!block || size - 1 >= FINE_BYTES)) return 0;
    u64 before = slot->small[size], distance = distance_quickly(address_of(block));
    if (unlikely(!distance || before % USABLE_EVERY == 0)) return 0;
    struct entry *entry = (struct entry *)(distance + address_of(block));
    if (unlikely(!spend(&slot->allocated, size))) return 0;
    ADD(slot->small[size], 1);
    ADD(slot->number, 1);
    entry->tick = ticks_now();
    entry->number = (u32)slot->number;
    entry->block = slot->mark | size << SIZE_SHIFT;
    return 1;
}

// malloc and free have no counters of their own: in most programs, each block that is allocated or freed is a call of
// theirs. Calls of other functions are subtracted, after the block is counted, so that the difference is never negative.
INLINE void count_allocation(struct slot *slot, enum function function, int made) {
    if (function == MALLOC) {
        if (unlikely(!made)) ADD(slot->calls[MALLOC], 1);
        return;
    }
    ADD(slot->calls[function], 1);
    if (likely(made)) ADD(slot->calls[MALLOC], -1);
}

INLINE void count_free(struct slot *slot, enum function function, int is_freed) {
    if (function == FREE) {
        if (unlikely(!is_freed)) ADD(slot->calls[FREE], 1);
        return;
    }
    ADD(slot->calls[function], 1);
    if (likely(is_freed)) ADD(slot->calls[FREE], -1);
}

RARE void trace_allocation(struct slot *slot, enum function function, const void *block, u64 size, u64 alignment) {
    // A trace has no function for zeroed and aligned memory; mimalloc has.
    if (function == CALLOC && alignment) function = ALIGNED_ALLOC;
    trace_it(slot, traced_as[function], block, size, alignment);
}

// What a call asked for, and got. An alignment of 0: the function has none.
struct allocation {
    enum function function;
    void *block;
    u64 size, alignment;
};

// The slot has the hook's caller.
static void note_call(struct slot *slot, struct allocation made) {
    if (unlikely(trace)) trace_allocation(slot, made.function, made.block, made.size, made.alignment);
    note_block(slot, made.block, made.size);
    if (made.block && made.alignment) ADD(slot->alignments[(63 - (u32)__builtin_clzll(made.alignment)) % ALIGNMENTS], 1);
    count_allocation(slot, made.function, made.block != NULL);
}

// Returns the block, so that the hook need not keep it meanwhile.
static __attribute__((noinline)) void *note_allocation(struct slot *slot, enum function function, void *block, u64 size,
                                                       u64 alignment) {
    note_call(slot, (struct allocation){function, block, size, alignment});
    is_now(slot, 0);
    return block;
}

// The block as it was recorded, which it is no longer; 0 if it was not.
INLINE struct entry take_entry(const void *block) {
    struct entry *entry = find_entry(block);
    if (unlikely(!entry || !(entry->block & LIVE))) return (struct entry){0}; // of a block that was freed, a size may be left
    struct entry taken = *entry;
    forget(entry);
    return taken;
}

// How long the block lived. `allocations` is how many others its thread allocated meanwhile.
INLINE void note_life(struct slot *slot, struct entry entry, u32 allocations) {
    u32 time = bucket_of((ticks_now() - entry.tick) >> TICKS_PER_MILLISECOND_LOG2);
    struct pair *lived = &slot->lived[time * DISTANCES + bucket_of(allocations)];
    ADD(lived->blocks, 1);
    ADD(lived->bytes, size_of(entry.block));
    ADD(slot->frees, 1);
}

// A block that is freed, as it was recorded; 0 if it was not.
static int note_freed(struct slot *slot, const void *block, struct entry entry) {
    if (unlikely(!(entry.block & LIVE))) {
        ADD(slot->unknown_frees, 1);
        return 0;
    }
    u64 size = size_of(entry.block);
    struct slot *of_block = slot;
    if (slot_of(entry.block) != number_of(slot)) of_block = slot_at(place_of(slot), slot_of(entry.block));
    u32 allocations = (u32)__atomic_load_n(&of_block->number, __ATOMIC_RELAXED) - entry.number;
    if (of_block != slot) {
        ADD(slot->of_others.blocks, 1);
        ADD(slot->of_others.bytes, size);
        ADD(slot->of_others_at_once, allocations == 0);
    }
    ADD(slot->freed.left, -size);
    note_life(slot, entry, allocations);
    if (unlikely(entry.block & SAMPLED)) sampled_is_freed(place_of(slot), block);
    return 1;
}

static int note_free(struct slot *slot, const void *block) {
    int was_recorded = note_freed(slot, block, take_entry(block));
    look_at_live(slot);
    return was_recorded;
}

// What most frees need: a block of this thread that was not sampled, and nothing to do but to count. Otherwise 0, and
// nothing is counted yet.
INLINE int note_free_quickly(struct slot *slot, const void *block) {
    u64 distance = distance_quickly(address_of(block));
    struct entry *entry = (struct entry *)(distance + address_of(block));
    if (unlikely(!distance || (uint16_t)entry->block != (uint16_t)slot->mark)) return 0;
    struct entry taken = *entry;
    if (unlikely(!spend(&slot->freed, size_of(taken.block)))) return 0;
    forget(entry);
    note_life(slot, taken, (u32)slot->number - taken.number);
    return 1;
}
_Static_assert(SIZE_SHIFT == 16 && SLOT_SHIFT + SLOT_BITS <= SIZE_SHIFT, "16 bits say whose block it is");

INLINE void note_freeing(struct slot *slot, enum function function, const void *block) {
    if (unlikely(trace)) trace_it(slot, traced_as[function], block, 0, 0);
    count_free(slot, function, block && note_free(slot, block));
}
