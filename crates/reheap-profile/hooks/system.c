// What the hooks need of the system, without a libc: one library serves glibc, musl and static programs, and in the last
// it finds no libc that it could call. So system calls are made here, by their numbers.
#include <stddef.h>
#include <stdint.h>

// On aarch64, compilers call functions of their own library for atomic operations, because old processors lack the
// instructions, and not every compiler has a flag against that. The end of start.c ends this.
#if defined(__aarch64__) && defined(__clang__)
#pragma clang attribute push(__attribute__((target("no-outline-atomics"))), apply_to = function)
#elif defined(__aarch64__)
#pragma GCC target("no-outline-atomics")
#endif

#define HIDDEN __attribute__((visibility("hidden")))
#define EXPORTED __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define RARE static __attribute__((noinline, cold))
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

typedef uint64_t u64;
typedef int64_t i64;
typedef uint32_t u32;
typedef uint8_t u8;

// Compilers may make calls of these from plain loops and assignments, also for code that has no libc.
HIDDEN void *memcpy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((volatile u8 *)to)[i] = ((const u8 *)from)[i];
    return to;
}

HIDDEN void *memset(void *block, int value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) ((volatile u8 *)block)[i] = (u8)value;
    return block;
}

#if defined(__x86_64__)
// Linux, arch/x86/entry/syscalls/syscall_64.tbl.
enum {
    SYS_read = 0, SYS_close = 3, SYS_fstat = 5, SYS_mmap = 9, SYS_munmap = 11, SYS_sched_yield = 24, SYS_madvise = 28,
    SYS_getpid = 39, SYS_getppid = 110, SYS_gettid = 186, SYS_openat = 257, SYS_readlinkat = 267, SYS_faccessat = 269, SYS_process_vm_readv = 310, SYS_seccomp = 317,
};

static long system_call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

// The thread control block begins with its own address (ELF Handling For Thread-Local Storage, variant II).
INLINE u64 thread_pointer(void) {
    u64 pointer;
    __asm__("mov %%fs:0, %0" : "=r"(pointer));
    return pointer;
}
#elif defined(__aarch64__)
// Linux, include/uapi/asm-generic/unistd.h.
enum {
    SYS_faccessat = 48, SYS_openat = 56, SYS_close = 57, SYS_read = 63, SYS_readlinkat = 78, SYS_fstat = 80, SYS_sched_yield = 124,
    SYS_getpid = 172, SYS_getppid = 173, SYS_gettid = 178, SYS_munmap = 215, SYS_mmap = 222, SYS_madvise = 233,
    SYS_process_vm_readv = 270, SYS_seccomp = 277,
};

static long system_call(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

INLINE u64 thread_pointer(void) {
    u64 pointer;
    __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
    return pointer;
}
#else
#error "this architecture has no system calls here yet"
#endif

enum {
    PROT_READ = 1, PROT_WRITE = 2,
    MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20, MAP_NORESERVE = 0x4000,
    MADV_NOHUGEPAGE = 15, MADV_DONTDUMP = 16, MADV_WIPEONFORK = 18,
    AT_FDCWD = -100, O_RDONLY = 0, O_RDWR = 2, O_NONBLOCK = 04000, O_CLOEXEC = 02000000,
};

// 1: the program limits its own system calls (seccomp(2)), and may be killed for one of ours. From then on there are none.
static u32 quiet;
// 1: nothing will show when it does, as in a stripped program. So there are none once it runs, but for those that every
// process makes that has forked.
static u32 cautious;

static int is_error(long result) { return (unsigned long)result > -4096UL; }

// New memory that is zero; NULL where there is none.
static void *map_anonymous(size_t bytes) {
    long result = system_call(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (is_error(result)) return NULL;
    system_call(SYS_madvise, result, (long)bytes, MADV_DONTDUMP, 0, 0, 0);
    return (void *)result;
}

static void unmap(void *start, size_t bytes) {
    if (start) system_call(SYS_munmap, (long)start, (long)bytes, 0, 0, 0, 0);
}

static int open_file(const char *path, int flags) {
    return (int)system_call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0, 0);
}

// Owned by one thread, read by reheap, and added to by signal handlers too. So on x86-64 it is one instruction, which no
// signal divides; left alone, compilers make three of it where they need the sum. No aligned word is stored in pieces.
#if defined(__x86_64__)
#define ADD(counter, amount) __asm__("addq %1, %0" : "+m"(counter) : "er"((u64)(amount)) : "cc")
#else
#define ADD(counter, amount) ((counter) += (u64)(amount))
#endif
