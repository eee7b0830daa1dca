// Allocates as its first argument says, always blocks of MARK bytes, which nobody else asks for, so that a test knows how
// many there must be.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Linux, include/uapi/linux/filter.h and seccomp.h, which musl's compilers do not find.
struct sock_filter { uint16_t code; uint8_t if_true, if_false; uint32_t value; };
struct sock_fprog { unsigned short length; struct sock_filter *filter; };
enum { LOAD_WORD = 0x20, JUMP_IF_EQUAL = 0x15, RETURN = 0x06 };
#define ALLOW 0x7fff0000U
#define KILL_PROCESS 0x80000000U

enum { MARK = 70000 };

static void *volatile kept;

static void allocate(long times) {
    for (long i = 0; i < times; i++) {
        void *volatile block = malloc(MARK);
        if (!block) abort();
        free(block);
    }
}

__attribute__((constructor)) static void before_main(void) {
    if (getenv("BEFORE_MAIN")) allocate(7);
}

// Earlier than all constructors. musl has no such functions.
static void before_constructors(int count, char **arguments, char **environment) {
    (void)count, (void)arguments;
    for (; environment && *environment; environment++) {
        if (strncmp(*environment, "BEFORE_CONSTRUCTORS=", 20) == 0) allocate(5);
    }
}
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **, char **) = before_constructors;

static void *in_thread(void *times) {
    allocate((long)times);
    return NULL;
}

static void threads(long many, long times, long at_a_time) {
    pthread_t ids[256];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    for (long done = 0; done < many; done += at_a_time) {
        for (long i = 0; i < at_a_time; i++) {
            if (pthread_create(&ids[i], &attributes, in_thread, (void *)times) != 0) abort();
        }
        for (long i = 0; i < at_a_time; i++) pthread_join(ids[i], NULL);
    }
}

static void *blocks[1000];

static void *free_all(void *unused) {
    for (int i = 0; i < 1000; i++) free(blocks[i]);
    return unused;
}

static void handed_over(void) {
    for (int i = 0; i < 1000; i++) blocks[i] = malloc(MARK);
    pthread_t id;
    pthread_create(&id, NULL, free_all, NULL);
    pthread_join(id, NULL);
}

static void wait_for(pid_t child) {
    int status;
    if (waitpid(child, &status, 0) <= 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) abort();
}

static void forks(void) {
    allocate(10);
    pid_t child = fork();
    if (child == 0) {
        allocate(100);
        _exit(0);
    }
    wait_for(child);
    child = vfork();
    if (child == 0) _exit(0);
    wait_for(child);
    allocate(1000);
}

static void *outlive(void *unused) {
    allocate(2000000);
    return unused;
}

// The first thread ends, and the process goes on without it.
static void outlived(void) {
    pthread_t id;
    if (pthread_create(&id, NULL, outlive, NULL) != 0) abort();
    pthread_exit(NULL);
}

static void free_blocks(int many) {
    for (int i = 0; i < many; i++) free(blocks[i]);
}

// A child that frees what its parent has freed long ago.
static void late(void) {
    int ends[2];
    char byte = 0;
    if (pipe(ends) != 0) abort();
    for (int i = 0; i < 100; i++) blocks[i] = malloc(MARK);
    pid_t child = fork();
    if (child == 0) {
        if (read(ends[0], &byte, 1) != 1) abort();
        free_blocks(100);
        _exit(0);
    }
    free_blocks(100);
    if (write(ends[1], &byte, 1) != 1) abort();
    wait_for(child);
}

// Blocks that live for some time, beside so many other processes.
static void beside(long many) {
    int ends[2];
    char byte;
    if (pipe(ends) != 0) abort();
    for (long i = 0; i < many; i++) {
        pid_t child = fork();
        if (child < 0) abort();
        if (child > 0) continue;
        close(ends[1]);
        blocks[0] = malloc(1); // stays
        _exit((int)read(ends[0], &byte, 1));
    }
    for (int i = 0; i < 20; i++) {
        blocks[0] = malloc(MARK);
        usleep(50000);
        free(blocks[0]);
    }
    close(ends[1]);
    while (many-- > 0) wait_for(-1);
}

