// What a program finds when it starts: arguments, environment, directory, signals, descriptors. Argument: what to do.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handler(int signal) {
  (void)signal;
  void *volatile block = malloc(50);
  free(block);
  handled++;
}

static void print_state(void) {
  char directory[4096];
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, NULL, &blocked);
  dprintf(1, "directory %s\nvariable %s\nblocked", getcwd(directory, sizeof directory), getenv("OF_THE_TEST"));
  for (int signal = 1; signal < 32; signal++)
    if (sigismember(&blocked, signal)) dprintf(1, " %d", signal);
  dprintf(1, "\nignored");
  for (int signal = 1; signal < 32; signal++) {
    struct sigaction action;
    if (sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN) dprintf(1, " %d", signal);
  }
  dprintf(1, "\nopen");
  for (int file = 0; file < 64; file++)
    if (fcntl(file, F_GETFD) != -1) dprintf(1, " %d", file);
  dprintf(1, "\n");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "state")) {
    print_state();
  } else if (!strcmp(what, "signals")) {
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 1000; i++) raise(SIGUSR1);
    dprintf(1, "handled %d\n", (int)handled);
  } else if (!strcmp(what, "fork")) {
    for (int i = 0; i < 10; i++) {
      pid_t child = fork();
      if (child == 0) {
        void *volatile block = malloc(50);
        free(block);
        _exit(3);
      }
      int status;
      waitpid(child, &status, 0);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 3) _exit(9);
    }
    dprintf(1, "forked\n");
  } else if (!strcmp(what, "killed")) {
    raise(SIGTERM);
  } else if (!strcmp(what, "large")) {
    // The heap grows by brk, past where hooks could be in its way.
    for (int i = 0; i < 4000; i++) {
      char *block = malloc(100 << 10);
      if (!block) _exit(4);
      block[0] = 1;
    }
    dprintf(1, "large\n");
  }
  _exit(0);
}
