// Stacks, taken every so many allocated bytes on average.
//
// The distances are exponential, so each byte has the same chance, whatever the program's rhythm (a Poisson process). A
// sampled stack goes into the ring of the process as it is: registers and the stack's upper end. reheap unwinds it.
//
// A stack takes some microseconds here and in reheap, and a program with large blocks would have one sampled at almost each
// call. So a thread that samples too many doubles its mean distance, and halves it again later. Each sample says at which
// distance it was taken, and stands for as much more. A distance depends only on what was sampled before, never on the
// blocks that it decides about, so the estimates stay unbiased.

enum { STACK_BYTES_MAX = CAPTURED_STACK_BYTES_MAX };

enum record { SAMPLED_BLOCK = 1, FREED_BLOCK = 2, PADDING = 3 };

// What stands in the ring. `kind` is written last.
struct ring_record {
    u32 kind, bytes;
    u32 tick, slot;
    u64 block, size;
    u64 registers[3];   // of the caller: program counter, stack pointer, frame pointer
    u64 stack_bytes;    // behind this record
    u64 every;          // the mean distance at which this was sampled
};

// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled").
INLINE u64 next_random(struct slot *slot) {
    u64 x = slot->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    slot->random = x;
    return x * 0x2545F4914F6CDD1D;
}

// An exponential distance with that mean. -ln(u) for a u of 64 random bits: the leading zeros give whole powers of two,
// and log2(1 + f) is 4 f (1 - f / 4) / 3 to within 1 %, corrected so that the mean is exact to 0.1 %.
static u64 distance(struct slot *slot, u64 mean) {
    u64 random = next_random(slot) | 1;
    int zeros = __builtin_clzll(random);
    u64 fraction = random << zeros << 1 >> 48;              // f in 1/65536
    u64 log2_of_rest = (4 * fraction - fraction * fraction / 65536) / 3;
    u64 minus_log2 = ((u64)(zeros + 1) << 16) - log2_of_rest; // in 1/65536
    u64 minus_ln = minus_log2 * 45426 >> 16;                // ln 2 in 1/65536
    // mean is below 2^47 and the logarithm below 2^22: the product may not fit, so the mean goes first.
    u64 bytes = mean < (u64)1 << 40 ? mean * minus_ln >> 16 : (mean >> 16) * minus_ln;
    return bytes + 1;
}

// Without a memory of how long ago the last sample was, the next may be drawn anew at any time.
static void draw_next_sample(struct slot *slot) {
    slot->sample_at = slot->every ? bytes_of(&slot->allocated) + distance(slot, slot->every) : UINT64_MAX;
}

static void begin_sampling(struct slot *slot) {
    slot->every = shared->every;
    draw_next_sample(slot);
}

enum {
    PACE_TICKS = 64,       // 8 ms
    PACE_SAMPLES_MAX = 16, // in that time, by one thread: 2,000 in a second
    EVERY_LOG2_MAX = 40,
};

static void sample_less_often(struct slot *slot) {
    slot->pace = 0;
    if (!(slot->every >> EVERY_LOG2_MAX)) slot->every *= 2;
}

// Sees that few stacks were sampled lately. To be called between blocks.
static void keep_pace(struct slot *slot) {
    u64 now = __atomic_load_n(&shared->now, __ATOMIC_RELAXED);
    if (likely(now - slot->pace_began < PACE_TICKS)) return;
    if (slot->pace < PACE_SAMPLES_MAX / 4 && slot->every > shared->every) {
        slot->every /= 2;
        draw_next_sample(slot);
    }
    slot->pace = 0;
    slot->pace_began = now;
}

