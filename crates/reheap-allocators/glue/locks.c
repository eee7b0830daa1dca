// Fork in a program with threads, for allocators whose locks are all pthread mutexes.
//
// If a thread holds a lock of the allocator while another one forks, the child has the lock but not the thread, so
// nothing releases it there. With mimalloc 3 that happened in one of about a hundred forks while threads came and went.
// So the allocator's calls of pthread_mutex_* come here. musl calls `__malloc_atfork` before and after a fork (musl
// 1.2.2 and later). Before the fork, no thread may take its first lock any more, and fork waits until no thread holds
// one. Only slow paths take locks.
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
// Whether this thread holds a lock, or is about to. A signal handler may fork in the middle of all this, and must not
// wait for the thread that it interrupted.
static _Thread_local volatile int is_counted;

static void futex_wait(atomic_int *word, int value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_int *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void count(void) {
    is_counted = 1;
    atomic_fetch_add(&holders, 1);
}

static void discount(void) {
    atomic_fetch_sub(&holders, 1);
    is_counted = 0;
    if (atomic_load(&closed)) futex_wake(&holders);
}

static void leave(void) {
    if (depth == 1) discount();
    depth--;
}

// A thread counts itself and then reads `closed`. fork sets `closed` and then reads the count. With sequentially
// consistent order, at least one of them sees the other.
static void enter(void) {
    if (depth++) return;
    for (;;) {
        count();
        if (!atomic_load(&closed)) return;
        discount();
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

// -1 before a fork, 0 after it in the parent, 1 in the child; forks are serialized. The forking thread may still
// allocate: in a preload, other libraries' handlers run after this.
void __malloc_atfork(int who) {
    static int is_open;
    if (who < 0) {
        // A signal handler forks in a thread that holds a lock. Other threads may wait for that lock, so fork cannot
        // wait for them.
        is_open = is_counted;
        if (is_open) return;
        atomic_store(&closed, 1);
        for (int others; (others = atomic_load(&holders)) > 0;) futex_wait(&holders, others);
        depth++;
        return;
    }
    // A thread may have counted itself and not yet read `closed`. It is not in the child, so it cannot undo its count.
    if (who > 0) atomic_store(&holders, is_counted);
    if (is_open) return;
    depth--;
    atomic_store(&closed, 0);
    futex_wake(&closed);
}
