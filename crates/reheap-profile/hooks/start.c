// How the hooks get to work: by a constructor in a preload, by a call from reheap in a static program.

// What a preload exports are the hooks themselves.
#define PUBLIC(name) EXPORTED extern __typeof__(HOOK(name)) name __attribute__((alias("reheap_hook_" #name)))
PUBLIC(malloc);
PUBLIC(calloc);
PUBLIC(realloc);
PUBLIC(free);
PUBLIC(aligned_alloc);
PUBLIC(posix_memalign);
PUBLIC(memalign);
PUBLIC(valloc);
PUBLIC(pvalloc);
PUBLIC(reallocarray);
PUBLIC(free_sized);
PUBLIC(free_aligned_sized);
PUBLIC(prctl);
PUBLIC(syscall);

#define VARIABLE "REHEAP_PROFILE"

static int is_injected;

// The program that this process executes has hooks now.
static int began(int result) {
    char path[PROGRAM_PATH_BYTES];
    long length = system_call(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path, sizeof path - 1, 0, 0);
    if (result || is_error(length)) return result;
    path[length] = 0;
    began_program(path);
    return 0;
}

// Called in a stopped process, on a stack of its own. 0, or -1 if the program must go on without hooks.
EXPORTED int reheap_hooks_attach(const char *path) {
    is_injected = 1;
    next_usable_size = NEXT(malloc_usable_size);
    return began(begin(path, INJECTED));
}

// The value of the variable as the kernel has it, where the libc has no environment yet. 0 if there is none.
static int read_environment(char *value, size_t room) {
    static const char wanted[] = VARIABLE "=";
    enum { WHOLE = sizeof wanted - 1, OTHER };
    int file = open_file("/proc/self/environ", O_RDONLY), is_found = 0;
    if (file < 0) return 0;
    char text[1024];
    size_t matched = 0, length = 0;
    for (;;) {
        long bytes = system_call(SYS_read, file, (long)text, sizeof text, 0, 0, 0);
        if (bytes <= 0) break;
        for (long i = 0; i < bytes && !is_found; i++) {
            if (text[i] == 0) {
                is_found = matched == WHOLE;
                matched = 0;
            } else if (matched < WHOLE) {
                matched = text[i] == wanted[matched] ? matched + 1 : OTHER;
            } else if (matched == WHOLE && length + 1 < room) {
                value[length++] = text[i];
            }
        }
    }
    system_call(SYS_close, file, 0, 0, 0, 0, 0);
    value[length] = 0;
    return is_found;
}

// Dl_info of dlfcn.h, and the beginning of link_map of link.h.
struct found {
    const char *file;
    void *start;
    const char *symbol;
    void *address;
};
struct loaded {
    u64 bias;
    const char *name;
    void *dynamic;
};
extern int dladdr(const void *, struct found *) __attribute__((weak));
extern struct loaded *dlopen(const char *, int) __attribute__((weak));

// Finds a malloc in front of the hooks. This library looks for its own symbols in itself first, so it must ask from the
// program's side. Where code takes the address of malloc, that is one in the program, which says nothing of its calls.
static int find_malloc_in_front(struct found *found) {
    enum { RTLD_LAZY = 1 };
    struct loaded *program = dlopen && dlsym ? dlopen(NULL, RTLD_LAZY) : NULL;
    void *called = program ? dlsym(program, "malloc") : NULL;
    struct found own;
    return called && called != (void *)HOOK(malloc) && dladdr(called, found) && dladdr(program->dynamic, &own) &&
           found->start != own.start;
}

// The library that has the malloc behind the hooks: another preload, one that the program is linked with, or the libc. Or
// before them, where somebody has put another preload in front.
static void find_malloc_file(void) {
    struct found found;
    if (!dladdr) return;
    past.is_bypassed = (u32)find_malloc_in_front(&found);
    void *next = past.is_bypassed ? NULL : find("malloc");
    if (!past.is_bypassed && (!next || !dladdr(next, &found))) return;
    if (found.file) copied(past.malloc_file, found.file, sizeof past.malloc_file);
    struct place *place = __atomic_load_n(&local->place, __ATOMIC_ACQUIRE);
    if (place) name_malloc_file(place); // it began before the constructor
}

static void begin_at(const char *path) {
    if (shared) return; // it began at the first call
    next_usable_size = (size_t(*)(void *))find("malloc_usable_size");
    began(begin(path, PRELOADED));
}

// At the first call, if that is before the constructor: the functions in a program's .preinit_array come first.
static void begin_early(void) {
    static u32 is_tried;
    if (is_injected || __atomic_exchange_n(&is_tried, 1, __ATOMIC_RELAXED)) return;
    char path[256];
    if (read_environment(path, sizeof path)) begin_at(path);
}

// glibc gives constructors the arguments of main, and may not have set `environ` yet. musl has, and gives them nothing.
__attribute__((constructor(101))) static void start(int count, char **arguments, char **environment) {
    (void)count, (void)arguments;
    if (&environ && environ) environment = environ;
    find_starters();
    const char *path = value_of(environment, VARIABLE);
    if (!path) return;
    find_malloc_file();
    begin_at(path);
}

#if defined(__aarch64__) && defined(__clang__)
#pragma clang attribute pop
#endif
