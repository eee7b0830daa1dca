// Prints what a program inherits: words, environment, signals, descriptors, limits.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
extern char **environ;
struct kernel_action { void *handler; unsigned long flags; void *restorer; unsigned long mask; };
int main(int count, char **words) {
    for (int i = 0; i < count; i++) printf("word %s\n", words[i]);
    for (char **variable = environ; *variable; variable++)
        if (strncmp(*variable, "LD_PRELOAD=", 11) && strncmp(*variable, "REHEAP_PROFILE=", 15)) printf("variable %s\n", *variable);
    for (int signal = 1; signal <= 64; signal++) {
        struct kernel_action action = {0};
        syscall(SYS_rt_sigaction, signal, NULL, &action, 8);
        if (action.handler) printf("signal %d %s\n", signal, action.handler == SIG_IGN ? "ignored" : "handled");
    }
    unsigned long mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, 8);
    printf("mask %lx\n", mask);
    for (int file = 0; file < 100; file++) if (fcntl(file, F_GETFD) >= 0) printf("descriptor %d\n", file);
    return 0;
}
