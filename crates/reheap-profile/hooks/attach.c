// How a process and its threads find their places in the shared memory.

// Of this process. The pages that it points to become zero in a forked child (MADV_WIPEONFORK, since Linux 4.14), so the
// child notices at its next call that it has no place yet: also one that was forked past the libc, by a system call, or
// while another thread attached.
struct local {
    // Where most calls find their thread's slot, by its pointer, without a look at the place. Many processes have one thread.
    u64 first_thread; // 0: free; 1: about to be taken
    struct slot *first_slot;
    u64 threads[SLOTS]; // the same
    struct slot *slots[SLOTS];
    struct place *place;
    u32 attaching; // 1: somebody does; 2: there is nothing to attach to
};
static struct local nowhere;
static struct local *local = &nowhere;

static struct header *shared;
// NULL unless every call is recorded.
static struct reheap_trace *trace;
// Not wiped, and not shared with anybody: what a forked child has from its parent is as it was at the fork, whatever has
// become of the parent since. Of what each thread has not told yet, it knows nothing.
static struct past {
    u32 pid;
    u64 generation;
    i64 live_bytes, live_blocks;
    char malloc_file[PROGRAM_PATH_BYTES];
    u32 is_bypassed;
} past;

INLINE void note_in_past(i64 more_bytes, i64 more_blocks) {
    __atomic_fetch_add(&past.live_bytes, more_bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&past.live_blocks, more_blocks, __ATOMIC_RELAXED);
}

// The number of this process in /proc, where reheap looks. In a PID namespace, getpid(2) tells another one; but reheap's /proc
// is here too, as long as nothing else is mounted over it: this process opened the recording in it.
static u32 number_in_proc(void) {
    char digits[16];
    long length = system_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/self", (long)digits, sizeof digits, 0, 0);
    u32 number = 0;
    for (long i = 0; i < length; i++) number = 10 * number + (u32)(digits[i] - '0');
    return number ? number : (u32)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static void name_malloc_file(struct place *place) {
    place->is_bypassed = past.is_bypassed;
    for (u32 at = 0; past.malloc_file[at]; at++) place->malloc_file[at] = past.malloc_file[at];
}

static struct place *claim_place(u32 access) {
    for (u32 i = 0; i < PLACES; i++) {
        u32 free = 0;
        if (__atomic_compare_exchange_n(&shared->taken[i], &free, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            struct place *place = (struct place *)((char *)shared + HEADER_BYTES + i * place_bytes(shared));
            place->parent = (u32)system_call(SYS_getppid, 0, 0, 0, 0, 0, 0);
            place->access = access;
            place->order = __atomic_fetch_add(&shared->places_taken, 1, __ATOMIC_RELAXED);
            name_malloc_file(place);
            place->tables = (u64)tables;
            place->directory = (u64)directory;
            place->began = __atomic_load_n(&shared->now, __ATOMIC_RELAXED);
            system_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)place->program, PATH_BYTES - 1, 0, 0);
            // Last: reheap looks at no place before it has a number.
            __atomic_store_n(&place->pid, number_in_proc(), __ATOMIC_RELEASE);
            return place;
        }
    }
    __atomic_fetch_add(&shared->refused, 1, __ATOMIC_RELAXED);
    return NULL;
}

// A child that was forked inherits the heap, and what is known of it.
static void inherit(struct place *place) {
    place->chunks = chunks;
    place->parent = past.pid;
    place->generation = past.generation + 1;
    place->inherited_bytes = place->live_bytes = place->peak_bytes = past.live_bytes;
    place->inherited_blocks = place->live_blocks = place->peak_blocks = past.live_blocks;
    place->peak_at = place->began;
}

static void becomes_past(const struct place *place) {
    past.pid = place->pid;
    past.generation = place->generation;
}

static void begin_early(void);

