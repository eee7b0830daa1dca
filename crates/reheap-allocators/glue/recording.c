// Opens the file that all processes of a command share by mmap, so that a process which is killed, or ends by _exit,
// has told what it saw nevertheless. recording.rs makes the file and reads it.
//
// This file stands in front of probe.c or watch.c, in one translation unit.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC_BYTES = 8 };

// The file that the variable names, if it has that size and begins with that magic.
static void *open_recording(const char *variable, size_t bytes, const char *magic) {
    const char *path = getenv(variable);
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return NULL;
    struct stat status;
    void *mapped = MAP_FAILED;
    if (fstat(file, &status) == 0 && (size_t)status.st_size == bytes) {
        mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    if (mapped == MAP_FAILED) return NULL;
    if (memcmp(mapped, magic, MAGIC_BYTES) == 0) return mapped;
    munmap(mapped, bytes);
    return NULL;
}
