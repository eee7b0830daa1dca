// Allocates at each moment at which code of a program runs, and prints what the kernel shows of its blocks: one line for
// each moment, such as `constructor huge_pages=no guard=yes freed=resident fill=a5`.
//
// - huge_pages: whether the mapping of a block is advised to have them (MADV_HUGEPAGE) or not (MADV_NOHUGEPAGE)
// - guard: whether inaccessible memory follows a block
// - freed: whether the memory of a large block is still resident when the block is freed
// - fill: the byte in a block whose memory another block has used before
//
// It is both C and C++. As C++ it has objects with constructors and destructors, too.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, BLOCK = 20000, LARGE = 4 << 20, SMALL = 3000 };

// No compiler knows what these do, so none leaves a block out.
static void *(*volatile allocate)(size_t) = malloc;
static void (*volatile release)(void *) = free;

struct moment {
    const char *name;
    const char *huge_pages;
    int is_guarded;
    int stays_resident;
    unsigned char fill;
};

static struct moment moments[16];
static int moments_count;

static int hexadecimal(const char **text, uintptr_t *number) {
    char *end;
    *number = strtoul(*text, &end, 16);
    int is_there = end != *text;
    *text = end + 1;
    return is_there;
}

// The flags of the mapping with this address (proc_pid_smaps(5), VmFlags).
static const char *huge_pages_at(void *address) {
    static char text[1 << 18];
    size_t length = 0;
    ssize_t got;
    int file = open("/proc/self/smaps", O_RDONLY);
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0) length += (size_t)got;
    close(file);
    text[length] = '\0';
    int is_here = 0;
    for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *numbers = line;
        uintptr_t start, end;
        if (strncmp(line, "VmFlags:", 8) == 0 && is_here) {
            line[strcspn(line, "\n")] = '\0';
            return strstr(line, " hg") ? "yes" : strstr(line, " nh") ? "no" : "as-the-system";
        }
        if (hexadecimal(&numbers, &start) && numbers[-1] == '-' && hexadecimal(&numbers, &end)) {
            is_here = start <= (uintptr_t)address && (uintptr_t)address < end;
        }
    }
    return "nowhere";
}

// The kernel reads one byte on each page: it refuses those that are inaccessible.
static int is_guarded(char *block) {
    int ends[2], refused = 0;
    if (pipe(ends)) abort();
    for (size_t offset = BLOCK; offset < BLOCK + 2 * PAGE; offset += 16) {
        if (write(ends[1], block + offset, 1) < 0 && errno == EFAULT) refused = 1;
    }
    close(ends[0]);
    close(ends[1]);
    return refused;
}

static int stays_resident(void) {
    static unsigned char pages[LARGE / PAGE];
    char *block = (char *)allocate(LARGE);
    memset(block, 1, LARGE);
    char *first = (char *)(((uintptr_t)block + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    release(block);
    size_t whole = LARGE / PAGE - 1, resident = 0;
    if (mincore(first, whole * PAGE, pages) != 0) return 0; // not even mapped
    for (size_t page = 0; page < whole; page++) resident += pages[page] & 1;
    return resident > whole / 2;
}

static unsigned char fill(void) {
    unsigned char *block = (unsigned char *)allocate(SMALL);
    memset(block, 0x77, SMALL);
    release(block);
    block = (unsigned char *)allocate(SMALL);
    unsigned char byte = block[SMALL / 2];
    release(block);
    return byte;
}

static void look(const char *name) {
    struct moment *moment = &moments[moments_count++];
    moment->name = name;
    moment->fill = fill(); // first, because the first block of a thread has no guard page
    char *block = (char *)allocate(BLOCK); // never freed
    memset(block, 1, BLOCK);
    moment->huge_pages = huge_pages_at(block);
    moment->is_guarded = is_guarded(block);
    moment->stays_resident = stays_resident();
}

// musl runs no functions of this section, glibc runs them before it has set up the environment.
static void look_before_all(void) {
    look("preinit");
}

__attribute__((section(".preinit_array"), used)) static void (*const before_all)(void) = look_before_all;

__attribute__((constructor(101))) static void look_first(void) {
    look("first-constructor");
}

__attribute__((constructor)) static void look_in_constructor(void) {
    look("constructor");
}

static void look_when_thread_ends(void *value) {
    (void)value;
    look("end-of-thread");
}

static void look_at_exit(void) {
    look("atexit");
}

__attribute__((destructor)) static void look_in_destructor(void) {
    look("destructor");
}

__attribute__((destructor(101))) static void print_all(void) {
    look("last-destructor");
    for (int i = 0; i < moments_count; i++) {
        struct moment *moment = &moments[i];
        printf("%s huge_pages=%s guard=%s freed=%s fill=%02x\n", moment->name, moment->huge_pages,
               moment->is_guarded ? "yes" : "no", moment->stays_resident ? "resident" : "gone", moment->fill);
    }
    fflush(stdout);
}

#ifdef __cplusplus
struct Object {
    const char *end;
    Object(const char *begin, const char *end) : end(end) { look(begin); }
    ~Object() { look(end); }
};

static Object object("global-object", "end-of-global-object");

static void use_object_of_thread(void) {
    static thread_local Object object("object-of-thread", "end-of-object-of-thread");
    (void)&object;
}
#else
static void use_object_of_thread(void) {}
#endif

static pthread_key_t key;

static void *thread(void *argument) {
    pthread_setspecific(key, &key);
    use_object_of_thread();
    look("thread");
    return argument;
}

int main(void) {
    pthread_t id;
    pthread_key_create(&key, look_when_thread_ends);
    atexit(look_at_exit);
    look("main");
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    return 0;
}