// A process, its child, and the child of that.
static void generations(void) {
    for (int i = 0; i < 3; i++) {
        allocate(10);
        pid_t child = i < 2 ? fork() : 0;
        if (child == 0) continue;
        wait_for(child);
        break;
    }
}

// A daemon's way: no descriptors, another root, another user; then a child.
static void alone(void) {
    for (int i = 0; i < 1024; i++) close(i);
    if (chroot("/") == 0 && chdir("/") == 0) setuid(65534);
    allocate(20);
    pid_t child = fork();
    if (child == 0) {
        allocate(30);
        _exit(0);
    }
    wait_for(child);
}

// Only what a program needs that allocates and ends; anything else kills it.
static void limited(void) {
    allocate(5);
    static const int allowed[] = {
        SYS_mmap, SYS_munmap, SYS_brk, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_exit_group, SYS_exit, SYS_futex, SYS_write,
    };
    enum { ALLOWED = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[2 + 2 * ALLOWED], *next = filter;
    *next++ = (struct sock_filter){LOAD_WORD, 0, 0, 0}; // the number of the system call
    for (int i = 0; i < ALLOWED; i++) {
        *next++ = (struct sock_filter){JUMP_IF_EQUAL, 0, 1, (uint32_t)allowed[i]};
        *next++ = (struct sock_filter){RETURN, 0, 0, ALLOW};
    }
    *next++ = (struct sock_filter){RETURN, 0, 0, KILL_PROCESS};
    struct sock_fprog program = {(unsigned short)(next - filter), filter};
    enum { SECCOMP_MODE_FILTER = 2 };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) abort();
    for (int i = 0; i < 2000; i++) blocks[i % 1000] = malloc(MARK); // also where no block was before
    for (int i = 0; i < 1000; i++) free(blocks[i]);
    _exit(0);
}

static void in_handler(int signal) {
    (void)signal;
    allocate(1);
}

static void signals(void) {
    signal(SIGUSR1, in_handler);
    for (int i = 0; i < 50; i++) raise(SIGUSR1);
}

// Every function, once.
static void functions(void) {
    void *block = malloc(10);
    block = realloc(block, MARK);
    block = realloc(block, 2 * MARK);
    free(block);
    free(calloc(7, MARK / 7));
    free(aligned_alloc(4096, 8192));
    if (posix_memalign(&block, 256, 100) != 0) abort();
    free(block);
    free(malloc(0));
    free(NULL);
    kept = malloc((size_t)PTRDIFF_MAX - 4096); // fails
    kept = malloc(MARK); // stays
}

static void forever(void) {
    allocate(1);
    if (write(1, "ready\n", 6) != 6) abort();
    for (;;) {
        allocate(1);
        usleep(100);
    }
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (strcmp(what, "threads") == 0) threads(atol(words[2]), atol(words[3]), atol(words[4]));
    else if (strcmp(what, "handed over") == 0) handed_over();
    else if (strcmp(what, "forks") == 0) forks();
    else if (strcmp(what, "outlived") == 0) outlived();
    else if (strcmp(what, "late") == 0) late();
    else if (strcmp(what, "generations") == 0) generations();
    else if (strcmp(what, "beside") == 0) beside(atol(words[2]));
    else if (strcmp(what, "alone") == 0) alone();
    else if (strcmp(what, "limited") == 0) limited();
    else if (strcmp(what, "signals") == 0) signals();
    else if (strcmp(what, "functions") == 0) functions();
    else if (strcmp(what, "forever") == 0) forever();
    else if (strcmp(what, "nothing") == 0) return 0;
    else if (strcmp(what, "killed") == 0) {
        allocate(12345);
        kill(getpid(), SIGKILL);
    } else if (strcmp(what, "exec") == 0) {
        allocate(11);
        execv(words[2], words + 2);
        abort();
    } else allocate(3);
    return count > 1 && strcmp(what, "fails") == 0 ? 9 : 0;
}
