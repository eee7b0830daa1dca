// Commits an error that the libc or the compiler should notice, or shows what it would be noticed by.
//
// canary      prints the number that functions keep on their stacks
// overwrite   writes over that number
// overflow    runs out of the stack of a thread; ends with 42 if the fault was in a page that nobody may touch
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_guard(uintptr_t address) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char mode[5];
        if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) == 3 && from <= address && address < to)
            return memcmp(mode, "---", 3) == 0;
    }
    return 0;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    _exit(is_guard((uintptr_t)info->si_addr) ? 42 : 43);
}

static int deeper(volatile int *above) {
    volatile int here[256];
    here[0] = *above + 1;
    return deeper(here) + here[0];
}

static void *overflow(void *nothing) {
    static char other_stack[1 << 16];
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigaction(SIGSEGV, &action, NULL);
    volatile int start = 0;
    deeper(&start);
    return nothing;
}

static void overwrite(volatile size_t size) {
    char buffer[16];
    memset(buffer, 'x', size);
    printf("%.1s\n", buffer);
}

static void canary(void) {
    uintptr_t value;
#if defined __x86_64__
    __asm__("mov %%fs:0x28, %0" : "=r"(value));
#else
    extern uintptr_t __stack_chk_guard;
    value = __stack_chk_guard;
#endif
    printf("%lx\n", (unsigned long)value);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    pthread_t thread;
    free(malloc(100));
    if (strcmp(what, "canary") == 0) return canary(), 0;
    if (strcmp(what, "overwrite") == 0) return overwrite(64), 1;
    if (strcmp(what, "overflow") == 0 && pthread_create(&thread, NULL, overflow, NULL) == 0)
        return pthread_join(thread, NULL);
    return 1;
}
