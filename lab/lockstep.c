// Executes a program's threads in step, one instruction of each at a time, and counts what they do.
//
//     lockstep PROGRAM [ARGUMENT ...]
//
// So all of its threads run at once, however few processors there are: a lock is contended as often as on a machine with
// a processor for each of them on which every instruction takes equally long. What it costs to move a cache line between
// processors is not seen; the atomic instructions, which do that, are counted. The program is told that it may run on 64
// processors, because allocators share their memory out among as many as there are. It has only one, the one that this
// runs on, too: a step is then done in less time.
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/futex.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS_MAX = 1024, KINDS = 1 << 20, INSTRUCTION_BYTES_MAX = 15 };

enum kind { UNKNOWN, PLAIN, REPEATED, ATOMIC, PAUSE, SYSTEM_CALL };

// What the kernel will say of a thread: that it stopped, at once or after a system call that may wait.
enum state { STOPPED, STEPPING, CALLING, ENDED };

struct thread {
    pid_t id;
    enum state state;
    int signal; // to deliver with the next step
    uint64_t address;
    uint64_t processors; // where the kernel will write on which ones it may run
};

static struct thread threads[THREADS_MAX];
static size_t thread_count;
static int failed; // what waitpid said of an end that was none
static long long instructions, atomics, pauses, waits, yields;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static enum kind decode(const unsigned char *code) {
    int is_repeated = 0;
    for (int i = 0; i < INSTRUCTION_BYTES_MAX - 2; i++) {
        unsigned char byte = code[i];
        if (byte == 0xf0) return ATOMIC; // lock
        if (byte == 0xf2 || byte == 0xf3) is_repeated = 1;
        else if (byte != 0x66 && byte != 0x64 && (byte & 0xf0) != 0x40) {
            if (is_repeated && byte == 0x90) return PAUSE;
            if (byte == 0x0f && code[i + 1] == 0x05) return SYSTEM_CALL;
            // xchg with memory locks without being told to.
            if ((byte == 0x86 || byte == 0x87) && code[i + 1] < 0xc0) return ATOMIC;
            // movs, cmps, stos, lods, scas: a step is one repetition.
            int is_string = (byte >= 0xa4 && byte <= 0xa7) || (byte >= 0xaa && byte <= 0xaf);
            return is_repeated && is_string ? REPEATED : PLAIN;
        }
    }
    return PLAIN;
}

// Remembered by address: programs that make code while they run are not measured with this.
static enum kind kind_at(pid_t process, uint64_t address) {
    static struct { uint64_t address; enum kind kind; } known[KINDS];
    size_t slot = (address ^ address >> 20) % KINDS;
    if (known[slot].kind == UNKNOWN || known[slot].address != address) {
        unsigned char code[INSTRUCTION_BYTES_MAX] = {0};
        struct iovec here = {code, sizeof code}, there = {(void *)address, sizeof code};
        // Fewer bytes than asked for come from the end of a page of code.
        if (process_vm_readv(process, &here, 1, &there, 1, 0) < 1) {
            there.iov_len = here.iov_len = 4096 - address % 4096;
            if (process_vm_readv(process, &here, 1, &there, 1, 0) < 1) fail("process_vm_readv");
        }
        known[slot].address = address;
        known[slot].kind = decode(code);
    }
    return known[slot].kind;
}

static uint64_t value_of(pid_t id, size_t offset) {
    errno = 0;
    long value = ptrace(PTRACE_PEEKUSER, id, offset, 0);
    if (errno) fail("PTRACE_PEEKUSER");
    return (uint64_t)value;
}

static void count_call(struct thread *thread) {
    uint64_t number = value_of(thread->id, offsetof(struct user_regs_struct, rax));
    if (number == SYS_sched_getaffinity)
        thread->processors = value_of(thread->id, offsetof(struct user_regs_struct, rdx));
    if (number == SYS_futex) {
        uint64_t operation = value_of(thread->id, offsetof(struct user_regs_struct, rsi)) & FUTEX_CMD_MASK;
        waits += operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI;
    }
    yields += number == SYS_sched_yield || number == SYS_nanosleep || number == SYS_clock_nanosleep;
}

static void step(struct thread *thread) {
    uint64_t address = value_of(thread->id, offsetof(struct user_regs_struct, rip));
    enum kind kind = kind_at(thread->id, address);
    if (kind != REPEATED || address != thread->address) instructions++;
    atomics += kind == ATOMIC;
    pauses += kind == PAUSE;
    if (kind == SYSTEM_CALL) count_call(thread);
    thread->address = address;
    thread->state = kind == SYSTEM_CALL ? CALLING : STEPPING;
    if (ptrace(PTRACE_SINGLESTEP, thread->id, 0, thread->signal)) fail("PTRACE_SINGLESTEP");
    thread->signal = 0;
}

// Says that the thread may run on 64 processors, after the kernel told the truth.
static void pretend_many_processors(struct thread *thread) {
    long bytes = (long)value_of(thread->id, offsetof(struct user_regs_struct, rax));
    if (bytes >= (long)sizeof(uint64_t) && ptrace(PTRACE_POKEDATA, thread->id, thread->processors, UINT64_MAX))
        fail("PTRACE_POKEDATA");
    thread->processors = 0;
}

