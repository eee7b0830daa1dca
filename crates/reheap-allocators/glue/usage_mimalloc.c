// What mimalloc knows about its heap: which memory it has from the system. Its count of blocks would slow down each
// call (MI_STAT). Its count of committed memory means nothing here: if the system overcommits, an arena always counts
// as committed. So this file asks the kernel which pages of the arenas are in memory. Memory outside arenas has
// mappings of its own and counts in full.
//
// All of that counts as used: free and used blocks look the same from here.
#define _GNU_SOURCE
#define MI_DEBUG 0
#include "mimalloc/internal.h"
#include "mimalloc-stats.h"
#include <sys/mman.h>
#include <unistd.h>

#if MI_MALLOC_VERSION >= 30000
static mi_stats_t *statistics(void) {
    return &_mi_subproc_main()->stats;
}

static char *arena(size_t index, size_t *size) {
    return mi_arena_area(mi_atomic_load_ptr_acquire(mi_arena_t, &_mi_subproc_main()->arenas[index]), size);
}

static size_t arenas(void) {
    return mi_atomic_load_acquire(&_mi_subproc_main()->arena_count);
}
#else
static mi_stats_t *statistics(void) {
    return &_mi_stats_main;
}

static char *arena(size_t index, size_t *size) {
    return mi_arena_area((mi_arena_id_t)index + 1, size);
}

static size_t arenas(void) {
    size_t count = 0, size;
    while (arena(count, &size)) count++;
    return count;
}
#endif

static size_t resident(char *start, size_t size) {
    unsigned char pages[4096]; // the lowest bit of each says whether it is in memory (mincore(2))
    size_t page = (size_t)sysconf(_SC_PAGESIZE), part_max = sizeof pages * page, bytes = 0;
    for (size_t done = 0; done < size; done += part_max) {
        size_t part = size - done < part_max ? size - done : part_max;
        if (mincore(start + done, part, pages) != 0) return bytes;
        for (size_t i = 0; i < part / page; i++) bytes += pages[i] & 1 ? page : 0;
    }
    return bytes;
}

static size_t current(int64_t *statistic) {
    return (size_t)mi_atomic_loadi64_relaxed((_Atomic(int64_t) *)statistic);
}

void __reheap_usage(size_t *used, size_t *kept, size_t *most) {
    size_t in_arenas = 0, size, count = arenas();
    *used = 0;
    for (size_t i = 0; i < count; i++) {
        char *start = arena(i, &size);
        if (!start) continue;
        in_arenas += size;
        *used += resident(start, size);
    }
    size_t reserved = current(&statistics()->reserved.current);
    if (reserved > in_arenas) *used += reserved - in_arenas;
    *kept = 0;
    *most = 0;
    *used += __reheap_grown_total();
}

int __reheap_collect(void) {
    size_t before, after, kept, most;
    __reheap_usage(&before, &kept, &most);
    mi_collect(true);
    __reheap_usage(&after, &kept, &most);
    return after < before;
}

int __reheap_keep(int for_good) {
    mi_option_set(mi_option_purge_delay, for_good ? -1 : 0);
    return 1;
}
