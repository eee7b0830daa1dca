// Calls each function a known number of times, on several threads; then once from functions whose names are looked for in
// the stack. It does not fork: qemu's user mode does not empty the page that should be empty in a child (MADV_WIPEONFORK).
// Arguments: threads, rounds.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long rounds;
static void *volatile sink;
// Through pointers, as from another library: an indirect call must land where the processor allows it.
static void *(*volatile allocate)(size_t) = malloc;
static void (*volatile release)(void *) = free;

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

__attribute__((noinline)) void *inner_function(size_t size) {
  volatile char local[100];
  local[99] = 1;
  void *block = malloc(size + local[99] - 1);
  local[0] = block != NULL;
  return local[0] ? block : NULL;
}

__attribute__((noinline)) void *outer_function(size_t size, int depth) {
  volatile long local[depth + 1];
  local[depth] = depth;
  void *block = depth ? outer_function(size, depth - 1) : inner_function(size);
  return local[depth] == depth ? block : NULL;
}

int main(int argc, char **argv) {
  check(argc == 3, "two arguments");
  long threads = atol(argv[1]);
  rounds = atol(argv[2]);
  pthread_t ids[64];
  for (long i = 0; i < threads; i++) check(pthread_create(&ids[i], NULL, work, NULL) == 0, "a thread starts");
  for (long i = 0; i < threads; i++) pthread_join(ids[i], NULL);
  sink = outer_function(50 << 20, 3);
  free(sink);
  _exit(7);
}
