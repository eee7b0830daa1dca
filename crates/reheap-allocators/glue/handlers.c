// An allocator's own fork handlers, called at the right moment.
//
// The allocator takes all its locks before a fork, so no thread that the child lacks holds one, and the child makes new
// ones. It registers handlers for that with pthread_atfork, and these run before the libc takes its own locks. A thread
// that allocates under the lock of the list of streams then waits for the fork, and the fork for that thread. So this
// file keeps the handlers. It calls them when the libc holds its locks (`__malloc_atfork`, since musl 1.2.2). In a
// preload, `fork.c` calls it.
//
// A signal handler may fork in a thread that it interrupted inside the allocator. That thread releases its locks only
// after the handler returns, so waiting for them would never end. So each thread counts its locks, and a fork by a
// thread with locks leaves the allocator alone. If the process has one thread, the child's heap is complete all the
// same. If it has several, the child may only call functions that are safe in a signal handler anyway (POSIX, fork).
//
// Other libraries' handlers run after these, and may allocate. So while a thread forks, the allocator is its own, and
// the locks do nothing.
#include <pthread.h>

static struct {
    void (*before)(void);
    void (*in_parent)(void);
    void (*in_child)(void);
} handlers;

static _Thread_local int locks;   // that this thread holds, is about to take, or is about to have released
static _Thread_local int forking; // this thread, and the allocator is its own

// This runs before there is a second thread, because the allocator's constructor initializes it.
int __reheap_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
    handlers.in_parent = in_parent;
    handlers.in_child = in_child;
    handlers.before = before;
    return 0;
}

int __reheap_mutex_lock(pthread_mutex_t *mutex) {
    if (__builtin_expect(forking, 0)) return 0;
    locks++;
    return pthread_mutex_lock(mutex);
}

int __reheap_mutex_trylock(pthread_mutex_t *mutex) {
    if (__builtin_expect(forking, 0)) return 0;
    locks++;
    int error = pthread_mutex_trylock(mutex);
    if (error) locks--;
    return error;
}

int __reheap_mutex_unlock(pthread_mutex_t *mutex) {
    if (__builtin_expect(forking, 0)) return 0;
    int error = pthread_mutex_unlock(mutex);
    locks--;
    return error;
}

// -1 before a fork, 0 after it in the parent, 1 in the child; forks are serialized.
void __malloc_atfork(int who) {
    if (who < 0) {
        if (!handlers.before || locks) return;
        handlers.before();
        forking = 1;
    } else if (forking) {
        forking = 0;
        if (who == 0) {
            handlers.in_parent();
        } else {
            handlers.in_child();
            locks = 0; // it makes new locks instead of releasing these
        }
    }
}
