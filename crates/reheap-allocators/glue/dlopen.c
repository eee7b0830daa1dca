// dlopen and dlmopen of a preload for glibc: without RTLD_DEEPBIND.
//
// A library opened with this flag searches itself and its own libraries first, so it finds glibc's malloc and not the
// preload's. When it frees a block of the program, or the program frees one of its blocks, one allocator gets a block
// of the other. PHP and Apache open all their extensions this way, and crash. The flag keeps symbols of the same name
// apart, which rarely matters. Whoever needs that can keep the flag with REHEAP_KEEP_DEEPBIND.
//
// The real functions use their return address to find the calling library, because RUNPATH, $ORIGIN and the namespace
// are the caller's. So the functions here must not call them. They jump there with an unchanged stack, which C cannot
// express.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#ifdef __GLIBC__

// The arguments of either function, as the assembly below stores them: flags are the second one or the third.
struct arguments {
    size_t word[3];
};

typedef void function(void);

static atomic_int is_kept; // -1 for no, 1 for yes, 0 while nobody has asked

// Whoever starts a setuid program must not be able to mix two allocators in it.
static int keeps_flag(void) {
    int kept = atomic_load_explicit(&is_kept, memory_order_relaxed);
    if (!kept) {
        const char *value = secure_getenv("REHEAP_KEEP_DEEPBIND");
        kept = value && *value ? 1 : -1;
        atomic_store_explicit(&is_kept, kept, memory_order_relaxed);
    }
    return kept > 0;
}

// For a process without the real function. dlerror already says so, because dlsym has not found it.
static void *nothing(void) {
    return NULL;
}

// Looked up when needed, because constructors of other libraries call dlopen before any of this library's has run.
static function *next(_Atomic(function *) *known, const char *name) {
    function *found = atomic_load_explicit(known, memory_order_relaxed);
    if (!found) {
        found = (function *)dlsym(RTLD_NEXT, name);
        if (!found) return (function *)nothing;
        atomic_store_explicit(known, found, memory_order_relaxed);
    }
    return found;
}

static void strip(size_t *flags) {
    if (!keeps_flag()) *flags &= ~(size_t)RTLD_DEEPBIND;
}

__attribute__((used)) static function *before_dlopen(struct arguments *arguments) {
    static _Atomic(function *) known;
    strip(&arguments->word[1]);
    return next(&known, "dlopen");
}

__attribute__((used)) static function *before_dlmopen(struct arguments *arguments) {
    static _Atomic(function *) known;
    strip(&arguments->word[2]);
    return next(&known, "dlmopen");
}

// Stores the arguments, calls before_NAME with their address, restores them, and jumps to the address that it returned.
// The first instruction is a landing pad for processors that check indirect jumps.
#if defined(__x86_64__)
#define JUMP_TO_NEXT(name) \
    __asm__(".text\n.globl " name "\n.type " name ",@function\n.p2align 4\n" name ":\n" \
            ".cfi_startproc\n.byte 0xf3, 0x0f, 0x1e, 0xfa\n" /* endbr64, which older assemblers lack */ \
            "push %rdx\n.cfi_adjust_cfa_offset 8\npush %rsi\n.cfi_adjust_cfa_offset 8\n" \
            "push %rdi\n.cfi_adjust_cfa_offset 8\n" \
            "mov %rsp, %rdi\ncall before_" name "\n" \
            "pop %rdi\n.cfi_adjust_cfa_offset -8\npop %rsi\n.cfi_adjust_cfa_offset -8\n" \
            "pop %rdx\n.cfi_adjust_cfa_offset -8\n" \
            "jmp *%rax\n.cfi_endproc\n.size " name ",.-" name "\n")
#elif defined(__aarch64__)
#define JUMP_TO_NEXT(name) \
    __asm__(".text\n.globl " name "\n.type " name ",%function\n.p2align 4\n" name ":\n" \
            ".cfi_startproc\nhint #34\n" \
            "stp x29, x30, [sp, #-48]!\n.cfi_adjust_cfa_offset 48\n.cfi_offset 29, -48\n.cfi_offset 30, -40\n" \
            "mov x29, sp\nstp x0, x1, [sp, #16]\nstr x2, [sp, #32]\n" \
            "add x0, sp, #16\nbl before_" name "\nmov x16, x0\n" \
            "ldp x0, x1, [sp, #16]\nldr x2, [sp, #32]\n" \
            "ldp x29, x30, [sp], #48\n.cfi_restore 29\n.cfi_restore 30\n.cfi_adjust_cfa_offset -48\n" \
            "br x16\n.cfi_endproc\n.size " name ",.-" name "\n")
#else
#error "no jump for this processor: see JUMP_TO_NEXT"
#endif

JUMP_TO_NEXT("dlopen");
JUMP_TO_NEXT("dlmopen");
#endif
