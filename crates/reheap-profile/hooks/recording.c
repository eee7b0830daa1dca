// The memory that all processes of a command share with reheap. recording.rs has the same layout; another layout takes
// another magic.
//
// It is one file without a name (memfd_create(2)), mapped whole: a child that was forked gets it from its parent, also
// when it has closed all descriptors, changed its root or its user. Each process takes a place in it, and each thread of
// the process a slot in that. All pages that nobody wrote to take no memory.
#define MAGIC 0x3550706165686572 /* "reheapP5" */

enum {
    PLACES = 1024,            // processes at a time
    SLOTS = 16384,            // threads of a process; 14 bits in a block's entry
    SLOT_BYTES = 24 << 10,
    RING_BYTES = 8 << 20,
    FUNCTIONS_MAX = 16,
    SIZES = 160,
    ALIGNMENTS = 32,
    TIMES = 30,               // of milliseconds, which are less than 2^29
    DISTANCES = 33,           // of 32 bits
    FINE_BYTES = 256,         // up to this size each size has a counter
    FINE_SIZES = FINE_BYTES / 8 + 1,
    PATH_BYTES = 4096,
    MAPS_BYTES = 256 << 10,
    PROGRAMS = 128,           // files of programs that are started
    PROGRAM_PATH_BYTES = 1008,
};

// A program's file, and how often it was started and loaded the hooks (programs.c).
struct program {
    u32 written;                // 1: somebody fills it in; 2: it has a path
    u32 started, loaded;
    u32 without_variable;       // of those that were started
    char path[PROGRAM_PATH_BYTES];
};

struct header {
    u64 magic;
    u64 bytes;                  // of the whole file
    u64 now;                    // in ticks of 125 us since the start of the command; reheap writes it
    u64 every;                  // mean distance between sampled stacks in bytes; 0: none
    u32 closed;                 // 1: nobody reads any more
    u32 refused;                // processes that found no place
    u32 taken[PLACES];          // 0: free; otherwise it is in use until reheap has read it
    u32 cautious;               // 1: see `cautious` in system.c
    u32 tracing;                // 1: each slot has a ring for its calls as well
    u64 places_taken;           // how often a process took a place
    u64 thread_number_at;       // where a thread's number is, from its thread pointer on; 0: not known
    u64 unused[24];
    struct reheap_trace trace;
    u64 unused_behind[463];
    u32 programs_refused;       // that found no place below
    u32 unused_end;
    struct program programs[PROGRAMS];
};

struct pair { u64 blocks, bytes; };
struct usable { u64 blocks, requested, usable; };

struct slot {
    u64 owner;                  // the thread pointer; 0: free
    u64 tid;
    u64 inside;                 // 0: in the program; IN_HOOK; otherwise where its stack was when it went into the allocator
    u64 mark;                   // what its blocks are marked with: LIVE, and the slot's number
    // A thread counts bytes down, and looks up when none are left. So what it allocated is `granted` less `left`.
    struct budget {
        u64 granted;
        i64 left;
    } allocated, freed;
    u64 number;                 // of the latest recorded block: `first`, and one more for each
    u64 frees;
    u64 first;
    u64 calls[FUNCTIONS_MAX];   // of malloc and free: how many more than blocks were allocated and freed
    u64 told_bytes, told_blocks; // live memory that the place knows of
    u64 sample_at;              // how many bytes are allocated when the next stack is sampled
    u64 random;
    struct caller_frame caller; // of the hook that is about to sample its stack
    u64 failed, emptied, huge;  // emptied: freed by a realloc to no bytes
    struct pair of_others;      // blocks of other threads that it freed
    u64 of_others_at_once;      // those whose thread allocated no other block meanwhile
    u64 unknown_frees;
    u64 in_place, moved, copied_bytes;
    u64 alignments[ALIGNMENTS]; // by log2
    u64 small[FINE_BYTES + 1];  // requests, by size
    // Of freed blocks, by how long they lived, in time and in allocations: one counter to change instead of two.
    struct pair lived[TIMES * DISTANCES];
    struct pair large[SIZES - FINE_SIZES]; // requests of more than FINE_BYTES
    struct usable usable[SIZES];
    u64 every;                  // mean distance to the next sampled stack: at least the header's
    u64 pace_began, pace;       // how many stacks were sampled since that tick
};
_Static_assert(sizeof(struct slot) <= SLOT_BYTES, "a slot fits into its bytes");

