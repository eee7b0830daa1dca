// How much free memory a program keeps at rest, and what it costs to give back the rest. `at_rest.c` (mimalloc) and
// `arenas_at_rest.c` (jemalloc) are compiled together with this.
//
// Free memory goes back by amount, at the moment when more becomes free: when it is more than an eighth of the memory in
// use, and 1 MiB. With what blocks are rounded up by, a program at rest has about 1.25 times its live bytes. No thread waits
// for a time: a program that frees all it has, and then does nothing, does not call its allocator again.
//
// Memory that is needed again costs a page fault for each 4 KiB, and nobody knows beforehand whether it will be. So the
// first time it always goes back. If it is used again, that is a debt of the process. Time pays it, 16 KiB each
// millisecond, which is 1 % of a processor's time at 2.5 us a page fault, and up to a minute in advance. While there is a
// debt, memory goes back only if it goes down further than it has come up again. What is kept meanwhile goes when more
// becomes free later.
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPARE_BYTES (1024 * 1024)    // that the whole process keeps
#define SPARE_BYTES_MIN (128 * 1024) // that each of its parts keeps
#define PAID_BYTES_EACH_MS (16 * 1024)
#define PAID_MS_MAX 60000 // in advance

// A part of the process with memory of its own: a thread, or an arena.
typedef struct {
    size_t returned; // bytes, and not used again
    size_t reused;   // bytes, since memory last went back
    size_t reused_max;
} debt_t;

static _Atomic(int64_t) paid_at; // when the debt is paid

static inline size_t minimum(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t maximum(size_t a, size_t b) {
    return a > b ? a : b;
}

static inline size_t difference(size_t a, size_t b) {
    return a > b ? a - b : 0;
}

static void owe(size_t bytes, int64_t now_ms) {
    int64_t paid = atomic_load_explicit(&paid_at, memory_order_relaxed);
    if (paid == 0) paid = now_ms;
    if (paid < now_ms - PAID_MS_MAX) paid = now_ms - PAID_MS_MAX;
    paid += (int64_t)(bytes / PAID_BYTES_EACH_MS);
    atomic_store_explicit(&paid_at, paid, memory_order_relaxed); // what another thread adds meanwhile is lost
}

// So many bytes came from the system. What had been returned comes first; says how many those are.
static size_t use_again(debt_t *debt, size_t bytes) {
    size_t again = minimum(bytes, debt->returned);
    debt->returned -= again;
    debt->reused += again;
    debt->reused_max = maximum(debt->reused_max, debt->reused);
    return again;
}

static void have_returned(debt_t *debt, size_t bytes) {
    debt->returned += bytes;
    debt->reused = 0;
}

static size_t kept_max(size_t used, size_t parts) {
    return used / 8 + maximum(SPARE_BYTES / maximum(parts, 1), SPARE_BYTES_MIN);
}

// If memory was hardly used again since it last went back, it still goes down.
static bool is_too_much(const debt_t *debt, size_t kept, size_t max, int64_t now_ms) {
    if (kept <= max) return false;
    bool is_in_debt = atomic_load_explicit(&paid_at, memory_order_relaxed) > now_ms;
    return !is_in_debt || debt->reused <= max / 8 || kept - max > debt->reused_max / 4 * 5;
}
