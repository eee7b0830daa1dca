// A plugin of qemu's user mode: a machine on which each thread of the program has a processor of its own, whose caches are
// kept coherent as in today's servers. It tells what the threads cost each other there, however few processors there are.
//
//     qemu-x86_64 -plugin processors.so,out=FILE,near=51,far=51,cluster=64 PROGRAM [ARGUMENT ...]
//
// Each processor has a clock. It advances with every instruction, and with every line of memory that has to come from
// another processor's cache. The one whose clock is the furthest behind is always the next to execute some instructions, so
// what the threads do to each other happens in the order of these clocks. The model:
//
// - Caches are as large as needed. A line is in none, in one that may write it, or in several that only read it (MESI). It
//   comes within `near` nanoseconds from a processor of the same cluster, from any other in `far`.
// - A line that somebody writes serves one processor after the other, and those that come meanwhile wait.
// - A plain store waits in its processor's buffer, and holds nobody up. An atomic instruction waits for its line.
// - A thread that waits in the kernel goes on some time after the call that woke it. All else in the kernel takes as long
//   whoever calls it: page faults and locks of the kernel are not seen.
//
// The program is told that it may run on 64 processors, because allocators share their memory out among as many as there are.
//
// The functions are version 1 of qemu's interface for plugins ("QEMU TCG Plugins" in its manual), which qemu has from 4.2 to
// 8.2. Debian has no header for it.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct translated; // qemu_plugin_tb
struct instruction; // qemu_plugin_insn
typedef uint64_t plugin_id;
enum { NO_REGISTERS, ACCESS_READ = 1, ACCESS_WRITE = 2 };

void qemu_plugin_register_vcpu_init_cb(plugin_id, void (*)(plugin_id, unsigned));
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct translated *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct translated *, void (*)(unsigned, void *), int, void *);
void qemu_plugin_register_vcpu_mem_cb(
    struct instruction *, void (*)(unsigned, uint32_t, uint64_t, void *), int, int, void *);
