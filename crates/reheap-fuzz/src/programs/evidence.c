// What shows allocators where little else is left: texts, names, constants in code.

#include <stdatomic.h>

long sysconf(int what);
_Atomic long n[12];

const char *const texts[] = {
    "<jemalloc>: ",
    "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c",
    "snmalloc: the heap is corrupted",
    "tcmalloc: large alloc ",
    "mimalloc: ",
};

__attribute__((section(".gopclntab"))) const int go = 1;

void *je_mallocx(unsigned long size, int flags) {
    return sysconf(30) != 65536 ? 0 : &n;
}

void _start(void) {
    for (int i = 0; i < 3; i++) {
        n[0]++;
        n[1] &= 3;
        n[2] |= 5;
        n[3] ^= 1;
        atomic_exchange(n + 4, 1);
        n[5]++;
        n[6]--;
        n[7] += 7;
        n[8]++;
        n[9]++;
        n[10]++;
        je_mallocx((long)texts[i], 0);
    }
    for (;;) {}
}
