// Tells which programs a command starts without this library, and how much processor time those with it take.
//
// Where a preload does not arrive, nothing is there to say so: the program is static, or somebody started it without
// the variable. But what starts it mostly has the library. So this file stands in front of the functions that start
// programs, and counts the starts of each program's file; a program that loads the library counts that too. What was
// started more often than it loaded the library ran without it. The functions compare files, not processes: a new
// program may come to its constructor before posix_spawn(3) tells its number.
//
// How much that matters, processor time tells. The kernel gives that of the whole command to whoever waits for it, each
// process here adds its own, and the difference was spent without the library. A process that is killed adds nothing at
// its end, so each adds its time now and then (`add_own_time`).
//
// Rejected: to look at /proc meanwhile, which misses what ends soon; ptrace(2), under which programs that trace others
// fail, and which containers forbid; the kernel's process connector, taskstats and acct(2), which take rights.
//
// Behind recording.c and in front of probe.c, in one translation unit.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
#define OWN_NAME "/libreheap-probe.so"

// The same in probe/programs.rs.
enum { PROGRAMS = 64, PROGRAM_PATH_BYTES = 984 };

struct program {
    atomic_uint written; // 1 while somebody fills it and 2 after that
    atomic_uint started;
    atomic_uint loaded;           // ran with this library, and with the malloc behind it
    atomic_uint without_variable; // of those that were started: LD_PRELOAD does not name this library
    atomic_uint own_malloc;       // ran with this library and a malloc in front of it
    atomic_uint unheard;          // were started with this library named, and cannot write into the recording
    uint64_t device;
    uint64_t inode;
    char path[PROGRAM_PATH_BYTES];
};

struct programs {
    _Atomic uint64_t time_ns; // of processes with the library, user and system
    struct program known[PROGRAMS];
};

static struct programs *programs;
extern char **environ;

// --- Processor time.

static pid_t own_process;
static _Atomic uint64_t added_ns;
static _Atomic uint64_t *time_of_provider; // of the processes that get their memory from the same object