void qemu_plugin_register_vcpu_syscall_cb(
    plugin_id, void (*)(plugin_id, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
void qemu_plugin_register_vcpu_syscall_ret_cb(plugin_id, void (*)(plugin_id, unsigned, int64_t, int64_t));
size_t qemu_plugin_tb_n_insns(const struct translated *);
struct instruction *qemu_plugin_tb_get_insn(const struct translated *, size_t);
const void *qemu_plugin_insn_data(const struct instruction *);
size_t qemu_plugin_insn_size(const struct instruction *);
bool qemu_plugin_mem_is_store(uint32_t);
unsigned qemu_plugin_mem_size_shift(uint32_t);

int qemu_plugin_version = 1;

enum { LINE_BYTES = 64, CORES_MAX = 256, THREADS_MAX = 4096 };

// Picoseconds. An instruction: what churn, larson and producers take on one thread of a server with 3 GHz, three in a cycle.
// An atomic instruction on a line that is there: 20 cycles (Agner Fog's instruction tables, Ice Lake and Zen 3). `pause`: 140
// cycles on Intel's processors since Skylake (its optimization manual), 65 on AMD's. A call of the kernel, and the way from a
// wake-up to running: a tenth of a microsecond, and two.
enum {
    INSTRUCTION = 100,
    ATOMIC = 6700,
    PAUSE = 40 * 1000,
    CALL = 100 * 1000,
    WAKE_UP = 2000 * 1000,
    THREAD_START = 1000 * 1000, // less than it takes, so that all threads work at the same time
    AHEAD_MAX = 50 * 1000, // of the processor that is the furthest behind
};

enum state { UNUSED, READY, IN_CALL };

struct core {
    enum state state;
    int64_t clock, born;
    pthread_cond_t turn;
    pid_t thread;
    uint64_t futex; // that it waits for
    uint64_t processors; // where the kernel writes on which ones it may run
};

struct block {
    unsigned instructions;
    int64_t time;
};

struct line {
    uint64_t number; // 0: no line
    uint64_t sharers[CORES_MAX / 64];
    int writer; // the only one that has it, and may have written; -1 if there is none
    int64_t busy_until;
};

static struct {
    uint64_t instructions, atomics, moved, waits;
    int64_t contended_time, thread_time;
} seen;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrival = PTHREAD_COND_INITIALIZER;
static struct core cores[CORES_MAX];
static int core_of[THREADS_MAX];
static struct core *running; // whose turn it is
static int64_t limit; // of its clock, in this turn
static int64_t woken_at; // the clock of the last that woke another or ended
static int64_t near = 51000, far = 51000;
static int cluster = CORES_MAX;
static FILE *out;

static void fail(const char *what) {
    fprintf(stderr, "processors: %s\n", what);
    _exit(1);
}

// --- Which threads still have to come back from the kernel, because another woke them.

struct due {
    uint64_t futex;
    int threads;
};

static struct due dues[1024];
static int due_threads;

static struct due *due_at(uint64_t futex) {
    size_t slot = (futex >> 2) % 1024;
    for (size_t tries = 0; tries < 1024; tries++, slot = (slot + 1) % 1024) {
        if (dues[slot].futex == futex) return &dues[slot];
        if (!dues[slot].futex) {
            dues[slot].futex = futex;
            return &dues[slot];
        }
    }
    fail("more than 1024 futexes");
    return NULL;
}

// One may come back before the call that woke it does, and the kernel itself wakes those that wait for a thread's end: so
// there may be less than none.
static void expect(uint64_t futex, int threads) {
    struct due *due = due_at(futex);
    int before = due->threads;
    due->threads += threads;
    due_threads += (due->threads > 0 ? due->threads : 0) - (before > 0 ? before : 0);
}

// --- Turns. All of this is done with the mutex.

static void wait_for_arrivals(void) {
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 30;
    while (due_threads > 0)
        if (pthread_cond_timedwait(&arrival, &mutex, &deadline) == ETIMEDOUT) fail("a thread that was woken did not come");
}

// The turn goes to the one that is the furthest behind; to none if all are in the kernel.
static void pass_turn(void) {
    struct core *first = NULL, *second = NULL;
    for (struct core *core = cores; core < cores + CORES_MAX; core++) {
        if (core->state != READY) continue;
        if (!first || core->clock < first->clock) second = first, first = core;
        else if (!second || core->clock < second->clock) second = core;
    }
    limit = second ? second->clock + AHEAD_MAX : INT64_MAX;
    if (running == first) return;
    __atomic_store_n(&running, first, __ATOMIC_RELAXED);
    if (first) pthread_cond_signal(&first->turn);
}

static void wait_for_turn(struct core *core) {
    while (running != core) pthread_cond_wait(&core->turn, &mutex);
}

static int64_t clock_now(void) {
    return running ? running->clock : woken_at;
}

static void thread_begins(plugin_id id, unsigned thread) {
    (void)id;
    if (thread >= THREADS_MAX) fail("too many threads");
    pthread_mutex_lock(&mutex);
    int index = 0;
    while (index < CORES_MAX && cores[index].state != UNUSED) index++;
    if (index == CORES_MAX) fail("too many threads at once");
    struct core *core = &cores[index];
    core_of[thread] = index;
    core->state = READY;
    core->clock = core->born = running ? running->clock + THREAD_START : 0;
    if (running) limit = 0;
    else running = core, limit = INT64_MAX;
    pthread_mutex_unlock(&mutex);
}

// When a program starts its first thread, qemu forgets all that it translated. For that every other thread must have left
// the translated code, so the new one must not wait there for its turn. It executes a few blocks until the first goes on.
static struct core *starting;
static bool has_started;

static bool must_not_wait(struct core *core) {
    struct core *starter = __atomic_load_n(&starting, __ATOMIC_ACQUIRE);
    if (!starter) return false;
    if (starter != core) usleep(200);
    else __atomic_store_n(&starting, NULL, __ATOMIC_RELEASE);
    return starter != core;
}

static void execute(unsigned thread, void *data) {
    struct core *core = &cores[core_of[thread]];
    const struct block *block = data;
    if (must_not_wait(core)) return;
    if (__atomic_load_n(&running, __ATOMIC_RELAXED) != core) {
        pthread_mutex_lock(&mutex);
        wait_for_turn(core);
        pthread_mutex_unlock(&mutex);
    }
    seen.instructions += block->instructions;
    core->clock += block->time;
    if (core->clock <= limit) return;
    pthread_mutex_lock(&mutex);
    wait_for_arrivals();
    pass_turn();
    wait_for_turn(core);
    pthread_mutex_unlock(&mutex);
}

// --- Caches. Only the thread whose turn it is comes here.

static struct line *lines;
static size_t line_room = 1 << 16, line_count;

static struct line *slot_of(struct line *table, size_t room, uint64_t number) {
    size_t slot = (size_t)(number * 0x9e3779b97f4a7c15 >> 20) & (room - 1);
    while (table[slot].number && table[slot].number != number) slot = (slot + 1) & (room - 1);
    return &table[slot];
}

static struct line *table_of(size_t room) {
    struct line *table = calloc(room, sizeof *table);
    if (!table) fail("no memory");
    return table;
}

static struct line *line_of(uint64_t number) {
    if (line_count * 2 > line_room) {
        struct line *larger = table_of(line_room * 2);
        for (size_t i = 0; i < line_room; i++)
            if (lines[i].number) *slot_of(larger, line_room * 2, lines[i].number) = lines[i];
        free(lines);
        lines = larger;
        line_room *= 2;
    }
    struct line *line = slot_of(lines, line_room, number);
    if (!line->number) {
        *line = (struct line){.number = number, .writer = -1};
        line_count++;
    }
    return line;
}

static bool has(const struct line *line, int core) {
    return line->sharers[core / 64] >> core % 64 & 1;
}

static void add(struct line *line, int core) {
    line->sharers[core / 64] |= 1ull << core % 64;
}

// To the nearest of those that have the line for a reader; a writer has to wait for the furthest. 0: no other has it.
static int64_t distance(const struct line *line, int core, bool writes) {
    bool is_near = false, is_far = false;
    for (int word = 0; word < CORES_MAX / 64; word++)
        for (uint64_t rest = line->sharers[word]; rest; rest &= rest - 1) {
            int other = word * 64 + __builtin_ctzll(rest);
            if (other == core) continue;
            if (other / cluster == core / cluster) is_near = true;
            else is_far = true;
        }
    if (!is_near && !is_far) return 0;
    return writes ? (is_far ? far : near) : (is_near ? near : far);
}

static void move(struct core *core, struct line *line, int64_t latency, bool writes, bool is_atomic) {
    int64_t start = core->clock;
    bool takes_turns = writes || line->writer >= 0;
    seen.moved++;
    if (takes_turns && line->busy_until > start) {
        seen.contended_time += line->busy_until - start;
        start = line->busy_until;
    }
    int64_t end = start + latency;
    if (takes_turns) line->busy_until = end;
    if (writes && !is_atomic) return; // it waits in the buffer
    core->clock = end;
}

static void access_line(struct core *core, uint64_t number, bool writes, bool is_atomic) {
    struct line *line = line_of(number);
    int index = (int)(core - cores);
    if (writes ? line->writer == index : has(line, index)) return;
    int64_t latency = distance(line, index, writes);
    if (latency) move(core, line, latency, writes, is_atomic);
    if (writes) memset(line->sharers, 0, sizeof line->sharers);
    add(line, index);
    line->writer = writes ? index : -1;
}

static void access_memory(unsigned thread, uint32_t information, uint64_t address, void *data) {
    struct core *core = &cores[core_of[thread]];
    bool stores = qemu_plugin_mem_is_store(information), is_atomic = data != NULL;
    if (is_atomic && stores) {
        seen.atomics++;
        core->clock += ATOMIC;
    }
    uint64_t first = address / LINE_BYTES;
    uint64_t last = (address + (1ull << qemu_plugin_mem_size_shift(information)) - 1) / LINE_BYTES;
    for (uint64_t number = first; number <= last; number++) access_line(core, number, stores || is_atomic, is_atomic);
}

// --- Calls of the kernel.

static bool may_wait(int64_t call, uint64_t operation) {
    switch (call) {
    case SYS_futex: {
        uint64_t command = operation & FUTEX_CMD_MASK;
        return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET || command == FUTEX_LOCK_PI;
    }
    case SYS_nanosleep: case SYS_clock_nanosleep: case SYS_wait4: case SYS_waitid: case SYS_poll: case SYS_ppoll:
    case SYS_select: case SYS_pselect6: case SYS_epoll_wait: case SYS_epoll_pwait: case SYS_read: case SYS_recvfrom:
    case SYS_recvmsg: case SYS_accept: case SYS_accept4: case SYS_pause: case SYS_rt_sigsuspend: case SYS_rt_sigtimedwait:
        return true;
    default:
        return false;
    }
}

static bool is_asleep(const struct core *core) {
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)core->thread);
    FILE *file = fopen(path, "r");
    if (!file) fail("cannot see what a thread waits for");
    unsigned long long call, address;
    bool waits = fgets(text, sizeof text, file) && sscanf(text, "%llu 0x%llx", &call, &address) == 2;
    fclose(file);
    return waits && call == SYS_futex && address == core->futex;
}

