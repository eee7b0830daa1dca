// snmalloc's realloc(p, 0) frees, as glibc's does; musl's gives a block. Its free may leave a failed madvise in errno,
// which POSIX.1-2024 forbids.
#include <errno.h>
#include <stddef.h>

void *sn_realloc(void *, size_t);
void sn_free(void *);

void *__reheap_realloc(void *block, size_t size) {
    return sn_realloc(block, size ? size : 1);
}

void __reheap_free(void *block) {
    int errno_before = errno;
    sn_free(block);
    errno = errno_before;
}
