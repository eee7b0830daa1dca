// What jemalloc needs in a preload.
#include <pthread.h>

// libfaketime's own pthread_cond_init allocates. That is too early, because jemalloc calls it in its first malloc, for
// threads that it may start later. jemalloc passes no attributes.
int __reheap_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
    (void)attributes;
    *condition = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    return 0;
}