// Room for a record, or NULL if reheap has not read enough of what is there.
static struct ring_record *reserve(struct place *place, u32 bytes) {
    u8 *ring = ring_of(place);
    u64 head = __atomic_load_n(&place->ring_head, __ATOMIC_RELAXED);
    for (;;) {
        u64 offset = head % RING_BYTES, to_end = RING_BYTES - offset;
        u64 take = bytes <= to_end ? bytes : to_end + bytes;
        u64 tail = __atomic_load_n(&place->ring_tail, __ATOMIC_ACQUIRE);
        if (head + take - tail > RING_BYTES) return NULL;
        if (!__atomic_compare_exchange_n(&place->ring_head, &head, head + take, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        if (take == bytes) return (struct ring_record *)(ring + offset);
        struct ring_record *padding = (struct ring_record *)(ring + offset);
        padding->bytes = (u32)to_end;
        __atomic_store_n(&padding->kind, PADDING, __ATOMIC_RELEASE);
        return (struct ring_record *)ring;
    }
}

static void lose_stack(struct place *place) { __atomic_fetch_add(&place->lost_stacks, 1, __ATOMIC_RELAXED); }

// The maps as they are at the first sample, for a process that is gone before reheap reads them.
static void note_maps(struct place *place) {
    u64 nobody = 0;
    if (!__atomic_compare_exchange_n(&place->maps_bytes, &nobody, 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    int file = open_file("/proc/self/maps", O_RDONLY);
    if (file < 0) return;
    u64 filled = 0;
    while (filled < MAPS_BYTES) {
        long read = system_call(SYS_read, file, (long)(place->maps + filled), (long)(MAPS_BYTES - filled), 0, 0, 0);
        if (read <= 0) break;
        filled += (u64)read;
    }
    system_call(SYS_close, file, 0, 0, 0, 0, 0);
    __atomic_store_n(&place->maps_bytes, filled + 1, __ATOMIC_RELEASE);
}

// How much of a stack may be looked at. glibc and musl have a thread's control block at the upper end of its stack. What
// is above may be the stack of another thread, which may unmap it while it is read.
static u32 bytes_of_stack(u64 from) {
    u64 end = thread_pointer();
    return end > from && end - from < STACK_BYTES_MAX ? (u32)(end - from) & ~7U : STACK_BYTES_MAX;
}

// Whether the stack was recorded.
RARE int sample(struct slot *slot, const void *block, u64 size) {
    struct place *place = place_of(slot);
    u64 every = slot->every;
    if (++slot->pace >= PACE_SAMPLES_MAX) sample_less_often(slot);
    draw_next_sample(slot);
    if (__atomic_load_n(&shared->closed, __ATOMIC_RELAXED)) return 0;
    if (quiet) {
        lose_stack(place);
        return 0;
    }
    if (!cautious) note_maps(place);
    u64 stack = slot->caller.registers[1];
    u32 stack_bytes = capture_length(stack, bytes_of_stack(stack), !cautious);
    u32 bytes = sizeof(struct ring_record) + stack_bytes;
    struct ring_record *record = reserve(place, bytes);
    if (!record) {
        lose_stack(place);
        sample_less_often(slot);
        draw_next_sample(slot);
        return 0;
    }
    record->bytes = bytes;
    record->every = every;
    record->tick = (u32)__atomic_load_n(&shared->now, __ATOMIC_RELAXED);
    record->slot = number_of(slot);
    record->block = (u64)block;
    record->size = size;
    for (int i = 0; i < 3; i++) record->registers[i] = slot->caller.registers[i];
    record->stack_bytes = stack_bytes;
    capture_stack(record + 1, stack, stack_bytes);
    __atomic_store_n(&record->kind, SAMPLED_BLOCK, __ATOMIC_RELEASE);
    return 1;
}

// Tells that a block is gone whose stack was recorded.
RARE void sampled_is_freed(struct place *place, const void *block) {
    struct ring_record *record = reserve(place, sizeof *record);
    if (!record) {
        lose_stack(place);
        return;
    }
    record->bytes = sizeof *record;
    record->block = (u64)block;
    __atomic_store_n(&record->kind, FREED_BLOCK, __ATOMIC_RELEASE);
}
