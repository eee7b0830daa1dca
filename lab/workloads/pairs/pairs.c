/* Pairs of malloc and free on each of some threads, and what a pair takes of a thread's CPU time. A thread has so many
 * blocks at a time, and frees the oldest.
 *
 * In C, because it is linked in four ways: dynamic and static, glibc and musl.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS_MAX 64
#define SIZES 64
#define SMALLEST 16
#define BLOCKS_MAX 1000000

static long pairs_per_thread, blocks_per_thread;

static double seconds_of_thread(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Writes the thread's seconds to where `seconds` points. */
static void *make_pairs(void *seconds)
{
    void **blocks = calloc((size_t)blocks_per_thread, sizeof *blocks);
    if (!blocks)
        abort();
    double start = seconds_of_thread();
    for (long i = 0, at = 0; i < pairs_per_thread; i++) {
        free(blocks[at]);
        blocks[at] = malloc(SMALLEST + (size_t)(i % SIZES));
        at = at + 1 < blocks_per_thread ? at + 1 : 0;
    }
    *(double *)seconds = seconds_of_thread() - start;
    for (long i = 0; i < blocks_per_thread; i++)
        free(blocks[i]);
    free(blocks);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    pairs_per_thread = argc > 2 ? atol(argv[2]) : 1000000;
    blocks_per_thread = argc > 3 ? atol(argv[3]) : 1;
    if (threads < 1 || threads > THREADS_MAX || pairs_per_thread < 1 || blocks_per_thread < 1 ||
        blocks_per_thread > BLOCKS_MAX) {
        fprintf(stderr, "usage: pairs THREADS PAIRS [BLOCKS], with 1 to %d threads and 1 to %d blocks\n", THREADS_MAX,
                BLOCKS_MAX);
        return 2;
    }
    pthread_t thread[THREADS_MAX];
    double seconds[THREADS_MAX];
    if (threads == 1) {
        make_pairs(&seconds[0]);
    } else {
        for (int i = 0; i < threads; i++)
            pthread_create(&thread[i], NULL, make_pairs, &seconds[i]);
        for (int i = 0; i < threads; i++)
            pthread_join(thread[i], NULL);
    }
    double sum = 0;
    for (int i = 0; i < threads; i++)
        sum += seconds[i];
    printf("%.3f ns per pair\n", sum * 1e9 / (double)threads / (double)pairs_per_thread);
    return 0;
}
