// A library with a malloc for finished executables: a function for each of the family, a variable of each thread, and a word for
// the place of errno.
#include <stddef.h>

// A marker whose words are not filled in.
__asm__(".section .note.reheap, \"a\", @note\n.balign 4\n.long 7, 1f - 0f, 2\n.asciz \"reheap\"\n.balign 4\n"
        "0: .skip 96\n.ascii \"{\\\"allocator\\\":\\\"mimalloc\\\",\\\"allocator_version\\\":\\\"3\\\",\\\"package\\\":\\\"p\\\","
        "\\\"libc\\\":\\\"musl\\\",\\\"reheap\\\":\\\"0\\\"}\"\n1: .balign 4\n.previous");

static __thread size_t next = 1;
static char heap[4096];
__attribute__((section(".data"))) long errno_at = 0;
void *volatile last = heap;

void *malloc(size_t size) { return last = heap + (next += size); }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *block, size_t size) { return block ? malloc(size) : NULL; }
void free(void *block) { last = block; }
void *aligned_alloc(size_t alignment, size_t size) { return malloc(alignment + size); }
int posix_memalign(void **out, size_t alignment, size_t size) { return !(*out = malloc(alignment + size)); }
void *memalign(size_t alignment, size_t size) { return malloc(alignment + size); }
void *valloc(size_t size) { return malloc(size); }
void *pvalloc(size_t size) { return malloc(size); }
size_t malloc_usable_size(void *block) { return block ? next : 0; }
