// Allocates many large blocks at two places: 100,000 of 600 KB, and 300,000 of 800 KB.
#include <stdlib.h>

static void *volatile negative;

__attribute__((noinline)) static void develop(void) {
    negative = malloc(600000);
    free(negative);
}

__attribute__((noinline)) static void enlarge(void) {
    negative = malloc(800000);
    free(negative);
}

int main(void) {
    for (int i = 0; i < 100000; i++) {
        develop();
        for (int copy = 0; copy < 3; copy++) enlarge();
    }
}
