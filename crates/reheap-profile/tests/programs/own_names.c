// A program whose allocator has names of its own, as Rust's jemalloc and mimalloc crates have. Argument: rounds.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char memory[64 << 20];
static size_t used;

static void *take(size_t size, size_t alignment) {
  size_t start = (used + alignment - 1) / alignment * alignment;
  used = (start + size) % (32 << 20);
  return memory + start;
}

#define NAME(name) __attribute__((noinline, noclone, aligned(16))) name

// Flags of jemalloc: the logarithm of the alignment, and 0x40 for cleared memory.
void *NAME(_rjem_mallocx)(size_t size, int flags) { return take(size, (size_t)1 << (flags & 0x3f)); }
void *NAME(_rjem_rallocx)(void *block, size_t size, int flags) {
  void *moved = take(size, (size_t)1 << (flags & 0x3f));
  return memmove(moved, block, size);
}
void NAME(_rjem_sdallocx)(void *block, size_t size, int flags) { memset(block, flags, size > 8 ? 8 : size); }
void *NAME(_rjem_malloc)(size_t size) { return take(size, 16); }
void *NAME(_rjem_calloc)(size_t count, size_t size) { return memset(take(count * size, 16), 0, count * size); }
void *NAME(mi_malloc_aligned)(size_t size, size_t alignment) { return take(size, alignment); }
void *NAME(mi_zalloc_aligned)(size_t size, size_t alignment) { return memset(take(size, alignment), 0, size); }
void *NAME(mi_realloc_aligned)(void *block, size_t size, size_t alignment) {
  return memmove(take(size, alignment), block, size);
}
void NAME(mi_free)(void *block) { memset(block, 0, 1); }

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 10;
  for (long i = 0; i < rounds; i++) {
    void *block = _rjem_mallocx(100, 6);
    block = _rjem_rallocx(block, 200, 6);
    _rjem_sdallocx(block, 200, 6);
    _rjem_sdallocx(_rjem_malloc(10), 10, 0);
    _rjem_sdallocx(_rjem_calloc(10, 3), 30, 0);
    block = mi_malloc_aligned(100, 64);
    block = mi_realloc_aligned(block, 300, 64);
    mi_free(block);
    mi_free(mi_zalloc_aligned(40, 8));
  }
  char *volatile other = malloc(30);
  free(other);
  _exit(0);
}
