// Which programs a command starts, and which of them load this library.
//
// A static program, and one that is started without the variable or as another user, runs without the hooks, and nothing
// in it could say so. But what starts it mostly has the hooks. So this file stands in front of the functions that start
// programs, and counts the starts of each program's file; a program that loads the library and finds the recording
// counts that too. What was started more often than that ran without hooks.
//
// These functions run between fork and exec as well, where nothing may wait for a lock: the next functions are looked up
// by the constructor, and the table needs only atomic operations. Files are told apart by their paths as the kernel has
// them, which are the same for the process before and after exec.

static int is_it(const struct program *program, const char *path) {
    for (u32 i = 0; i < PROGRAM_PATH_BYTES; i++) {
        if (program->path[i] != path[i]) return 0;
        if (!path[i]) return 1;
    }
    return 0;
}

// The place of a program's file. If there are too many, none, and that is counted. Two processes at the same time may
// give one file two places.
static struct program *program_at(const char *path) {
    for (u32 at = 0; at < PROGRAMS; at++) {
        struct program *program = &shared->programs[at];
        u32 nobody = 0;
        if (__atomic_compare_exchange_n(&program->written, &nobody, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            for (u32 i = 0; i < PROGRAM_PATH_BYTES - 1 && path[i]; i++) program->path[i] = path[i];
            __atomic_store_n(&program->written, 2, __ATOMIC_RELEASE);
            return program;
        }
        if (nobody == 2 && is_it(program, path)) return program;
    }
    __atomic_fetch_add(&shared->programs_refused, 1, __ATOMIC_RELAXED);
    return NULL;
}

// What the kernel calls an open file.
static int path_of(int file, char *path) {
    char link[32] = "/proc/self/fd/";
    u32 end = 14, digits = 1;
    for (int rest = file; rest > 9; rest /= 10) digits++;
    for (u32 i = digits; i > 0; i--, file /= 10) link[end + i - 1] = (char)('0' + file % 10);
    long length = system_call(SYS_readlinkat, AT_FDCWD, (long)link, (long)path, PROGRAM_PATH_BYTES - 1, 0, 0);
    if (is_error(length) || path[0] != '/') return 0;
    path[length] = 0;
    return 1;
}

static u32 copied(char *to, const char *from, u32 room) {
    u32 length = 0;
    while (length + 1 < room && from[length]) to[length] = from[length], length++;
    to[length] = 0;
    return length;
}

enum started { NOTHING, AS_NAMED, A_TEXT };

// The path of what the kernel executes for a file: itself, or what the first line of a script names (execve(2)).
static enum started executed(const char *name, char *path) {
    enum { SCRIPTS_MAX = 5 };
    char line[256];
    copied(path, name, PROGRAM_PATH_BYTES);
    for (u32 scripts = 0; scripts < SCRIPTS_MAX; scripts++) {
        int file = open_file(path, O_RDONLY | O_NONBLOCK);
        // A program may be executable and not readable.
        if (file < 0) return system_call(SYS_faccessat, AT_FDCWD, (long)path, 1, 0, 0, 0) ? NOTHING : AS_NAMED;
        long bytes = system_call(SYS_read, file, (long)line, sizeof line - 1, 0, 0, 0);
        // Without /proc it stays as it was given.
        path_of(file, path);
        system_call(SYS_close, file, 0, 0, 0, 0, 0);
        if (is_error(bytes) || bytes < 4) return A_TEXT;
        if (line[0] == 0x7f && line[1] == 'E' && line[2] == 'L' && line[3] == 'F') return AS_NAMED;
        if (line[0] != '#' || line[1] != '!') return A_TEXT;
        line[bytes] = 0;
        u32 start = 2;
        while (line[start] == ' ' || line[start] == '\t') start++;
        u32 end = start;
        while (line[end] && line[end] != ' ' && line[end] != '\t' && line[end] != '\n') end++;
        line[end] = 0;
        copied(path, line + start, PROGRAM_PATH_BYTES);
    }
    return NOTHING;
}

struct start {
    struct program *program; // NULL if nothing is claimed about this one
    u32 without_variable;
};

static int names_the_hooks(const char *preloads) {
    static const char name[] = "reheap-hooks";
    for (; preloads && *preloads; preloads++) {
        u32 i = 0;
        while (name[i] && preloads[i] == name[i]) i++;
        if (!name[i]) return 1;
    }
    return 0;
}

static const char *value_of(char *const *environment, const char *name) {
    for (; environment && *environment; environment++) {
        const char *text = *environment, *wanted = name;
        while (*wanted && *text == *wanted) text++, wanted++;
        if (!*wanted && *text == '=') return text + 1;
    }
    return NULL;
}

// Notes that a program is about to be started. A text without a `#!` line is for the shell, if somebody runs it at all.
RARE struct start starts(const char *name, char *const *environment, int may_be_for_shell) {
    struct start start = {NULL, 0};
    char path[PROGRAM_PATH_BYTES];
    if (!shared || quiet || !name) return start;
    switch (executed(name, path)) {
    case NOTHING: return start;
    case A_TEXT:
        if (!may_be_for_shell || executed("/bin/sh", path) != AS_NAMED) return start;
        break;
    case AS_NAMED: break;
    }
    start.program = program_at(path);
    start.without_variable = !names_the_hooks(value_of(environment, "LD_PRELOAD"));
    if (start.program) {
        __atomic_fetch_add(&start.program->started, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&start.program->without_variable, start.without_variable, __ATOMIC_RELAXED);
    }
    return start;
}

// Takes that back if it was not started.
static void did_not_start(struct start start) {
    if (!start.program) return;
    __atomic_fetch_sub(&start.program->started, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&start.program->without_variable, start.without_variable, __ATOMIC_RELAXED);
}

extern char **environ __attribute__((weak));
#define ENVIRONMENT (&environ ? environ : NULL)

// Where execvp(3) finds a program. Without PATH, glibc and musl agree on the last two directories.
RARE struct start starts_named(const char *name, char *const *environment, int may_be_for_shell) {
    char path[PROGRAM_PATH_BYTES];
    u32 slashes = 0;
    if (!shared || quiet || !name || !*name) return (struct start){NULL, 0};
    for (const char *c = name; *c; c++) slashes += *c == '/';
    if (slashes) return starts(name, environment, may_be_for_shell);
    const char *directory = value_of(ENVIRONMENT, "PATH");
    if (!directory) directory = "/bin:/usr/bin";
    for (;;) {
        u32 length = 0;
        while (directory[length] && directory[length] != ':' && length < PROGRAM_PATH_BYTES - 2) {
            path[length] = directory[length];
            length++;
        }
        directory += length;
        if (!length) path[length++] = '.';
        path[length++] = '/';
        copied(path + length, name, PROGRAM_PATH_BYTES - length);
        int is_file = 0;
        if (!system_call(SYS_faccessat, AT_FDCWD, (long)path, 1, 0, 0, 0)) {
            // Directories can be searched, which is the same bit; with a slash behind it, only they are found.
            u32 end = length;
            while (path[end]) end++;
            if (end + 2 < PROGRAM_PATH_BYTES) {
                path[end] = '/', path[end + 1] = 0;
                is_file = system_call(SYS_faccessat, AT_FDCWD, (long)path, 0, 0, 0, 0) != 0;
                path[end] = 0;
            }
        }
        if (is_file) return starts(path, environment, may_be_for_shell);
        if (*directory != ':') return (struct start){NULL, 0};
        directory++;
    }
}

// A program has found the recording.
static void began_program(const char *path) {
    struct program *program = program_at(path);
    if (program) __atomic_fetch_add(&program->loaded, 1, __ATOMIC_RELAXED);
}

// --- The functions that start programs.

typedef char *const *texts;
typedef int execve_like(const char *, texts, texts);
typedef int fexecve_like(int, texts, texts);
typedef int posix_spawn_like(int *, const char *, const void *, const void *, texts, texts);

static execve_like *next_execve, *next_execvpe;
static fexecve_like *next_fexecve;
static posix_spawn_like *next_posix_spawn, *next_posix_spawnp;

static void find_starters(void) {
    next_execve = (execve_like *)find("execve");
    next_execvpe = (execve_like *)find("execvpe");
    next_fexecve = (fexecve_like *)find("fexecve");
    next_posix_spawn = (posix_spawn_like *)find("posix_spawn");
    next_posix_spawnp = (posix_spawn_like *)find("posix_spawnp");
}

// For whoever comes before the constructor: there is one thread then.
#define FIND_EARLY(next) if (unlikely(!next)) find_starters()

EXPORTED int execve(const char *path, texts words, texts environment) {
    FIND_EARLY(next_execve);
    struct start start = starts(path, environment, 0);
    int result = next_execve(path, words, environment);
    did_not_start(start);
    return result;
}

EXPORTED int execvpe(const char *name, texts words, texts environment) {
    FIND_EARLY(next_execvpe);
    struct start start = starts_named(name, environment, 1);
    int result = next_execvpe(name, words, environment);
    did_not_start(start);
    return result;
}

EXPORTED int fexecve(int file, texts words, texts environment) {
    FIND_EARLY(next_fexecve);
    char path[PROGRAM_PATH_BYTES];
    struct start start = {NULL, 0};
    if (file >= 0 && path_of(file, path)) start = starts(path, environment, 0);
    int result = next_fexecve(file, words, environment);
    did_not_start(start);
    return result;
}

EXPORTED int execv(const char *path, texts words) { return execve(path, words, ENVIRONMENT); }

EXPORTED int execvp(const char *name, texts words) { return execvpe(name, words, ENVIRONMENT); }

// The words from the first one to the null, as an array. The list ends behind them.
#define WORDS(first)                                                                       \
    __builtin_va_list counted, list;                                                       \
    __builtin_va_start(counted, first);                                                    \
    size_t count = 0;                                                                      \
    if (first) for (count = 1; __builtin_va_arg(counted, char *); count++) {}              \
    __builtin_va_end(counted);                                                             \
    char *words[count + 1];                                                                \
    words[0] = (char *)first;                                                              \
    __builtin_va_start(list, first);                                                       \
    for (size_t at = 1; at <= count; at++) words[at] = __builtin_va_arg(list, char *);

EXPORTED int execl(const char *path, const char *first, ...) {
    WORDS(first)
    __builtin_va_end(list);
    return execve(path, words, ENVIRONMENT);
}

EXPORTED int execlp(const char *name, const char *first, ...) {
    WORDS(first)
    __builtin_va_end(list);
    return execvpe(name, words, ENVIRONMENT);
}

EXPORTED int execle(const char *path, const char *first, ...) {
    WORDS(first)
    texts environment = __builtin_va_arg(list, texts);
    __builtin_va_end(list);
    return execve(path, words, environment);
}

EXPORTED int posix_spawn(int *process, const char *path, const void *actions, const void *attributes, texts words,
                         texts environment) {
    FIND_EARLY(next_posix_spawn);
    struct start start = starts(path, environment, 0);
    int error = next_posix_spawn(process, path, actions, attributes, words, environment);
    if (error) did_not_start(start);
    return error;
}

EXPORTED int posix_spawnp(int *process, const char *name, const void *actions, const void *attributes, texts words,
                          texts environment) {
    FIND_EARLY(next_posix_spawnp);
    struct start start = starts_named(name, environment, 0);
    int error = next_posix_spawnp(process, name, actions, attributes, words, environment);
    if (error) did_not_start(start);
    return error;
}
