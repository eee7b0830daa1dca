// The shared memory of a trace: what hooks/trace.c writes and src/trace/ring.rs reads.
//
// Offsets and numbers are the same in both. All of it is zero before the recorder sets it up.
#ifndef REHEAP_TRACE_H
#define REHEAP_TRACE_H

#include <stddef.h>
#include <stdint.h>

// How many calls of a thread wait for the recorder; a power of two. Not an enumerator: the offsets below depend on it.
#ifndef REHEAP_TRACE_EVENTS
#define REHEAP_TRACE_EVENTS 4096
#endif

enum { REHEAP_TRACE_BY_SYSTEM_CALL = 0, REHEAP_TRACE_BY_COUNTER = 1 };
enum { REHEAP_TRACE_ON = 0, REHEAP_TRACE_ABANDONED = 1, REHEAP_TRACE_OFF = 2 };

// The numbers are those of `Function` in src/trace.rs.
enum reheap_traced {
    REHEAP_TRACED_MALLOC = 0,
    REHEAP_TRACED_CALLOC = 1,
    REHEAP_TRACED_REALLOC = 2,
    REHEAP_TRACED_FREE = 3,
    REHEAP_TRACED_ALIGNED_ALLOC = 4,
    REHEAP_TRACED_POSIX_MEMALIGN = 5,
    REHEAP_TRACED_MEMALIGN = 6,
    REHEAP_TRACED_VALLOC = 7,
    REHEAP_TRACED_PVALLOC = 8,
    REHEAP_TRACED_REALLOCARRAY = 9,
    REHEAP_TRACED_MALLOCX = 10,
    REHEAP_TRACED_MALLOCX_ZEROED = 11,
    REHEAP_TRACED_RALLOCX = 12,
    REHEAP_TRACED_SDALLOCX = 13,
    REHEAP_TRACED_XALLOCX = 14,
    REHEAP_TRACED_THREAD_END = 17,
    REHEAP_TRACED_INTO_REALLOC = 18,
};

// What all threads of a process share. 128 bytes.
struct reheap_trace {
    // What every call reads. The recorder writes it before it gives out a ring.
    uint32_t clock;        // 0: REHEAP_TRACE_BY_…
    uint32_t state;        // 4: REHEAP_TRACE_ON, …
    uint64_t began;        // 8: the counter when the recording began; times are since then
    uint64_t patience;     // 16: nanoseconds without a heartbeat after which the recorder is gone
    uint64_t given_up;     // 24: rings that the recorder did not empty, and whose calls their threads dropped
    uint64_t unused_0[4];
    uint64_t heartbeat;    // 64: the recorder counts here while it runs
    uint64_t unused_1[7];
};

struct reheap_trace_event {
    uint64_t time_and_function; // the time since the beginning, and in the lowest 8 bits the function
    uint64_t block;
    uint64_t size;
    uint64_t alignment;
};

// The calls of one thread: one thread writes, the recorder reads.
struct reheap_trace_ring {
    uint64_t head;         // 0: how many calls were put in
    uint64_t tail_seen;    // 8: the writer's copy of tail, so that it seldom takes the reader's cache line
    uint64_t lost;         // 16: calls that could not be recorded
    uint64_t waits;        // 24: how often the ring was full
    uint64_t busy;         // 32: 1 while a call is put in; not for the reader
    uint64_t unused_0[3];
    uint64_t tail;         // 64: how many were taken out
    uint64_t unused_1[7];
    struct reheap_trace_event events[REHEAP_TRACE_EVENTS]; // 128
};

_Static_assert(sizeof(struct reheap_trace) == 128 && offsetof(struct reheap_trace, heartbeat) == 64,
               "as src/trace/ring.rs has it");
_Static_assert(offsetof(struct reheap_trace_ring, tail) == 64 && offsetof(struct reheap_trace_ring, events) == 128,
               "as src/trace/ring.rs has it");
_Static_assert((REHEAP_TRACE_EVENTS & (REHEAP_TRACE_EVENTS - 1)) == 0, "a counter that overflows stays in step");

#endif
