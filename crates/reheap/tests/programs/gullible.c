// An allocator without any protection: every attack of `reheap attack` must succeed under it, or the attack is broken.
//
// Blocks of one size are side by side in a region of their own. A freed block holds the address of the one freed before,
// and comes back first. Nothing is checked; an address from elsewhere counts as a block of 64 bytes.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { CLASSES = 96 };
#define REGION ((size_t)1 << 32)

static char *heap;
static size_t used[CLASSES];
static void *freed[CLASSES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Steps of 16 bytes up to 1 KiB, then powers of two.
static size_t size_of(int class) {
    return class < 64 ? 16 * ((size_t)class + 1) : (size_t)2048 << (class - 64);
}

static int class_for(size_t size) {
    int class = 0;
    while (size_of(class) < size) class++;
    return class;
}

static int class_of(void *block) {
    size_t distance = (size_t)((char *)block - heap);
    return distance < CLASSES * REGION ? (int)(distance / REGION) : class_for(64);
}

void *malloc(size_t size) {
    if (size > REGION / 4) {
        errno = ENOMEM;
        return NULL;
    }
    int class = class_for(size);
    pthread_mutex_lock(&lock);
    if (!heap)
        heap = mmap(NULL, CLASSES * REGION, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *block = freed[class];
    if (block) {
        freed[class] = *(void **)block;
    } else {
        block = heap + class * REGION + used[class];
        used[class] += size_of(class);
    }
    pthread_mutex_unlock(&lock);
    return block;
}

static void put(void *block, int class) {
    pthread_mutex_lock(&lock);
    *(void **)block = freed[class];
    freed[class] = block;
    pthread_mutex_unlock(&lock);
}

void free(void *block) {
    if (block) put(block, class_of(block));
}

void free_sized(void *block, size_t size) {
    if (block) put(block, class_for(size));
}

size_t malloc_usable_size(void *block) {
    return block ? size_of(class_of(block)) : 0;
}

void *calloc(size_t count, size_t size) {
    void *block = malloc(count * size);
    return block ? memset(block, 0, count * size) : NULL;
}

void *realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    if (size <= malloc_usable_size(block)) return block;
    void *larger = malloc(size);
    if (!larger) return NULL;
    memcpy(larger, block, malloc_usable_size(block));
    free(block);
    return larger;
}

// All blocks of a power of two are aligned to it.
void *memalign(size_t alignment, size_t size) {
    size_t power = 16;
    while (power < size || power < alignment) power *= 2;
    return malloc(power);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}