// A place for this process, if it has none; NULL if there is none to have.
RARE struct place *attach(void) {
    if (!shared) begin_early();
    if (!shared) return NULL;
    for (;;) {
        struct place *place = __atomic_load_n(&local->place, __ATOMIC_ACQUIRE);
        if (place) return place;
        u32 nobody = 0;
        if (__atomic_compare_exchange_n(&local->attaching, &nobody, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) break;
        if (nobody == 2) return NULL;
        if (!quiet) system_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    }
    struct place *place = __atomic_load_n(&local->place, __ATOMIC_ACQUIRE);
    if (!place && !quiet) {
        place = claim_place(FORKED);
        if (place) {
            inherit(place);
            becomes_past(place);
            __atomic_store_n(&local->place, place, __ATOMIC_RELEASE);
        }
    }
    __atomic_store_n(&local->attaching, place ? 0 : 2, __ATOMIC_RELEASE);
    return place;
}

static struct header *map_recording(const char *path) {
    int file = open_file(path, O_RDWR);
    if (file < 0) return NULL;
    // The header says how much there is.
    long result = system_call(SYS_mmap, 0, HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    u64 bytes = 0;
    if (!is_error(result)) {
        struct header *header = (struct header *)result;
        if (header->magic == MAGIC) bytes = header->bytes;
        if (bytes != HEADER_BYTES + PLACES * place_bytes(header)) bytes = 0;
        system_call(SYS_munmap, result, HEADER_BYTES, 0, 0, 0, 0);
        int protection = PROT_READ | PROT_WRITE;
        if (bytes) result = system_call(SYS_mmap, 0, (long)bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    }
    system_call(SYS_close, file, 0, 0, 0, 0, 0);
    if (!bytes || is_error(result)) return NULL;
    struct header *header = (struct header *)result;
    system_call(SYS_madvise, result, (long)bytes, MADV_DONTDUMP, 0, 0, 0);
    return header;
}

// Takes a place in the recording at that path; 0, or -1 if the process goes on unrecorded.
static int begin(const char *path, u32 access) {
    if (shared) return 0;
    // Whatever fails leaves nothing behind.
    shared = map_recording(path);
    if (!shared) return -1;
    struct place *place = NULL;
    struct local *own = map_anonymous(sizeof *own);
    if (own && !is_error(system_call(SYS_madvise, (long)own, sizeof *own, MADV_WIPEONFORK, 0, 0, 0)) && make_tables()) {
        place = claim_place(access);
    }
    if (!place) {
        unmap(own, sizeof *own);
        unmap_tables();
        unmap(shared, shared->bytes);
        shared = NULL;
        return -1;
    }
    if (shared->tracing) trace = &shared->trace;
    cautious = access == INJECTED && shared->cautious;
    becomes_past(place);
    own->place = place;
    __atomic_store_n(&local, own, __ATOMIC_RELEASE);
    return 0;
}

// --- Threads

enum { PROBES_MAX = 64 };

static void begin_sampling(struct slot *);

// The calling thread's number. Where a system call may kill the process, the libc's own note of it must do.
static u64 number_of_thread(u64 pointer) {
    if (!(quiet | cautious)) return (u64)system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
    return shared->thread_number_at ? *(u32 *)(pointer + shared->thread_number_at) : 0;
}

RARE struct slot *claim_slot(struct place *place, u64 pointer) {
    u32 start = (u32)(pointer * 0x9E3779B97F4A7C15 >> (64 - SLOT_BITS));
    for (u32 i = 0; i < PROBES_MAX; i++) {
        u32 index = (start + i) & (SLOTS - 1);
        struct slot *slot = slot_at(place, index);
        u64 owner = 0;
        if (__atomic_compare_exchange_n(&slot->owner, &owner, pointer, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            slot->mark = LIVE | (u64)index << SLOT_SHIFT;
            // So that no block that a child has from its parent seems to be its own latest. Added, and before any system
            // call, because a signal handler counts in the slot already.
            u64 first = place->generation % 4 << 30;
            ADD(slot->first, first);
            ADD(slot->number, first);
            slot->tid = number_of_thread(pointer);
            slot->random = pointer * 0xD1342543DE82EF95 + slot->tid;
            begin_sampling(slot);
            u32 order = __atomic_fetch_add(&place->threads, 1, __ATOMIC_ACQ_REL);
            // One more than the index: reheap sees a slot whose number is still missing as 0.
            if (order < SLOTS) __atomic_store_n(&place->claimed[order], index + 1, __ATOMIC_RELEASE);
            return slot;
        }
        if (owner == pointer) return slot;
    }
    __atomic_fetch_add(&place->lost_calls, 1, __ATOMIC_RELAXED);
    return NULL;
}

INLINE u32 hash_of(u64 pointer) { return (u32)pointer * 0x9E3779B1 >> (32 - SLOT_BITS); }

// Whether the entry was free.
static int remember(u64 *thread, struct slot **slot_of_it, u64 pointer, struct slot *slot) {
    u64 nobody = 0;
    if (__atomic_load_n(thread, __ATOMIC_RELAXED) != 0) return 0;
    if (!__atomic_compare_exchange_n(thread, &nobody, 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return 0;
    *slot_of_it = slot;
    __atomic_store_n(thread, pointer, __ATOMIC_RELEASE);
    return 1;
}

// At a thread's first call; and at each of its calls if another thread with the same hash was first.
static __attribute__((noinline)) struct slot *find_slot(u64 pointer) {
    struct place *place = __atomic_load_n(&local->place, __ATOMIC_ACQUIRE);
    if (unlikely(!place)) place = attach();
    if (unlikely(!place)) return NULL;
    struct slot *slot = slot_at(place, (u32)(pointer * 0x9E3779B97F4A7C15 >> (64 - SLOT_BITS)));
    if (__atomic_load_n(&slot->owner, __ATOMIC_RELAXED) != pointer) slot = claim_slot(place, pointer);
    if (slot && !remember(&local->first_thread, &local->first_slot, pointer, slot)) {
        u32 hash = hash_of(pointer);
        remember(&local->threads[hash], &local->slots[hash], pointer, slot);
    }
    return slot;
}

// Threads are told apart by their thread pointer, because thread-local storage of our own would need a libc. Threads that
// have it one after another share a slot. NULL if it must be looked for.
INLINE struct slot *remembered_slot(u64 pointer) {
    struct local *here = local;
    struct slot *slot;
    if (likely(here->first_thread == pointer)) {
        slot = here->first_slot;
    } else {
        u32 hash = hash_of(pointer);
        if (unlikely(here->threads[hash] != pointer)) return NULL;
        slot = here->slots[hash];
    }
    if (!slot) __builtin_unreachable();
    return slot;
}