// Whoever gave its turn away to wait may not have come to the kernel yet, and would miss the call that wakes it.
static void let_fall_asleep(uint64_t futex) {
    for (struct core *core = cores; core < cores + CORES_MAX; core++)
        while (core->state == IN_CALL && core->futex == futex && !is_asleep(core)) {
            pthread_mutex_unlock(&mutex);
            sched_yield();
            pthread_mutex_lock(&mutex);
        }
}

static void finish(void);

// The call's own futex, for its end.
static __thread uint64_t called_futex, called_operation;

static void begin_call(plugin_id id, unsigned thread, int64_t call, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                       uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)d, (void)f, (void)g, (void)h;
    struct core *core = &cores[core_of[thread]];
    if (call == SYS_exit_group) {
        finish();
        _exit((int)a); // the others may be anywhere
    }
    pthread_mutex_lock(&mutex);
    core->thread = gettid();
    core->clock += CALL;
    core->processors = call == SYS_sched_getaffinity ? c : 0;
    called_futex = a, called_operation = b & FUTEX_CMD_MASK;
    if (call == SYS_clone && !has_started) {
        starting = core;
        has_started = true;
    }
    if (call == SYS_futex && (called_operation == FUTEX_WAKE || called_operation == FUTEX_REQUEUE)) let_fall_asleep(a);
    if (call == SYS_futex && called_operation == FUTEX_REQUEUE)
        for (struct core *other = cores; other < cores + CORES_MAX; other++)
            if (other->state == IN_CALL && other->futex == a) other->futex = e;
    if (call == SYS_exit) {
        core->state = UNUSED;
        woken_at = core->clock;
        seen.thread_time += core->clock - core->born;
    } else if (may_wait(call, b)) {
        core->state = IN_CALL;
        core->futex = call == SYS_futex ? a : 0;
        seen.waits += call == SYS_futex;
    }
    if (core->state != READY) {
        wait_for_arrivals();
        pass_turn();
    }
    pthread_mutex_unlock(&mutex);
}

