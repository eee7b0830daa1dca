// Performs a plan that reheap made of a trace: the same threads make the same calls.
//
//     replayer PLAN [REPORT]
//
// The plan's format is in src/replay/plan.rs. Everything that the replayer needs for itself is in shared anonymous
// memory: none of it comes from the allocator under test, and the kernel does not count it as the program's anonymous
// memory, which is what the report calls resident. Nothing is printed, so that all runs have the same output.
//
// Order. Each thread performs its own calls in order. A block that another thread made is in its slot when that thread
// has stored it. Time is cut into epochs: no thread is more than `window` epochs ahead of the slowest, so as many bytes
// are live as were, give or take an epoch, and a slot that one thread emptied can be another's some epochs later.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FORMAT = 1, PAGE = 4096 };
enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1 }; // musl's compilers do not find linux/futex.h
enum { TOUCH_NONE, TOUCH_ENDS, TOUCH_PAGES, TOUCH_ALL };
enum code {
    MALLOC,
    CALLOC,
    ALIGNED,        // its logarithm is in the operation
    ALIGNED_ZEROED,
    REALLOC,        // of slot `other`
    REALLOC_ALIGNED,
    FREE,
    FREE_NULL,
    START,          // thread `slot` starts
    EPOCH,          // epoch `slot` ends for this thread, `other` begins; NO_EPOCH for neither
    LOOK,           // the most bytes are live now
    UNTIL,          // waits until `size` nanoseconds after the beginning
};
// Another thread takes the block; another made it; it is not empty, so its first byte is known.
enum { SHARED = 1, OF_ANOTHER = 2, KNOWN = 4 };
#define NO_EPOCH UINT32_MAX

struct header {
    char magic[8];
    uint32_t format, touch;
    uint32_t threads, window;
    uint64_t slots, epochs;
    uint64_t calls;
    uint64_t epochs_at, threads_at, blocks_at; // bytes from the beginning
    uint64_t operations_per_block;
};

struct operation {
    uint32_t slot, other;
    uint64_t packed; // size in 48 bits, code in 4, flags in 4, alignment's logarithm in 8
};

struct thread_table {
    uint64_t operations, first_block; // in the table of blocks: where each block of operations is in the file
};

struct bucket {
    uint32_t waiters, turn;
    uint32_t unused[14];
};

enum { BUCKETS = 256, POINTS_MAX = 4096 };

struct point {
    uint64_t nanoseconds, bytes, epoch;
};

enum kind { ALLOCATION, REALLOCATION, RELEASE, KINDS };

struct figures {
    uint64_t calls[KINDS], sampled[KINDS], sampled_nanoseconds[KINDS];
    uint64_t discarded, failed, damaged;
    uint64_t block_waits, block_wait_nanoseconds, epoch_waits, epoch_wait_nanoseconds;
};

// All threads use this; in shared memory.
static struct state {
    struct bucket buckets[BUCKETS];
    uint32_t running __attribute__((aligned(64)));
    uint32_t completed __attribute__((aligned(64))); // so many epochs are over
    uint32_t epoch_waiters;
    struct figures figures __attribute__((aligned(64)));
    uint32_t figures_lock;
    uint64_t looked_at, looked_bytes, looked_epoch;
    struct point points[POINTS_MAX];
    uint64_t point_count, interval;
    double byte_seconds;
    uint64_t peak_bytes, last_point, last_bytes;
    uint32_t over;
} *state;

static struct header header;
static const struct thread_table *threads;
static const uint64_t *blocks;
static uint32_t *remaining; // threads that have not finished their part of an epoch
static void **slots;
static int plan, statm;
static uint64_t began, clock_cost;

static char *FAILED = (char *)1; // what is in a slot when the allocator gave nothing

static __attribute__((noreturn)) void fail(const char *what) {
    static const char prefix[] = "replayer: ";
    const char *reason = strerror(errno);
    if (write(2, prefix, sizeof prefix - 1) < 0 || write(2, what, strlen(what)) < 0 || write(2, ": ", 2) < 0 ||
        write(2, reason, strlen(reason)) < 0 || write(2, "\n", 1) < 0)
        _exit(125);
    _exit(125);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(uint32_t *word, uint32_t value) { syscall(SYS_futex, word, FUTEX_WAIT, value, 0, 0, 0); }
static void futex_wake(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, 0, 0, 0); }

