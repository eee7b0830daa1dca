// Baked-in tuning for allocators that read their options from the environment.
//
// Their calls of getenv come here. The user's variables at run time override the options baked in at link time. The
// baked-in options are a sequence of `NAME=VALUE` strings with an empty one at the end, next to the marker.
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char **environ;
extern const char __reheap_environment[] __attribute__((visibility("hidden")));

static char *value_in(const char *entry, const char *name, size_t length) {
    int is_it = *entry == *name && strncmp(entry, name, length) == 0 && entry[length] == '=';
    return is_it ? (char *)entry + length + 1 : NULL;
}

// mimalloc asks for eighty names when a program starts, and for none after that. Few users set one, so a list without any
// is remembered.
static int has_options(void) {
    static const char prefix[] = "mimalloc_";
    static _Atomic(char **) without;
    char **list = environ;
    if (!list || list == atomic_load_explicit(&without, memory_order_relaxed)) return 0;
    for (char **entry = list; *entry; entry++) {
        if (strncasecmp(*entry, prefix, sizeof prefix - 1) == 0) return 1;
    }
    atomic_store_explicit(&without, list, memory_order_relaxed);
    return 0;
}

char *__reheap_getenv(const char *name) {
    size_t length = strlen(name);
    char *value = NULL;
    if (has_options()) {
        for (char **entry = environ; *entry && !value; entry++) value = value_in(*entry, name, length);
    }
    for (const char *entry = __reheap_environment; *entry && !value; entry += strlen(entry) + 1) {
        value = value_in(entry, name, length);
    }
    return value;
}
