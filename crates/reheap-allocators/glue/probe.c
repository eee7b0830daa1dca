// Proves which allocator a dynamic program gets its memory from.
//
// It stands in front of the preload in one run that is not timed, counts the calls of the malloc family, and forwards
// them. What it finds goes to a file that all processes of the command share by mmap, so that a process which is
// killed, or ends by _exit, has told it nevertheless. A program that defines malloc itself is asked before any preload
// is: it is known by this probe being loaded, and its malloc not being the one that the program finds.
//
// Behind recording.c and programs.c, in one translation unit.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The same in probe.rs. Another layout takes another magic.
#define MAGIC "reheap2"
enum function { MALLOC, CALLOC, REALLOC, FREE, ALIGNED_ALLOC, POSIX_MEMALIGN, MEMALIGN, FUNCTIONS };
enum { PATH_BYTES = 4096, ADD_TIME_EVERY = 1024 };

// The path of a shared object; `written` is 1 while somebody writes it and 2 after that.
struct object {
    atomic_uint written;
    char path[PATH_BYTES - sizeof(atomic_uint)];
};

static struct recording {
    char magic[8];
    _Atomic uint64_t processes;   // that loaded the probe
    _Atomic uint64_t elsewhere;   // of these: whose malloc is not from `provider`
    _Atomic uint64_t in_front;    // of these: whose malloc is found before the probe's
    _Atomic uint64_t calls[FUNCTIONS];
    struct object provider;       // of the malloc behind the probe, in the first process
    struct object front;          // of the malloc before it, in the first process that has one
    struct programs programs;
} *recording;

static void count(enum function function) {
    struct recording *to = __atomic_load_n(&recording, __ATOMIC_ACQUIRE);
    if (!to) return;
    uint64_t before = atomic_fetch_add_explicit(&to->calls[function], 1, memory_order_relaxed);
    // At 1, 2, 4 calls and so on, and from some point on regularly: often enough to know what killed processes took.
    if ((before & (before + 1)) == 0 || before % ADD_TIME_EVERY == 0) add_own_time();
}

// --- The functions behind the probe.

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*memalign)(size_t, size_t);
} next;
static atomic_int found;
static _Thread_local int searching;

static void find_next(void) {
    int errno_before = errno;
    searching = 1;
    next.malloc = dlsym(RTLD_NEXT, "malloc");
    next.calloc = dlsym(RTLD_NEXT, "calloc");
    next.realloc = dlsym(RTLD_NEXT, "realloc");
    next.free = dlsym(RTLD_NEXT, "free");
    next.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    next.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    next.memalign = dlsym(RTLD_NEXT, "memalign");
    searching = 0;
    atomic_store(&found, 1);
    errno = errno_before;
}

// dlsym may allocate itself (glibc before 2.34 does), and so may a thread's first access to its own storage.
static _Alignas(64) char early_memory[64 << 10];
static atomic_size_t early_used;

static void *early(size_t size) {
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded < size || rounded > sizeof early_memory) return NULL;
    size_t before = atomic_fetch_add(&early_used, rounded);
    return before <= sizeof early_memory - rounded ? early_memory + before : NULL;
}

static int is_early(const void *block) {
    return (uintptr_t)block - (uintptr_t)early_memory < sizeof early_memory;
}

// Whether the functions behind the probe can be called.
static int ready(void) {
    if (atomic_load_explicit(&found, memory_order_acquire)) return 1;
    if (searching) return 0;
    find_next();
    return 1;
}

PUBLIC void *malloc(size_t size) {
    count(MALLOC);
    return ready() ? next.malloc(size) : early(size);
}

PUBLIC void *calloc(size_t many, size_t size) {
    count(CALLOC);
    if (ready()) return next.calloc(many, size);
    size_t bytes;
    return __builtin_mul_overflow(many, size, &bytes) ? NULL : early(bytes); // static memory is zero
}

PUBLIC void *realloc(void *block, size_t size) {
    count(REALLOC);
    if (!is_early(block) && ready()) return next.realloc(block, size);
    void *moved = ready() ? next.malloc(size) : early(size);
    size_t to_end = sizeof early_memory - (size_t)((char *)block - early_memory);
    if (moved && block) memcpy(moved, block, size < to_end ? size : to_end);
    return moved;
}

PUBLIC void free(void *block) {
    count(FREE);
    if (!is_early(block) && ready()) next.free(block);
}

PUBLIC void *aligned_alloc(size_t alignment, size_t size) {
    count(ALIGNED_ALLOC);
    return ready() ? next.aligned_alloc(alignment, size) : NULL;
}

PUBLIC int posix_memalign(void **out, size_t alignment, size_t size) {
    count(POSIX_MEMALIGN);
    return ready() ? next.posix_memalign(out, alignment, size) : ENOMEM;
}

PUBLIC void *memalign(size_t alignment, size_t size) {
    count(MEMALIGN);
    return ready() ? next.memalign(alignment, size) : NULL;
}

// --- The recording.

// Writes the path of the object that holds this address, if nobody did yet; gives whether it is the one that stands
// there. A process that was killed between the two stores leaves a path that nobody reads.
static int note(struct object *object, void *address) {
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) return 0;
    unsigned nobody = 0;
    if (atomic_compare_exchange_strong(&object->written, &nobody, 1)) {
        strncpy(object->path, info.dli_fname, sizeof object->path - 1);
        atomic_store(&object->written, 2);
    }
    return atomic_load(&object->written) != 2 || strncmp(object->path, info.dli_fname, sizeof object->path - 1) == 0;
}

// Whether an address is that of a function, and not that of a jump to it: an executable at a fixed address that takes
// the address of malloc has one, and glibc's dlsym gives that (System V ABI, x86-64: "Function Addresses").
static int is_function(void *address) {
#ifdef __GLIBC__
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol) return symbol->st_shndx != SHN_UNDEF;
#endif
    return address != NULL;
}

// Before the constructors of the program.
__attribute__((constructor(101))) static void begin(void) {
    int errno_before = errno;
    struct recording *opened = open_recording("REHEAP_PROBE", sizeof *opened, MAGIC);
    if (opened) {
        if (!atomic_load(&found)) find_next();
        atomic_fetch_add(&opened->processes, 1);
        if (!note(&opened->provider, (void *)next.malloc)) atomic_fetch_add(&opened->elsewhere, 1);
        // RTLD_DEFAULT would begin with the probe itself: glibc has that so for libraries that are linked -Bsymbolic.
        void *first = dlsym(dlopen(NULL, RTLD_LAZY), "malloc");
        int has_own_malloc = first != (void *)malloc && is_function(first);
        if (has_own_malloc) {
            atomic_fetch_add(&opened->in_front, 1);
            note(&opened->front, first);
        }
        begin_programs(&opened->programs, has_own_malloc);
        __atomic_store_n(&recording, opened, __ATOMIC_RELEASE);
    }
    errno = errno_before;
}
