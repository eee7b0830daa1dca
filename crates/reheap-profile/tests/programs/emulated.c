// Calls each function a known number of times, on several threads; then once from functions whose names are looked for in
// the stack. It does not fork: qemu's user mode does not empty the page that should be empty in a child (MADV_WIPEONFORK).
// Arguments: threads, rounds.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdlib.h>

// Through pointers, as from another library: an indirect call must land where the processor allows it.
static void *(*volatile allocate)(size_t) = malloc;
static void (*volatile release)(void *) = free;
#include "rounds.h"

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
  work_in_threads(threads);
  sink = outer_function(50 << 20, 3);
  free(sink);
  _exit(7);
}
