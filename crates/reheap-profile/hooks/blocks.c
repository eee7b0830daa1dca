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
    SLOT_BITS = 14,
    SLOT_SHIFT = 2,
    SIZE_SHIFT = 16,
};
#define DIRECTORY_ENTRIES ((u64)1 << (ADDRESS_BITS - CHUNK_SHIFT))
#define CHUNK_ENTRIES ((u64)1 << (CHUNK_SHIFT - GRANULE_SHIFT))
#define LIVE ((u64)1)
#define SAMPLED ((u64)2)

struct entry {
    u64 block;   // size, slot, SAMPLED, LIVE
    u32 tick;    // when it was allocated
    u32 number;  // how many its thread had allocated before, modulo 2^32
};

// How far the entries of each piece of address space are from it; 0: it has none. Allocators with classes of 8 bytes put
// two blocks into 16 bytes, so those at odd multiples of 8 have entries of their own, in the directory's second half.
static u64 *directory;

// All entries, reserved at once: later there is no system call for them, which a program may have forbidden itself, and
// nothing new to unmap when the hooks leave. Where address space is limited, less must do.
static struct entry *tables;
static u64 chunks, chunks_max;

static int make_tables(void) {
    directory = map_anonymous(2 * DIRECTORY_ENTRIES * sizeof *directory);
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
    unmap(directory, 2 * DIRECTORY_ENTRIES * sizeof *directory);
    unmap(tables, chunks_max * CHUNK_ENTRIES * sizeof(struct entry));
    directory = NULL;
    tables = NULL;
}

// aarch64 ignores the highest byte of an address, and an allocator may use it.
INLINE u64 address_of(const void *block) {
#if defined(__aarch64__)
    return (u64)block << 8 >> 8;
#else
    return (u64)block;
#endif
}

INLINE struct entry *entry_at(u64 distance, u64 address) { return (struct entry *)(distance + (address & ~(u64)15)); }

// Where the directory says how far the entry is; NULL for what is no address.
INLINE u64 *distance_of(u64 address) {
    u64 index = address >> CHUNK_SHIFT;
    return likely(index < DIRECTORY_ENTRIES) ? directory + index + (address >> 3 & 1) * DIRECTORY_ENTRIES : NULL;
}

// The entry of a block that was recorded; NULL if none was anywhere near.
INLINE struct entry *find_entry(const void *block) {
    u64 *at = distance_of(address_of(block));
    u64 distance = likely(at) ? __atomic_load_n(at, __ATOMIC_ACQUIRE) : 0;
    return likely(distance) ? entry_at(distance, address_of(block)) : NULL;
}

// The distance to it, if the block is at a multiple of 16 bytes, and so in the directory's first half; 0 if none was near.
INLINE u64 distance_quickly(u64 address) {
    // Where other addresses have zeros, an odd one then has its lowest bits, and seems too high.
    u64 index = (address >> GRANULE_SHIFT | address << (64 - GRANULE_SHIFT)) >> (CHUNK_SHIFT - GRANULE_SHIFT);
    return likely(index < DIRECTORY_ENTRIES) ? __atomic_load_n(directory + index, __ATOMIC_ACQUIRE) : 0;
}

RARE u64 make_chunk(struct place *place, u64 address) {
    u64 index = __atomic_fetch_add(&chunks, 1, __ATOMIC_RELAXED);
    if (index >= chunks_max) {
        __atomic_store_n(&chunks, chunks_max, __ATOMIC_RELAXED);
        return 0;
    }
    u64 made = (u64)(tables + index * CHUNK_ENTRIES) - (address >> CHUNK_SHIFT << CHUNK_SHIFT), nobody = 0;
    __atomic_store_n(&place->chunks, index + 1, __ATOMIC_RELAXED);
    // Another thread may have been first. Then this piece stays empty, and takes no memory.
    __atomic_compare_exchange_n(distance_of(address), &nobody, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return nobody ? nobody : made;
}

// The entry of a block that is about to be recorded; NULL where no memory is left for it.
static struct entry *entry_for(struct place *place, const void *block) {
    u64 address = address_of(block), *at = distance_of(address);
    if (unlikely(!at)) return NULL;
    u64 distance = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (unlikely(!distance)) distance = make_chunk(place, address);
    return likely(distance) ? entry_at(distance, address) : NULL;
}

// The block is free. Its size stays, so that reheap can tell the pages where a block has been from all others.
INLINE void forget(struct entry *entry) { *(u8 *)&entry->block = 0; }
_Static_assert((LIVE | SAMPLED) < 256 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte says that it is live");

INLINE u64 size_of(u64 block) { return block >> SIZE_SHIFT; }
INLINE u32 slot_of(u64 block) { return block >> SLOT_SHIFT & ((1 << SLOT_BITS) - 1); }
INLINE u32 number_of(const struct slot *slot) { return slot_of(slot->mark); }
