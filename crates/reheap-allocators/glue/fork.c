// Fork handlers for a preload. A libc with the allocator in it calls `__malloc_atfork` when it holds its own locks; a
// libc that does not know of the allocator has pthread_atfork, whose handlers run before that.
//
// So fork waits for locks of the libc while the allocator lets no other thread in. If one of these allocated under such a
// lock, both would wait for ever. The lock in question is that of the list of streams: fflush(NULL) holds it while it
// waits for each stream in turn, which other threads allocate for. It is taken here, before the allocator closes.
//
// Handlers that were registered earlier than these run with the allocator closed, in the thread that forks; so the glue
// lets that thread pass. musl serializes forks, glibc does not (2.36 lets handlers of several threads run at once).
#include <pthread.h>
#include <stdio.h>

void __malloc_atfork(int who);

#ifdef __GLIBC__
// Exported since glibc 2.2.5. The lock is recursive: fork takes it once more, and makes it anew in the child.
void _IO_list_lock(void) __attribute__((weak));
void _IO_list_unlock(void) __attribute__((weak));
void _IO_list_resetlock(void) __attribute__((weak));

// glibc 2.32 and later. Without other threads fork takes no locks either, and so works in a handler of any signal.
extern char __libc_single_threaded __attribute__((weak));

static int is_alone(void) {
    return &__libc_single_threaded && __libc_single_threaded;
}

static void prepare_streams(void) {}

static void lock_streams(void) {
    if (_IO_list_lock) _IO_list_lock();
}

static void unlock_streams(void) {
    if (_IO_list_lock) _IO_list_unlock();
}

static void unlock_streams_in_child(void) {
    if (_IO_list_lock) _IO_list_resetlock();
}
#else
// musl exports no function that takes its lock. Of those that take it only fflush(NULL) waits for streams, so that comes
// here; what comes here goes on by the other name that the function has in musl.
int fflush_unlocked(FILE *);

// Recursive, for a signal handler that forks in a thread which it interrupted here.
static pthread_mutex_t streams = PTHREAD_MUTEX_INITIALIZER;

static int is_alone(void) {
    return 0;
}

static void prepare_streams(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&streams, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void lock_streams(void) {
    pthread_mutex_lock(&streams);
}

static void unlock_streams(void) {
    pthread_mutex_unlock(&streams);
}

// It is the lock of a thread in the parent: the child's only thread has another number.
static void unlock_streams_in_child(void) {
    prepare_streams();
}

__attribute__((visibility("default"))) int fflush(FILE *stream) {
    if (stream) return fflush_unlocked(stream);
    lock_streams();
    int result = fflush_unlocked(NULL);
    unlock_streams();
    return result;
}
#endif

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
// Above 1 where a signal handler forks in a thread that was about to fork, or had just done so.
static _Thread_local int forks;
static _Thread_local int is_closed;

static void before_fork(void) {
    if (forks++ || is_alone()) return;
    lock_streams();
    pthread_mutex_lock(&turn);
    is_closed = 1;
    __malloc_atfork(-1);
}

static void in_parent(void) {
    if (--forks || !is_closed) return;
    __malloc_atfork(0);
    is_closed = 0;
    pthread_mutex_unlock(&turn);
    unlock_streams();
}

static void in_child(void) {
    forks--;
    if (!is_closed) return;
    __malloc_atfork(1);
    unlock_streams_in_child();
    if (forks) {
        // The fork that was interrupted goes on in the child, as in a parent.
        lock_streams();
        __malloc_atfork(-1);
        return;
    }
    is_closed = 0;
    pthread_mutex_unlock(&turn);
}

// Before the constructors of the program, which may start threads.
__attribute__((constructor(101))) void __reheap_register_fork_handlers(void) {
    prepare_streams();
    pthread_atfork(before_fork, in_parent, in_child);
}
