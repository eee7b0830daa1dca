// jemalloc's own fork handlers, called at the right moment.
//
// jemalloc takes all its locks before a fork, so that none is held by a thread that the child does not have. It registers
// that with pthread_atfork, whose handlers run before musl takes its own locks: a thread that allocates under the lock of
// the list of streams then waits for the fork, and the fork for it. So the handlers are kept here, and called when musl
// holds its locks (`__malloc_atfork`, since musl 1.2.2, which jemalloc needs anyway for its `gettid`), or by the glue for
// preloads.
//
// A signal handler may fork in a thread that it interrupted inside jemalloc. What that thread has locked it will unlock
// when the handler returns; waiting for it would last for ever. So each thread counts its locks, and a fork by one that
// has any leaves jemalloc alone. The child of a single thread then has a whole heap all the same, and that of several may
// only call what is safe in a signal handler anyway (POSIX, fork).
#include <pthread.h>

static struct {
    void (*before)(void);
    void (*in_parent)(void);
    void (*in_child)(void);
} handlers;

static _Thread_local int locks; // that this thread holds, or is about to take or to have given back
static int is_prepared;

// Before there is a second thread: jemalloc has a constructor, which initializes it.
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
            locks = 0; // it makes the locks anew instead of giving them back
        }
        is_prepared = 0;
    }
}

#ifdef REHEAP_PRELOAD
// libfaketime has a pthread_cond_init of its own, which allocates: too early, because jemalloc calls it in its first
// malloc, for threads that it may start later. It gives no attributes.
int __reheap_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes) {
    (void)attributes;
    *condition = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    return 0;
}
#endif