struct place {
    u32 pid, parent;
    u32 access;                 // enum access
    u32 threads;                // slots that are taken
    u64 began;                  // in ticks
    i64 live_bytes;             // without what is pending in the slots
    i64 peak_bytes;
    u64 peak_at;                // in ticks
    i64 inherited_bytes, inherited_blocks; // from the parent, at the fork
    u64 lost_calls, lost_blocks, lost_stacks;
    u64 chunks;                 // how much of the tables of blocks is in use
    u64 tables;                 // their address in the process
    u64 ring_head, ring_tail;   // bytes ever written to and read from the ring
    u64 maps_bytes;             // of `maps`
    u32 claimed[SLOTS];         // the slots, in the order in which they were taken
    char program[PATH_BYTES];
    char maps[MAPS_BYTES];      // /proc/self/maps when the first stack was sampled
    i64 live_blocks, peak_blocks; // as live_bytes and peak_bytes
    u64 generation;             // forks between the process and the one that has the hooks from reheap
    char malloc_file[PROGRAM_PATH_BYTES]; // of a preload: the library that malloc is in; empty if it is not known
    u64 order;                  // how many places were taken before it: those that are free are taken again
    u32 is_bypassed;            // 1: the program calls that malloc, and not the hooks
    u64 directory;              // of the tables of blocks; its address in the process
};

enum { IN_HOOK = 1 };

enum access { PRELOADED, INJECTED, FORKED };

enum {
    HEADER_BYTES = 136 << 10,
    PLACE_HEAD_BYTES = 512 << 10,
};
_Static_assert(sizeof(struct header) <= HEADER_BYTES, "the header fits into its bytes");
_Static_assert(sizeof(struct place) <= PLACE_HEAD_BYTES, "a place's head fits into its bytes");
#define PLACE_BYTES ((u64)PLACE_HEAD_BYTES + (u64)SLOTS * SLOT_BYTES + RING_BYTES)
#define TRACED_PLACE_BYTES (PLACE_BYTES + (u64)SLOTS * sizeof(struct reheap_trace_ring))

INLINE struct slot *slot_at(struct place *place, u32 index) {
    return (struct slot *)((char *)place + PLACE_HEAD_BYTES + (u64)index * SLOT_BYTES);
}

INLINE u64 bytes_of(const struct budget *budget) { return budget->granted - (u64)budget->left; }

// What a signal handler takes meanwhile stays taken.
INLINE void grant(struct budget *budget, u64 bytes) {
    u64 more = bytes - (u64)budget->left;
    ADD(budget->granted, more);
    ADD(budget->left, more);
}

INLINE u64 live_blocks_of(const struct slot *slot) { return slot->number - slot->first - slot->frees; }

INLINE u32 number_of(const struct slot *slot);

INLINE struct place *place_of(struct slot *slot) {
    return (struct place *)((char *)slot - PLACE_HEAD_BYTES - (u64)number_of(slot) * SLOT_BYTES);
}

INLINE u64 place_bytes(const struct header *header) { return header->tracing ? TRACED_PLACE_BYTES : PLACE_BYTES; }

INLINE struct reheap_trace_ring *trace_ring_at(struct place *place, u32 index) {
    return (struct reheap_trace_ring *)((char *)place + PLACE_BYTES) + index;
}

INLINE u8 *ring_of(struct place *place) {
    return (u8 *)place + PLACE_HEAD_BYTES + (u64)SLOTS * SLOT_BYTES;
}

// As in recording.rs.
#define AT(structure, field, offset) _Static_assert(offsetof(struct structure, field) == (offset), #field)
AT(header, now, 16);
AT(header, every, 24);
AT(header, closed, 32);
AT(header, taken, 40);
AT(header, cautious, 4136);
AT(header, tracing, 4140);
AT(header, thread_number_at, 4152);
AT(header, trace, 4352);
AT(header, programs_refused, 8184);
AT(header, programs, 8192);
_Static_assert(sizeof(struct program) == 1024, "PROGRAM_BYTES in recording.rs");
_Static_assert(sizeof(struct reheap_trace_ring) == 131200, "TRACE_RING_BYTES in recording.rs");
AT(place, began, 16);
AT(place, live_bytes, 24);
AT(place, inherited_bytes, 48);
AT(place, lost_calls, 64);
AT(place, chunks, 88);
AT(place, ring_head, 104);
AT(place, maps_bytes, 120);
AT(place, claimed, 128);
AT(place, program, 65664);
AT(place, maps, 69760);
AT(place, peak_blocks, 331912);
AT(place, malloc_file, 331928);
AT(place, order, 332936);
AT(place, is_bypassed, 332944);
AT(place, directory, 332952);
AT(slot, inside, 8 * 2);
AT(slot, allocated, 8 * 4);
AT(slot, freed, 8 * 6);
AT(slot, number, 8 * 8);
AT(slot, calls, 8 * 11);
AT(slot, told_bytes, 8 * 27);
AT(slot, failed, 8 * 34);
AT(slot, of_others, 8 * 37);
AT(slot, in_place, 8 * 41);
AT(slot, alignments, 8 * 44);
AT(slot, small, 8 * 76);
AT(slot, lived, 8 * 333);
AT(slot, large, 8 * 2313);
AT(slot, usable, 8 * 2567);
