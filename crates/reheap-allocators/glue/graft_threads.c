// The ends of threads, for an allocator that goes into a finished executable.
//
// An allocator learns of a thread's end through a thread-specific key, whose destructor the libc calls. Nothing says where
// the libc of a finished program does that. So this file keeps a list of the threads that have something of the allocator's,
// and asks the kernel which of them still live: when a thread begins, for a few. For one that has ended, the thread that
// noticed calls the destructor. So what threads leave behind is bounded, and without new threads there is no more of it.
//
// - A thread that begins with the number of one in the list proves that the other has ended.
// - Only a thread that ended has left everything in order. In the child of a fork, the others are gone in the middle of
//   whatever they did, so their entries are removed and nothing else. The number of the process tells.
// - Whoever lets a thread end takes its place for as long (`__reheap_end_thread`).
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void destructor(void *);

// `graft_mimalloc.c` has them.
int __reheap_thread_begins(const void *value); // false if nothing is to be done for it when it ends
void __reheap_end_thread(void *value, destructor *end);

enum { NOBODY = 0, BUSY = -1 };

typedef struct {
    _Atomic(int) thread; // its number, NOBODY, or BUSY while somebody changes the rest
    int process;
    void *value;
} entry_t;

// One part of the list, a page or less.
#define ENTRIES 200
typedef struct part {
    _Atomic(struct part *) next;
    entry_t entries[ENTRIES];
} part_t;

// How many entries a thread looks at that begins. More than one, so that the list becomes shorter after many have ended.
#define LOOKS 8

static part_t first;
static _Atomic(size_t) used; // entries that have been used, which are the first
static _Atomic(size_t) cursor;
static destructor *end_of_thread;

static int is_alive(int process, int thread) {
    return syscall(SYS_tgkill, process, thread, 0) == 0 || errno != ESRCH;
}

static void look(entry_t *entry, int process, int beginning) {
    int thread = atomic_load_explicit(&entry->thread, memory_order_acquire);
    if (thread == NOBODY || thread == BUSY) return;
    int is_of_parent = entry->process != process;
    if (!is_of_parent && thread != beginning && is_alive(process, thread)) return;
    if (!atomic_compare_exchange_strong(&entry->thread, &thread, BUSY)) return;
    if (!is_of_parent) __reheap_end_thread(entry->value, end_of_thread);
    atomic_store_explicit(&entry->thread, NOBODY, memory_order_release);
}

static part_t *after(part_t *part) {
    part_t *next = atomic_load_explicit(&part->next, memory_order_acquire);
    if (next) return next;
    part_t *none = NULL, *made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return NULL;
    if (atomic_compare_exchange_strong(&part->next, &none, made)) return made;
    munmap(made, sizeof *made);
    return none;
}

static int take(entry_t *entry) {
    int nobody = atomic_load_explicit(&entry->thread, memory_order_relaxed);
    return nobody == NOBODY && atomic_compare_exchange_strong(&entry->thread, &nobody, BUSY);
}

// Without memory for an entry, what the thread leaves is lost.
static void enter(int process, int thread, void *value) {
    size_t index = 0;
    for (part_t *part = &first; part; part = after(part)) {
        for (size_t i = 0; i < ENTRIES; i++) {
            entry_t *entry = &part->entries[i];
            index++;
            if (!take(entry)) continue;
            entry->process = process;
            entry->value = value;
            atomic_store_explicit(&entry->thread, thread, memory_order_release);
            size_t before = atomic_load(&used);
            while (before < index && !atomic_compare_exchange_weak(&used, &before, index)) {}
            return;
        }
    }
}

static void look_at_some(int process, int beginning) {
    size_t count = atomic_load(&used), looks = count < LOOKS ? count : LOOKS;
    size_t start = atomic_fetch_add_explicit(&cursor, looks, memory_order_relaxed);
    for (size_t i = start; i < start + looks; i++) {
        size_t index = i % count;
        part_t *part = &first;
        for (; index >= ENTRIES; index -= ENTRIES) part = atomic_load(&part->next);
        look(&part->entries[index], process, beginning);
    }
}

int pthread_key_create(pthread_key_t *key, destructor *end) {
    end_of_thread = end;
    *key = 0;
    return 0;
}

int pthread_key_delete(pthread_key_t key) {
    (void)key;
    return 0;
}

int pthread_setspecific(pthread_key_t key, const void *value) {
    (void)key;
    if (!__reheap_thread_begins(value)) return 0;
    int errno_before = errno;
    int process = getpid(), thread = gettid();
    look_at_some(process, thread);
    enter(process, thread, (void *)value);
    errno = errno_before;
    return 0;
}
