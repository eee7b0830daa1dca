// A gate around each call of an allocator, so that a program with threads can fork.
//
// If a thread is inside the allocator while another one forks, the child has its locks but not the thread, so nothing
// releases them there. Inlined spin locks cannot be intercepted one by one. So every thread has a slot that says
// whether it is inside. Before a fork the gate closes, and fork waits until no thread is inside. membarrier(2) orders
// the two sides, so the frequent side needs only two plain stores and a load.
//
// musl calls `__malloc_atfork` before and after a fork (musl 1.2.2 and later), while it holds its own locks.
// pthread_atfork handlers run earlier. With those, a thread that allocates under a lock of the libc would wait for the
// fork, and the fork for that thread.
//
// This file precedes the glue that uses it, in one translation unit, which defines the two functions below.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int thread_begins(void);        // in a thread, before its first call; 0 where there is no memory for that
static void thread_ends(void);         // in a thread, when it ends; more than once if it allocates after that

// Kernel ABI, membarrier(2); not every musl installation has the kernel's headers.
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED 8
#define MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED 16

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

// Slots never go back to the system: a thread may allocate after its last destructor, and then keeps one for ever.
struct slot {
    _Alignas(64) atomic_int inside;
    atomic_int taken;
    struct slot *next;
};

static _Atomic(struct slot *) slots;
// This thread's slot while it may be inside. A signal handler that forks must not wait for the thread that it
// interrupted.
static _Thread_local struct slot *mine;
static _Thread_local int forking;
static atomic_int closed;
static int has_membarrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t leave_key;

static struct slot *take_slot(void) {
    for (struct slot *slot = atomic_load(&slots); slot; slot = slot->next) {
        int free = 0;
        if (atomic_compare_exchange_strong(&slot->taken, &free, 1)) return slot;
    }
    struct slot *slot = mmap(NULL, sizeof *slot, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slot == MAP_FAILED) return NULL;
    atomic_store(&slot->taken, 1);
    slot->next = atomic_load(&slots);
    while (!atomic_compare_exchange_weak(&slots, &slot->next, slot)) {}
    return slot;
}

static void enter_slot(struct slot *slot) {
    for (;;) {
        atomic_store_explicit(&slot->inside, 1, memory_order_relaxed);
        if (likely(has_membarrier)) atomic_signal_fence(memory_order_seq_cst);
        else atomic_thread_fence(memory_order_seq_cst);
        if (likely(!atomic_load_explicit(&closed, memory_order_relaxed)) || forking) return;
        atomic_store(&slot->inside, 0);
        while (atomic_load(&closed)) sched_yield();
    }
}

static void leave(struct slot *slot) {
    atomic_store_explicit(&slot->inside, 0, memory_order_release);
}

// A slot that this thread is not inside.
static void give_back(struct slot *slot) {
    atomic_signal_fence(memory_order_seq_cst);
    mine = NULL;
    atomic_store(&slot->taken, 0);
}

// A later destructor may allocate again. That announces the thread again and sets the value again, so this runs once
// more (POSIX: up to PTHREAD_DESTRUCTOR_ITERATIONS times).
static void take_leave(void *value) {
    struct slot *slot = value;
    enter_slot(slot);
    thread_ends();
    leave(slot);
    give_back(slot);
}

static void begin(void) {
    has_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    pthread_key_create(&leave_key, take_leave);
}

// This runs before there are threads. If a thread forked while another one was in here, the child would wait for ever.
__attribute__((constructor(101))) static void begin_early(void) {
    pthread_once(&once, begin);
}

__attribute__((noinline, cold)) static struct slot *announce(void) {
    int errno_before = errno;
    pthread_once(&once, begin);
    struct slot *slot = take_slot();
    if (slot) {
        // First, because the allocator may call the libc when it begins, and the libc the allocator.
        mine = slot;
        atomic_signal_fence(memory_order_seq_cst);
        enter_slot(slot);
        int has_begun = thread_begins();
        leave(slot);
        if (!has_begun) give_back(slot);
        pthread_setspecific(leave_key, mine);
        slot = mine;
    }
    errno = errno_before;
    return slot;
}

// The slot to leave again, or NULL if there is no memory even for that.
static inline struct slot *enter(void) {
    struct slot *slot = mine;
    if (unlikely(!slot) && !(slot = announce())) return NULL;
    enter_slot(slot);
    return slot;
}

static inline void *leave_with(struct slot *slot, void *block) {
    leave(slot);
    if (unlikely(!block)) errno = ENOMEM;
    return block;
}

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

// -1 before a fork, 0 after it in the parent, 1 in the child; forks are serialized. The forking thread may still
// allocate: in a preload, other libraries' handlers run after this.
void __malloc_atfork(int who) {
    static int is_open;
    if (who < 0) {
        // A signal handler forks in a thread that is inside. Other threads may wait for its locks, so fork cannot wait
        // for them.
        is_open = mine && atomic_load(&mine->inside);
        if (is_open) return;
        forking = 1;
        atomic_store(&closed, 1);
        if (has_membarrier) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        for (struct slot *slot = atomic_load(&slots); slot; slot = slot->next) {
            while (slot != mine && atomic_load(&slot->inside)) sched_yield();
        }
        return;
    }
    // The child has no other threads: one that had not yet read `closed` will not leave its slot.
    for (struct slot *slot = atomic_load(&slots); who > 0 && slot; slot = slot->next) {
        if (slot == mine) continue;
        atomic_store(&slot->inside, 0);
        atomic_store(&slot->taken, 0);
    }
    if (is_open) return;
    forking = 0;
    atomic_store(&closed, 0);
}
