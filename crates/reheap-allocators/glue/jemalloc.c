// jemalloc's own fork handlers, called at the right moment.
//
// jemalloc takes all its locks before a fork, so no thread that the child lacks holds one. It registers a handler for
// that with pthread_atfork, and these handlers run before musl takes its own locks. A thread that allocates under the
// lock of the list of streams then waits for the fork, and the fork for that thread. So this file keeps the handlers.
// It calls them when musl holds its locks (`__malloc_atfork`, since musl 1.2.2, which jemalloc needs anyway for its
// `gettid`). In a preload, `fork.c` calls it.
//
// A signal handler may fork in a thread that it interrupted inside jemalloc. That thread releases its locks only after
// the handler returns, so waiting for them would never end. So each thread counts its locks, and a fork by a thread
// with locks leaves jemalloc alone. If the process has one thread, the child's heap is complete all the same. If it has
// several, the child may only call functions that are safe in a signal handler anyway (POSIX, fork).
#include <pthread.h>

static struct {
    void (*before)(void);
    void (*in_parent)(void);
    void (*in_child)(void);
} handlers;

static _Thread_local int locks; // that this thread holds, is about to take, or is about to have released
static int is_prepared;

// This runs before there is a second thread, because jemalloc's constructor initializes it.
int __reheap_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    handlers.in_parent = in_parent;
    handlers.in_child = in_child;
    handlers.before = before;
    return 0;
}

int __reheap_mutex_lock(pthread_mutex_t *mutex) {
    locks++;
    return pthread_mutex_lock(mutex);
}

int __reheap_mutex_trylock(pthread_mutex_t *mutex) {
    locks++;
    int error = pthread_mutex_trylock(mutex);
    if (error) locks--;
    return error;
}

int __reheap_mutex_unlock(pthread_mutex_t *mutex) {
    int error = pthread_mutex_unlock(mutex);
    locks--;
    return error;
}

// -1 before a fork, 0 after it in the parent, 1 in the child; forks are serialized.
void __malloc_atfork(int who) {
    if (who < 0) {
        is_prepared = handlers.before && locks == 0;
        if (is_prepared) handlers.before();
    } else if (is_prepared) {
        if (who == 0) {
            handlers.in_parent();
        } else {
            handlers.in_child();
            locks = 0; // it makes new locks instead of releasing these
        }
        is_prepared = 0;
    }
}

#ifdef REHEAP_PRELOAD
// libfaketime's own pthread_cond_init allocates. That is too early, because jemalloc calls it in its first malloc, for
// threads that it may start later. jemalloc passes no attributes.
int __reheap_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
    (void)attributes;
    *condition = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    return 0;
}
#endif