static void *shared_memory(size_t bytes) {
    void *memory =
        mmap(0, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        fail("cannot map memory");
    return memory;
}

static void read_all(void *into, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(plan, (char *)into + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got ? errno : EIO;
            fail("cannot read the plan");
        }
        done += (size_t)got;
    }
}

// Memory

// Anonymous pages that are resident. A number, not `strtoul`: no locale.
static uint64_t resident(void) {
    char text[128];
    ssize_t length = pread(statm, text, sizeof text - 1, 0);
    uint64_t fields[3] = {0, 0, 0};
    for (int at = 0, field = 0; at < length && field < 3; at++) {
        if (text[at] >= '0' && text[at] <= '9')
            fields[field] = fields[field] * 10 + (uint64_t)(text[at] - '0');
        else
            field++;
    }
    return (fields[1] - fields[2]) * (uint64_t)sysconf(_SC_PAGESIZE);
}

// Called by the sampler, and at the end by the main thread when that is over.
static void sample(void) {
    struct point point = {now() - began, resident(), __atomic_load_n(&state->completed, __ATOMIC_RELAXED)};
    state->byte_seconds +=
        (double)(point.nanoseconds - state->last_point) * 1e-9 * (double)(point.bytes + state->last_bytes) / 2;
    state->last_point = point.nanoseconds;
    state->last_bytes = point.bytes;
    if (point.bytes > state->peak_bytes)
        state->peak_bytes = point.bytes;
    if (state->point_count == POINTS_MAX) {
        for (uint64_t index = 0; index < POINTS_MAX / 2; index++)
            state->points[index] = state->points[2 * index];
        state->point_count /= 2;
        state->interval *= 2;
    }
    state->points[state->point_count++] = point;
}

static void *sampler(void *unused) {
    (void)unused;
    struct timespec moment = {0, 50000};
    while (!__atomic_load_n(&began, __ATOMIC_ACQUIRE))
        nanosleep(&moment, 0);
    while (!__atomic_load_n(&state->over, __ATOMIC_ACQUIRE)) {
        sample();
        struct timespec pause = {0, (long)state->interval};
        nanosleep(&pause, 0);
    }
    return 0;
}

static char tag(uint32_t slot) { return (char)(slot * 31 + 7); }

static inline void touch(volatile char *block, uint64_t size, uint32_t slot) {
    if (header.touch == TOUCH_NONE || size == 0)
        return;
    if (header.touch == TOUCH_ALL)
        memset((char *)block, tag(slot), size);
    else if (header.touch == TOUCH_PAGES)
        for (uint64_t at = PAGE - (uint64_t)block % PAGE; at < size; at += PAGE)
            block[at] = 1;
    block[size - 1] = 1;
    block[0] = tag(slot);
}

// Waiting

enum { SPINS = 200, YIELDS = 20 };

static __attribute__((noinline)) void *await_block(uint32_t slot, struct figures *figures) {
    uint64_t start = now();
    void *block = 0;
    figures->block_waits++;
    for (int turn = 0; turn < SPINS + YIELDS && !block; turn++) {
        if (turn < SPINS)
            pause_briefly();
        else
            sched_yield();
        block = __atomic_load_n(&slots[slot], __ATOMIC_ACQUIRE);
    }
    struct bucket *bucket = &state->buckets[slot % BUCKETS];
    if (!block) {
        __atomic_add_fetch(&bucket->waiters, 1, __ATOMIC_SEQ_CST);
        for (;;) {
            uint32_t turn = __atomic_load_n(&bucket->turn, __ATOMIC_SEQ_CST);
            block = __atomic_load_n(&slots[slot], __ATOMIC_SEQ_CST);
            if (block)
                break;
            futex_wait(&bucket->turn, turn);
        }
        __atomic_sub_fetch(&bucket->waiters, 1, __ATOMIC_SEQ_CST);
    }
    figures->block_wait_nanoseconds += now() - start;
    return block;
}

static void publish(uint32_t slot, void *block) {
    struct bucket *bucket = &state->buckets[slot % BUCKETS];
    __atomic_store_n(&slots[slot], block, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&bucket->waiters, __ATOMIC_SEQ_CST)) {
        __atomic_add_fetch(&bucket->turn, 1, __ATOMIC_SEQ_CST);
        futex_wake(&bucket->turn);
    }
}

