// A program that shows whether a preload works: several threads use each other's blocks, and so does a child after
// fork.
//
// It is a shared library with an entry point, and the dynamic linker starts it by its path. So reheap links it like a
// preload, with a compiler for libraries, and in a root directory it needs only that linker and its libc. If all goes
// well, it answers every line on standard input with the address of malloc in hexadecimal. As long as standard input is
// open, its parent can look up in its memory map whose malloc that is.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 2000, SLOTS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *slots[SLOTS]; // what one thread leaves, another one frees

static void fail(const char *what) {
    write(2, what, strlen(what));
    _exit(1);
}

static unsigned char *block(size_t size, unsigned char byte) {
    unsigned char *memory = malloc(size);
    if (!memory) fail("malloc gave nothing\n");
    memset(memory, byte, size);
    memory = realloc(memory, 2 * size);
    if (!memory || memory[0] != byte || memory[size - 1] != byte) fail("realloc lost bytes\n");
    return memory;
}

static void *work(void *number) {
    unsigned state = (unsigned)(uintptr_t)number + 1;
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 1103515245u + 12345u;
        unsigned slot = (state >> 8) % SLOTS;
        unsigned char *memory = block(1 + (state >> 16) % 3000, (unsigned char)(slot + 1));
        pthread_mutex_lock(&lock);
        unsigned char *other = slots[slot];
        slots[slot] = memory;
        pthread_mutex_unlock(&lock);
        if (other && other[0] != (unsigned char)(slot + 1)) fail("a block was given out twice\n");
        free(other);
    }
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) fail("no thread could be started\n");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static int canary(int count, char **words, char **environment) {
    (void)count, (void)words, (void)environment;
    run_threads();
    pid_t child = fork();
    if (child < 0) fail("fork failed\n");
    if (child == 0) {
        run_threads();
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) fail("the forked child failed\n");
    void *(*volatile function)(size_t) = malloc;
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        printf("%lx\n", (unsigned long)(uintptr_t)function);
        fflush(stdout);
    }
    exit(0);
}

// The work of a program's start files. glibc and musl agree on these arguments. The dynamic linker has set up the rest.
int __libc_start_main(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

__attribute__((used, noreturn)) static void start_with(long *stack) {
    __libc_start_main(canary, (int)stack[0], (char **)(stack + 1), NULL, NULL, NULL, stack);
    _exit(1);
}

#if defined(__x86_64__)
__asm__(".text\n.globl reheap_canary\n.type reheap_canary,@function\nreheap_canary:\n"
        "xor %ebp, %ebp\nmov %rsp, %rdi\nand $-16, %rsp\ncall start_with\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl reheap_canary\n.type reheap_canary,%function\nreheap_canary:\n"
        "mov x29, #0\nmov x30, #0\nmov x0, sp\nand sp, x0, #-16\nb start_with\n");
#endif
