// burst N: allocates N large blocks as fast as it can, with as much on the stack as a sample has of it.
#include <stdlib.h>

static int deep(int levels) {
    volatile char room[200];
    room[0] = 1;
    if (levels > 0) return deep(levels - 1) + room[0];
    free(malloc(64 << 20));
    return room[0];
}

int main(int count, char **words) {
    (void)count;
    for (int i = atoi(words[1]); i > 0; i--) deep(80);
    return 0;
}
