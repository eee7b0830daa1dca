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
    FINE_BYTES = 256,           // up to this size, a bucket for each 8 bytes
};

static size_t (*next_usable_size)(void *);

// A thread in its place.
struct caller {
    struct place *place;
    struct slot *slot; // NULL if the call is passed on uncounted
};

// The thread's place and slot, or none if this call is passed on as it is: there is no place for it, or it comes from inside the
// allocator. A call that was left by longjmp does not count as the outer one for ever: the stack shows it is over.
INLINE struct caller enter(enum function function, u64 frame) {
    struct place *place = local->place;
    if (unlikely(!place)) {
        place = attach();
        if (!place) return (struct caller){0};
    }
    struct slot *slot = slot_of_thread(place);
    if (unlikely(!slot || frame < slot->inside)) return (struct caller){0};
    ADD(slot->calls[function], 1);
    return (struct caller){place, slot};
}

// Around the allocator's own function, and nothing of ours: reheap looks at this to see how long the allocator takes.
#define INSIDE(caller, frame, call) ({ \
    __atomic_store_n(&(caller).slot->inside, (u64)(frame), __ATOMIC_RELAXED); \
    __auto_type result = (call); \
    __atomic_store_n(&(caller).slot->inside, 0, __ATOMIC_RELAXED); \
    result; \
})

RARE void trace_it(struct caller caller, enum reheap_traced as, const void *block, u64 size, u64 alignment) {
    trace_call(trace, trace_ring_at(caller.place, slot_of(caller.slot->mark)), as, block, size, alignment);
}

// An allocation after the allocator gave the block, a free before it gets it.
#define TRACE(caller, function, block, size, alignment) \
    do { \
        if (unlikely(trace)) trace_it(caller, traced_as[function], block, size, alignment); \
    } while (0)

// 0, then steps of 8 bytes, then four for each power of two.
INLINE u32 bucket_of_size(u64 size) {
    if (likely(size <= FINE_BYTES)) return (u32)(size + 7) / 8;
    u32 log2 = 63 - (u32)__builtin_clzll(size - 1);
    u32 bucket = FINE_BYTES / 8 + 1 + (log2 - 8) * 4 + (u32)((size - 1) >> (log2 - 2) & 3);
    return bucket < SIZES ? bucket : SIZES - 1;
}

// 0 for 0, and otherwise one more than the logarithm.
INLINE u32 bucket_of(u64 value, u32 buckets) {
    u32 bucket = value ? 64 - (u32)__builtin_clzll(value) : 0;
    return bucket < buckets ? bucket : buckets - 1;
}

