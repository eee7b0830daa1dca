#include <signal.h>

void probe(void);

__attribute__((noinline)) static void in_handler(int signal) {
    (void)signal;
    probe();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void interrupted(volatile int *address) {
    *address = 1;
    raise(SIGUSR1);
    *address = 2;
}

int main(void) {
    int number;
    signal(SIGUSR1, in_handler);
    interrupted(&number);
    return number - 2;
}
