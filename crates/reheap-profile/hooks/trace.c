// Records calls: each appends an event to the ring of its thread, in memory that the recorder shares. Included by the
// hooks' one translation unit; no libc, no thread-local storage, no locks.
//
// Order. A free is in the ring before the allocator gets the block, and an allocation before the program gets it. So
// when the recorder reads the clock, then empties all rings, every event before that time which it missed is of a
// thread that was stopped inside `trace_call`, and nobody has used its block since. For `realloc`, put in
// REHEAP_TRACED_INTO_REALLOC with the old block before the call (not if that is null), and the function with the new
// block (null if there is none) after it.
//
// A call that a signal handler makes while its thread is in `trace_call` is lost, and counted as such.
//
// A thread whose ring is full waits for the recorder. If that is gone, tracing ends for the whole process, and the
// recording says so. If it is there and takes nothing out, the program has written over what they share: the thread drops
// what is in its ring, and goes on. Waiting takes two system calls, sched_yield and clock_gettime; under seccomp's strict mode they would
// end the program, so the recorder must turn tracing off before.


#if defined(__x86_64__)
#define TRACE_SCHED_YIELD 24
#define TRACE_CLOCK_GETTIME 228
static inline long trace_system_call(long number, long first, long second) {
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(first), "S"(second)
                     : "rcx", "r11", "memory");
    return result;
}
static inline uint64_t trace_counter(void) {
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}
// Waits until everything before it is done: else the counter may be read before the allocator has the block.
static inline void trace_settle(void) { __asm__ volatile("lfence" : : : "memory"); }
static inline void trace_pause(void) { __asm__ volatile("pause"); }
#elif defined(__aarch64__)
#define TRACE_SCHED_YIELD 124
#define TRACE_CLOCK_GETTIME 113
static inline long trace_system_call(long number, long first, long second) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = first;
    register long x1 __asm__("x1") = second;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1) : "memory");
    return x0;
}
static inline uint64_t trace_counter(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value) : : "memory");
    return value;
}
static inline void trace_settle(void) { __asm__ volatile("isb" : : : "memory"); }
static inline void trace_pause(void) { __asm__ volatile("yield"); }
#else
#error "tracing is for x86-64 and aarch64"
#endif

static uint64_t trace_system_clock(void) {
    struct {
        long seconds, nanoseconds;
    } now = {0, 0};
    trace_system_call(TRACE_CLOCK_GETTIME, 1 /* CLOCK_MONOTONIC */, (long)&now);
    return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
}

static inline uint64_t trace_time(const struct reheap_trace *trace) {
    uint64_t now = trace->clock == REHEAP_TRACE_BY_COUNTER ? trace_counter() : trace_system_clock();
    return now - trace->began;
}

enum {
    TRACE_SPINS = 2000,
    TRACE_YIELDS_BEFORE_A_LOOK = 16,
    // The recorder counts each time before it goes to all rings. So this one's turn came at least once.
    TRACE_BEATS_IN_VAIN = 4,
};

// Waits until the ring has room; 0 if the call cannot be put in.
static __attribute__((noinline, cold)) int trace_wait(struct reheap_trace *trace,
                                                      struct reheap_trace_ring *ring,
                                                      uint64_t head) {
    uint64_t heartbeat = __atomic_load_n(&trace->heartbeat, __ATOMIC_RELAXED);
    uint64_t first = heartbeat, since = 0;
    ring->waits++;
    for (uint64_t turn = 0;; turn++) {
        ring->tail_seen = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);
        if (head - ring->tail_seen < REHEAP_TRACE_EVENTS)
            return 1;
        if (__atomic_load_n(&trace->state, __ATOMIC_RELAXED) != REHEAP_TRACE_ON)
            return 0;
        if (turn < TRACE_SPINS) {
            trace_pause();
            continue;
        }
        trace_system_call(TRACE_SCHED_YIELD, 0, 0);
        if (turn % TRACE_YIELDS_BEFORE_A_LOOK != 0)
            continue;
        uint64_t now = trace_system_clock();
        uint64_t beat = __atomic_load_n(&trace->heartbeat, __ATOMIC_ACQUIRE);
        // Only what is read after the beats tells that they were in vain: this thread may not have run for long.
        if (beat - first >= TRACE_BEATS_IN_VAIN && __atomic_load_n(&ring->tail, __ATOMIC_RELAXED) == ring->tail_seen) {
            __atomic_fetch_add(&trace->given_up, 1, __ATOMIC_RELAXED);
            __atomic_store_n(&ring->head, ring->tail_seen, __ATOMIC_RELEASE);
            return 0;
        }
        if (beat != heartbeat || since == 0) {
            heartbeat = beat;
            since = now;
        } else if (now - since > trace->patience) {
            uint32_t on = REHEAP_TRACE_ON;
            __atomic_compare_exchange_n(&trace->state, &on, REHEAP_TRACE_ABANDONED, 0,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED);
            return 0;
        }
    }
}

// Puts a call into the ring of the thread that makes it.
static inline __attribute__((always_inline)) void
trace_call(struct reheap_trace *trace, struct reheap_trace_ring *ring, enum reheap_traced function,
           const void *block, uint64_t size, uint64_t alignment) {
    if (__builtin_expect(ring->busy != 0, 0)) {
        ring->lost++;
        return;
    }
    // What is relaxed is for the thread's own signal handlers, which need no more than that nothing is moved.
    __atomic_store_n(&ring->busy, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint64_t head = ring->head;
    if (__builtin_expect(__atomic_load_n(&trace->state, __ATOMIC_RELAXED) != REHEAP_TRACE_ON, 0) ||
        (__builtin_expect(head - ring->tail_seen >= REHEAP_TRACE_EVENTS, 0) &&
         !trace_wait(trace, ring, head))) {
        ring->lost++;
        __atomic_store_n(&ring->busy, 0, __ATOMIC_RELAXED);
        return;
    }
    int frees = function == REHEAP_TRACED_FREE || function == REHEAP_TRACED_SDALLOCX ||
                function == REHEAP_TRACED_INTO_REALLOC;
    if (!frees)
        trace_settle();
    struct reheap_trace_event *event = &ring->events[head % REHEAP_TRACE_EVENTS];
    event->time_and_function = trace_time(trace) << 8 | (uint64_t)function;
    event->block = (uint64_t)block;
    event->size = size;
    event->alignment = alignment;
    __atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&ring->busy, 0, __ATOMIC_RELAXED);
}
