// Tells which processes of a command died by a signal, whoever their parents are.
//
// The kernel tells that to the parent alone, in the answer to wait(2). So this library stands in front of the functions
// that ask, in every process, and writes each death into a file that all processes of the command share by mmap. It
// also writes which program each process is, because a process that is gone has no name, and whether it ended in order:
// a crash is the end that comes without it, also where the parent has no such library or asks nobody. It changes
// nothing of what a program sees: no signal handler, no other answer.
//
// Behind recording.c, in one translation unit.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

// The same in watch.rs. Another layout takes another magic.
#define MAGIC "reheapw1"
enum { DEATHS = 1024, PROGRAMS = 8192, PATH_BYTES = 496 };

// `written` is 1 when the rest is.
struct death {
    uint32_t process; // 0 where the function that was asked does not tell
    uint32_t parent;
    uint32_t signal;
    atomic_uint written;
};

struct program {
    uint32_t process;
    uint32_t is_forked;  // a copy of its parent; what it executes then may not have this library
    atomic_uint is_over; // it ended in order, its parent was told how, or the process is another program by now
    atomic_uint written;
    char path[PATH_BYTES];
};

static struct recording {
    char magic[8];
    _Atomic uint64_t deaths_count;
    _Atomic uint64_t programs_count;
    struct death deaths[DEATHS];
    struct program programs[PROGRAMS];
} *recording;

static char own_path[PATH_BYTES];

static struct program *own; // of this process, or of its parent where it shares the memory with that (vfork(2))

static void is_over(uint32_t process) {
    struct recording *to = __atomic_load_n(&recording, __ATOMIC_ACQUIRE);
    if (!to) return;
    uint64_t count = atomic_load(&to->programs_count);
    for (uint64_t at = 0; at < count && at < PROGRAMS; at++) {
        if (to->programs[at].process == process) atomic_store(&to->programs[at].is_over, 1);
    }
}

static void note_program(uint32_t is_forked) {
    own = NULL;
    uint64_t at = atomic_fetch_add(&recording->programs_count, 1);
    if (at >= PROGRAMS) return;
    struct program *program = &recording->programs[at];
    program->process = (uint32_t)getpid();
    program->is_forked = is_forked;
    memcpy(program->path, own_path, sizeof own_path);
    atomic_store(&program->written, 1);
    own = program;
}

static void note_forked(void) {
    note_program(1);
}

static void note_end(pid_t process, int status) {
    struct recording *to = __atomic_load_n(&recording, __ATOMIC_ACQUIRE);
    if (process && (WIFEXITED(status) || WIFSIGNALED(status))) is_over((uint32_t)process);
    if (!to || !WIFSIGNALED(status)) return;
    uint64_t at = atomic_fetch_add(&to->deaths_count, 1);
    if (at >= DEATHS) return;
    to->deaths[at].process = (uint32_t)process;
    to->deaths[at].parent = (uint32_t)getpid();
    to->deaths[at].signal = (uint32_t)WTERMSIG(status);
    atomic_store(&to->deaths[at].written, 1);
}

// --- An end in order.

static void ends(void) {
    if (own && own->process == (uint32_t)getpid()) atomic_store(&own->is_over, 1);
}

__attribute__((destructor)) static void end(void) {
    ends();
}

// --- The functions that ask for the end of a child, and those that end this process without its destructors.

// A function behind this library. Looking it up again does no harm.
#define NEXT(result, name, ...)                                         \
    static result (*name##_next)(__VA_ARGS__);                          \
    if (!name##_next) *(void **)&name##_next = dlsym(RTLD_NEXT, #name);

PUBLIC pid_t wait(int *status) {
    NEXT(pid_t, wait, int *)
    int own;
    if (!status) status = &own;
    pid_t process = wait_next(status);
    if (process > 0) note_end(process, *status);
    return process;
}

PUBLIC pid_t waitpid(pid_t which, int *status, int options) {
    NEXT(pid_t, waitpid, pid_t, int *, int)
    int own;
    if (!status) status = &own;
    pid_t process = waitpid_next(which, status, options);
    if (process > 0) note_end(process, *status);
    return process;
}

PUBLIC pid_t wait3(int *status, int options, struct rusage *usage) {
    NEXT(pid_t, wait3, int *, int, struct rusage *)
    int own;
    if (!status) status = &own;
    pid_t process = wait3_next(status, options, usage);
    if (process > 0) note_end(process, *status);
    return process;
}

PUBLIC pid_t wait4(pid_t which, int *status, int options, struct rusage *usage) {
    NEXT(pid_t, wait4, pid_t, int *, int, struct rusage *)
    int own;
    if (!status) status = &own;
    pid_t process = wait4_next(which, status, options, usage);
    if (process > 0) note_end(process, *status);
    return process;
}

PUBLIC int waitid(idtype_t type, id_t which, siginfo_t *info, int options) {
    NEXT(int, waitid, idtype_t, id_t, siginfo_t *, int)
    siginfo_t own;
    if (!info) info = &own;
    info->si_pid = 0; // with WNOHANG it stays so where nobody has ended (waitid(2))
    int result = waitid_next(type, which, info, options);
    if (result == 0 && info->si_pid > 0 && !(options & WNOWAIT)) {
        int was_killed = info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED;
        int status = was_killed ? info->si_status : 0; // a signal alone is the wait status of a death by it
        if (was_killed || info->si_code == CLD_EXITED) note_end(info->si_pid, status);
    }
    return result;
}

// These two wait inside of the libc.
PUBLIC int system(const char *command) {
    NEXT(int, system, const char *)
    int status = system_next(command);
    if (command && status != -1) note_end(0, status);
    return status;
}

PUBLIC int pclose(FILE *pipe) {
    NEXT(int, pclose, FILE *)
    int status = pclose_next(pipe);
    if (status != -1) note_end(0, status);
    return status;
}

PUBLIC _Noreturn void _exit(int code) {
    ends();
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}

PUBLIC _Noreturn void _Exit(int code) {
    _exit(code);
}

// --- The recording.

__attribute__((constructor(101))) static void begin(void) {
    int errno_before = errno;
    struct recording *opened = open_recording("REHEAP_WATCH", sizeof *opened, MAGIC);
    if (opened) {
        if (readlink("/proc/self/exe", own_path, sizeof own_path - 1) < 0) own_path[0] = '\0';
        __atomic_store_n(&recording, opened, __ATOMIC_RELEASE);
        is_over((uint32_t)getpid()); // what executed this program
        note_program(0);
        pthread_atfork(NULL, NULL, note_forked);
    }
    errno = errno_before;
}
