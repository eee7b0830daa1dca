// System calls for a preload, without the libc's functions around them.
//
// Other preloads replace these functions: torsocks and uid_wrapper `syscall`, libeatmydata `open` and `fsync`,
// socket_wrapper `read`, `write` and `close`. Most allocate on their first call, to find the libc's functions, and wait
// for each other under a lock. An allocator that comes there from its first malloc is called again before it is ready,
// or waits for itself. What they do to the program's files and sockets is not meant for the allocator's anyway.
//
// The linker prefers these definitions to the libc's, and nothing outside the library sees them. A test lists what a
// preload may still take from the libc (`tests/it/preload.rs`): to add a function here, write what its manual page says.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

static long ask(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long answer;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(answer)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number, answer __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(answer) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
#endif
    if ((unsigned long)answer <= -4096UL) return answer;
    errno = (int)-answer;
    return -1;
}

#define ASK(number, a, b, c, d, e, f) ask(SYS_##number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

// Reading more words than were passed gives any numbers, and the kernel looks at none of them.
#define REST(name, last, count)                                 \
    long name[count];                                           \
    va_list rest;                                               \
    va_start(rest, last);                                       \
    for (int i = 0; i < count; i++) name[i] = va_arg(rest, long); \
    va_end(rest);

long syscall(long number, ...) {
    REST(words, number, 6)
    return ask(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

// --- Memory.

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    return (void *)ASK(mmap, address, size, protection, flags, file, offset);
}

int munmap(void *address, size_t size) {
    return (int)ASK(munmap, address, size, 0, 0, 0, 0);
}

void *mremap(void *address, size_t size, size_t new_size, int flags, ...) {
    REST(words, flags, 1)
    return (void *)ASK(mremap, address, size, new_size, flags, words[0], 0);
}

int mprotect(void *address, size_t size, int protection) {
    return (int)ASK(mprotect, address, size, protection, 0, 0, 0);
}

int madvise(void *address, size_t size, int advice) {
    return (int)ASK(madvise, address, size, advice, 0, 0, 0);
}

int mincore(void *address, size_t size, unsigned char *resident) {
    return (int)ASK(mincore, address, size, resident, 0, 0, 0);
}

// --- Files.

int open(const char *path, int flags, ...) {
    REST(words, flags, 1)
    return (int)ASK(openat, AT_FDCWD, path, flags, words[0], 0, 0);
}

int creat(const char *path, mode_t mode) {
    return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int file) {
    return (int)ASK(close, file, 0, 0, 0, 0, 0);
}

ssize_t read(int file, void *to, size_t size) {
    return ASK(read, file, to, size, 0, 0, 0);
}

ssize_t write(int file, const void *from, size_t size) {
    return ASK(write, file, from, size, 0, 0, 0);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    return ASK(writev, file, parts, count, 0, 0, 0);
}

int fsync(int file) {
    return (int)ASK(fsync, file, 0, 0, 0, 0, 0);
}

int access(const char *path, int mode) {
    return (int)ASK(faccessat, AT_FDCWD, path, mode, 0, 0, 0);
}

ssize_t readlink(const char *path, char *to, size_t size) {
    return ASK(readlinkat, AT_FDCWD, path, to, size, 0, 0);
}

// --- Processes and threads.

int prctl(int option, ...) {
    REST(words, option, 4)
    return (int)ASK(prctl, option, words[0], words[1], words[2], words[3], 0);
}

pid_t getpid(void) {
    return (pid_t)ASK(getpid, 0, 0, 0, 0, 0, 0);
}

pid_t gettid(void) {
    return (pid_t)ASK(gettid, 0, 0, 0, 0, 0, 0);
}

#ifdef __GLIBC__
int getrusage(__rusage_who_t who, struct rusage *usage) {
#else
int getrusage(int who, struct rusage *usage) {
#endif
    return (int)ASK(getrusage, who, usage, 0, 0, 0, 0);
}

int sched_yield(void) {
    return (int)ASK(sched_yield, 0, 0, 0, 0, 0, 0);
}

// The kernel gives the number of bytes that it wrote, and sets no others.
int sched_getaffinity(pid_t thread, size_t size, void *processors) {
    long written = ASK(sched_getaffinity, thread, size, processors, 0, 0, 0);
    if (written < 0) return -1;
    memset((char *)processors + written, 0, size - (size_t)written);
    return 0;
}

int sched_setaffinity(pid_t thread, size_t size, const void *processors) {
    return (int)ASK(sched_setaffinity, thread, size, processors, 0, 0, 0);
}

// Gives the seconds that are left after a signal.
unsigned sleep(unsigned seconds) {
    struct timespec left = {(time_t)seconds, 0};
    return ASK(nanosleep, &left, &left, 0, 0, 0, 0) < 0 ? (unsigned)left.tv_sec : 0;
}
