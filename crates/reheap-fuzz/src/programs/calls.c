// Functions in each other, and names as compilers of C++ and Rust make them.

#include <stdlib.h>

__attribute__((noinline)) int leaf(int a) __asm__("_ZN3abc4leafIiSt6vectorIS_SaIS0_EEEEiT_");
__attribute__((noinline)) int between(int a) __asm__("_RINvNtCs1234_7mycrate3foo3barNtB4_1AE");

int leaf(int a) {
    char b[a];
    b[a / 2] = a;
    return abort(), b[0];
}

static inline __attribute__((always_inline)) int inlined(int a) {
    return leaf(a + 1) + leaf(a);
}

int between(int a) {
    return inlined(a) * 3;
}

int main(int c, char **v) {
    return between(c) + between(c + 1);
}
