// Baked-in tuning for an allocator that reads `environ`, in a preload whose environment variables do not reach the
// program.
//
// The allocator is compiled to use the `environ` of this file. The user's own variables come first, so they win. The
// defaults follow: `NAME=VALUE` strings with an empty one at the end, next to the marker. The allocator reads each
// option once, in the thread that needs it first. Two threads that do so at once write the same pointers.
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>

// The compiler flag that redefines the allocator's `environ` also applies to this file.
#undef environ
extern char **environ;
extern const char __reheap_environment[] __attribute__((visibility("hidden")));

enum { ENTRIES_MAX = 128 };

char ***__reheap_environ(void) {
    static char *entries[ENTRIES_MAX + 1];
    static char **list = entries;
    static const char prefix[] = "MIMALLOC_";
    // Whoever starts a setuid program must not decide how it allocates (ld.so(8), "Secure-execution mode").
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