static void add_thread(pid_t id) {
    if (thread_count == THREADS_MAX) {
        fprintf(stderr, "lockstep: more than %d threads\n", THREADS_MAX);
        exit(1);
    }
    threads[thread_count++] = (struct thread){.id = id, .state = STOPPED};
}

static struct thread *find(pid_t id) {
    for (size_t i = 0; i < thread_count; i++)
        if (threads[i].id == id) return &threads[i];
    return NULL;
}

// A new thread begins with a stop, which may have been seen before that of the one that started it.
static void add_started_by(struct thread *parent) {
    unsigned long id;
    int status;
    if (ptrace(PTRACE_GETEVENTMSG, parent->id, 0, &id)) fail("PTRACE_GETEVENTMSG");
    if (find((pid_t)id)) return;
    if (waitpid((pid_t)id, &status, __WALL) != (pid_t)id || !WIFSTOPPED(status)) fail("a new thread");
    add_thread((pid_t)id);
}

static void take(struct thread *thread, int status) {
    if (!WIFSTOPPED(status)) {
        thread->state = ENDED;
        failed |= status;
    } else if (status >> 16 == PTRACE_EVENT_CLONE) {
        add_started_by(thread);
        // It is still in the call.
        if (ptrace(PTRACE_SINGLESTEP, thread->id, 0, 0)) fail("PTRACE_SINGLESTEP");
    } else {
        thread->state = STOPPED;
        thread->signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (thread->processors) pretend_many_processors(thread);
    }
}

// Waits for those that only step, and asks for those that are in a call.
static void collect(void) {
    for (size_t i = 0; i < thread_count; i++) {
        struct thread *thread = &threads[i];
        int status, flags = thread->state == CALLING ? WNOHANG : 0;
        if (thread->state != STEPPING && thread->state != CALLING) continue;
        pid_t id = waitpid(thread->id, &status, __WALL | flags);
        if (id < 0) fail("waitpid");
        if (id > 0) take(thread, status);
    }
}

// When all threads are in a call.
static void wait_for_any(void) {
    int status;
    pid_t id = waitpid(-1, &status, __WALL);
    if (id < 0) fail("waitpid");
    struct thread *thread = find(id);
    if (thread) take(thread, status);
    else add_thread(id);
}

static void forget_ended(void) {
    size_t kept = 0;
    for (size_t i = 0; i < thread_count; i++)
        if (threads[i].state != ENDED) threads[kept++] = threads[i];
    thread_count = kept;
}

static void run(void) {
    while (thread_count > 0) {
        size_t stepped = 0;
        for (size_t i = 0; i < thread_count; i++)
            if (threads[i].state == STOPPED) {
                step(&threads[i]);
                stepped++;
            }
        if (stepped > 0) collect();
        else wait_for_any();
        forget_ended();
    }
}

static uint64_t word_at(pid_t process, uint64_t address) {
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, process, address, 0);
    if (errno) fail("PTRACE_PEEKDATA");
    return (uint64_t)word;
}

// Makes the program ask the kernel for the time. Its own clock, in the vDSO, is read again if the kernel wrote to it
// meanwhile, and so slow a reader may never be done.
static void hide_vdso(pid_t process) {
    enum { WORD = sizeof(uint64_t) };
    // From the stack pointer on: the number of arguments, they and a 0, the environment and a 0, and pairs up to a 0.
    uint64_t stack = value_of(process, offsetof(struct user_regs_struct, rsp));
    uint64_t next = stack + (word_at(process, stack) + 2) * WORD;
    while (word_at(process, next) != 0) next += WORD;
    for (next += WORD; word_at(process, next) != AT_NULL; next += 2 * WORD)
        if (word_at(process, next) == AT_SYSINFO_EHDR && ptrace(PTRACE_POKEDATA, process, next, AT_IGNORE))
            fail("PTRACE_POKEDATA");
}

static void stay_on_this_processor(void) {
    cpu_set_t this;
    CPU_ZERO(&this);
    CPU_SET(sched_getcpu(), &this);
    if (sched_setaffinity(0, sizeof this, &this)) fail("sched_setaffinity");
}

static void begin(char **program) {
    pid_t process = fork();
    int status;
    if (process == 0) {
        if (dup2(open("/dev/null", O_WRONLY), 1) != 1 || ptrace(PTRACE_TRACEME, 0, 0, 0)) fail("PTRACE_TRACEME");
        // glibc reads a file to learn how many processors there are. It would have eight arenas for each.
        if (setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=512", 1)) fail("setenv");
        execv(program[0], program);
        fail(program[0]);
    }
    if (waitpid(process, &status, 0) != process || !WIFSTOPPED(status)) fail("execv");
    if (ptrace(PTRACE_SETOPTIONS, process, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)) fail("PTRACE_SETOPTIONS");
    hide_vdso(process);
    add_thread(process);
}

int main(int arguments, char **argument) {
    if (arguments < 2) {
        fprintf(stderr, "usage: lockstep PROGRAM [ARGUMENT ...]\n");
        return 2;
    }
    stay_on_this_processor();
    begin(argument + 1);
    run();
    if (failed) {
        fprintf(stderr, "lockstep: %s failed (%#x)\n", argument[1], (unsigned)failed);
        return 1;
    }
    printf("{\"instructions\": %lld, \"atomics\": %lld, \"pauses\": %lld, \"waits\": %lld, \"yields\": %lld}\n",
           instructions, atomics, pauses, waits, yields);
    return 0;
}
