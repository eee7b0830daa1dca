// The start of a program that is linked as a shared library.
//
// Zig links every program for musl statically, whatever it is told, and a static program loads no preload. A library with
// an interpreter and an entry point is a dynamic program too. The dynamic linker has set up all but the call of main.
#if defined(__x86_64__)
#define INTERPRETER "/lib/ld-musl-x86_64.so.1"
__asm__(".text\n.globl reheap_start\n.type reheap_start,@function\nreheap_start:\n"
        "xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall reheap_start_with\n");
#elif defined(__aarch64__)
#define INTERPRETER "/lib/ld-musl-aarch64.so.1"
__asm__(".text\n.globl reheap_start\n.type reheap_start,%function\nreheap_start:\n"
        "mov x29, #0\nmov x30, #0\nmov x0, sp\nand sp, x0, #-16\nb reheap_start_with\n");
#endif

static const char interpreter[] __attribute__((section(".interp"), used)) = INTERPRETER;

int main(int, char **);
int __libc_start_main(int (*)(int, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

__attribute__((used, noreturn, visibility("hidden"))) void reheap_start_with(long *stack) {
    __asm__ volatile("" : : "r"(interpreter)); // so that a linker that collects unused sections keeps it
    __libc_start_main(main, (int)stack[0], (char **)(stack + 1), 0, 0, 0, stack);
    __builtin_trap();
}
