// Fork handlers for a preload. A libc with the allocator in it calls `__malloc_atfork` when it holds its own locks; a
// libc that does not know of the allocator has pthread_atfork, whose handlers run before that.
//
// Handlers that were registered earlier than these run with the gate closed, in the thread that forks; so the glue lets
// that thread pass. musl serializes forks, glibc does not (2.36 lets handlers of several threads run at once).
#include <pthread.h>

void __malloc_atfork(int who);

static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void) {
    pthread_mutex_lock(&forking);
    __malloc_atfork(-1);
}

static void in_parent(void) {
    __malloc_atfork(0);
    pthread_mutex_unlock(&forking);
}

static void in_child(void) {
    __malloc_atfork(1);
    pthread_mutex_unlock(&forking);
}

// Before the constructors of the program, which may start threads.
__attribute__((constructor(101))) void __reheap_register_fork_handlers(void) {
    pthread_atfork(before_fork, in_parent, in_child);
}
