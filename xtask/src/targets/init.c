// The first process of the machine that tests run in: it runs the commands in the file `/commands`, one after another, and
// switches the machine off.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(char *line) {
  char *words[32] = {0};
  int count = 0;
  for (char *word = strtok(line, " \n"); word && count < 31; word = strtok(NULL, " \n")) words[count++] = word;
  if (count == 0) return;
  pid_t child = fork();
  if (child == 0) {
    execv(words[0], words);
    perror(words[0]);
    _exit(127);
  }
  // Orphans come here too.
  int status = -1;
  for (pid_t ended = 0; ended != child && (ended != -1 || child == -1); ended = wait(&status)) {
    if (child == -1) return;
  }
  printf("%s: %s (%#x)\n", status == 0 ? "succeeded" : "failed", words[0], status);
  fflush(stdout);
}

int main(void) {
  mount("proc", "/proc", "proc", 0, NULL);
  mount("sys", "/sys", "sysfs", 0, NULL);
  mount("dev", "/dev", "devtmpfs", 0, NULL);
  int console = open("/dev/console", O_RDWR);
  for (int i = 0; i < 3; i++) dup2(console, i);
  setenv("REHEAP_TEST_PROGRAMS", "/programs", 1);
  setenv("PATH", "/bin", 1);
  char line[4096];
  FILE *commands = fopen("/commands", "r");
  while (commands && fgets(line, sizeof line, commands)) run(line);
  sync();
  reboot(RB_POWER_OFF);
}
