// The functions of jemalloc's own interface that take a block. A program may give them one that realloc has grown.
#include <string.h>

void *mallocx(size_t, int);
void *__reheap_inner_rallocx(void *, size_t, int);
size_t __reheap_inner_xallocx(void *, size_t, size_t, int);
size_t __reheap_inner_sallocx(const void *, int);
void __reheap_inner_dallocx(void *, int);
void __reheap_inner_sdallocx(void *, size_t, int);

void *__reheap_rallocx(void *block, size_t size, int flags) {
    size_t grown = __reheap_grown_size(block);
    if (!grown) return __reheap_inner_rallocx(block, size, flags);
    void *copy = mallocx(size, flags);
    if (!copy) return NULL;
    memcpy(copy, block, grown < size ? grown : size);
    __reheap_free_grown(block);
    return copy;
}

// It resizes in place or not at all, and gives the size that the block has then.
size_t __reheap_xallocx(void *block, size_t size, size_t extra, int flags) {
    size_t grown = __reheap_grown_size(block);
    return grown ? grown : __reheap_inner_xallocx(block, size, extra, flags);
}

size_t __reheap_sallocx(const void *block, int flags) {
    size_t grown = __reheap_grown_size(block);
    return grown ? grown : __reheap_inner_sallocx(block, flags);
}

void __reheap_dallocx(void *block, int flags) {
    if (!__reheap_free_grown(block)) __reheap_inner_dallocx(block, flags);
}

void __reheap_sdallocx(void *block, size_t size, int flags) {
    if (!__reheap_free_grown(block)) __reheap_inner_sdallocx(block, size, flags);
}
