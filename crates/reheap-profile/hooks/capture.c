// A sample's stack: the registers of a hook's caller, and the bytes above its stack pointer. reheap unwinds them in a
// process of its own (src/stacks/unwinder.rs), so nothing here knows about frames.
//
// The layout is that of `struct captured`, and `Registers::parse` reads it:
//
//     offset  bytes
//          0  8      program counter: the address that the hook returns to
//          8  8      stack pointer after that return, in x86-64's and aarch64's terms: the canonical frame address
//         16  8      frame pointer (rbp, x29)
//         24  4      bytes of the stack that follow: they begin at the stack pointer
//         28  4      zero
//         32  …      the stack
//
// Other registers are not needed: compilers describe frames by the stack pointer and the frame pointer.
//
// Nobody knows where a stack ends: threads, coroutines and signal handlers bring their own. So each page above the first
// is looked at before it is read. rt_sigprocmask with a `how` that does not exist does that: the kernel first reads the
// set (EFAULT if it is not there) and then refuses (EINVAL), and nothing changes. Rejected: process_vm_readv, which
// filters of system calls (containers, services) forbid, and some kill the process for it; rt_sigprocmask is allowed
// where threads are. Where it is forbidden with an error, the copy ends with the first page.
#include <stdint.h>

enum { CAPTURED_STACK_BYTES_MAX = 16 << 10, CAPTURE_PAGE_BYTES = 4096 };

struct captured {
    uint64_t registers[3];
    uint32_t stack_bytes;
    uint32_t zero;
    uint8_t stack[CAPTURED_STACK_BYTES_MAX];
};

// Of the caller of a hook.
struct caller_frame {
    uint64_t registers[3];
};

// The stack pointer when the function began, less what a call pushes. Clang's __builtin_dwarf_cfa leaves out the saved
// registers on aarch64, and what Clang has there for the same is unknown to GCC.
#if defined(__clang__) && defined(__aarch64__)
#define CAPTURE_STACK_POINTER() __builtin_sponentry()
#else
#define CAPTURE_STACK_POINTER() __builtin_dwarf_cfa()
#endif

// The registers of the caller of the function that this is in. It must be in the hook itself, or in a function that is
// always inlined into it. It makes the compiler keep a frame pointer there.
#define CAPTURE_CALLER(registers)                                    \
    do {                                                             \
        uint64_t *capture_frame = __builtin_frame_address(0);        \
        (registers)[0] = (uint64_t)__builtin_return_address(0);      \
        (registers)[1] = (uint64_t)CAPTURE_STACK_POINTER();          \
        (registers)[2] = capture_frame[0];                           \
    } while (0)

static int capture_can_read(uint64_t address) {
    enum { EINVAL_ = 22 };
    long result;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = 8;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(14L), "D"(-1L), "S"(address), "d"(0L), "r"(r10)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = 135;
    register long x0 __asm__("x0") = -1;
    register long x1 __asm__("x1") = (long)address;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 8;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    result = x0;
#else
#error "this architecture has no system call here yet"
#endif
    return result == -EINVAL_;
}

// How many of the bytes (a multiple of 8) from the address on can be read. The address is a stack pointer, and the return
// address was below it: so its own page is there, unless it is at the very beginning of one. Without permission to look
// further, it ends with that page.
static uint32_t capture_length(uint64_t from, uint32_t bytes, int may_look) {
    uint64_t wanted = from + bytes;
    uint64_t end = (from + CAPTURE_PAGE_BYTES - 1) / CAPTURE_PAGE_BYTES * CAPTURE_PAGE_BYTES;
    while (end < wanted && may_look && capture_can_read(end)) end += CAPTURE_PAGE_BYTES;
    if (end > wanted) end = wanted;
    return (uint32_t)(end - from) & ~7U;
}

static void capture_stack(void *to, uint64_t from, uint32_t bytes) {
    const uint64_t *source = (const uint64_t *)from;
    uint64_t *target = to;
    for (uint32_t i = 0; i < bytes / 8; i++) {
        target[i] = source[i];
        __asm__ volatile("" ::: "memory"); // otherwise compilers make it a call of memcpy
    }
}
