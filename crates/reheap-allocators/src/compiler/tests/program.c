/* Prints what came from the allocator that counts: blocks of the program, and of libc for itself. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern volatile int calls_of_program, calls_of_libc;
static volatile int exits;

static void at_exit(void) { exits++; }
static void *in_thread(void *text) { return strdup(text); }

int main(void) {
    pthread_t thread;
    void *copy;
    int before = calls_of_program;
    if (pthread_create(&thread, 0, in_thread, "text") || pthread_join(thread, &copy)) return 1;
    int program = calls_of_program > before;
    /* The first 32 functions have a place in libc's own memory. */
    for (int i = 0; i < 40; i++) atexit(at_exit);
    printf("program %d, libc %d, thread %s\n", program, calls_of_libc > 0, (char *)copy);
    return 0;
}
