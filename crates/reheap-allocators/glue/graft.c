// What an allocator takes from a libc, for one that goes into a finished executable.
//
// Such a program has a libc of its own, of whatever kind and version, and nothing says where its functions are. So an
// allocator that is put into it brings what it needs. This file has that, over the system calls of `kernel.c`. It answers as
// the manual pages say, as far as an allocator asks.
//
// - The program's `errno` is where its libc has it. Whoever puts the allocator in writes down where that is.
// - Options are those that are baked in. The environment is out of reach before the program's first instruction.
// - A lock belongs to a process. If a thread holds it while another one forks, nobody holds it in the child.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

// --- The program's libc.

// In bytes from the thread pointer on. It is written into the file, so it must not be among what is only zeroes.
PUBLIC __attribute__((section(".data"))) volatile ptrdiff_t __reheap_program_errno_at = 0;

// The first word that the thread pointer points to is the thread pointer (ELF handling for thread-local storage, x86-64).
int *__errno_location(void) {
    char *thread_pointer;
    __asm__("mov %%fs:0, %0" : "=r"(thread_pointer));
    return (int *)(thread_pointer + __reheap_program_errno_at);
}

char **environ = NULL;

unsigned long getauxval(unsigned long type) {
    (void)type;
    return 0;
}

// --- The system.

long sysconf(int name) {
    return name == _SC_PAGESIZE ? 4096 : -1;
}

long pathconf(const char *path, int name) {
    (void)path;
    (void)name;
    return -1;
}

char *realpath(const char *path, char *resolved) {
    (void)path;
    (void)resolved;
    return NULL;
}

// As abort(3): the program's handler first, and then there is none.
_Noreturn void abort(void) {
    sigset_t all;
    memset(&all, 0xff, sizeof all);
    syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &all, NULL, _NSIG / 8);
    syscall(SYS_tgkill, getpid(), gettid(), SIGABRT);
    struct {
        void *handler;
        unsigned long rest[16];
    } none = {SIG_DFL, {0}};
    syscall(SYS_rt_sigaction, SIGABRT, &none, NULL, _NSIG / 8);
    syscall(SYS_tgkill, getpid(), gettid(), SIGABRT);
    for (;;) __builtin_trap();
}

FILE *const stdout = NULL;
FILE *const stderr = NULL;

// mimalloc writes its messages and its statistics.
int fputs(const char *restrict text, FILE *restrict stream) {
    (void)stream;
    return write(STDERR_FILENO, text, strlen(text)) < 0 ? EOF : 0;
}

// --- Locks.

#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

// Who has it, and in the lower half whether anybody waits.
enum { FREE, HELD, AWAITED };

static _Atomic(uint64_t) *word_of(pthread_mutex_t *mutex) {
    return (_Atomic(uint64_t) *)mutex;
}

static uint64_t word(uint32_t process, uint32_t state) {
    return (uint64_t)process << 32 | state;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    uint32_t self = (uint32_t)getpid();
    uint64_t now = atomic_load(word_of(mutex));
    int is_taken = (uint32_t)now != FREE && now >> 32 == self;
    return is_taken || !atomic_compare_exchange_strong(word_of(mutex), &now, word(self, HELD)) ? EBUSY : 0;
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    uint32_t self = (uint32_t)getpid(), state = HELD;
    int errno_before = errno;
    for (;;) {
        uint64_t now = atomic_load(word_of(mutex));
        int is_taken = (uint32_t)now != FREE && now >> 32 == self;
        if (!is_taken) {
            if (atomic_compare_exchange_strong(word_of(mutex), &now, word(self, state))) break;
            continue;
        }
        uint64_t awaited = word(self, AWAITED);
        if (now != awaited && !atomic_compare_exchange_strong(word_of(mutex), &now, awaited)) continue;
        syscall(SYS_futex, mutex, FUTEX_WAIT_PRIVATE, AWAITED, NULL, NULL, 0); // the lower half comes first
        state = AWAITED; // there may be others
    }
    errno = errno_before;
    return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    uint64_t was = atomic_exchange(word_of(mutex), FREE);
    if ((uint32_t)was == AWAITED) syscall(SYS_futex, mutex, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return 0;
}

int pthread_mutex_init(pthread_mutex_t *restrict mutex, const pthread_mutexattr_t *restrict attributes) {
    (void)attributes;
    atomic_init(word_of(mutex), FREE);
    return 0;
}

int pthread_mutex_destroy(pthread_mutex_t *mutex) {
    (void)mutex;
    return 0;
}

// --- Strings.

size_t strlen(const char *text) {
    const char *end = text;
    while (*end) end++;
    return (size_t)(end - text);
}

int strncmp(const char *a, const char *b, size_t size) {
    for (; size && *a && *a == *b; size--) a++, b++;
    return size ? (unsigned char)*a - (unsigned char)*b : 0;
}

int strcmp(const char *a, const char *b) {
    return strncmp(a, b, SIZE_MAX);
}

static int lower(char c) {
    return 'A' <= c && c <= 'Z' ? c + ('a' - 'A') : (unsigned char)c;
}

int strncasecmp(const char *a, const char *b, size_t size) {
    for (; size && *a && lower(*a) == lower(*b); size--) a++, b++;
    return size ? lower(*a) - lower(*b) : 0;
}

char *strstr(const char *text, const char *part) {
    for (size_t length = strlen(part); strncmp(text, part, length); text++) {
        if (!*text) return NULL;
    }
    return (char *)text;
}

// Of an option: decimal, without blanks in front.
long strtol(const char *restrict text, char **restrict end, int base) {
    (void)base;
    int is_negative = *text == '-';
    if (*text == '-' || *text == '+') text++;
    long number = 0;
    for (; '0' <= *text && *text <= '9'; text++) {
        if (number > (LONG_MAX - 9) / 10) number = (LONG_MAX - 9) / 10;
        number = 10 * number + (*text - '0');
    }
    if (end) *end = (char *)text;
    return is_negative ? -number : number;
}

// --- Memory. The functions of reheap-mem, under names that others see. The program gets them too.

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl memcpy, memmove, memset\n"
        ".type memcpy, @function\n.type memmove, @function\n.type memset, @function\n"
        "memcpy: jmp __reheap_memcpy\n"
        "memmove: jmp __reheap_memmove\n"
        "memset: jmp __reheap_memset\n"
        ".hidden __reheap_memcpy, __reheap_memmove, __reheap_memset\n");
#endif
