// A gate around each call of an allocator, so that a program with threads can fork.
//
// A thread that is inside the allocator when another one forks does not exist in the child, and what it had locked is
// never given back there. Spin locks that are inlined cannot be intercepted one by one, so every thread has a slot that
// says whether it is inside; before a fork the gate closes, and fork waits until nobody is. The two sides are ordered by
// membarrier(2), so that the side that is taken often needs two plain stores and a load only. musl tells before a fork
// and after it (`__malloc_atfork`, musl 1.2.2 and later), when it holds its own locks already; pthread_atfork handlers run
// before that, and a thread that allocates under a lock of the libc would then wait for the fork, and the fork for it.
//
// This file stands in front of the glue that uses it, in one translation unit, which defines the two functions below.
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

// Slots are never given back to the system: a thread may allocate after its last destructor and so keep one for good.
struct slot {
    _Alignas(64) atomic_int inside;
    atomic_int taken;
    struct slot *next;
};

static _Atomic(struct slot *) slots;
// This thread's slot, whenever it may be inside: a signal handler that forks must not wait for the thread it interrupted.
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

// A later destructor may allocate again: that announces the thread anew, and sets the value anew, so that this runs once
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

// Before there are threads: one that forked while another was in here would wait for ever in the child.
__attribute__((constructor(101))) static void begin_early(void) {
    pthread_once(&once, begin);
}

__attribute__((noinline, cold)) static struct slot *announce(void) {
    int errno_before = errno;
    pthread_once(&once, begin);
    struct slot *slot = take_slot();
    if (slot) {
        // Before the allocator begins, which may call the libc, and that the allocator.
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

// The slot to leave again, or NULL where there is no memory even for that.
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

// -1 before a fork, 0 after it in the parent, 1 in the child; forks are serialized. The thread that forks may go on: in
// a preload, handlers of others run after this.
void __malloc_atfork(int who) {
    static int is_open;
    if (who < 0) {
        // A signal handler forks in a thread that it interrupted inside. Others may wait for what that thread has locked,
        // so there is no waiting for them.
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
    // In the child there are no other threads: one that was about to look at `closed` will not leave its slot.
    for (struct slot *slot = atomic_load(&slots); who > 0 && slot; slot = slot->next) {
        if (slot == mine) continue;
        atomic_store(&slot->inside, 0);
        atomic_store(&slot->taken, 0);
    }
    if (is_open) return;
    forking = 0;
    atomic_store(&closed, 0);
}