RARE void tell_place(struct place *place, struct slot *slot) {
    i64 bytes = slot->pending_bytes, blocks = (i64)slot->allocations;
    __atomic_store_n(&slot->pending_bytes, 0, __ATOMIC_RELAXED);
    for (u32 bucket = 0; bucket < TIMES; bucket++) blocks -= (i64)slot->times[bucket].blocks;
    i64 live_blocks = __atomic_add_fetch(&place->live_blocks, blocks - slot->told_blocks, __ATOMIC_RELAXED);
    slot->told_blocks = blocks;
    i64 live = __atomic_add_fetch(&place->live_bytes, bytes, __ATOMIC_RELAXED);
    i64 peak = __atomic_load_n(&place->peak_bytes, __ATOMIC_RELAXED);
    while (live > peak) {
        if (__atomic_compare_exchange_n(&place->peak_bytes, &peak, live, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            __atomic_store_n(&place->peak_blocks, live_blocks, __ATOMIC_RELAXED);
            __atomic_store_n(&place->peak_at, __atomic_load_n(&shared->now, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
            break;
        }
    }
}

INLINE void change_live(struct place *place, struct slot *slot, i64 bytes) {
    i64 pending = slot->pending_bytes + bytes;
    __atomic_store_n(&slot->pending_bytes, pending, __ATOMIC_RELAXED);
    if (unlikely((u64)(pending + STEP_BYTES) > 2 * STEP_BYTES)) tell_place(place, slot);
}

RARE void look_at_usable(struct slot *slot, u32 bucket, void *block, u64 size) {
    if (!next_usable_size) return;
    struct usable *usable = &slot->usable[bucket];
    ADD(usable->usable, next_usable_size(block));
    ADD(usable->requested, size);
    ADD(usable->blocks, 1);
}

RARE void note_failure(struct slot *slot, u64 size) {
    ADD(slot->failed, size != 0);
}

// Writes down what belongs to the block from now on.
INLINE void record_block(struct place *place, struct slot *slot, const void *block, u64 size, struct caller_frame frame) {
    u64 sampled = 0;
    slot->sample_in -= (i64)(size | !size); // an empty block counts as a byte
    if (unlikely(slot->sample_in < 0) && shared->every) {
        sampled = sample(place, slot, block, size, frame) ? SAMPLED : 0;
    }
    struct entry *entry = entry_for(place, block);
    if (unlikely(!entry)) {
        __atomic_fetch_add(&place->lost_blocks, 1, __ATOMIC_RELAXED);
        return;
    }
    change_live(place, slot, (i64)size);
    entry->tick = (u32)__atomic_load_n(&shared->now, __ATOMIC_RELAXED);
    entry->number = (u32)slot->allocations;
    entry->block = slot->mark | sampled | (size & SIZE_MASK);
}

INLINE void note_size(struct slot *slot, void *block, u64 size) {
    u32 bucket = bucket_of_size(size);
    ADD(slot->sizes[bucket].blocks, 1);
    ADD(slot->sizes[bucket].bytes, size);
    if (unlikely(size >> HUGE_BYTES_LOG2)) ADD(slot->huge, 1);
    if (unlikely(size == 0)) ADD(slot->zero_size, 1);
    if (unlikely(slot->sizes[bucket].blocks % USABLE_EVERY == 1)) look_at_usable(slot, bucket, block, size);
}

// A new block, or none.
INLINE void allocated(struct place *place, struct slot *slot, void *block, u64 size, struct caller_frame frame) {
    if (unlikely(!block)) {
        note_failure(slot, size);
        return;
    }
    note_size(slot, block, size);
    ADD(slot->allocations, 1);
    slot->latest = (u64)block;
    record_block(place, slot, block, size, frame);
}

// The block as it was recorded, which it is no longer; 0 if it was not.
INLINE struct entry take_entry(const void *block) {
    struct entry *entry = find_entry(block);
    if (unlikely(!entry)) return (struct entry){0};
    struct entry taken = *entry;
    entry->block = 0;
    return taken;
}

// A block that is about to be freed.
INLINE void freed(struct place *place, struct slot *slot, const void *block) {
    struct entry entry = take_entry(block);
    if (unlikely(!(entry.block & LIVE))) {
        ADD(slot->unknown_frees, 1);
        return;
    }
    u64 size = size_of(entry.block);
    change_live(place, slot, -(i64)size);
    struct slot *of_block = slot;
    if (unlikely((entry.block ^ slot->mark) << 2 >> (SIZE_BITS + 2))) {
        ADD(slot->of_others.blocks, 1);
        ADD(slot->of_others.bytes, size);
        of_block = slot_at(place, slot_of(entry.block));
    } else if (slot->latest == (u64)block) {
        ADD(slot->temporaries, 1);
        slot->latest = 0;
    }
    u32 ticks = (u32)__atomic_load_n(&shared->now, __ATOMIC_RELAXED) - entry.tick;
    struct pair *time = &slot->times[bucket_of(ticks >> TICKS_PER_MILLISECOND_LOG2, TIMES)];
    ADD(time->blocks, 1);
    ADD(time->bytes, size);
    u32 others = (u32)__atomic_load_n(&of_block->allocations, __ATOMIC_RELAXED) - entry.number;
    struct pair *distance = &slot->distances[bucket_of(others, DISTANCES)];
    ADD(distance->blocks, 1);
    ADD(distance->bytes, size);
    if (unlikely(entry.block & SAMPLED)) sampled_is_freed(place, block);
}
