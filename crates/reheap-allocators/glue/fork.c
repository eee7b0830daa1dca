// Fork handlers for a preload. A libc that contains the allocator calls `__malloc_atfork` while it holds its own locks.
// A libc that does not know the allocator only has pthread_atfork, whose handlers run earlier.
//
// So fork waits for locks of the libc while the allocator lets no other thread in. If another thread allocated under
// such a lock, both would wait for ever. The lock in question is that of the list of streams. fflush(NULL) holds it
// while it waits for each stream in turn, and threads allocate while they hold a stream. So this file takes that lock
// before the allocator closes.
//
// A handler registered before these runs after them, with the allocator closed. It may allocate, because the glue lets
// the forking thread pass. It must not wait for another thread that allocates. musl serializes forks. glibc does not
// (2.36 lets handlers of several threads run at once).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

void __malloc_atfork(int who);

#ifdef __GLIBC__
// Exported since glibc 2.2.5. The lock is recursive: fork takes it again, and makes a new one in the child.
void _IO_list_lock(void) __attribute__((weak));
void _IO_list_unlock(void) __attribute__((weak));
void _IO_list_resetlock(void) __attribute__((weak));

// glibc 2.32 and later. Without other threads fork itself takes no locks, so it works in a handler of any signal.
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
// musl exports no function that takes its lock. Of the functions that take it, fflush(NULL) and exit wait for streams.
// So fflush comes here, and continues by its other name in musl. exit takes the lock and never releases it; before
// that, a handler of exit keeps forks out. A destructor would be too late: exit holds the dynamic linker's lock while
// destructors run, and a fork that has begun waits for that lock (musl, ldso/dynlink.c, __libc_exit_fini).
int fflush_unlocked(FILE *);

// Recursive, for a signal handler that forks in a thread that it interrupted here.
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

// A thread of the parent holds the lock. The child's only thread has another number.
static void unlock_streams_in_child(void) {
    prepare_streams();
}

PUBLIC int fflush(FILE *stream) {
    if (stream) return fflush_unlocked(stream);
    lock_streams();
    int result = fflush_unlocked(NULL);
    unlock_streams();
    return result;
}

static void before_streams_end(void) {
    lock_streams();
}

// musl's fork holds a lock of its own while handlers run, and dlsym holds one of the dynamic linker that fork waits for.
// A signal handler that forks meanwhile would wait for the thread that it interrupted. musl blocks signals only for the
// fork itself.
PUBLIC pid_t fork(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t (*next)(void) = (pid_t (*)(void))dlsym(RTLD_NEXT, "fork");
    pid_t child = next();
    int errno_after = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = errno_after;
    return child;
}
#endif

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
// Above 1 when a signal handler forks in a thread that was about to fork or has just forked.
static _Thread_local int forks;
static _Thread_local int is_closed;

static void before_fork(void) {
    if (forks++ || is_alone()) return;
    lock_streams();
    pthread_mutex_lock(&turn);
    is_closed = 1;
    __malloc_atfork(-1);
}

// A signal handler may fork in the middle of these, too: until the allocator is open again, it counts as a nested fork.
static void in_parent(void) {
    if (forks == 1 && is_closed) {
        __malloc_atfork(0);
        is_closed = 0;
        pthread_mutex_unlock(&turn);
        unlock_streams();
    }
    forks--;
}

static void in_child(void) {
    if (is_closed) {
        __malloc_atfork(1);
        unlock_streams_in_child();
        if (forks > 1) {
            // The interrupted fork continues in the child, as in a parent.
            lock_streams();
            __malloc_atfork(-1);
        } else {
            is_closed = 0;
            pthread_mutex_unlock(&turn);
        }
    }
    forks--;
}

#ifdef __GLIBC__
// glibc runs the constructors of this library after those of all libraries that the program is linked with. OpenBLAS
// registers a handler in its constructor, and that handler waits for its threads. So every registration comes here,
// after those of this file.
typedef void handler(void);
typedef int register_function(handler *, handler *, handler *, void *object);

static register_function *next_register(void) {
    static _Atomic(register_function *) known;
    register_function *next = atomic_load(&known);
    if (!next) {
        next = (register_function *)dlsym(RTLD_NEXT, "__register_atfork");
        atomic_store(&known, next);
    }
    return next;
}

static void register_these(void) {
    static atomic_flag are_registered = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&are_registered)) next_register()(before_fork, in_parent, in_child, NULL);
}

// pthread_atfork, which is a part of each library, calls it (glibc, nptl/pthread_atfork.c).
PUBLIC int __register_atfork(handler *before, handler *parent, handler *child, void *object) {
    register_these();
    return next_register()(before, parent, child, object);
}
#else
static void register_these(void) {
    pthread_atfork(before_fork, in_parent, in_child);
    atexit(before_streams_end); // registered first, so it runs last
}
#endif

// This runs before the constructors of the program, which may start threads.
__attribute__((constructor(101))) void __reheap_register_fork_handlers(void) {
    prepare_streams();
    register_these();
}
