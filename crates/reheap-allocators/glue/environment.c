// Options from the environment, baked in or the user's, at whatever moment an allocator first asks.
//
// That may be before any constructor has run: functions in `.preinit_array` allocate, and so do constructors of the
// program and of its libraries, in an order that no priority settles. So what is here needs no constructor. The baked-in
// options are data next to the marker: `NAME=VALUE` strings with an empty one at the end. The user's variables come
// first, so they win.
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>

extern char **environ;
extern const char __reheap_environment[] __attribute__((visibility("hidden")));

#ifdef __GLIBC__
// Where the kernel has put the number of arguments, the arguments and the environment. The dynamic linker of glibc sets
// it before it loads a library (GLIBC_2.2.5).
extern void *__libc_stack_end __attribute__((weak));

// musl sets `environ` before it runs anything else, glibc in the constructor of its own library. The functions in
// `.preinit_array` run before that.
static char **initial_variables(void) {
    const long *stack = &__libc_stack_end ? __libc_stack_end : NULL;
    return stack ? (char **)(stack + 1 + stack[0] + 1) : NULL;
}
#else
static char **initial_variables(void) {
    return NULL;
}
#endif

// Whoever starts a setuid program must not decide how it allocates (ld.so(8), "Secure-execution mode").
static char **variables(void) {
    if (getauxval(AT_SECURE)) return NULL;
    return environ ? environ : initial_variables();
}

static char *value_in(const char *entry, const char *name, size_t length) {
    int is_it = *entry == *name && strncmp(entry, name, length) == 0 && entry[length] == '=';
    return is_it ? (char *)entry + length + 1 : NULL;
}

static char *value_of_variable(const char *name, char **list) {
    size_t length = strlen(name);
    char *value = NULL;
    for (char **entry = list; entry && *entry && !value; entry++) value = value_in(*entry, name, length);
    return value;
}

// mimalloc asks for eighty names when a program starts, and for none after that. Few users set one, so a list without any
// is remembered.
static char **variables_for_mimalloc(void) {
    static const char prefix[] = "mimalloc_";
    static _Atomic(char **) without;
    char **list = variables();
    if (!list || list == atomic_load_explicit(&without, memory_order_relaxed)) return NULL;
    for (char **entry = list; *entry; entry++) {
        if (strncasecmp(*entry, prefix, sizeof prefix - 1) == 0) return list;
    }
    atomic_store_explicit(&without, list, memory_order_relaxed);
    return NULL;
}

// mimalloc's getenv.
char *__reheap_getenv(const char *name) {
    size_t length = strlen(name);
    char *value = value_of_variable(name, variables_for_mimalloc());
    for (const char *entry = __reheap_environment; *entry && !value; entry += strlen(entry) + 1) {
        value = value_in(entry, name, length);
    }
    return value;
}

// jemalloc's secure_getenv. It asks for MALLOC_CONF alone, and has what is baked in from a variable of its own.
char *__reheap_secure_getenv(const char *name) {
    return value_of_variable(name, variables());
}