static void leave_epoch(uint32_t epoch) {
    if (__atomic_sub_fetch(&remaining[epoch], 1, __ATOMIC_SEQ_CST) != 0)
        return;
    int moved = 0;
    for (;;) {
        uint32_t completed = __atomic_load_n(&state->completed, __ATOMIC_SEQ_CST);
        if (completed >= header.epochs || __atomic_load_n(&remaining[completed], __ATOMIC_SEQ_CST) != 0)
            break;
        moved |= __atomic_compare_exchange_n(&state->completed, &completed, completed + 1, 0, __ATOMIC_SEQ_CST,
                                             __ATOMIC_SEQ_CST);
    }
    if (moved && __atomic_load_n(&state->epoch_waiters, __ATOMIC_SEQ_CST))
        futex_wake(&state->completed);
}

static int may_enter(uint32_t epoch, uint32_t completed) { return (uint64_t)completed + header.window >= epoch; }

static void enter_epoch(uint32_t epoch, struct figures *figures) {
    if (may_enter(epoch, __atomic_load_n(&state->completed, __ATOMIC_ACQUIRE)))
        return;
    uint64_t start = now();
    figures->epoch_waits++;
    for (int turn = 0; turn < SPINS + YIELDS; turn++) {
        if (turn < SPINS)
            pause_briefly();
        else
            sched_yield();
        if (may_enter(epoch, __atomic_load_n(&state->completed, __ATOMIC_ACQUIRE)))
            break;
    }
    __atomic_add_fetch(&state->epoch_waiters, 1, __ATOMIC_SEQ_CST);
    for (;;) {
        uint32_t completed = __atomic_load_n(&state->completed, __ATOMIC_SEQ_CST);
        if (may_enter(epoch, completed))
            break;
        futex_wait(&state->completed, completed);
    }
    __atomic_sub_fetch(&state->epoch_waiters, 1, __ATOMIC_SEQ_CST);
    figures->epoch_wait_nanoseconds += now() - start;
}

enum { SPIN_NANOSECONDS = 60000 };

static void wait_until(uint64_t nanoseconds) {
    uint64_t target = began + nanoseconds;
    uint64_t time = now();
    if (time + SPIN_NANOSECONDS < target) {
        uint64_t wake = target - SPIN_NANOSECONDS;
        struct timespec until = {(time_t)(wake / 1000000000u), (long)(wake % 1000000000u)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0) == EINTR)
            continue;
    }
    while (now() < target)
        pause_briefly();
}

// The calls

// One of 64 calls is timed, at irregular distances, because programs repeat themselves. A call during which the thread
// lost its processor says nothing about the allocator.
enum { SAMPLE_DISTANCE = 64, SUSPICIOUS_NANOSECONDS = 20000 };

struct performer {
    struct figures figures;
    uint64_t until_sample, random;
    long switches;
};

static long involuntary_switches(void) {
    struct rusage usage;
    return syscall(SYS_getrusage, 1 /* RUSAGE_THREAD */, &usage) ? 0 : usage.ru_nivcsw;
}

static void next_sample(struct performer *self) {
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    self->until_sample = 1 + self->random % (2 * SAMPLE_DISTANCE - 1);
}

static __attribute__((noinline)) void count_sample(struct performer *self, enum kind kind, uint64_t start) {
    uint64_t took = now() - start;
    took = took > clock_cost ? took - clock_cost : 0;
    next_sample(self);
    if (took > SUSPICIOUS_NANOSECONDS) {
        long switches = involuntary_switches();
        int lost_processor = switches != self->switches;
        self->switches = switches;
        if (lost_processor) {
            self->figures.discarded++;
            return;
        }
    }
    self->figures.sampled[kind]++;
    self->figures.sampled_nanoseconds[kind] += took;
}

#define TIMED(kind, call)                                                                                             \
    do {                                                                                                              \
        self->figures.calls[kind]++;                                                                                  \
        if (__builtin_expect(--self->until_sample == 0, 0)) {                                                         \
            uint64_t start = now();                                                                                   \
            call;                                                                                                     \
            count_sample(self, kind, start);                                                                          \
        } else {                                                                                                      \
            call;                                                                                                     \
        }                                                                                                             \
    } while (0)

