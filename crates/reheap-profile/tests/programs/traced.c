// A preload that records calls of malloc with hooks/trace.c, for tests: every thread gets the next ring of the file.
// An empty file's name records nothing, so that the cost of the wrappers alone can be told.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../hooks/trace.h"
#include "../../hooks/trace.c"

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static void *(*next_aligned_alloc)(size_t, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_memalign)(size_t, size_t);

static struct reheap_trace *trace;
static uint64_t *taken; // behind the area: how many rings have owners
static struct reheap_trace_ring *rings;
static uint64_t ring_count;
static _Thread_local struct reheap_trace_ring *own __attribute__((tls_model("initial-exec")));
static _Thread_local int inside __attribute__((tls_model("initial-exec")));

static __attribute__((constructor)) void begin(void) {
    next_malloc = dlsym(RTLD_NEXT, "malloc");
    next_calloc = dlsym(RTLD_NEXT, "calloc");
    next_realloc = dlsym(RTLD_NEXT, "realloc");
    next_free = dlsym(RTLD_NEXT, "free");
    next_aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    next_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    next_memalign = dlsym(RTLD_NEXT, "memalign");
    const char *path = getenv("TRACED_FILE");
    if (!path || !*path)
        return;
    unsetenv("TRACED_FILE"); // programs that this one starts are none of ours
    int file = open(path, O_RDWR);
    struct stat status;
    if (file < 0 || fstat(file, &status))
        abort();
    char *area = mmap(0, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (area == MAP_FAILED)
        abort();
    close(file);
    taken = (uint64_t *)(area + sizeof(struct reheap_trace));
    rings = (struct reheap_trace_ring *)(area + 2 * sizeof(struct reheap_trace));
    ring_count = (status.st_size - 2 * sizeof(struct reheap_trace)) / sizeof *rings;
    trace = (struct reheap_trace *)area;
}

static void record(enum reheap_traced function, const void *block, size_t size, size_t alignment) {
    if (!trace || inside)
        return;
    if (!own) {
        uint64_t index = __atomic_fetch_add(taken, 1, __ATOMIC_RELAXED);
        if (index >= ring_count)
            abort();
        own = &rings[index];
    }
    trace_call(trace, own, function, block, size, alignment);
}

// dlsym may allocate before the constructor is done.
static char early[4096];
static size_t early_used;
static void *early_block(size_t size) {
    void *block = early + early_used;
    early_used += (size + 15) & -16;
    if (early_used > sizeof early)
        abort();
    return block;
}
static int is_early(void *block) { return (char *)block >= early && (char *)block < early + sizeof early; }

void *malloc(size_t size) {
    if (!next_malloc)
        return early_block(size);
    void *block = next_malloc(size);
    record(REHEAP_TRACED_MALLOC, block, size, 0);
    return block;
}
void *calloc(size_t count, size_t size) {
    if (!next_calloc)
        return early_block(count * size);
    void *block = next_calloc(count, size);
    record(REHEAP_TRACED_CALLOC, block, count * size, 0);
    return block;
}
void *realloc(void *old, size_t size) {
    if (old)
        record(REHEAP_TRACED_INTO_REALLOC, old, 0, 0);
    void *block = next_realloc(old, size);
    record(REHEAP_TRACED_REALLOC, block, size, 0);
    return block;
}
void free(void *block) {
    if (is_early(block))
        return;
    record(REHEAP_TRACED_FREE, block, 0, 0);
    next_free(block);
}
void *aligned_alloc(size_t alignment, size_t size) {
    inside++;
    void *block = next_aligned_alloc(alignment, size);
    inside--;
    record(REHEAP_TRACED_ALIGNED_ALLOC, block, size, alignment);
    return block;
}
void *memalign(size_t alignment, size_t size) {
    inside++;
    void *block = next_memalign(alignment, size);
    inside--;
    record(REHEAP_TRACED_MEMALIGN, block, size, alignment);
    return block;
}
int posix_memalign(void **block, size_t alignment, size_t size) {
    inside++;
    int error = next_posix_memalign(block, alignment, size);
    inside--;
    record(REHEAP_TRACED_POSIX_MEMALIGN, error ? 0 : *block, size, alignment);
    return error;
}
