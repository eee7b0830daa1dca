// snmalloc behind the gate, with musl's behaviour: realloc(p, 0) returns a block (snmalloc frees, as glibc does), and
// free leaves errno alone (POSIX.1-2024), which a failed madvise would change.
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>

void *sn_malloc(size_t);
void *sn_calloc(size_t, size_t);
void *sn_realloc(void *, size_t);
void *sn_memalign(size_t, size_t);
void sn_free(void *);
size_t sn_malloc_usable_size(void *);
void sn_free_sized(void *, size_t);
void sn_free_aligned_sized(void *, size_t, size_t);

// snmalloc aborts when there is no memory for its table of pages (while it holds a lock of its own) or for the data of
// a thread (without a lock). So this file maps the table and passes it on. When snmalloc is about to abort for a
// thread, its message leads back to where the thread began.
#if UINTPTR_MAX <= UINT32_MAX
// For 32 bits of addresses it is so small that snmalloc may map it.
static const size_t PAGE_TABLE = 0;
static const int PAGE_TABLE_ACCESS = PROT_NONE;
#elif defined SNMALLOC_CHECK_CLIENT
// With its checks it hides the table in a range of five times the size, and makes accessible what it needs.
static const size_t PAGE_TABLE = (size_t)5 << 38;
static const int PAGE_TABLE_ACCESS = PROT_NONE;
#else
static const size_t PAGE_TABLE = (size_t)1 << 38; // an entry of 16 bytes for each 16 KiB of 48 bits of addresses
static const int PAGE_TABLE_ACCESS = PROT_READ | PROT_WRITE;
#endif
static const char NO_THREAD[] = "Failed to initialise thread local allocator.";

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static atomic_int has_page_table;
static void *page_table;
static _Thread_local jmp_buf *no_memory_for_thread;
static _Thread_local int has_spoken;

// snmalloc's mmap.
void *__reheap_mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
    if (unlikely(length == PAGE_TABLE)) {
        void *mapped = page_table;
        page_table = NULL;
        if (mapped) return mapped;
    }
    return mmap(address, length, protection, flags, file, offset);
}

// snmalloc's writev. It writes every other message.
ssize_t __reheap_writev(int file, const struct iovec *parts, int count) {
    has_spoken = 1;
    for (int i = 0; no_memory_for_thread && i < count; i++) {
        if (parts[i].iov_len == sizeof NO_THREAD - 1 && !memcmp(parts[i].iov_base, NO_THREAD, sizeof NO_THREAD - 1))
            longjmp(*no_memory_for_thread, 1);
    }
    return writev(file, parts, count);
}

#ifdef SNMALLOC_CHECK_CLIENT
static _Noreturn void stop(const char *reason) {
    if (write(STDERR_FILENO, reason, strlen(reason)) < 0) {} // there is nobody else to tell
    abort();
}

// snmalloc's abort, also where a check fails.
_Noreturn void __reheap_abort(void) {
    if (has_spoken) abort();
    stop("snmalloc: the heap " "is corrupted, or what was freed is no block, or of another size\n");
}

// snmalloc's mprotect. It ignores the result, and then writes to memory that is still inaccessible.
int __reheap_mprotect(void *address, size_t length, int protection) {
    int error = mprotect(address, length, protection);
    if (error && protection & PROT_WRITE) stop("snmalloc: out of memory\n");
    return error;
}
#endif

// The flags are snmalloc's own, with which the table needs no memory until it is used.
static int map_page_table(void) {
    pthread_mutex_lock(&starting);
    if (!PAGE_TABLE) has_page_table = 1;
    if (!has_page_table) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *mapped = mmap(NULL, PAGE_TABLE, PAGE_TABLE_ACCESS, flags, -1, 0);
        if (mapped != MAP_FAILED) {
            page_table = mapped;
            has_page_table = 1; // last: a thread that sees it takes the table without the lock
        }
    }
    pthread_mutex_unlock(&starting);
    return has_page_table;
}

// snmalloc makes the data of a thread with its first block. No destructor runs between here and the jump.
static int thread_begins(void) {
    if (!has_page_table && !map_page_table()) return 0;
    jmp_buf here;
    if (setjmp(here)) {
        no_memory_for_thread = NULL;
        return 0;
    }
    no_memory_for_thread = &here;
    void *block = sn_malloc(1);
    no_memory_for_thread = NULL;
    if (block) sn_free(block);
    return 1;
}

static void thread_ends(void) {}

void *__reheap_malloc(size_t size) {
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, sn_malloc(size)) : no_memory();
}

void *__reheap_calloc(size_t count, size_t size) {
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, sn_calloc(count, size)) : no_memory();
}

void *__reheap_inner_realloc(void *block, size_t size) {
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, sn_realloc(block, size ? size : 1)) : no_memory();
}

void *__reheap_memalign(size_t alignment, size_t size) {
    struct slot *slot = enter();
    return likely(slot) ? leave_with(slot, sn_memalign(alignment, size)) : no_memory();
}

enum known { NOTHING, ITS_SIZE, ITS_ALIGNMENT };

static inline void release(void *block, enum known known, size_t alignment, size_t size) {
    if (unlikely(may_be_grown(block)) && (!block || __reheap_free_grown(block))) return;
    struct slot *slot = enter();
    if (unlikely(!slot)) return; // no memory to announce this thread: losing the block is better than a crash
    int errno_before = errno;
    switch (known) {
    case NOTHING: sn_free(block); break;
    case ITS_SIZE: sn_free_sized(block, size); break;
    case ITS_ALIGNMENT: sn_free_aligned_sized(block, alignment, size); break;
    }
    errno = errno_before;
    leave(slot);
}

void __reheap_free(void *block) {
    release(block, NOTHING, 0, 0);
}

#ifdef REHEAP_SIZE_IS_CHECKED
void __reheap_free_sized(void *block, size_t size) {
    release(block, ITS_SIZE, 0, size);
}

void __reheap_free_aligned_sized(void *block, size_t alignment, size_t size) {
    release(block, ITS_ALIGNMENT, alignment, size);
}
#endif

size_t __reheap_inner_malloc_usable_size(void *block) {
    return sn_malloc_usable_size(block);
}

// A destructor of snmalloc's own tells it that a thread ends. It takes locks there, so the destructor goes through the
// gate.
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
