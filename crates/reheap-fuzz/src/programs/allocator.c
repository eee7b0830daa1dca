// An allocator with all that the derived libc asks of one, and memory functions; the fuzzer makes it worse.

#include <stddef.h>

static char heap[1 << 20];
static size_t top;

void *mi_malloc(size_t n) {
    void *p = heap + top;
    top += (n + 15) & -16;
    return p;
}

void *mi_calloc(size_t n, size_t m) {
    return mi_malloc(n * m);
}

void *mi_realloc(void *p, size_t n) {
    return mi_malloc(n);
}

void mi_free(void *p) {
    if (p) *(char *)p = 0;
}

void *fast_memcpy(char *to, const char *from, size_t n) {
    while (n--) to[n] = from[n];
    return to;
}

void *fast___memrchr(char *of, int c, size_t n) {
    while (n--)
        if (of[n] == c) return of + n;
    return 0;
}
