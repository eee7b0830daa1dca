// A malloc whose code is as distributions compile it for aarch64: it signs return addresses, and is guarded by landing pads.
// It frees nothing.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GUARDED __attribute__((section("guarded"), noinline))

static char heap[96 << 20] __attribute__((aligned(4096)));
static size_t used;

// A function of its own, so that those that need its result save the return address, and those that do not only jump.
static __attribute__((noinline)) void *take(size_t alignment, size_t size) {
  size_t rounded = (size + 15) / 16 * 16 + 16 + alignment;
  size_t start = (__atomic_fetch_add(&used, rounded, __ATOMIC_RELAXED) + 16 + alignment - 1) / alignment * alignment;
  if (start + size > sizeof heap) return NULL;
  *(size_t *)(heap + start - 8) = size;
  return heap + start;
}

// Its page begins here, so nothing else is guarded with it.
__attribute__((aligned(4096))) GUARDED void *malloc(size_t size) {
  void *block = take(16, size);
  if (!block) errno = ENOMEM;
  return block;
}

GUARDED void free(void *block) { (void)block; }

GUARDED void *calloc(size_t many, size_t size) { return take(16, many * size); }

GUARDED void *realloc(void *block, size_t size) {
  void *moved = take(16, size);
  size_t before = block ? ((size_t *)block)[-1] : 0;
  if (moved && before) memcpy(moved, block, before < size ? before : size);
  return moved;
}

GUARDED void *aligned_alloc(size_t alignment, size_t size) { return take(alignment, size); }

GUARDED int posix_memalign(void **out, size_t alignment, size_t size) {
  *out = take(alignment, size);
  return *out ? 0 : ENOMEM;
}
