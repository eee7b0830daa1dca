// Begins a program with a derived libc, or with another malloc, and no other library.

#include <stddef.h>

void *malloc(size_t n);
void free(void *p);

void _start(void) {
    free(malloc(7));
    for (;;) {}
}
