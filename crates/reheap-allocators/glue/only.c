// Gives the preload to one program only, wherever it is among the processes that a command starts.
//
// This library is in LD_PRELOAD for all of them and does nothing in most. A process of the named program executes itself
// once more, with the allocator in front of LD_PRELOAD; there, the allocator is loaded by now, it takes it out again, so
// that what the program starts does not inherit it. Hooks on execve and its like would not do: system() and popen() of
// glibc call them inside of it, and some programs make the system call themselves.
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 1 << 21 };

static const char preload[] = "LD_PRELOAD=";

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// A name with a slash is a path; one without stands for every file of that name.
static int is_named(const char *path, const char *name) {
    return strcmp(strchr(name, '/') ? path : last_part(path), name) == 0;
}

// The vector lies in front of the environment, where the kernel put it (System V ABI, "Initial Process Stack"): its
// length, its words, NULL. Only glibc hands it to constructors. Nobody has called setenv before the first of them.
static char **arguments(void) {
    char **end = environ - 1;
    for (long count = 0; count < ARGUMENTS_MAX; count++)
        if (*(long *)(end - count - 1) == count) return end - count;
    return NULL;
}

__attribute__((constructor)) static void give_or_take(void) {
    static char with_library[3 * PATH_MAX];
    const char *name = getenv("REHEAP_ONLY"), *library = getenv("REHEAP_ONLY_LIBRARY");
    if (!name || !library || !*library) return;
    char **entry = environ;
    while (*entry && strncmp(*entry, preload, sizeof preload - 1) != 0) entry++;
    if (!*entry) return;
    char *list = *entry + sizeof preload - 1;
    size_t length = strlen(library);
    if (strncmp(list, library, length) == 0 && list[length] == ':') {
        memmove(list, list + length + 1, strlen(list + length + 1) + 1);
        return;
    }
    char file[PATH_MAX];
    ssize_t read = readlink("/proc/self/exe", file, sizeof file - 1);
    char **words = arguments();
    if (read <= 0 || !words || !*words) return;
    file[read] = '\0';
    if (!is_named(file, name) && !is_named(*words, name)) return;
    if (sizeof preload + length + 1 + strlen(list) > sizeof with_library) return;
    strcpy(with_library, preload);
    strcat(with_library, library);
    strcat(with_library, ":");
    strcat(with_library, list);
    char *without = *entry;
    *entry = with_library;
    execve(file, words, environ);
    *entry = without; // it goes on as it is
}