// Adds what this process has used since it was last added. A child of vfork(2) has its parent's memory, and other time.
static void add_own_time(void) {
    struct programs *to = __atomic_load_n(&programs, __ATOMIC_ACQUIRE);
    struct timespec used;
    int errno_before = errno;
    if (to && getpid() == own_process && clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
        uint64_t now = (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
        uint64_t before = atomic_load(&added_ns);
        while (before < now && !atomic_compare_exchange_weak(&added_ns, &before, now)) {}
        if (before < now) {
            atomic_fetch_add(&to->time_ns, now - before);
            if (time_of_provider) atomic_fetch_add(time_of_provider, now - before);
        }
    }
    errno = errno_before;
}

static void begin_own_time(void) {
    own_process = getpid();
    atomic_store(&added_ns, 0);
}

__attribute__((destructor)) static void end(void) {
    add_own_time();
}

PUBLIC _Noreturn void _exit(int code) {
    add_own_time();
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}

PUBLIC _Noreturn void _Exit(int code) {
    _exit(code);
}

// --- The programs.

// The place of a program's file; none if there are too many. Two processes may give one file two places.
static struct program *place(const struct stat *file, const char *path) {
    for (int at = 0; at < PROGRAMS; at++) {
        struct program *program = &programs->known[at];
        unsigned nobody = 0;
        if (atomic_compare_exchange_strong(&program->written, &nobody, 1)) {
            program->device = file->st_dev;
            program->inode = file->st_ino;
            strncpy(program->path, path, sizeof program->path - 1);
            atomic_store(&program->written, 2);
            return program;
        }
        if (nobody == 2 && program->device == file->st_dev && program->inode == file->st_ino) return program;
    }
    return NULL;
}

// The interpreter that the first line of a script names (execve(2)); 0 if the file is none.
static int interpreter_of(const char *path, char *interpreter, size_t bytes) {
    char line[256] = "";
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t count = read(file, line, sizeof line - 1);
    close(file);
    if (count < 2 || line[0] != '#' || line[1] != '!') return 0;
    const char *name = line + 2 + strspn(line + 2, " \t");
    snprintf(interpreter, bytes, "%.*s", (int)strcspn(name, " \t\n"), name);
    return 1;
}

// The place of what the kernel executes for a path.
static struct program *place_of(const char *path) {
    char interpreter[sizeof(((struct program *)0)->path)];
    char file_path[sizeof interpreter];
    char link[32];
    for (int scripts = 0; scripts < 5 && interpreter_of(path, interpreter, sizeof interpreter); scripts++) {
        path = memcpy(file_path, interpreter, sizeof interpreter);
    }
    int file = open(path, O_PATH | O_CLOEXEC);
    if (file < 0) return NULL;
    struct stat status;
    int is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t count = readlink(link, file_path, sizeof file_path - 1); // absolute, and without links
    close(file);
    if (!is_file || count < 0) return NULL;
    file_path[count] = '\0';
    return place(&status, file_path);
}

static const char *value_of(char *const *variables, const char *name) {
    size_t length = strlen(name);
    for (; variables && *variables; variables++) {
        if (strncmp(*variables, name, length) == 0 && (*variables)[length] == '=') return *variables + length + 1;
    }
    return NULL;
}

// Whether a program with these variables can open the recording. In a sandbox it cannot. Neither can another user, even
// where this process still has rights that the program will not have.
static int can_record(char *const *variables) {
    const char *path = value_of(variables, "REHEAP_PROBE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    struct stat status;
    int is_open_to_it = fstat(file, &status) == 0 && (status.st_uid == geteuid() || (status.st_mode & S_IWOTH));
    close(file);
    return is_open_to_it;
}

struct start {
    struct program *program; // NULL if its file is not known
    int has_variable;
    int can_record;
};

// With the library and without the recording, it could not say that it has the library.
static void count_start(struct start start, unsigned change) {
    if (!start.program) return;
    if (start.has_variable && !start.can_record) {
        atomic_fetch_add(&start.program->unheard, change);
        return;
    }
    atomic_fetch_add(&start.program->started, change);
    if (!start.has_variable) atomic_fetch_add(&start.program->without_variable, change);
}

// Notes that a program is about to be started.
static struct start starts(const char *path, char *const *variables) {
    struct start start = {NULL, 0, 0};
    if (!__atomic_load_n(&programs, __ATOMIC_ACQUIRE) || !path) return start;
    int errno_before = errno;
    const char *preload = value_of(variables, "LD_PRELOAD");
    start.has_variable = preload && strstr(preload, OWN_NAME);
    start.can_record = can_record(variables);
    start.program = place_of(path);
    count_start(start, 1);
    errno = errno_before;
    return start;
}

// Takes that back if it was not started.
static void did_not_start(struct start start) {
    count_start(start, -1u);
}

// Where execvp(3) finds a program. Without PATH, glibc and musl agree on the last two directories.
static struct start starts_named(const char *name, char *const *variables) {
    char path[sizeof(((struct program *)0)->path)];
    if (!name || strchr(name, '/')) return starts(name, variables);
    const char *directory = getenv("PATH");
    if (!directory) directory = "/bin:/usr/bin";
    for (;;) {
        int length = (int)strcspn(directory, ":");
        struct stat status;
        snprintf(path, sizeof path, "%.*s/%s", length ? length : 1, length ? directory : ".", name);
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0) {
            return starts(path, variables);
        }
        if (!directory[length]) return (struct start){NULL, 0, 0};
        directory += length + 1;
    }
}

// --- The functions that start programs.

// A function behind this library. Looking it up again does no harm.
#define NEXT(result, name, ...)                                         \
    static result (*name##_next)(__VA_ARGS__);                          \
    if (!name##_next) *(void **)&name##_next = dlsym(RTLD_NEXT, #name);

PUBLIC int execve(const char *path, char *const words[], char *const variables[]) {
    NEXT(int, execve, const char *, char *const[], char *const[])
    struct start start = starts(path, variables);
    add_own_time();
    int result = execve_next(path, words, variables);
    did_not_start(start);
    return result;
}

PUBLIC int execvpe(const char *name, char *const words[], char *const variables[]) {
    NEXT(int, execvpe, const char *, char *const[], char *const[])
    struct start start = starts_named(name, variables);
    add_own_time();
    int result = execvpe_next(name, words, variables);
    did_not_start(start);
    return result;
}

PUBLIC int fexecve(int file, char *const words[], char *const variables[]) {
    NEXT(int, fexecve, int, char *const[], char *const[])
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct start start = starts(path, variables);
    add_own_time();
    int result = fexecve_next(file, words, variables);
    did_not_start(start);
    return result;
}

PUBLIC int execv(const char *path, char *const words[]) {
    return execve(path, words, environ);
}

PUBLIC int execvp(const char *name, char *const words[]) {
    return execvpe(name, words, environ);
}

// The words after the first one, up to and with the null. The list ends behind it.
static size_t count_words(va_list list) {
    size_t count = 1;
    while (va_arg(list, char *)) count++;
    return count;
}

#define WORDS(first)                                                          \
    va_list list;                                                             \
    va_start(list, first);                                                    \
    size_t count = first ? count_words(list) : 0;                             \
    va_end(list);                                                             \
    char *words[count + 1];                                                   \
    words[0] = (char *)first;                                                 \
    va_start(list, first);                                                    \
    for (size_t at = 1; at <= count; at++) words[at] = va_arg(list, char *);

PUBLIC int execl(const char *path, const char *first, ...) {
    WORDS(first)
    va_end(list);
    return execve(path, words, environ);
}

PUBLIC int execlp(const char *name, const char *first, ...) {
    WORDS(first)
    va_end(list);
    return execvpe(name, words, environ);
}

PUBLIC int execle(const char *path, const char *first, ...) {
    WORDS(first)
    char *const *variables = va_arg(list, char *const *);
    va_end(list);
    return execve(path, words, variables);
}

PUBLIC int posix_spawn(pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const words[], char *const variables[]) {
    NEXT(int, posix_spawn, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
         char *const[], char *const[])
    struct start start = starts(path, variables);
    int error = posix_spawn_next(process, path, actions, attributes, words, variables);
    if (error) did_not_start(start);
    return error;
}

PUBLIC int posix_spawnp(pid_t *process, const char *name, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const words[], char *const variables[]) {
    NEXT(int, posix_spawnp, pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
         char *const[], char *const[])
    struct start start = starts_named(name, variables);
    int error = posix_spawnp_next(process, name, actions, attributes, words, variables);
    if (error) did_not_start(start);
    return error;
}

// Begins with a process that has just loaded the library. One with a malloc of its own takes no part: its time is not
// added.
static void begin_programs(struct programs *in_recording, _Atomic uint64_t *of_provider, int has_own_malloc) {
    time_of_provider = of_provider;
    __atomic_store_n(&programs, in_recording, __ATOMIC_RELEASE);
    struct program *own = place_of("/proc/self/exe");
    if (own) atomic_fetch_add(has_own_malloc ? &own->own_malloc : &own->loaded, 1);
    if (has_own_malloc) return;
    begin_own_time();
    pthread_atfork(NULL, NULL, begin_own_time);
}
