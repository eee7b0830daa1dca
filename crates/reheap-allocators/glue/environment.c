// Baked-in tuning for allocators that read their options from the environment.
//
// Their calls of getenv come here. The user's variables at run time override the options baked in at link time. The
// baked-in options are a sequence of `NAME=VALUE` strings with an empty one at the end, next to the marker.
#include <stdlib.h>
#include <string.h>

extern const char __reheap_environment[] __attribute__((visibility("hidden")));

char *__reheap_getenv(const char *name) {
    char *value = getenv(name);
    if (value) return value;
    size_t length = strlen(name);
    for (const char *entry = __reheap_environment; *entry; entry += strlen(entry) + 1) {
        if (strncmp(entry, name, length) == 0 && entry[length] == '=') return (char *)entry + length + 1;
    }
    return NULL;
}
