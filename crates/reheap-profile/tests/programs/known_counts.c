// Calls each function of the malloc family a known number of times. Arguments: threads, rounds.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long rounds;
static void *volatile sink;

// Before main: 3 blocks.
__attribute__((constructor)) static void before_main(void) {
  for (int i = 0; i < 3; i++) {
    sink = malloc(10);
    free(sink);
  }
}

static void check(int condition, const char *what) {
  if (!condition) {
    dprintf(2, "wrong: %s\n", what);
    _exit(9);
  }
}

static void *work(void *unused) {
  (void)unused;
  for (long i = 0; i < rounds; i++) {
    unsigned char *block = malloc(100);
    memset(block, 1, 100);
    block = realloc(block, 5000);
    check(block[99] == 1, "realloc keeps what is in a block");
    free(block);
    block = calloc(3, 7);
    check(block[0] == 0 && block[20] == 0, "calloc clears");
    free(block);
    void *aligned = NULL;
    check(posix_memalign(&aligned, 256, 100) == 0 && (uintptr_t)aligned % 256 == 0, "posix_memalign");
    free(aligned);
    aligned = aligned_alloc(128, 256);
    check(aligned && (uintptr_t)aligned % 128 == 0, "aligned_alloc");
    free(aligned);
  }
  return NULL;
}

int main(int argc, char **argv) {
  long threads = argc > 1 ? atol(argv[1]) : 1;
  rounds = argc > 2 ? atol(argv[2]) : 1000;
  pthread_t ids[64];
  if (threads == 1) {
    work(NULL);
  } else {
    for (long i = 0; i < threads; i++) check(pthread_create(&ids[i], NULL, work, NULL) == 0, "a thread starts");
    for (long i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  }
  dprintf(1, "done\n");
  // Without what exit frees.
  _exit(7);
}
