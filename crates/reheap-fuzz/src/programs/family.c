// Calls all that shows musl's malloc in a stripped program.

#include <stdlib.h>

int main(int c, char **v) {
    void *p = calloc(c, 7);
    if (posix_memalign(&p, 64, c) || !malloc(c) || !realloc(p, 9) || !aligned_alloc(64, 64)) return 1;
    free(p);
    return 0;
}
