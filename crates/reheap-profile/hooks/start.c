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

// Called in a stopped process, on a stack of its own. 0, or -1 if the program must go on without hooks.
EXPORTED int reheap_hooks_attach(const char *path) {
    next_usable_size = NEXT(malloc_usable_size);
    return begin(path, INJECTED);
}

static const char *value_of(char **environment, const char *name) {
    for (; environment && *environment; environment++) {
        const char *text = *environment, *wanted = name;
        while (*wanted && *text == *wanted) text++, wanted++;
        if (!*wanted && *text == '=') return text + 1;
    }
    return NULL;
}

extern char **environ __attribute__((weak));

// glibc gives constructors the arguments of main, and may not have set `environ` yet. musl has, and gives them nothing.
__attribute__((constructor(101))) static void start(int count, char **arguments, char **environment) {
    (void)count, (void)arguments;
    if (&environ && environ) environment = environ;
    const char *path = value_of(environment, "REHEAP_PROFILE");
    if (!path) return;
    next_usable_size = (size_t(*)(void *))find("malloc_usable_size");
    begin(path, PRELOADED);
}

#if defined(__aarch64__) && defined(__clang__)
#pragma clang attribute pop
#endif
