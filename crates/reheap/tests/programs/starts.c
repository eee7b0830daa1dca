// What the start of a program costs.
//
//     starts time N PROGRAM     nanoseconds that one of N starts takes on average, from fork to end, and of a processor
//     starts count PROGRAM      what one does: system calls, CPUIDs, page faults, and the KiB in memory when it ends
//
// It counts by executing the program instruction by instruction. Neither strace nor a kernel sees a CPUID, unless the
// processor can make it fault, which virtual machines seldom allow.
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

// Runs a program to its end, without its output.
static struct rusage run(const posix_spawn_file_actions_t *actions, char **program) {
    pid_t child;
    int status;
    struct rusage usage;
    if (posix_spawn(&child, program[0], actions, NULL, program, environ)) fail(program[0]);
    if (wait4(child, &status, 0, &usage) != child || status) fail("wait4");
    return usage;
}

static void output_to_nowhere(posix_spawn_file_actions_t *actions) {
    if (posix_spawn_file_actions_init(actions)) fail("posix_spawn_file_actions_init");
    if (posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0)) fail("posix_spawn_file_actions_addopen");
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// Of all processes that have ended.
static long long processor_time(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    long long seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
    return (seconds * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static void time_starts(int count, char **program) {
    posix_spawn_file_actions_t actions;
    output_to_nowhere(&actions);
    run(&actions, program); // so that its file is in memory
    long long begin = now(), processor_begin = processor_time();
    for (int i = 0; i < count; i++) run(&actions, program);
    printf("[%lld, %lld]\n", (now() - begin) / count, (processor_time() - processor_begin) / count);
}

// Of /proc/PID/smaps_rollup.
static long kib(pid_t process, const char *name) {
    char path[64], line[256];
    long size;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", process);
    FILE *file = fopen(path, "r");
    if (!file) fail(path);
    while (fgets(line, sizeof line, file)) {
        size_t length = strlen(name);
        if (strncmp(line, name, length) == 0 && sscanf(line + length, ": %ld kB", &size) == 1) {
            fclose(file);
            return size;
        }
    }
    fprintf(stderr, "no %s in %s\n", name, path);
    exit(1);
}

static void step(pid_t child, int *status) {
    if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) || waitpid(child, status, 0) != child) fail("PTRACE_SINGLESTEP");
}

static void count(char **program) {
    posix_spawn_file_actions_t actions;
    output_to_nowhere(&actions);
    long page_faults = run(&actions, program).ru_minflt;
    pid_t child = fork();
    if (child == 0) {
        if (dup2(open("/dev/null", O_WRONLY), 1) != 1 || ptrace(PTRACE_TRACEME, 0, 0, 0)) fail("PTRACE_TRACEME");
        execv(program[0], program);
        fail(program[0]);
    }
    int status, system_calls = 1, cpuids = 0; // execve is the first call
    long resident = 0, anonymous = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) fail("execv");
    while (WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        unsigned char code[2] = {0};
        if (ptrace(PTRACE_GETREGS, child, 0, &registers)) fail("PTRACE_GETREGS");
        struct iovec here = {code, sizeof code}, there = {(void *)registers.rip, sizeof code};
        if (process_vm_readv(child, &here, 1, &there, 1, 0) < 1) fail("process_vm_readv");
        cpuids += code[0] == 0x0f && code[1] == 0xa2;
        if (code[0] == 0x0f && code[1] == 0x05) {
            system_calls++;
            if (registers.rax == SYS_exit_group) {
                resident = kib(child, "Rss");
                anonymous = kib(child, "Anonymous");
            }
        }
        step(child, &status);
    }
    if (status) fail(program[0]);
    printf("{\"system_calls\": %d, \"cpuids\": %d, \"page_faults\": %ld, \"resident_kib\": %ld, \"anonymous_kib\": %ld}\n",
           system_calls, cpuids, page_faults, resident, anonymous);
}

int main(int arguments, char **argument) {
    if (arguments > 3 && strcmp(argument[1], "time") == 0) {
        time_starts(atoi(argument[2]), argument + 3);
    } else if (arguments > 2 && strcmp(argument[1], "count") == 0) {
        count(argument + 2);
    } else {
        fprintf(stderr, "usage: starts time N PROGRAM | starts count PROGRAM\n");
        return 2;
    }
    return 0;
}
