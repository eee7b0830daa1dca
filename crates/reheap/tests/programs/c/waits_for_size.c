// Its malloc_usable_size, which only the hooks call, waits until somebody writes to standard input.
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static char heap[1 << 20] __attribute__((aligned(16)));
static size_t used;
static volatile int has_waited;

static void say(const char *words) {
    if (write(1, words, strlen(words)) < 0) _exit(1);
}

void *malloc(size_t size) {
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded > sizeof heap - used) return NULL;
    used += rounded;
    return heap + used - rounded;
}

void *calloc(size_t many, size_t size) { return malloc(many * size); }

void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    if (block && moved) memcpy(moved, block, size);
    return moved;
}

// Long enough for a jump.
void free(void *block) {
    static volatile size_t frees[64];
    if (block) frees[(size_t)((char *)block - heap) / 16 % 64]++;
}

size_t malloc_usable_size(void *block) {
    char byte;
    if (!has_waited) {
        has_waited = 1;
        say("waits\n");
        if (read(0, &byte, 1) != 1) _exit(1);
    }
    return block ? 16 : 0;
}

int main(void) {
    say("ready\n");
    for (int i = 0; i < 60000 && !has_waited; i++) {
        static void *volatile kept;
        kept = malloc(16);
        usleep(1000);
    }
    say(has_waited ? "goes on\n" : "nobody came\n");
    return 0;
}
