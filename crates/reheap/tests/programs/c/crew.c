// Four threads that allocate, each of which prints its number.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *row(void *strokes) {
    printf("%ld\n", syscall(SYS_gettid));
    for (long i = 0; i < (long)strokes; i++) {
        void *volatile oar = i % 2 ? malloc((size_t)i + 1) : calloc((size_t)i + 1, 2);
        oar = realloc(oar, (size_t)i + 100);
        void *volatile rope = aligned_alloc(64, 128);
        free(oar);
        free(rope);
    }
    return NULL;
}

int main(void) {
    pthread_t crew[3];
    for (long i = 0; i < 3; i++) pthread_create(&crew[i], NULL, row, (void *)(100 * (i + 1)));
    for (int i = 0; i < 3; i++) pthread_join(crew[i], NULL);
    row((void *)1000);
}
