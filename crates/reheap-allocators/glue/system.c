// What mimalloc need not ask the system when a program starts.
//
// For a program that prints one line, these questions are half of its system calls. mimalloc asks for
//
// - the size of the machine's memory, and uses the answer nowhere;
// - the number of NUMA nodes. It ties its memory to a node only where it is told to;
// - the kernel's setting for transparent huge pages (version 3), which counts only with `allow_thp=2`;
// - the end of a thread-specific key when the program ends, though the program ends with it.
//
// It still asks whether the system overcommits. Where it does not, mimalloc must not take a GiB at once, because all of it
// counts. And it still asks for random numbers.
#include <errno.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static int is_tied_to_nodes(void) {
#if MI_MALLOC_VERSION >= 30000
    if (mi_option_is_enabled(mi_option_arena_is_numa_local)) return 1;
#endif
    return mi_option_is_enabled(mi_option_reserve_huge_os_pages);
}

static int not_there(void) {
    errno = ENOENT;
    return -1;
}

// mimalloc's sysinfo.
int __reheap_sysinfo(struct sysinfo *info) {
    (void)info;
    return not_there();
}

// mimalloc's access, with which it looks for the directory of each node.
int __reheap_access(const char *path, int mode) {
    return is_tied_to_nodes() ? access(path, mode) : not_there();
}

// mimalloc's syscall.
long __reheap_syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
#ifdef SYS_access
    if (number == SYS_access && !is_tied_to_nodes()) return not_there();
#endif
#ifdef SYS_open
    int is_about_huge_pages = number == SYS_open && strstr((const char *)a, "hugepage");
    if (is_about_huge_pages && mi_option_get(mi_option_allow_thp) != 2) return not_there();
#endif
    return syscall(number, a, b, c, d, e, f);
}

// mimalloc's pthread_key_delete. Afterwards a thread that still runs may end as before.
int __reheap_key_delete(pthread_key_t key) {
    return mi_option_is_enabled(mi_option_destroy_on_exit) ? pthread_key_delete(key) : 0;
}
