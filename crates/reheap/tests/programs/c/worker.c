// worker SECONDS: allocates until it has used so much CPU time.
// worker daemon: leaves a child behind, which ends within a minute, and says its number.
// worker namespace SECONDS: forks a child that works as the first process of a PID namespace, and waits.
// worker hidden SECONDS: the same, and the child has no /proc.
// worker starts PROGRAM WORDS…: forks a child that executes it, and waits.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// <sys/mount.h> needs headers that not every machine has for 32 bits.
int mount(const char *source, const char *target, const char *type, unsigned long flags, const void *data);

static void work(double seconds) {
    struct timespec used;
    do {
        for (int i = 0; i < 1000; i++) {
            char *volatile block = malloc(100);
            block[0] = 1;
            free(block);
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while ((double)used.tv_sec + (double)used.tv_nsec / 1e9 < seconds);
}

static int leave_a_daemon(void) {
    int ready[2];
    char byte = 0;
    if (pipe(ready)) return 1;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        setsid();
        for (int stream = 0; stream < 3; stream++) close(stream);
        work(0);
        write(ready[1], &byte, 1);
        for (;;) pause();
    }
    printf("%d\n", (int)child);
    return read(ready[0], &byte, 1) != 1;
}

static int work_in_namespace(double seconds, int hidden) {
    int status = 1;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)) return 1;
    pid_t child = fork();
    if (child == 0) {
        if (getpid() != 1 || (hidden && mount("none", "/proc", "tmpfs", 0, NULL))) _exit(1);
        work(seconds);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

static int start(char **words) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execv(words[0], words);
        _exit(127);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

int main(int count, char **words) {
    if (count < 2) return 2;
    if (!strcmp(words[1], "daemon")) return leave_a_daemon();
    if (!strcmp(words[1], "starts")) return start(words + 2);
    if (count == 3) return work_in_namespace(atof(words[2]), !strcmp(words[1], "hidden"));
    work(atof(words[1]));
    return 0;
}
