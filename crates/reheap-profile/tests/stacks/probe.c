// What a hook does for a sample, as a function: tests call it where a program would call malloc. Each call writes a file:
// glibc's own idea of the frames (backtrace(3)), the capture, and the maps.
#define _GNU_SOURCE
#include "capture.c"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

static struct captured captured;

static void write_all(int file, const void *bytes, size_t size) {
    if (write(file, bytes, size) != (ssize_t)size) abort();
}

static void write_record(void) {
    // Static, because the stack of a coroutine may have no room for them.
    static int calls;
    static char path[4096], text[65536];
    static void *frames[1000];
    snprintf(path, sizeof path, "%s.%d", getenv("PROBE_OUT"), calls++);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    uint64_t count = 0;
#ifdef __GLIBC__
    count = (uint64_t)backtrace(frames, 1000);
#endif
    write_all(file, &count, sizeof count);
    write_all(file, frames, count * sizeof *frames);
    write_all(file, &captured, sizeof captured);
    int maps = open("/proc/self/maps", O_RDONLY);
    ssize_t size;
    while ((size = read(maps, text, sizeof text)) > 0) write_all(file, text, (size_t)size);
    close(maps);
    close(file);
}

#ifndef PROBE
#define PROBE void probe(void)
#define PROBE_RESULT
#endif

__attribute__((noinline)) PROBE {
    CAPTURE_CALLER(captured.registers);
    captured.stack_bytes = capture_length(captured.registers[1], CAPTURED_STACK_BYTES_MAX, 1);
    capture_stack(captured.stack, captured.registers[1], captured.stack_bytes);
    write_record();
    return PROBE_RESULT;
}