static inline void *take(struct performer *self, uint32_t slot, unsigned flags) {
    void *block = __atomic_load_n(&slots[slot], __ATOMIC_ACQUIRE);
    if ((flags & OF_ANOTHER) && !block)
        block = await_block(slot, &self->figures);
    return block;
}

static inline void put(struct performer *self, uint32_t slot, unsigned flags, char *block, uint64_t size) {
    if (!block) {
        self->figures.failed += size != 0;
        block = FAILED;
    } else {
        touch(block, size, slot);
    }
    if (flags & SHARED)
        publish(slot, block);
    else
        __atomic_store_n(&slots[slot], block, __ATOMIC_RELEASE);
}

static inline void check(struct performer *self, uint32_t slot, unsigned flags, const volatile char *block) {
    if (header.touch != TOUCH_NONE && (flags & KNOWN) && *block != tag(slot))
        self->figures.damaged++;
}

static inline void check_zero(struct performer *self, const volatile char *block, uint64_t size) {
    if (header.touch != TOUCH_NONE && block && size && (block[0] || block[size - 1]))
        self->figures.damaged++;
}

static char *allocate_aligned(unsigned log, uint64_t size) {
    void *block = 0;
    return posix_memalign(&block, (size_t)1 << log, size) ? 0 : block;
}

// There is no such function in the standard.
static char *reallocate_aligned(char *old, unsigned log, uint64_t size, uint64_t old_size) {
    char *block = allocate_aligned(log, size);
    if (block && old) {
        memcpy(block, old, old_size < size ? old_size : size);
        free(old);
    }
    return block;
}

static void *perform_thread(void *argument);

static void start_thread(uint32_t thread) {
    pthread_attr_t attributes;
    pthread_t started;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    __atomic_add_fetch(&state->running, 1, __ATOMIC_SEQ_CST);
    int error = pthread_create(&started, &attributes, perform_thread, (void *)(uintptr_t)thread);
    if (error) {
        errno = error;
        fail("cannot start a thread");
    }
    pthread_attr_destroy(&attributes);
}

static void look(void) {
    state->looked_at = now() - began;
    state->looked_bytes = resident();
    state->looked_epoch = __atomic_load_n(&state->completed, __ATOMIC_RELAXED);
}

static void perform(struct performer *self, const struct operation *operation) {
    uint32_t slot = operation->slot;
    uint64_t size = operation->packed & 0xffffffffffff;
    enum code code = (enum code)(operation->packed >> 48 & 15);
    unsigned flags = operation->packed >> 52 & 15, log = (unsigned)(operation->packed >> 56);
    char *block = 0, *old;
    switch (code) {
    case MALLOC:
        TIMED(ALLOCATION, block = malloc(size));
        put(self, slot, flags, block, size);
        break;
    case CALLOC:
        TIMED(ALLOCATION, block = calloc(1, size));
        check_zero(self, block, size);
        put(self, slot, flags, block, size);
        break;
    case ALIGNED:
        TIMED(ALLOCATION, block = allocate_aligned(log, size));
        put(self, slot, flags, block, size);
        break;
    case ALIGNED_ZEROED:
        TIMED(ALLOCATION, block = allocate_aligned(log, size));
        if (block)
            memset(block, 0, size);
        put(self, slot, flags, block, size);
        break;
    case REALLOC:
    case REALLOC_ALIGNED:
        old = take(self, operation->other, flags);
        if (old == FAILED)
            old = 0;
        // Empty before anyone can see the new block: the slot may be this thread's next one.
        __atomic_store_n(&slots[operation->other], 0, __ATOMIC_RELEASE);
        // It made a block, so it must again: some allocators give none for 0 bytes.
        if (code == REALLOC)
            TIMED(REALLOCATION, block = realloc(old, size ? size : 1));
        else
            TIMED(REALLOCATION, block = reallocate_aligned(old, log, size, flags & KNOWN ? 1 : 0));
        if (old && block && size)
            check(self, operation->other, flags, block);
        put(self, slot, flags, block, size);
        break;
    case FREE:
        old = take(self, slot, flags);
        __atomic_store_n(&slots[slot], 0, __ATOMIC_RELEASE);
        if (old && old != FAILED) {
            check(self, slot, flags, old);
            TIMED(RELEASE, free(old));
        }
        break;
    case FREE_NULL:
        TIMED(RELEASE, free(0));
        break;
    case START:
        start_thread(slot);
        break;
    case EPOCH:
        if (slot != NO_EPOCH)
            leave_epoch(slot);
        if (operation->other != NO_EPOCH)
            enter_epoch(operation->other, &self->figures);
        self->switches = involuntary_switches();
        break;
    case LOOK:
        look();
        break;
    case UNTIL:
        wait_until(size);
        break;
    }
}

