// Writes over what the hooks share with reheap, as a wild pointer would, and goes on allocating. The argument says over what.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace.h"

// As in src/recording.rs.
#define HEADER_BYTES (136L << 10)
#define TRACE 4352
#define PLACE_BYTES ((512L << 10) + 16384 * (24L << 10) + (8L << 20))
#define THREADS 12
#define CLAIMED 128

static char *start_of_recording(void) {
    char line[4096];
    unsigned long start = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        if (strstr(line, "reheap-profile") && sscanf(line, "%lx", &start) == 1) break;
    }
    if (maps) fclose(maps);
    return (char *)start;
}

static void allocate(int calls) {
    for (int i = 0; i < calls; i++) {
        char *volatile block = malloc(100);
        block[99] = 1;
        free(block);
    }
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    allocate(1000);
    char *recording = start_of_recording();
    if (!recording) return 2;
    char *place = recording + HEADER_BYTES;
    uint32_t slot = *(uint32_t *)(place + CLAIMED) - 1;
    struct reheap_trace_ring *ring = (void *)(place + PLACE_BYTES + slot * sizeof *ring);
    if (ring->head < 2000) return 3; // it is not where this program takes it to be
    // Else the recorder, which sets `tail` when it has taken calls out, may write over what is written here.
    while (__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) != ring->head) sched_yield();
    if (!strcmp(what, "head")) ring->head ^= 1ul << 40;
    if (!strcmp(what, "tail")) ring->tail ^= 1ul << 40;
    if (!strcmp(what, "both")) ring->head ^= 1ul << 40, ring->tail = ring->head - 10 * REHEAP_TRACE_EVENTS;
    if (!strcmp(what, "ring")) memset(ring, 0xff, sizeof *ring);
    if (!strcmp(what, "threads")) memset(place + THREADS, 0, 4);
    if (!strcmp(what, "area")) memset(recording + TRACE, 0x55, sizeof(struct reheap_trace));
    allocate(50000);
    puts("goes on");
    return 7;
}
