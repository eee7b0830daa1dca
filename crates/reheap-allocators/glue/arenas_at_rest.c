// jemalloc gives free memory back by amount.
//
// jemalloc keeps unused pages for up to ten seconds (`dirty_decay_ms`). But it looks at the time only when the program
// calls it, so a program that frees all it has, and then waits, keeps it for ever. An arena whose last thread ends gives all
// back.
//
// Here an arena gives its unused pages back by amount as well, and keeps as much as `debt.c` says. It looks whenever pages
// become unused, which is not often: jemalloc has taken two locks by then.
//
// `dirty_decay_ms` keeps its meaning: with 0 nothing is kept anyway, and nothing goes by amount with a longer time than the
// default, or with -1.
//
// This is for jemalloc 5.3.1. The recipe gives it these functions in place of its own pa_dalloc and pa_shrink
// (src/pa.c), which it calls without a lock (arena_slab_dalloc in src/arena.c; large_dalloc_finish and
// large_ralloc_no_move_shrink in src/large.c).
#include <errno.h>
#include <sys/types.h>
#include <time.h>

#define DECAY_MS_MAX 10000
#define ARENAS_MAX 4096 // the number of an arena has 12 bits

enum { EXTENT_IS_DIRTY = 1 };

typedef struct {
    _Atomic(bool) is_busy; // a fork meanwhile leaves it so in the child, whose arena then only knows the time
    size_t resident;       // pages, in use or unused
    debt_t debt;           // in bytes
} arena_at_rest_t;

static arena_at_rest_t arenas[ARENAS_MAX];

extern _Atomic(void *) _rjem_je_arenas[];
extern unsigned _rjem_je_narenas_auto;
extern const size_t _rjem_je_sz_pind2sz_tab[]; // the first size is that of a page
void _rjem_je_arena_decay(void *thread, void *arena, bool is_background_thread, bool all);
void _rjem_je_pa_dalloc(void *thread, void *shard, uint64_t *extent, bool *has_deferred_work);
bool _rjem_je_pa_shrink(
    void *thread, void *shard, uint64_t *extent, size_t old, size_t new, unsigned size_class, bool *has_deferred_work);
ssize_t _rjem_je_pa_decay_ms_get(void *shard, int state);
void _rjem_je_pa_shard_basic_stats_merge(void *shard, size_t *active, size_t *dirty, size_t *muzzy);

#ifdef REHEAP_PRELOAD
int __reheap_clock_gettime(clockid_t clock, struct timespec *time);
#else
#define __reheap_clock_gettime clock_gettime
#endif

static int64_t now_ms(void) {
    struct timespec now;
    __reheap_clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void give_back_what_is_too_much(void *thread, unsigned index, size_t used, size_t kept, size_t max) {
    arena_at_rest_t *arena = &arenas[index];
    if (atomic_exchange_explicit(&arena->is_busy, true, memory_order_acquire)) return; // another thread does it
    int64_t now = now_ms();
    owe(use_again(&arena->debt, difference(used + kept, arena->resident)), now);
    arena->resident = used + kept;
    if (is_too_much(&arena->debt, kept, max, now)) {
        int errno_before = errno;
        _rjem_je_arena_decay(thread, atomic_load_explicit(&_rjem_je_arenas[index], memory_order_acquire), false, true);
        errno = errno_before;
        have_returned(&arena->debt, kept);
        arena->resident = used;
    }
    atomic_store_explicit(&arena->is_busy, false, memory_order_release);
}

static void look(void *thread, void *shard, unsigned index) {
    ssize_t decay_ms = _rjem_je_pa_decay_ms_get(shard, EXTENT_IS_DIRTY);
    if (decay_ms <= 0 || decay_ms > DECAY_MS_MAX) return;
    size_t active = 0, dirty = 0, muzzy = 0, page = _rjem_je_sz_pind2sz_tab[0];
    _rjem_je_pa_shard_basic_stats_merge(shard, &active, &dirty, &muzzy);
    size_t used = active * page, kept = dirty * page, max = kept_max(used, _rjem_je_narenas_auto);
    if (kept > max) give_back_what_is_too_much(thread, index, used, kept, max);
}

// The lowest bits of an extent's first word are the number of its arena.
static unsigned arena_of(const uint64_t *extent) {
    return *extent % ARENAS_MAX;
}

void __reheap_pa_dalloc(void *thread, void *shard, uint64_t *extent, bool *has_deferred_work) {
    unsigned index = arena_of(extent);
    _rjem_je_pa_dalloc(thread, shard, extent, has_deferred_work);
    look(thread, shard, index);
}

bool __reheap_pa_shrink(
    void *thread, void *shard, uint64_t *extent, size_t old, size_t new, unsigned size_class, bool *has_deferred_work) {
    bool failed = _rjem_je_pa_shrink(thread, shard, extent, old, new, size_class, has_deferred_work);
    if (!failed) look(thread, shard, arena_of(extent));
    return failed;
}