static void come_back(struct core *core, int64_t result) {
    if (core->futex && result == 0) {
        expect(core->futex, -1);
        if (core->clock < woken_at) core->clock = woken_at;
        core->clock += WAKE_UP;
    } else if (!core->futex && core->clock < clock_now()) {
        core->clock = clock_now();
    }
    core->futex = 0;
    core->state = READY;
    pthread_cond_signal(&arrival);
    if (!running) pass_turn();
    else if (limit > core->clock + AHEAD_MAX) limit = core->clock + AHEAD_MAX;
    wait_for_turn(core);
}

static void end_call(plugin_id id, unsigned thread, int64_t call, int64_t result) {
    (void)id;
    struct core *core = &cores[core_of[thread]];
    pthread_mutex_lock(&mutex);
    if (core->state == IN_CALL) come_back(core, result);
    else if (call == SYS_futex && called_operation == FUTEX_WAKE && result > 0) {
        woken_at = core->clock;
        expect(called_futex, (int)result);
        limit = 0;
    }
    pthread_mutex_unlock(&mutex);
    if (core->processors && result >= (int64_t)sizeof(uint64_t)) *(uint64_t *)core->processors = UINT64_MAX;
    core->processors = 0;
}

// --- Code.

// `lock`, or an exchange with memory, which locks without being told to.
static bool locks_a_line(const unsigned char *code, size_t bytes) {
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (code[i] == 0xf0) return true;
        bool is_prefix = code[i] == 0xf2 || code[i] == 0xf3 || code[i] == 0x66 || code[i] == 0x64 || (code[i] & 0xf0) == 0x40;
        if (!is_prefix) return (code[i] == 0x86 || code[i] == 0x87) && code[i + 1] < 0xc0;
    }
    return false;
}

