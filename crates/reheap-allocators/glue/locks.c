// Fork in a program with threads, for allocators whose locks are all pthread mutexes.
//
// A thread that holds a lock of the allocator when another one forks does not exist in the child, so there the lock is
// never given back: seen with mimalloc 3 in one of some hundred forks while threads come and go. The allocator's calls of
// pthread_mutex_* come here. musl tells before a fork and after it (`__malloc_atfork`, musl 1.2.2 and later): before it,
// no thread may take its first lock any more, and fork waits until nobody holds one. Only slow paths take locks.
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

// Kernel ABI, futex(2); not every musl installation has the kernel's headers.
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

static atomic_int holders; // threads that hold a lock or wait for one
static atomic_int closed;  // a thread is about to fork
static _Thread_local int depth;

static void futex_wait(atomic_int *word, int value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_int *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void leave(void) {
    if (--depth) return;
    if (atomic_fetch_sub(&holders, 1) == 1 && atomic_load(&closed)) futex_wake(&holders);
}

// One side counts itself and then looks at `closed`, the other closes and then looks at the count: with sequentially
// consistent order at least one of them sees the other.
static void enter(void) {
    if (depth++) return;
    for (;;) {
        atomic_fetch_add(&holders, 1);
        if (!atomic_load(&closed)) return;
        if (atomic_fetch_sub(&holders, 1) == 1) futex_wake(&holders);
        futex_wait(&closed, 1);
    }
}

int __reheap_mutex_lock(pthread_mutex_t *mutex) {
    enter();
    return pthread_mutex_lock(mutex);
}

int __reheap_mutex_trylock(pthread_mutex_t *mutex) {
    enter();
    int error = pthread_mutex_trylock(mutex);
    if (error) leave();
    return error;
}

int __reheap_mutex_unlock(pthread_mutex_t *mutex) {
    int error = pthread_mutex_unlock(mutex);
    leave();
    return error;
}

// -1 before a fork, 0 after it in the parent, 1 in the child; forks are serialized. The thread that forks may go on: in
// a preload, handlers of others run after this.
void __malloc_atfork(int who) {
    if (who < 0) {
        atomic_store(&closed, 1);
        for (int count; (count = atomic_load(&holders)) > 0;) futex_wait(&holders, count);
        depth++;
        return;
    }
    depth--;
    // A thread that counted itself, was about to look at `closed`, and is not in the child will not take that back.
    if (who > 0) atomic_store(&holders, 0);
    atomic_store(&closed, 0);
    futex_wake(&closed);
}
