// Gives the preload to only one of the programs that a command starts, wherever it is among the processes.
//
// All of these processes have this library in LD_PRELOAD, and in most it does nothing. A process of the named program
// executes itself again, with the allocator in front of LD_PRELOAD. In the new process the allocator is loaded, so this
// library removes it from LD_PRELOAD again, and the program's children do not inherit it. Hooks on execve would miss
// some programs: glibc's system() and popen() call it inside glibc, and some programs make the system call themselves.
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ARGUMENTS_BYTES_MAX = 8 << 20 }; // the kernel takes 6 MiB at most (execve(2))

static const char preload[] = "LD_PRELOAD=";

static void *map(size_t bytes) {
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// A name with a slash is a path. A name without one means every file of that name.
static int is_named(const char *path, const char *name) {
    return strcmp(strchr(name, '/') ? path : last_part(path), name) == 0;
}

// The kernel gives the arguments. Only glibc passes them to constructors. They precede `environ` in memory only until
// the first setenv, and a library's constructor may already have called that.
static int open_arguments(void) {
    return open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
}

// The program's first argument, or the beginning of it if it is longer than a path can be.
static int is_called(const char *name) {
    char called[PATH_MAX];
    int file = open_arguments();
    if (file < 0) return 0;
    ssize_t length = read(file, called, sizeof called - 1);
    close(file);
    if (length <= 0) return 0;
    called[length] = '\0';
    return is_named(called, name);
}

static char **arguments(void) {
    int file = open_arguments();
    if (file < 0) return NULL;
    char *text = map(ARGUMENTS_BYTES_MAX);
    size_t length = 0;
    ssize_t got = 0;
    while (text && (got = read(file, text + length, ARGUMENTS_BYTES_MAX - length)) > 0) length += (size_t)got;
    close(file);
    if (!text || got < 0 || length == 0 || length == ARGUMENTS_BYTES_MAX) return NULL;
    size_t count = 0;
    for (size_t i = 0; i < length; i++) count += text[i] == '\0';
    char **words = map((count + 1) * sizeof *words), **word = words;
    if (!words) return NULL;
    for (size_t i = 0; i < length; i += strlen(text + i) + 1) *word++ = text + i;
    return words; // the mapping's zeros end it
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
    if (getauxval(AT_BASE) == 0) return; // the dynamic linker was called by name: the program is not what was executed
    char file[PATH_MAX];
    ssize_t length_of_file = readlink("/proc/self/exe", file, sizeof file - 1);
    if (length_of_file <= 0) return;
    file[length_of_file] = '\0';
    if (!is_named(file, name) && !is_called(name)) return;
    if (sizeof preload + length + 1 + strlen(list) > sizeof with_library) return;
    char **words = arguments();
    if (!words) return;
    strcpy(with_library, preload);
    strcat(with_library, library);
    strcat(with_library, ":");
    strcat(with_library, list);
    char *without = *entry;
    *entry = with_library;
    execve(file, words, environ);
    *entry = without; // it goes on as it is
}
