// snmalloc behind the gate, with the ways of musl: realloc(p, 0) gives a block (snmalloc frees, as glibc does), and free
// leaves errno alone (POSIX.1-2024), which a failed madvise would change.
void *sn_malloc(size_t);
void *sn_calloc(size_t, size_t);
void *sn_realloc(void *, size_t);
void *sn_memalign(size_t, size_t);
void sn_free(void *);
size_t sn_malloc_usable_size(void *);

static void allocator_begins(void) {}
static void thread_begins(void) {}
static void thread_ends(void) {}

void *__reheap_malloc(size_t size) {
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, sn_malloc(size)) : no_memory();
}

void *__reheap_calloc(size_t count, size_t size) {
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, sn_calloc(count, size)) : no_memory();
}

void *__reheap_realloc(void *block, size_t size) {
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, sn_realloc(block, size ? size : 1)) : no_memory();
}

void *__reheap_memalign(size_t alignment, size_t size) {
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, sn_memalign(alignment, size)) : no_memory();
}

void __reheap_free(void *block) {
    if (!block) return;
    struct slot *slot = enter();
    if (unlikely(!slot)) return; // no memory to announce this thread: the block is lost, which beats a crash
    int errno_before = errno;
    sn_free(block);
    errno = errno_before;
    leave(slot);
}

size_t __reheap_malloc_usable_size(void *block) {
    return sn_malloc_usable_size(block);
}

// snmalloc learns of a thread's end by a destructor of its own, in which it takes locks: so that goes through the gate.
static void (*end_of_thread)(void *);

static void end_of_thread_behind_the_gate(void *value) {
    struct slot *slot = enter();
    end_of_thread(value);
    if (slot) leave(slot);
}

int __reheap_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    end_of_thread = destructor;
    return pthread_key_create(key, end_of_thread_behind_the_gate);
}
