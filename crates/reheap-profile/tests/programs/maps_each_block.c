// A malloc that gives each block a page of its own behind one that nobody may touch, as hardened allocators do with large
// blocks. So each is two mappings.
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

void *malloc(size_t size) {
    size_t pages = (size + 2 * PAGE - 1) / PAGE + 1;
    char *guard = mmap(0, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guard == MAP_FAILED || mprotect(guard + PAGE, (pages - 1) * PAGE, PROT_READ | PROT_WRITE))
        return 0;
    return guard + PAGE;
}

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void free(void *block) { (void)block; }

void *realloc(void *block, size_t size) {
    char *larger = malloc(size);
    if (block && larger)
        memcpy(larger, block, size < PAGE ? size : PAGE);
    return larger;
}
