// What other glue has to know of grown.c.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

// A grown block begins at a multiple of this: the size of a segment of mimalloc 2.
#define SLOT ((uintptr_t)(UINTPTR_MAX > UINT32_MAX ? 32 << 20 : 4 << 20))

// The bytes of a grown block; 0 if the block is the allocator's, or NULL.
size_t __reheap_grown_size(const void *block);
// Frees a grown block. 0 if it is none: then nothing has happened.
int __reheap_free_grown(void *block);
// The bytes of all grown blocks.
size_t __reheap_grown_total(void);

// Few blocks of the allocator are there, so whoever asks may look up the others. NULL is there, too.
static inline int may_be_grown(const void *block) {
    return ((uintptr_t)block & (SLOT - 1)) == 0;
}
