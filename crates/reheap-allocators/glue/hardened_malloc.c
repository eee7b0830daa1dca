// What hardened_malloc needs in a preload: random places of its own, and what it knows about its heap.
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

// hardened_malloc's getrandom, in its first malloc. libfaketime has one of its own, which is not ready then; and
// random places must not depend on what another preload says.
ssize_t __reheap_getrandom(void *bytes, size_t length, unsigned flags) {
    return syscall(SYS_getrandom, bytes, length, flags);
}

// For glibc.c. hardened_malloc counts when it is built with CONFIG_STATS. It has the function only for glibc.
#ifdef __GLIBC__
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 h_mallinfo2(void);
int h_malloc_trim(size_t pad);

void __reheap_usage(size_t *used, size_t *kept, size_t *most) {
    struct mallinfo2 info = h_mallinfo2();
    *used = info.uordblks;
    *kept = info.fordblks;
    *most = 0;
}

int __reheap_collect(void) {
    return h_malloc_trim(0);
}

int __reheap_keep(int for_good) {
    (void)for_good;
    return 0;
}
#endif
