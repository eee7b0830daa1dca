// Baked-in tuning for an allocator that reads `environ`, where a preload's environment variables do not come along.
//
// The allocator is compiled with its `environ` meaning the one here: what the user set for it, which comes first and so
// wins, and behind that the defaults, `NAME=VALUE` strings up to an empty one that lie beside the marker. Options are read
// once each, by whichever thread needs them first; two that do so at once write the same pointers.
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>

// The flags that make the allocator's `environ` this one are those of its glue too.
#undef environ
extern char **environ;
extern const char __reheap_environment[] __attribute__((visibility("hidden")));

enum { ENTRIES_MAX = 128 };

char ***__reheap_environ(void) {
    static char *entries[ENTRIES_MAX + 1];
    static char **list = entries;
    static const char prefix[] = "MIMALLOC_";
    // Who starts a setuid program has no say in how it allocates (ld.so(8), "Secure-execution mode").
    int is_secure = getauxval(AT_SECURE) != 0;
    if (!*__reheap_environment && !is_secure) return &environ;
    size_t count = 0;
    for (char **entry = is_secure ? NULL : environ; entry && *entry && count < ENTRIES_MAX / 2; entry++) {
        if (strncasecmp(*entry, prefix, sizeof prefix - 1) == 0) entries[count++] = *entry;
    }
    for (const char *entry = __reheap_environment; *entry && count < ENTRIES_MAX; entry += strlen(entry) + 1) {
        entries[count++] = (char *)entry;
    }
    entries[count] = NULL;
    return &list;
}
