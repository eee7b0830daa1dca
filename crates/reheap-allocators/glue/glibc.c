// What glibc has beside the malloc family: malloc_trim, mallinfo and the like, for the active allocator of a preload.
// Without these functions glibc's own would answer, about a heap that nothing uses.
//
// Each allocator brings the three functions below. This file invents no figure that an allocator does not know:
// docs/dynamic-programs.md says which figures mean what. musl has none of these functions.
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

// The heap in bytes: what is used, what the allocator keeps for later, and the peak of both together. 0 if it does not
// know.
void __reheap_usage(size_t *used, size_t *kept, size_t *most);
// Gives as much as possible back to the system. 1 if that was anything.
int __reheap_collect(void);
// From now on, keep freed memory for ever or give it back at once. 1 if the allocator can do that.
int __reheap_keep(int for_good);

#ifdef __GLIBC__
#define PUBLIC __attribute__((visibility("default")))

// As in glibc's malloc.h. Older versions lack the second one.
#define FIELDS(type) type arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost
struct mallinfo {
    FIELDS(int);
};
struct mallinfo2 {
    FIELDS(size_t);
};

// mallopt(3): free memory at the end of the heap above this size goes back to the system.
#define M_TRIM_THRESHOLD (-1)

// The heap of no allocator here has an end, so `pad` means nothing.
PUBLIC int malloc_trim(size_t pad) {
    (void)pad;
    int errno_before = errno;
    int gave = __reheap_collect();
    errno = errno_before;
    return gave;
}

PUBLIC struct mallinfo2 mallinfo2(void) {
    size_t used, kept, most;
    __reheap_usage(&used, &kept, &most);
    return (struct mallinfo2){.arena = used + kept, .uordblks = used, .fordblks = kept};
}

// Sizes of 2 GiB and more wrap around, as in glibc: "may thus be inaccurate", mallinfo(3).
PUBLIC struct mallinfo mallinfo(void) {
    struct mallinfo2 wide = mallinfo2();
    return (struct mallinfo){
        .arena = (int)wide.arena,
        .uordblks = (int)wide.uordblks,
        .fordblks = (int)wide.fordblks,
    };
}

// Elements and attributes are some of glibc's.
PUBLIC int malloc_info(int options, FILE *stream) {
    if (options != 0) return EINVAL;
    size_t used, kept, most;
    __reheap_usage(&used, &kept, &most);
    fprintf(stream, "<malloc version=\"1\">\n<total type=\"rest\" size=\"%zu\"/>\n", kept);
    fprintf(stream, "<system type=\"current\" size=\"%zu\"/>\n", used + kept);
    if (most) fprintf(stream, "<system type=\"max\" size=\"%zu\"/>\n", most);
    fprintf(stream, "<aspace type=\"total\" size=\"%zu\"/>\n</malloc>\n", used + kept);
    return 0;
}

PUBLIC void malloc_stats(void) {
    size_t used, kept, most;
    __reheap_usage(&used, &kept, &most);
    fprintf(stderr, "Total (incl. mmap):\nsystem bytes     = %10zu\nin use bytes     = %10zu\n", used + kept, used);
    if (most) fprintf(stderr, "max system bytes = %10zu\n", most);
}

// Only the smallest and the largest trim threshold mean something to other allocators: at once, and never.
PUBLIC int mallopt(int parameter, int value) {
    if (parameter != M_TRIM_THRESHOLD || (value != 0 && value != -1)) return 0;
    return __reheap_keep(value == -1);
}

// glibc exports the family under names of its own too. Some programs and preloads call these, and may free such a block
// by the usual name, or the other way round.
void *__reheap_malloc(size_t);
void *__reheap_calloc(size_t, size_t);
void __reheap_free(void *);
void *realloc(void *, size_t);
void *memalign(size_t, size_t);
void *valloc(size_t);
void *pvalloc(size_t);

PUBLIC void *__libc_malloc(size_t size) { return __reheap_malloc(size); }
PUBLIC void *__libc_calloc(size_t count, size_t size) { return __reheap_calloc(count, size); }
PUBLIC void *__libc_realloc(void *block, size_t size) { return realloc(block, size); }
PUBLIC void __libc_free(void *block) { __reheap_free(block); }
PUBLIC void *__libc_memalign(size_t alignment, size_t size) { return memalign(alignment, size); }
PUBLIC void *__libc_valloc(size_t size) { return valloc(size); }
PUBLIC void *__libc_pvalloc(size_t size) { return pvalloc(size); }
#endif
