// mimalloc without transparent huge pages, in its own memory only.
//
// Told to do without them, mimalloc calls prctl(PR_SET_THP_DISABLE). That turns them off for the whole process, and for
// every program that the process starts: children inherit it, and exec keeps it (PR_SET_THP_DISABLE(2const)). A program
// that starts a database or a virtual machine would slow it down. So this file turns them off for mimalloc's mappings,
// one by one. Without that, a kernel with `always` in /sys/kernel/mm/transparent_hugepage/enabled would use them.
//
// mimalloc asks for the state of the process before it changes it, and only if it was told to do without huge pages. It
// asks before its first mapping.
//
// On 32-bit processors this file also makes mappings that musl refuses. To align a block to 1 GiB, mimalloc maps 2 GiB and
// unmaps what it does not need. musl's mmap takes no more than PTRDIFF_MAX bytes.
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int never_huge;

// mimalloc's prctl. It calls this for one other purpose, which is to name its mappings.
int __reheap_prctl(int option, ...) {
    if (option == PR_GET_THP_DISABLE) {
        never_huge = 1;
        return 1; // already done
    }
    va_list rest;
    va_start(rest, option);
    unsigned long second = va_arg(rest, unsigned long), third = va_arg(rest, unsigned long);
    unsigned long fourth = va_arg(rest, unsigned long), fifth = va_arg(rest, unsigned long);
    va_end(rest);
    return prctl(option, second, third, fourth, fifth);
}

static void *map(void *address, size_t length, int protection, int flags, int file, off_t offset) {
#ifdef SYS_mmap2
    // Only mappings without a file are that long, so the offset is 0.
    if (length >= PTRDIFF_MAX) return (void *)syscall(SYS_mmap2, address, length, protection, flags, file, 0);
#endif
    return mmap(address, length, protection, flags, file, offset);
}

// mimalloc's mmap.
void *__reheap_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    void *start = map(address, length, protection, flags, file, offset);
    if (start == MAP_FAILED || !never_huge) return start;
    int errno_before = errno;
    madvise(start, length, MADV_NOHUGEPAGE); // fails on a kernel without huge pages
    errno = errno_before;
    return start;
}
