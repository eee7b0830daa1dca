// Calls each function of the malloc family a known number of times. Arguments: threads, rounds.
#define _GNU_SOURCE
#include <malloc.h>

#define allocate malloc
#define release free
#include "rounds.h"

// Before main: 3 blocks.
__attribute__((constructor)) static void before_main(void) {
  for (int i = 0; i < 3; i++) {
    sink = malloc(10);
    free(sink);
  }
}

int main(int argc, char **argv) {
  long threads = argc > 1 ? atol(argv[1]) : 1;
  rounds = argc > 2 ? atol(argv[2]) : 1000;
  if (threads == 1) {
    work(NULL);
  } else {
    work_in_threads(threads);
  }
  dprintf(1, "done\n");
  // Without what exit frees.
  _exit(7);
}
