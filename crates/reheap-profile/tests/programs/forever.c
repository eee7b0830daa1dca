// Allocates in four threads until it is told to end: writes a line when all run, ends at SIGTERM with code 5.
// SIGUSR1: its handler allocates. SIGUSR2: the main thread forks a child that allocates and waits for SIGTERM too.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t has_ended, forks;
static _Atomic unsigned long calls;

static void end(int signal) { (void)signal; has_ended = 1; }
static void fork_soon(int signal) { (void)signal; forks = 1; }

static void *work(void *seed) {
  unsigned number = (unsigned)(uintptr_t)seed;
  while (!has_ended) {
    size_t size = number % 3000 + 1;
    number = number * 1103515245u + 12345u;
    char *block = malloc(size);
    memset(block, (int)size, size);
    block = realloc(block, size + 100);
    if (block[size - 1] != (char)size) {
      dprintf(2, "a block changed\n");
      _exit(9);
    }
    free(block);
    calls++;
  }
  return NULL;
}

int main(void) {
  struct sigaction action = {.sa_handler = end};
  sigaction(SIGTERM, &action, NULL);
  action.sa_handler = fork_soon;
  sigaction(SIGUSR2, &action, NULL);
  signal(SIGTRAP, SIG_IGN);
  // This program ignores some signals and blocks others; both must stay so.
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &blocked, NULL);
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
  dprintf(1, "running\n");
  while (!has_ended) {
    struct timespec pause = {0, 5000000};
    if (nanosleep(&pause, NULL) != 0 && errno != EINTR) {
      dprintf(2, "nanosleep: %d\n", errno);
      _exit(8);
    }
    if (forks) {
      forks = 0;
      if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dprintf(1, "forked %d\n", getpid());
        work((void *)9);
        _exit(6);
      }
    }
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  dprintf(1, "ended\n");
  _exit(5);
}
