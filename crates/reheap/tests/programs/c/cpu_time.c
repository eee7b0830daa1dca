// Uses CPU time as its first argument says, for as many milliseconds of it as the second.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { BYTES = 1 << 16, MAPPED = 4 << 20 };

static char from[BYTES], to[BYTES];
static void *volatile kept;
static volatile uint64_t sum;

static void set(void) { memset(to, (int)sum, BYTES); }

static void copy(void) { memcpy(to, from, BYTES); }

static void length(void) { sum += strlen(from); }

static void compute(void) {
    uint64_t x = sum + 1;
    for (int i = 0; i < 20000; i++) x = x * 6364136223846793005 + (x >> 7);
    sum = x;
}

// Sizes for which glibc has no lists of single threads: there, the hooks would take more time than the allocator.
static void allocate(void) {
    for (int i = 0; i < 100; i++) {
        void *blocks[16];
        for (int j = 0; j < 16; j++) kept = blocks[j] = malloc(2000 + 400 * j);
        for (int j = 0; j < 16; j++) free(blocks[j]);
    }
}

// Memory that the kernel gives with the first touch, by a mapping of the program's own.
static void fault(void) {
    char *memory = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    for (int i = 0; i < MAPPED; i += 4096) memory[i] = 1;
    munmap(memory, MAPPED);
}

// The allocator asks the kernel for each block, and gives it back.
static void map(void) {
    kept = malloc(64 << 20);
    free(kept);
}

// One that glibc keeps in a list of the thread's: then most of the time is in the hooks.
static void one_block(void) {
    for (int i = 0; i < 1000; i++) {
        kept = malloc(300);
        free(kept);
    }
}

static void *allocate_once(void *unused) {
    allocate();
    return unused;
}

// In threads that have ended before anybody looks twice.
static void threads(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, allocate_once, NULL) != 0 || pthread_join(thread, NULL) != 0) abort();
}

static long used(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

int main(int count, char **words) {
    static const struct { const char *name; void (*work)(void); } works[] = {
        {"set", set}, {"copy", copy}, {"length", length}, {"compute", compute},
        {"allocate", allocate}, {"one block", one_block}, {"fault", fault}, {"map", map}, {"threads", threads},
    };
    if (count != 3) return 2;
    memset(from, 'x', BYTES - 1);
    free(kept = malloc(1)); // where nothing is allocated, nothing is said about time
    long milliseconds = strtol(words[2], NULL, 10);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        if (strcmp(works[i].name, words[1]) != 0) continue;
        while (used() < milliseconds) {
            for (int times = 0; times < 32; times++) works[i].work(); // asking for the time takes time
        }
        return 0;
    }
    return 2;
}
