// rpmalloc wants every thread to be announced and taken leave of. Its own way, wrapping pthread_create, asks dlsym for
// the real one and so dies in a static executable; here a thread is announced by its first call instead, and taken leave
// of by the destructor of a thread-specific value.
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

int rpmalloc_initialize(void);
void rpmalloc_thread_initialize(void);
void rpmalloc_thread_finalize(int release_caches);
void *rpmalloc(size_t);
void *rpcalloc(size_t, size_t);
void *rprealloc(void *, size_t);
void *rpmemalign(size_t, size_t);
void rpfree(void *);
size_t rpmalloc_usable_size(void *);

static _Thread_local int announced;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t leave;

#define unlikely(condition) __builtin_expect(!!(condition), 0)

// A later destructor may allocate again: that announces the thread anew, and sets the value anew, so that this runs once
// more (POSIX: up to PTHREAD_DESTRUCTOR_ITERATIONS times).
static void take_leave(void *value) {
    (void)value;
    announced = 0;
    rpmalloc_thread_finalize(1);
}

static void initialize(void) {
    rpmalloc_initialize();
    pthread_key_create(&leave, take_leave);
}

__attribute__((noinline, cold)) static void announce(void) {
    int errno_before = errno;
    pthread_once(&once, initialize);
    rpmalloc_thread_initialize();
    announced = 1;
    pthread_setspecific(leave, &announced);
    errno = errno_before;
}

static void *or_no_memory(void *block) {
    if (unlikely(!block)) errno = ENOMEM;
    return block;
}

void *__reheap_malloc(size_t size) {
    if (unlikely(!announced)) announce();
    if (unlikely(size > PTRDIFF_MAX)) return or_no_memory(NULL);
    return or_no_memory(rpmalloc(size));
}

void *__reheap_calloc(size_t count, size_t size) {
    size_t bytes;
    if (unlikely(!announced)) announce();
    if (unlikely(__builtin_mul_overflow(count, size, &bytes) || bytes > PTRDIFF_MAX)) return or_no_memory(NULL);
    return or_no_memory(rpcalloc(count, size));
}

void *__reheap_realloc(void *block, size_t size) {
    if (unlikely(!announced)) announce();
    if (unlikely(size > PTRDIFF_MAX)) return or_no_memory(NULL);
    return or_no_memory(rprealloc(block, size ? size : 1));
}

void *__reheap_memalign(size_t alignment, size_t size) {
    if (unlikely(!announced)) announce();
    return rpmemalign(alignment, size);
}

void __reheap_free(void *block) {
    if (unlikely(!announced)) {
        if (!block) return;
        announce();
    }
    rpfree(block);
}

size_t __reheap_malloc_usable_size(void *block) {
    return rpmalloc_usable_size(block);
}
