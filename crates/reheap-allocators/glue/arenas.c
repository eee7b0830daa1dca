// jemalloc when there is no memory for another arena.
//
// A thread chooses an arena at its first allocation, and makes one while all others are in use and there are fewer than
// four per processor. jemalloc 5.3.1 takes it for granted that this succeeds: where it does not, the thread dies of a
// null pointer (arena_choose_impl, arena_choose_maybe_huge and tsd_tcache_data_init use what they get). So a thread
// chooses here, before jemalloc asks for the first time. An arena that cannot be had is not asked for again: from then on
// threads share those that there are, which costs time when they are many, and no memory.
#include <stdbool.h>
#include <stddef.h>

extern unsigned _rjem_je_narenas_auto;
void *_rjem_je_arena_new(void *thread, unsigned index, const void *config);
void *_rjem_je_arena_choose_hard(void *thread, bool is_internal);
void _rjem_je_arena_cleanup(void *thread);
void _rjem_je_iarena_cleanup(void *thread);
bool _rjem_je_tsd_tcache_enabled_data_init(void *thread);
void *__reheap_malloc(size_t);
void __reheap_free(void *);

// With jemalloc's lock of arenas. Those for threads have the lowest numbers and are made in order, so all below exist.
void *__reheap_arena_new(void *thread, unsigned index, const void *config) {
    void *arena = _rjem_je_arena_new(thread, index, config);
    if (!arena && index > 0 && index < _rjem_je_narenas_auto) _rjem_je_narenas_auto = index;
    return arena;
}

// The beginning of jemalloc's tcache_enabled_data_init, which every thread goes through once. While there is but one
// arena, none is made: that is also how it is during jemalloc's own start. A failed choice may have bound the thread to
// one of the two arenas that it takes; each lowers the number, so there is an end.
bool __reheap_thread_begins(void *thread) {
    while (_rjem_je_narenas_auto > 1 && !_rjem_je_arena_choose_hard(thread, false)) {
        _rjem_je_arena_cleanup(thread);
        _rjem_je_iarena_cleanup(thread);
    }
    return _rjem_je_tsd_tcache_enabled_data_init(thread);
}

// The thread that starts jemalloc goes through that before there are arenas, so it takes the first one here, while there
// is no other thread to take it.
__attribute__((constructor(101))) void __reheap_take_first_arena(void) {
    __reheap_free(__reheap_malloc(1));
}
