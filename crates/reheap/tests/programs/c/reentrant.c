// An allocator that a signal may interrupt at any time: each block is the next piece of a large one.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static _Alignas(4096) char memory[64 << 20];
static size_t used;

void *malloc(size_t size) {
    size_t rounded = (size + 15) & ~(size_t)15;
    // From the beginning again: those who use it keep little of it.
    size_t at = __atomic_fetch_add(&used, rounded, __ATOMIC_RELAXED) % (sizeof memory / 2);
    return memory + at / 16 * 16;
}
void free(void *block) { (void)block; }
