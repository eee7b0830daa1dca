// The texts and the calls that show glibc's malloc in a stripped program. The real one is too large for a fuzzer.

#define APART __attribute__((noipa))

typedef unsigned long size_t;

APART void say(const char *a, const char *b) {
    if (a == b) __builtin_trap();
}

APART void free_block(char *p) {
    if (*p) say("free(): invalid pointer", "free(): invalid next size (fast)");
    *p = 1;
}

APART void unmap_block(char *p) {
    if (*p) say("munmap_chunk(): invalid pointer", "malloc(): corrupted top size");
    *p = 2;
}

APART void *malloc(size_t n) {
    static char heap[99];
    if (n > 9) say("__libc_malloc", 0);
    return heap + n;
}

APART void *calloc(size_t n, size_t m) {
    if (n > 9) say("__libc_calloc", 0);
    return malloc(n * m);
}

APART void free(void *p) {
    if (!p) return;
    if ((size_t)p & 2) unmap_block(p);
    else free_block(p);
}

APART void *realloc(char *p, size_t n) {
    if (n > 99) say("__libc_realloc", 0);
    if ((size_t)p & 2) unmap_block(p);
    else free_block(p);
    free(p);
    return malloc(n);
}

APART void *align(size_t alignment, size_t n, void *from) {
    if (alignment & 3) say("_mid_memalign", from);
    return malloc(alignment + n);
}

APART void *memalign(size_t alignment, size_t n) {
    return align(alignment, n, __builtin_return_address(0));
}

APART int posix_memalign(void **p, size_t alignment, size_t n) {
    if (alignment & 7) return 22;
    *p = align(alignment, n, 0);
    return 0;
}

void _start(void) {
    void *p = calloc(1, 2);
    posix_memalign(&p, 8, 8);
    free(realloc(memalign(8, 8), 3));
    for (;;) {}
}
