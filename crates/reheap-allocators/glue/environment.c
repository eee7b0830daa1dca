// Baked-in tuning for allocators that read their options from the environment.
//
// Their calls of getenv come here. The user's variables at run time override the options baked in at link time. The
// baked-in options are a sequence of `NAME=VALUE` strings with an empty one at the end, next to the marker.
#include <string.h>
#include <unistd.h>

extern char **environ;
extern const char __reheap_environment[] __attribute__((visibility("hidden")));

// In an entry `NAME=VALUE`. mimalloc asks for eighty names when a program starts, so most entries are to be recognised as
// others by their first byte.
static char *value_in(const char *entry, const char *name, size_t length) {
    int is_it = *entry == *name && strncmp(entry, name, length) == 0 && entry[length] == '=';
    return is_it ? (char *)entry + length + 1 : NULL;
}

char *__reheap_getenv(const char *name) {
    size_t length = strlen(name);
    char *value = NULL;
    for (char **entry = environ; entry && *entry && !value; entry++) value = value_in(*entry, name, length);
    for (const char *entry = __reheap_environment; *entry && !value; entry += strlen(entry) + 1) {
        value = value_in(entry, name, length);
    }
    return value;
}