static int64_t time_of(const unsigned char *code, size_t bytes) {
    if (bytes < 2 || (code[0] != 0xf2 && code[0] != 0xf3)) return INSTRUCTION;
    if (code[1] == 0x90) return PAUSE;
    // movs, cmps, stos, lods, scas: each repetition is seen as an instruction. Processors do 32 bytes at once.
    unsigned char operation = code[bytes - 1];
    if ((operation < 0xa4 || operation > 0xa7) && (operation < 0xaa || operation > 0xaf)) return INSTRUCTION;
    return operation & 1 ? INSTRUCTION / 4 : INSTRUCTION / 32;
}

static void translate(plugin_id id, struct translated *code) {
    (void)id;
    struct block *block = calloc(1, sizeof *block);
    if (!block) fail("no memory");
    block->instructions = (unsigned)qemu_plugin_tb_n_insns(code);
    for (size_t i = 0; i < block->instructions; i++) {
        struct instruction *instruction = qemu_plugin_tb_get_insn(code, i);
        const unsigned char *bytes = qemu_plugin_insn_data(instruction);
        size_t size = qemu_plugin_insn_size(instruction);
        block->time += time_of(bytes, size);
        void *is_atomic = locks_a_line(bytes, size) ? block : NULL;
        qemu_plugin_register_vcpu_mem_cb(instruction, access_memory, NO_REGISTERS, ACCESS_READ | ACCESS_WRITE, is_atomic);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(code, execute, NO_REGISTERS, block);
}

// --- The result.

static void finish(void) {
    // Of the threads that have ended: all but the first one.
    fprintf(out, "{\"nanoseconds\": %lld, ", (long long)seen.thread_time / 1000);
#define COUNT(name) fprintf(out, "\"" #name "\": %llu, ", (unsigned long long)seen.name);
    COUNT(instructions) COUNT(atomics) COUNT(moved) COUNT(waits)
    fprintf(out, "\"contended_nanoseconds\": %lld}\n", (long long)seen.contended_time / 1000);
    if (fclose(out)) fail("cannot write the result");
}

static void take(const char *argument) {
    const char *value = strchr(argument, '=');
    size_t name = value ? (size_t)(value - argument) : 0;
    if (name == 3 && !strncmp(argument, "out", name)) out = fopen(value + 1, "w");
    else if (name == 4 && !strncmp(argument, "near", name)) near = atoi(value + 1) * 1000;
    else if (name == 3 && !strncmp(argument, "far", name)) far = atoi(value + 1) * 1000;
    else if (name == 7 && !strncmp(argument, "cluster", name)) cluster = atoi(value + 1);
    else fail(argument);
}

int qemu_plugin_install(plugin_id id, const void *emulator, int arguments, char **argument) {
    (void)emulator;
    for (int i = 0; i < arguments; i++) take(argument[i]);
    if (!out || near <= 0 || far <= 0 || cluster <= 0) return -1;
    lines = table_of(line_room);
    for (int i = 0; i < CORES_MAX; i++) pthread_cond_init(&cores[i].turn, NULL);
    qemu_plugin_register_vcpu_init_cb(id, thread_begins);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_vcpu_syscall_cb(id, begin_call);
    qemu_plugin_register_vcpu_syscall_ret_cb(id, end_call);
    return 0;
}
