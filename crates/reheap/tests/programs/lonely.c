// An allocator that leaves a page and more between blocks, and looks at 64 bytes on each side of a block when it is freed.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { APART = 8192, BLOCKS = 1 << 15, BESIDE = 64 };
static _Alignas(4096) unsigned char heap[(size_t)APART * BLOCKS];
static size_t sizes[BLOCKS], used;

static size_t number(void *block) { return ((unsigned char *)block - heap) / APART; }

size_t malloc_usable_size(void *block) { return sizes[number(block)]; }

void *malloc(size_t size) {
    size_t places = (APART / 4 + size + BESIDE) / APART + 1;
    if (places > BLOCKS - used) return NULL;
    sizes[used] = size;
    unsigned char *block = heap + used * APART + APART / 4;
    used += places;
    memset(block - BESIDE, 'g', BESIDE);
    memset(block + size, 'g', BESIDE);
    return block;
}

void free(void *at) {
    unsigned char *block = at;
    if (block < heap || block >= heap + sizeof heap) return;
    for (int i = 0; i < BESIDE; i++)
        if (block[i - BESIDE] != 'g' || block[sizes[number(block)] + i] != 'g') {
            static const char text[] = "lonely: the bytes beside a block changed\n";
            if (write(2, text, sizeof text - 1)) abort();
        }
}

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    if (block && moved) memcpy(moved, block, sizes[number(block)] < size ? sizes[number(block)] : size);
    free(block);
    return moved;
}
