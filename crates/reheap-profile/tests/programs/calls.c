// Makes calls whose numbers it knows and prints: producers allocate, consumers free, and each thread has its own too.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 64 };
static int pairs, rounds;
static void *slots[256][SLOTS];

static void *produce(void *argument) {
    void **own = slots[(long)argument];
    unsigned random = 1 + (long)argument;
    for (int round = 0; round < rounds; round++) {
        random = random * 1103515245 + 12345;
        void **slot = &own[round % SLOTS];
        while (__atomic_load_n(slot, __ATOMIC_ACQUIRE))
            sched_yield();
        char *block = malloc(1 + (random >> 16) % 500);
        block[0] = 1;
        char *temporary = realloc(calloc(1, 16), 1000);
        temporary[999] = 1;
        free(temporary);
        __atomic_store_n(slot, block, __ATOMIC_RELEASE);
    }
    return 0;
}

static void *consume(void *argument) {
    void **others = slots[(long)argument];
    for (int round = 0; round < rounds; round++) {
        void **slot = &others[round % SLOTS], *block;
        while (!(block = __atomic_load_n(slot, __ATOMIC_ACQUIRE)))
            sched_yield();
        free(block);
        __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
    }
    return 0;
}

int main(int argc, char **argv) {
    pairs = atoi(argv[1]);
    rounds = atoi(argv[2]);
    pthread_t threads[512];
    for (long pair = 0; pair < pairs; pair++) {
        pthread_create(&threads[2 * pair], 0, produce, (void *)pair);
        pthread_create(&threads[2 * pair + 1], 0, consume, (void *)pair);
    }
    for (int thread = 0; thread < 2 * pairs; thread++)
        pthread_join(threads[thread], 0);
    return argc != 3;
}
