// Baked-in tuning for allocators that read their options from the environment.
//
// Their calls of getenv come here. What the user sets when the program runs wins over what was baked in when it was
// linked. The defaults are a sequence of `NAME=VALUE` strings, ended by an empty one; they lie beside the marker.
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
