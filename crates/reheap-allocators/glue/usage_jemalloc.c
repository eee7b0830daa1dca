// What jemalloc knows about its heap without its statistics, which would cost time in each call: whole pages, of all
// arenas. A page with one block in it counts as used.
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

int mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length);

// Means all arenas (MALLCTL_ARENAS_ALL).
#define ALL "4096"

static size_t number(const char *name) {
    size_t value = 0, length = sizeof value;
    return mallctl(name, &value, &length, NULL, 0) == 0 ? value : 0;
}

void __reheap_usage(size_t *used, size_t *kept, size_t *most) {
    uint64_t epoch = 1; // figures are as of the last write of this
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    size_t page = number("arenas.page");
    *used = number("stats.arenas." ALL ".pactive") * page;
    *kept = (number("stats.arenas." ALL ".pdirty") + number("stats.arenas." ALL ".pmuzzy")) * page;
    *most = 0;
    *used += __reheap_grown_total();
}

int __reheap_collect(void) {
    size_t used, before, after, most;
    mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
    __reheap_usage(&used, &before, &most);
    mallctl("arena." ALL ".purge", NULL, NULL, NULL, 0);
    __reheap_usage(&used, &after, &most);
    return after < before;
}

static int set_decay(const char *name, ssize_t milliseconds) {
    return mallctl(name, NULL, NULL, &milliseconds, sizeof milliseconds) == 0;
}

int __reheap_keep(int for_good) {
    ssize_t milliseconds = for_good ? -1 : 0;
    unsigned arenas = 0;
    size_t length = sizeof arenas;
    mallctl("arenas.narenas", &arenas, &length, NULL, 0);
    for (unsigned arena = 0; arena < arenas; arena++) {
        char name[64];
        snprintf(name, sizeof name, "arena.%u.dirty_decay_ms", arena);
        set_decay(name, milliseconds); // fails for those that no thread uses yet, which the next line is for
    }
    return set_decay("arenas.dirty_decay_ms", milliseconds);
}
