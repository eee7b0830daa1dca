// The rest of the malloc family, over the allocator's own primitives.
//
// An allocator brings malloc, calloc, realloc, free, an aligned allocation and the usable size of a block, under the
// names `__reheap_…`. In the other functions, allocators differ in what they check and how they set errno. So this file
// defines them once, with the behaviour of musl's (C23 7.24.3, POSIX.1-2024). In a libc all are weak, so a program's
// own replace them. In a preload that needs no weak symbols, because the dynamic linker searches the program first.
//
// The two libcs differ in one thing, and programs rely on it: realloc of a block to zero bytes. musl returns a block of
// zero bytes. glibc frees the block and returns NULL (C23 leaves it undefined). Each program gets what its libc does.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

void *__reheap_malloc(size_t);
void *__reheap_realloc(void *, size_t);
void __reheap_free(void *);
void *__reheap_memalign(size_t, size_t);
size_t __reheap_malloc_usable_size(void *);

#ifdef REHEAP_PRELOAD
#define PUBLIC __attribute__((visibility("default")))
#else
#define PUBLIC __attribute__((weak))
#endif

// musl treats an alignment of 0 as the smallest one, and refuses one that is not a power of two.
static void *allocate_aligned(size_t alignment, size_t size) {
    if (alignment & (alignment - 1)) {
        errno = EINVAL;
        return NULL;
    }
    // A block of fewer than 16 bytes need not be aligned to 16, so malloc only serves alignments below that.
    if (alignment <= sizeof(void *)) return __reheap_malloc(size);
    if (size > PTRDIFF_MAX - alignment) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = __reheap_memalign(alignment, size ? size : 1);
    if (!block) errno = ENOMEM;
    return block;
}

PUBLIC void *aligned_alloc(size_t alignment, size_t size) {
    return allocate_aligned(alignment, size);
}

PUBLIC void *memalign(size_t alignment, size_t size) {
    return allocate_aligned(alignment, size);
}

// POSIX: return the error, leave errno alone, and write *out only on success.
PUBLIC int posix_memalign(void **out, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1))) return EINVAL;
    int errno_before = errno;
    void *block = allocate_aligned(alignment, size);
    errno = errno_before;
    if (!block) return ENOMEM;
    *out = block;
    return 0;
}

PUBLIC void *valloc(size_t size) {
    return allocate_aligned((size_t)sysconf(_SC_PAGESIZE), size);
}

#if defined(REHEAP_PRELOAD) && (defined(__GLIBC__) || defined(REHEAP_GRAFT))
static void *reallocate_or_free(void *block, size_t size) {
    if (size || !block) return __reheap_realloc(block, size);
    __reheap_free(block);
    return NULL;
}
#endif

#if defined(REHEAP_PRELOAD) && defined(__GLIBC__)
PUBLIC void *realloc(void *block, size_t size) {
    return reallocate_or_free(block, size);
}
#define REALLOC realloc
#else
#define REALLOC __reheap_realloc // which realloc is an alias of
#endif

#ifdef REHEAP_GRAFT
// For a finished program with glibc. The library is the same for both libcs.
PUBLIC void *__reheap_realloc_of_glibc(void *block, size_t size) {
    return reallocate_or_free(block, size);
}
#endif

PUBLIC void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return REALLOC(block, bytes);
}

PUBLIC size_t malloc_usable_size(void *block) {
    return block ? __reheap_malloc_usable_size(block) : 0;
}

// A wrong size is a misuse (C23 7.24.3.4, 7.24.3.5). Allocators that compare it with the block's get it. Others would
// not use it, or would believe it, as jemalloc does: then a wrong size corrupts the heap that a plain free leaves whole.
#ifdef REHEAP_SIZE_IS_CHECKED
void __reheap_free_sized(void *, size_t);
void __reheap_free_aligned_sized(void *, size_t, size_t);
#else
static void __reheap_free_sized(void *block, size_t size) {
    (void)size;
    __reheap_free(block);
}

static void __reheap_free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment;
    (void)size;
    __reheap_free(block);
}
#endif

PUBLIC void free_sized(void *block, size_t size) {
    __reheap_free_sized(block, size);
}

// The block is as allocate_aligned made it.
PUBLIC void free_aligned_sized(void *block, size_t alignment, size_t size) {
    if (alignment <= sizeof(void *)) __reheap_free_sized(block, size);
    else __reheap_free_aligned_sized(block, alignment, size ? size : 1);
}

#ifdef REHEAP_PRELOAD
// musl does not have it. glibc rounds the size up to whole pages.
PUBLIC void *pvalloc(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > PTRDIFF_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    return allocate_aligned(page, size ? (size + page - 1) & ~(page - 1) : page);
}

#ifdef __GLIBC__
// Programs linked with glibc 2.25 or earlier may still call it.
PUBLIC void cfree(void *block) {
    __reheap_free(block);
}
#endif
#endif
