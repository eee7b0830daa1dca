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
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The same in probe.rs. Another layout takes another magic.
#define MAGIC "reheap5"
enum function { MALLOC, CALLOC, REALLOC, FREE, ALIGNED_ALLOC, POSIX_MEMALIGN, MEMALIGN, FUNCTIONS };
enum { PATH_BYTES = 4096, PROVIDERS = 8, ADD_TIME_EVERY = 1024 };

// The path of a shared object; `written` is 1 while somebody writes it and 2 after that.
struct object {
    atomic_uint written;
    char path[PATH_BYTES - sizeof(atomic_uint)];
};

// An object with the malloc behind the probe. A shell and what it starts may have different ones.
struct provider {
    struct object object;
    _Atomic uint64_t processes;
    _Atomic uint64_t time_ns; // user and system
};

static struct recording {
    char magic[8];
    _Atomic uint64_t processes;   // that loaded the probe
    _Atomic uint64_t in_front;    // of these: whose malloc is found before the probe's
    _Atomic uint64_t checking;    // of these: where glibc's checks of its heap are on
    _Atomic uint64_t calls[FUNCTIONS];
    struct provider providers[PROVIDERS];
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

// The versions under which programs for glibc are linked with these functions.
#ifdef __x86_64__
#define SINCE_FIRST "GLIBC_2.2.5"
#define SINCE_C11 "GLIBC_2.16"
#else
#define SINCE_FIRST "GLIBC_2.17"
#define SINCE_C11 "GLIBC_2.17"
#endif

// The function that a program would get if this library were not there. dlsym does not see those of glibc's library for
// debugging, which has them only under the versions of programs. dlvsym sees no others, so the nearer one counts.
static void *behind(const char *name, const char *version) {
    void *found = dlsym(RTLD_NEXT, name);
#ifdef __GLIBC__
    void *of_version = dlvsym(RTLD_NEXT, name, version);
    Dl_info info;
    struct link_map *map, *of_found;
    if (!of_version || !dladdr1(found, &info, (void **)&of_found, RTLD_DL_LINKMAP)) return found;
    if (!dladdr1(of_version, &info, (void **)&map, RTLD_DL_LINKMAP)) return found;
    // Objects are searched in the order of this list.
    for (; map; map = map->l_next) {
        if (map == of_found) return of_version;
    }
#else
    (void)version;
#endif
    return found;
}

static void find_next(void) {
    int errno_before = errno;
    searching = 1;
    next.malloc = behind("malloc", SINCE_FIRST);
    next.calloc = behind("calloc", SINCE_FIRST);
    next.realloc = behind("realloc", SINCE_FIRST);
    next.free = behind("free", SINCE_FIRST);
    next.aligned_alloc = behind("aligned_alloc", SINCE_C11);
    next.posix_memalign = behind("posix_memalign", SINCE_FIRST);
    next.memalign = behind("memalign", SINCE_FIRST);
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

// --- Forks with glibc's checks.
//
// glibc's library for debugging has a heap of its own, whose lock glibc's fork does not know: where another thread holds
// it, the child waits for ever. So if the checks are on, one call at a time gets through, and none while a thread forks.
// A thread may allocate under the lock of the list of streams, so that one comes first (see fork.c).

#ifdef __GLIBC__
void _IO_list_lock(void) __attribute__((weak));
void _IO_list_unlock(void) __attribute__((weak));
void _IO_list_resetlock(void) __attribute__((weak));

static pthread_mutex_t gate;
static int is_gated;

static void make_gate(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE); // for signal handlers
    pthread_mutex_init(&gate, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void close_gate(void) {
    if (_IO_list_lock) _IO_list_lock();
    pthread_mutex_lock(&gate);
}

static void open_gate(void) {
    pthread_mutex_unlock(&gate);
    if (_IO_list_unlock) _IO_list_unlock();
}

static void open_gate_in_child(void) {
    make_gate();
    if (_IO_list_resetlock) _IO_list_resetlock();
}

// Before the program has a second thread.
static void begin_gate(void) {
    make_gate();
    is_gated = pthread_atfork(close_gate, open_gate, open_gate_in_child) == 0;
}

static void enter(void) {
    if (is_gated) pthread_mutex_lock(&gate);
}

static void leave(void) {
    if (is_gated) pthread_mutex_unlock(&gate);
}
#else
static void begin_gate(void) {}
static void enter(void) {}
static void leave(void) {}
#endif

static void *left_with(void *block) {
    leave();
    return block;
}

static void *next_malloc(size_t size) {
    enter();
    return left_with(next.malloc(size));
}

// --- The family.

PUBLIC void *malloc(size_t size) {
    count(MALLOC);
    return ready() ? next_malloc(size) : early(size);
}

PUBLIC void *calloc(size_t many, size_t size) {
    count(CALLOC);
    if (ready()) {
        enter();
        return left_with(next.calloc(many, size));
    }
    size_t bytes;
    return __builtin_mul_overflow(many, size, &bytes) ? NULL : early(bytes); // static memory is zero
}

PUBLIC void *realloc(void *block, size_t size) {
    count(REALLOC);
    if (!is_early(block) && ready()) {
        enter();
        return left_with(next.realloc(block, size));
    }
    void *moved = ready() ? next_malloc(size) : early(size);
    size_t to_end = sizeof early_memory - (size_t)((char *)block - early_memory);
    if (moved && block) memcpy(moved, block, size < to_end ? size : to_end);
    return moved;
}

PUBLIC void free(void *block) {
    count(FREE);
    if (is_early(block) || !ready()) return;
    enter();
    next.free(block);
    leave();
}

PUBLIC void *aligned_alloc(size_t alignment, size_t size) {
    count(ALIGNED_ALLOC);
    if (!ready()) return NULL;
    enter();
    return left_with(next.aligned_alloc(alignment, size));
}

PUBLIC int posix_memalign(void **out, size_t alignment, size_t size) {
    count(POSIX_MEMALIGN);
    if (!ready()) return ENOMEM;
    enter();
    int error = next.posix_memalign(out, alignment, size);
    leave();
    return error;
}

PUBLIC void *memalign(size_t alignment, size_t size) {
    count(MEMALIGN);
    if (!ready()) return NULL;
    enter();
    return left_with(next.memalign(alignment, size));
}

// --- The recording.

// Writes a path, if nobody did yet; gives whether it is the one that stands there. A process that was killed between the
// two stores leaves a path that nobody reads.
static int note(struct object *object, const char *path) {
    unsigned nobody = 0;
    if (atomic_compare_exchange_strong(&object->written, &nobody, 1)) {
        strncpy(object->path, path, sizeof object->path - 1);
        atomic_store(&object->written, 2);
    }
    return atomic_load(&object->written) == 2 && strncmp(object->path, path, sizeof object->path - 1) == 0;
}

// The path of the object that holds this address.
static const char *object_of(void *address) {
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fname : NULL;
}

// The place of what is behind the probe; none if there are too many. Two processes may give one object two places.
static struct provider *place_of_provider(struct provider *providers) {
    const char *path = object_of((void *)next.malloc);
    for (int at = 0; path && at < PROVIDERS; at++) {
        if (note(&providers[at].object, path)) return &providers[at];
    }
    return NULL;
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

// Whether glibc checks its heap. Its library for debugging does so only if a tunable says so, and otherwise passes all
// calls on. The checks keep a mark right behind what a program asked for, so a block's size is exactly that (glibc,
// malloc-check.c). No other library is asked: it should not have to allocate before the program does.
static int has_checks(void) {
#ifdef __GLIBC__
    Dl_info info;
    if (!dladdr((void *)next.malloc, &info) || !info.dli_fname) return 0;
    if (!strstr(info.dli_fname, "/libc_malloc_debug.so")) return 0;
    size_t (*usable_size)(void *) = behind("malloc_usable_size", SINCE_FIRST);
    void *block = next.malloc(1);
    int is_exact = block && usable_size && usable_size(block) == 1;
    next.free(block);
    return is_exact;
#else
    return 0;
#endif
}

// Before the constructors of the program.
__attribute__((constructor(101))) static void begin(void) {
    int errno_before = errno;
    struct recording *opened = open_recording("REHEAP_PROBE", sizeof *opened, MAGIC);
    if (opened) {
        if (!atomic_load(&found)) find_next();
        atomic_fetch_add(&opened->processes, 1);
        struct provider *provider = place_of_provider(opened->providers);
        if (provider) atomic_fetch_add(&provider->processes, 1);
        // RTLD_DEFAULT would begin with the probe itself: glibc has that so for libraries that are linked -Bsymbolic.
        void *first = dlsym(dlopen(NULL, RTLD_LAZY), "malloc");
        int has_own_malloc = first != (void *)malloc && is_function(first);
        if (has_own_malloc) {
            atomic_fetch_add(&opened->in_front, 1);
            const char *path = object_of(first);
            if (path) note(&opened->front, path);
        }
        if (has_checks()) {
            atomic_fetch_add(&opened->checking, 1);
            begin_gate();
        }
        begin_programs(&opened->programs, provider ? &provider->time_ns : NULL, has_own_malloc);
        __atomic_store_n(&recording, opened, __ATOMIC_RELEASE);
    }
    errno = errno_before;
}