static void add_figures(const struct figures *figures) {
    const uint64_t *from = (const uint64_t *)figures;
    uint64_t *to = (uint64_t *)&state->figures;
    for (size_t index = 0; index < sizeof *figures / sizeof *to; index++)
        __atomic_add_fetch(&to[index], from[index], __ATOMIC_RELAXED);
}

static void perform_all(uint32_t thread) {
    size_t per_block = header.operations_per_block;
    struct operation *buffer = shared_memory(per_block * sizeof *buffer);
    struct performer self = {.random = 0x9e3779b97f4a7c15u + thread};
    next_sample(&self);
    self.switches = involuntary_switches();
    const uint64_t *offset = &blocks[threads[thread].first_block];
    for (uint64_t left = threads[thread].operations; left;) {
        size_t count = left < per_block ? left : per_block;
        read_all(buffer, count * sizeof *buffer, *offset++);
        for (size_t index = 0; index < count; index++)
            perform(&self, &buffer[index]);
        left -= count;
    }
    munmap(buffer, per_block * sizeof *buffer);
    add_figures(&self.figures);
    if (__atomic_sub_fetch(&state->running, 1, __ATOMIC_SEQ_CST) == 0)
        futex_wake(&state->running);
}

static void *perform_thread(void *argument) {
    perform_all((uint32_t)(uintptr_t)argument);
    return 0;
}

// The report

static const char *malloc_in;
static char *text;
static size_t text_length;
enum { TEXT_BYTES = 1 << 19 };

static void say(const char *words) {
    size_t length = strlen(words);
    if (text_length + length < TEXT_BYTES)
        memcpy(text + text_length, words, length);
    text_length += length;
}

static void say_number(uint64_t number) {
    char digits[24];
    int at = sizeof digits - 1;
    digits[at] = 0;
    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    say(digits + at);
}

static void field(const char *name, uint64_t number) {
    say(name);
    say_number(number);
}

static uint64_t nanoseconds_of(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}

// The file that `malloc` is in, as /proc/self/maps has it: whether that is the allocator which it should be is for others
// to say. A name that JSON would have to escape is no file of reheap's. To be called before the first call: afterwards an
// allocator may have tens of thousands of mappings.
static const char *where_malloc_is(void) {
    enum { MAPS_BYTES = 1 << 20 };
    char *maps = shared_memory(MAPS_BYTES);
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ssize_t length = 0, got;
    while (file >= 0 && (got = read(file, maps + length, (size_t)(MAPS_BYTES - 1 - length))) > 0)
        length += got;
    close(file);
    maps[length] = 0;
    for (char *line = maps, *next; *line; line = next) {
        next = strchr(line, '\n');
        if (!next)
            break;
        *next++ = 0;
        char *end;
        uintptr_t from = strtoul(line, &end, 16), to = *end == '-' ? strtoul(end + 1, &end, 16) : 0;
        char *name = strchr(line, '/');
        if ((uintptr_t)malloc >= from && (uintptr_t)malloc < to && name)
            return strpbrk(name, "\"\\") ? "" : name;
    }
    return "";
}

