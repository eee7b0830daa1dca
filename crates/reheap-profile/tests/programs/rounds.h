// The rounds of a thread: each calls each function a known number of times, and checks what it gets. A program that
// includes this has defined `allocate` and `release`, which are malloc and free by one way or another.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long rounds;
static void *volatile sink;

static void check(int condition, const char *what) {
  if (!condition) {
    dprintf(2, "wrong: %s\n", what);
    _exit(9);
  }
}

static void *work(void *unused) {
  (void)unused;
  for (long i = 0; i < rounds; i++) {
    unsigned char *block = allocate(100);
    memset(block, 1, 100);
    block = realloc(block, 5000);
    check(block[99] == 1, "realloc keeps what is in a block");
    release(block);
    block = calloc(3, 7);
    check(block[0] == 0 && block[20] == 0, "calloc clears");
    free(block);
    void *aligned = NULL;
    check(posix_memalign(&aligned, 256, 100) == 0 && (uintptr_t)aligned % 256 == 0, "posix_memalign aligns");
    free(aligned);
    aligned = aligned_alloc(128, 256);
    check(aligned && (uintptr_t)aligned % 128 == 0, "aligned_alloc aligns");
    free(aligned);
  }
  return NULL;
}

static void work_in_threads(long threads) {
  pthread_t ids[64];
  check(threads <= 64, "at most 64 threads");
  for (long i = 0; i < threads; i++) check(pthread_create(&ids[i], NULL, work, NULL) == 0, "a thread starts");
  for (long i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}
