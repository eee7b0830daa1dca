/* Stands for an allocator in a derived libc: it hands out memory once, and counts who came for it. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int calls_of_program, calls_of_libc;
int __malloc_replaced = 1, __aligned_alloc_replaced = 1;

static _Alignas(4096) char pool[64 << 20];
static size_t used;

static void *take(int *calls, size_t alignment, size_t size) {
    __atomic_fetch_add(calls, 1, __ATOMIC_SEQ_CST);
    if (alignment < 16) alignment = 16;
    if (size > sizeof pool / 2 || alignment > sizeof pool / 2) return errno = ENOMEM, (void *)0;
    size_t room = size + alignment + 16;
    size_t start = __atomic_fetch_add(&used, room, __ATOMIC_SEQ_CST);
    if (start + room > sizeof pool) return errno = ENOMEM, (void *)0;
    uintptr_t block = ((uintptr_t)pool + start + 16 + alignment - 1) & ~(uintptr_t)(alignment - 1);
    ((size_t *)block)[-1] = size;
    return (void *)block;
}

static void *move(int *calls, void *old, size_t size) {
    void *block = take(calls, 16, size);
    if (old && block) {
        size_t had = ((size_t *)old)[-1];
        memcpy(block, old, had < size ? had : size);
    }
    return block;
}

void *malloc(size_t size) { return take(&calls_of_program, 16, size); }
void *calloc(size_t count, size_t size) { return take(&calls_of_program, 16, count * size); }
void *realloc(void *old, size_t size) { return move(&calls_of_program, old, size); }
void *reallocarray(void *old, size_t count, size_t size) { return move(&calls_of_program, old, count * size); }
void *aligned_alloc(size_t alignment, size_t size) { return take(&calls_of_program, alignment, size); }
void *memalign(size_t alignment, size_t size) { return take(&calls_of_program, alignment, size); }
void *valloc(size_t size) { return take(&calls_of_program, 4096, size); }
int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = take(&calls_of_program, alignment, size);
    return *block ? 0 : ENOMEM;
}
void free(void *block) { (void)block; }
size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-1] : 0; }

void *__libc_malloc(size_t size) { return take(&calls_of_libc, 16, size); }
void *__libc_malloc_impl(size_t size) { return take(&calls_of_libc, 16, size); }
void *__libc_calloc(size_t count, size_t size) { return take(&calls_of_libc, 16, count * size); }
void *__libc_realloc(void *old, size_t size) { return move(&calls_of_libc, old, size); }
void __libc_free(void *block) { (void)block; }
void __malloc_donate(char *start, char *end) { (void)start, (void)end; }
void __malloc_atfork(int who) { (void)who; }