static void report(const char *path, uint64_t took, const struct rusage *before, const struct rusage *after,
                   uint64_t resident_before) {
    const struct figures *all = &state->figures;
    static const char *kinds[KINDS] = {"allocations", "reallocations", "frees"};
    field("{\"format\":", FORMAT);
    field(",\"nanoseconds\":", took);
    field(",\"user_nanoseconds\":", nanoseconds_of(after->ru_utime) - nanoseconds_of(before->ru_utime));
    field(",\"system_nanoseconds\":", nanoseconds_of(after->ru_stime) - nanoseconds_of(before->ru_stime));
    field(",\"minor_faults\":", (uint64_t)(after->ru_minflt - before->ru_minflt));
    for (int kind = 0; kind < KINDS; kind++) {
        say(",\"");
        say(kinds[kind]);
        field("\":{\"calls\":", all->calls[kind]);
        field(",\"sampled\":", all->sampled[kind]);
        field(",\"sampled_nanoseconds\":", all->sampled_nanoseconds[kind]);
        say("}");
    }
    field(",\"discarded_samples\":", all->discarded);
    field(",\"failed\":", all->failed);
    field(",\"damaged\":", all->damaged);
    field(",\"block_waits\":", all->block_waits);
    field(",\"block_wait_nanoseconds\":", all->block_wait_nanoseconds);
    field(",\"epoch_waits\":", all->epoch_waits);
    field(",\"epoch_wait_nanoseconds\":", all->epoch_wait_nanoseconds);
    field(",\"resident_bytes_before\":", resident_before);
    field(",\"resident_bytes_peak\":", state->peak_bytes);
    field(",\"resident_bytes_average\":", (uint64_t)(state->byte_seconds / ((double)state->last_point * 1e-9))); // until the last look
    field(",\"resident_bytes_at_live_peak\":", state->looked_bytes);
    field(",\"own_bytes\":", header.slots * sizeof *slots + header.epochs * sizeof *remaining);
    say(",\"malloc_in\":\"");
    say(malloc_in);
    say("\",\"points\":[");
    for (uint64_t index = 0; index < state->point_count; index++) {
        field(index ? ",[" : "[", state->points[index].nanoseconds);
        field(",", state->points[index].bytes);
        field(",", state->points[index].epoch);
        say("]");
    }
    say("]}\n");
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0 || text_length >= TEXT_BYTES || write(file, text, text_length) != (ssize_t)text_length || close(file))
        fail("cannot write the report");
}

static void load(const char *path) {
    plan = open(path, O_RDONLY | O_CLOEXEC);
    if (plan < 0)
        fail("cannot open the plan");
    read_all(&header, sizeof header, 0);
    if (memcmp(header.magic, "reheappl", 8) || header.format != FORMAT) {
        errno = EINVAL;
        fail("the plan is not of this version");
    }
    struct stat status;
    if (fstat(plan, &status))
        fail("cannot read the plan");
    uint64_t table_bytes = (uint64_t)status.st_size - header.threads_at;
    struct thread_table *table = shared_memory(table_bytes);
    read_all(table, table_bytes, header.threads_at);
    threads = table;
    blocks = (const uint64_t *)((const char *)table + (header.blocks_at - header.threads_at));
    remaining = shared_memory(header.epochs * sizeof *remaining);
    read_all(remaining, header.epochs * sizeof *remaining, header.epochs_at);
    slots = shared_memory(header.slots * sizeof *slots);
    state = shared_memory(sizeof *state);
    text = shared_memory(TEXT_BYTES);
    malloc_in = where_malloc_is();
    state->interval = 1000000;
}

static void measure_clock(void) {
    clock_cost = UINT64_MAX;
    for (int turn = 0; turn < 1000; turn++) {
        uint64_t start = now(), cost = now() - start;
        clock_cost = cost < clock_cost ? cost : clock_cost;
    }
}

int main(int count, char **arguments) {
    if (count < 2 || count > 3) {
        errno = EINVAL;
        fail("usage: replayer PLAN [REPORT]");
    }
    load(arguments[1]);
    statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    measure_clock();
    pthread_t sampling;
    if (pthread_create(&sampling, 0, sampler, 0))
        fail("cannot start a thread");
    state->running = 1;
    uint64_t resident_before = resident();
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    __atomic_store_n(&began, now(), __ATOMIC_RELEASE);
    perform_all(0);
    for (uint32_t running; (running = __atomic_load_n(&state->running, __ATOMIC_SEQ_CST));)
        futex_wait(&state->running, running);
    uint64_t took = now() - began;
    getrusage(RUSAGE_SELF, &after);
    __atomic_store_n(&state->over, 1, __ATOMIC_RELEASE);
    pthread_join(sampling, 0);
    sample();
    if (state->looked_bytes > state->peak_bytes)
        state->peak_bytes = state->looked_bytes;
    if (count == 3)
        report(arguments[2], took, &before, &after, resident_before);
    return state->figures.damaged ? 124 : 0;
}
