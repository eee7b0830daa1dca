// What is known of each live block: its size, and when, by whom and after how many others it was allocated.
//
// A block has an entry of 16 bytes for each 16 bytes of address space, at a distance that is fixed for each 64 MiB. So
// there is no search, no lock and no collision, blocks that are neighbours have entries that are neighbours, and only
// the entries of addresses that a heap uses take memory. A hash table would take less, but each call would miss the
// cache. Headers in front of blocks would change addresses and sizes, which a profile is meant to show.
//
// The tables belong to the process, not to what it shares with reheap: a forked child has its own copy of all blocks, and
// must have its own copy of what is known of them.
//
// An entry is changed only by the thread to which the block belongs: after the allocator gave it, and before it is given
// back. So no access has to be atomic, as long as the program frees no block twice at the same time.

enum {
    GRANULE_SHIFT = 4,
    CHUNK_SHIFT = 26,
#if defined(__aarch64__)
    ADDRESS_BITS = 48,
#else
    ADDRESS_BITS = 47,
#endif
    SIZE_BITS = 47,
    SLOT_BITS = 14,
};
#define DIRECTORY_ENTRIES ((u64)1 << (ADDRESS_BITS - CHUNK_SHIFT))
#define CHUNK_ENTRIES ((u64)1 << (CHUNK_SHIFT - GRANULE_SHIFT))
#define SIZE_MASK (((u64)1 << SIZE_BITS) - 1)
#define LIVE ((u64)1 << 63)
#define SAMPLED ((u64)1 << 62)

struct entry {
    u64 block;   // LIVE, SAMPLED, slot, size
    u32 tick;    // when it was allocated
    u32 number;  // how many its thread had allocated before, modulo 2^32
};

// Where each piece of address space has its entries. Allocators with classes of 8 bytes put two blocks into 16 bytes, so
// those at odd multiples of 8 have entries of their own.
static struct entry **directory;

// All entries, reserved at once: later there is no system call for them, which a program may have forbidden itself, and
// nothing new to unmap when the hooks leave. Where address space is limited, less must do.
static struct entry *tables;
static u64 chunks, chunks_max;

static int make_tables(void) {
    directory = map_anonymous(2 * DIRECTORY_ENTRIES * sizeof(struct entry *));
    if (!directory) return 0;
    for (chunks_max = 16384; chunks_max > 0; chunks_max /= 16) {
        size_t bytes = chunks_max * CHUNK_ENTRIES * sizeof(struct entry);
        tables = map_anonymous(bytes);
        if (!tables) continue;
        system_call(SYS_madvise, (long)tables, (long)bytes, MADV_NOHUGEPAGE, 0, 0, 0);
        return 1;
    }
    return 0;
}

static void unmap_tables(void) {
    unmap(directory, 2 * DIRECTORY_ENTRIES * sizeof(struct entry *));
    unmap(tables, chunks_max * CHUNK_ENTRIES * sizeof(struct entry));
    directory = NULL;
    tables = NULL;
}

INLINE struct entry **chunk_of(u64 address) {
    return directory + (address >> CHUNK_SHIFT & (DIRECTORY_ENTRIES - 1)) * 2 + (address >> 3 & 1);
}

INLINE struct entry *entry_in(struct entry *chunk, u64 address) {
    return chunk + (address >> GRANULE_SHIFT & (CHUNK_ENTRIES - 1));
}

// The entry of a block that was recorded; NULL if none was anywhere near.
INLINE struct entry *find_entry(const void *block) {
    struct entry *chunk = __atomic_load_n(chunk_of((u64)block), __ATOMIC_ACQUIRE);
    return likely(chunk) ? entry_in(chunk, (u64)block) : NULL;
}

RARE struct entry *make_chunk(struct place *place, u64 address) {
    u64 index = __atomic_fetch_add(&chunks, 1, __ATOMIC_RELAXED);
    if (index >= chunks_max) {
        __atomic_store_n(&chunks, chunks_max, __ATOMIC_RELAXED);
        return NULL;
    }
    struct entry *made = tables + index * CHUNK_ENTRIES, *nobody = NULL;
    __atomic_store_n(&place->chunks, index + 1, __ATOMIC_RELAXED);
    // Another thread may have been first. Then this piece stays empty, and takes no memory.
    __atomic_compare_exchange_n(chunk_of(address), &nobody, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return nobody ? nobody : made;
}

// The entry of a block that is about to be recorded; NULL where no memory is left for it.
INLINE struct entry *entry_for(struct place *place, const void *block) {
    struct entry *chunk = __atomic_load_n(chunk_of((u64)block), __ATOMIC_ACQUIRE);
    if (unlikely(!chunk)) chunk = make_chunk(place, (u64)block);
    return likely(chunk) ? entry_in(chunk, (u64)block) : NULL;
}

INLINE u64 size_of(u64 block) { return block & SIZE_MASK; }
INLINE u32 slot_of(u64 block) { return block >> SIZE_BITS & ((1 << SLOT_BITS) - 1); }
