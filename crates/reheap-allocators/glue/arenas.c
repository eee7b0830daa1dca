// jemalloc when there is no memory for another arena.
//
// A thread chooses an arena at its first allocation. It makes a new one if all others are in use and there are fewer
// than four per processor. jemalloc 5.3.1 assumes that this succeeds. If it fails, the thread crashes with a null
// pointer (arena_choose_impl, arena_choose_maybe_huge and tsd_tcache_data_init use it unchecked). So a thread chooses
// here, before jemalloc does so for the first time. After one failure, no thread asks for a new arena again: threads
// share the existing ones. With many threads that costs time, but no memory.
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

// The caller holds jemalloc's lock of arenas. Those for threads have the lowest numbers, in order, so all below exist.
void *__reheap_arena_new(void *thread, unsigned index, const void *config) {
    void *arena = _rjem_je_arena_new(thread, index, config);
    if (!arena && index > 0 && index < _rjem_je_narenas_auto) _rjem_je_narenas_auto = index;
    return arena;
}

// The beginning of jemalloc's tcache_enabled_data_init, which every thread calls once. While there is only one arena, a
// thread makes none, as during jemalloc's own start. A failed choice may have bound the thread to one of its two
// arenas. Each failure lowers the number, so the loop ends.
bool __reheap_thread_begins(void *thread) {
    while (_rjem_je_narenas_auto > 1 && !_rjem_je_arena_choose_hard(thread, false)) {
        _rjem_je_arena_cleanup(thread);
        _rjem_je_iarena_cleanup(thread);
    }
    return _rjem_je_tsd_tcache_enabled_data_init(thread);
}

// The thread that starts jemalloc makes that call before there are arenas. So it takes the first arena here, while
// there is no other thread to take it.
__attribute__((constructor(101))) void __reheap_take_first_arena(void) {
    __reheap_free(__reheap_malloc(1));
}
