// A thread that allocates and frees, with a signal handler that does the same at any time: before, in and after a call.
// Its allocator is one that allows that (below). Prints how many blocks were allocated.
//
// The handler has a stack of its own, above the thread's. Below it, what it calls would seem to come from inside the
// allocator while that is interrupted.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

enum { SIZE = 48, BLOCKS = 40000000, SIGNALS = 4000, STACK_BYTES = 256 << 10 };

static _Alignas(4096) char stacks[2][STACK_BYTES];
static volatile unsigned long signals;

static void in_handler(int signal) {
    (void)signal;
    free(malloc(SIZE));
    volatile char *kept = malloc(SIZE);
    kept[0] = 1;
    signals++;
}

static void *work(void *allocated) {
    stack_t above = {.ss_sp = stacks[1], .ss_size = STACK_BYTES};
    sigaltstack(&above, NULL);
    struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    struct itimerval often = {{0, 50}, {0, 50}}, never = {0};
    setitimer(ITIMER_REAL, &often, NULL);
    unsigned long blocks = 0;
    for (; signals < SIGNALS && blocks < BLOCKS; blocks++) free(malloc(SIZE));
    setitimer(ITIMER_REAL, &never, NULL);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    *(unsigned long *)allocated = blocks;
    return NULL;
}

int main(void) {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stacks[0], STACK_BYTES);
    pthread_t thread;
    unsigned long blocks = 0;
    if (pthread_create(&thread, &attributes, work, &blocks) != 0) return 1;
    pthread_join(thread, NULL);
    char line[64];
    setvbuf(stdout, line, _IOLBF, sizeof line);
    printf("%lu %lu\n", blocks + 2 * signals, signals);
    return 0;
}
