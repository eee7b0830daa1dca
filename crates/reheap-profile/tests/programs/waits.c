// Seven threads, each waiting in another system call, say if anything wakes them early. Ends when a line comes in.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int never[2], pair[2];
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void woken(const char *what) {
  dprintf(1, "woken: %s, %s\n", what, strerror(errno));
  _exit(9);
}

static void *in_read(void *u) { char byte; read(never[0], &byte, 1); woken("read"); return u; }
static void *in_poll(void *u) { struct pollfd f = {never[0], POLLIN, 0}; poll(&f, 1, 1000000); woken("poll"); return u; }
static void *in_ppoll(void *u) {
  struct pollfd f = {never[0], POLLIN, 0};
  sigset_t all;
  sigfillset(&all);
  ppoll(&f, 1, NULL, &all);
  woken("ppoll");
  return u;
}
static void *in_sleep(void *u) { struct timespec t = {100000, 0}; nanosleep(&t, NULL); woken("nanosleep"); return u; }
static void *in_lock(void *u) { pthread_mutex_lock(&held); woken("lock"); return u; }
static void *in_receive(void *u) { char byte; recv(pair[0], &byte, 1, 0); woken("recv"); return u; }
static void *in_loop(void *u) {
  volatile double sum = 0;
  for (uint64_t i = 0;; i++) {
    double x = (double)(i % 1000) * 0.5, y = x * 3.0 + 1.0;
    if ((y - 1.0) / 3.0 - x > 1e-9 || x - (y - 1.0) / 3.0 > 1e-9) woken("floating point");
    sum += y;
    if (i % 64 == 0) free(malloc(i % 500 + 1));
  }
  return u;
}

int main(void) {
  pipe(never);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  pthread_mutex_lock(&held);
  void *(*work[])(void *) = {in_read, in_poll, in_ppoll, in_sleep, in_lock, in_receive, in_loop};
  for (int i = 0; i < 7; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, work[i], NULL);
  }
  dprintf(1, "running\n");
  char byte;
  if (read(0, &byte, 1) != 1) woken("main's read");
  dprintf(1, "undisturbed\n");
  _exit(5);
}
