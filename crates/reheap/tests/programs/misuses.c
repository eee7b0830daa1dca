// Misuses memory as its argument says. The function around `free` is for the stack.
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static sigjmp_buf before_fault;
static void survive(int signal)
{
    (void)signal;
    siglongjmp(before_fault, 1);
}
__attribute__((noinline)) static void drop(void *volatile *block)
{
    free(*block);
    __asm__ volatile("");
}
static void overflow(size_t size)
{
    void *volatile block = malloc(size);
    for (size_t at = 0; at < size + 16; at++) ((volatile char *)block)[at] = 'A';
    drop(&block);
}
static void twice(size_t size)
{
    void *volatile block = malloc(size), *volatile other = malloc(size);
    drop(&block);
    drop(&other);
    if (getenv("LD_PRELOAD")) drop(&block);
}
// Two children that live at the same time, and die one after the other.
static void two_die(size_t size, size_t other_size)
{
    int both_live[2], first_lives[2]; // a child waits until nobody holds the other end
    char byte;
    if (pipe(both_live) || pipe(first_lives)) return;
    if (fork() == 0) {
        close(both_live[1]);
        if (read(both_live[0], &byte, 1) == 0) overflow(size);
    }
    close(first_lives[1]);
    if (fork() == 0) {
        close(both_live[1]);
        if (read(first_lives[0], &byte, 1) == 0) overflow(other_size);
    }
    close(both_live[1]);
    while (wait(NULL) > 0) {}
}
int main(int count, char **words)
{
    const char *how = count > 1 ? words[1] : "";
    void *volatile block = malloc(64), *volatile other = malloc(64);
    if (strstr(how, "closed")) prctl(PR_SET_DUMPABLE, 0);
    if (strcmp(how, "twice") == 0 || strcmp(how, "twice, closed") == 0) {
        drop(&block);
        drop(&other);
        drop(&block);
    }
    if (strcmp(how, "byte") == 0) {
        ((volatile char *)block)[64] = 'A';
        drop(&block);
    }
    if (strcmp(how, "overflow") == 0) {
        memset(block, 'A', 80);
        drop(&block);
    }
    if (strcmp(how, "twice, fault") == 0) {
        drop(&block);
        if (getenv("LD_PRELOAD")) drop(&block);
    }
    if (strstr(how, "fault")) *(volatile char *)8 = 1;
    if (strcmp(how, "abort") == 0) {
        fputs("\033[31mwords\n", stderr);
        abort();
    }
    if (strcmp(how, "survived, abort") == 0) {
        signal(SIGSEGV, survive);
        if (sigsetjmp(before_fault, 1) == 0) *(volatile char *)8 = 1;
        abort();
    }
    if (strcmp(how, "child twice, abort") == 0) {
        if (fork() == 0) {
            twice(64);
            _exit(0);
        }
        wait(NULL);
        abort();
    }
    if (strcmp(how, "trap") == 0) __builtin_trap();
    if (strcmp(how, "two die alike") == 0) two_die(64, 64);
    if (strcmp(how, "two die") == 0) two_die(64, 640);
    if (strcmp(how, "different") == 0) {
        twice(64);
        twice(640);
        twice(64);
    }
    if (strcmp(how, "no memory") == 0 && !malloc((size_t)1 << 60)) {
        fputs("malloc: out of memory\nmimalloc: error: my own words\n", stderr);
    }
    if (strcmp(how, "in a line") == 0) {
        fputs("50 %", stderr);
        twice(64);
        for (int at = 0; at < 5000; at++) fputc('x', stderr);
        twice(640);
    }
    if (strcmp(how, "daemon") == 0 && fork() == 0) {
        setsid();
        if (fork()) _exit(0);
        for (;;) pause();
    }
    if (strcmp(how, "server") == 0 && getenv("LD_PRELOAD")) {
        signal(SIGTERM, SIG_IGN);
        twice(64);
        for (;;) pause();
    }
    // As the overflow of a block may that is in front of it by chance.
    if (strcmp(how, "overwrite") == 0 && getenv("REHEAP_PROBE")) {
        FILE *record = fopen(getenv("REHEAP_PROBE"), "r+");
        fputs("overflow", record);
        fclose(record);
    }
    if (strcmp(how, "endless") == 0 || (strcmp(how, "endless, preloaded") == 0 && getenv("LD_PRELOAD"))) {
        for (;;) pause();
    }
    // As a program may whose use of a stale block goes unnoticed.
    if (strcmp(how, "code") == 0) return getenv("LD_PRELOAD") ? 3 : 0;
    fputs("its own words\n", stderr);
    return 0;
}
