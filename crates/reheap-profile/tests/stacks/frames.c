// Frames of every form that compilers make: small, recursive, with alloca, with a stack pointer that is aligned again, and
// called back from libc.
#include <stdlib.h>
#include <string.h>

void probe(void);

// Keeps a call from becoming a jump.
#define AFTER_CALL __asm__ volatile("" ::: "memory")
#define KEPT __attribute__((noinline, noclone))

KEPT static void small_frame(void) {
    probe();
    AFTER_CALL;
}

KEPT static void recursive(int depth, int bytes) {
    char buffer[bytes];
    memset(buffer, depth, bytes);
    __asm__ volatile("" ::"r"(buffer) : "memory");
    if (depth > 1) recursive(depth - 1, bytes);
    else small_frame();
    AFTER_CALL;
}

KEPT static void aligned_frame(int depth, int bytes) {
    _Alignas(64) char buffer[192];
    memset(buffer, depth, sizeof buffer);
    __asm__ volatile("" ::"r"(buffer) : "memory");
    recursive(depth, bytes);
    AFTER_CALL;
}

static int wanted_depth, wanted_bytes;

KEPT static int compare(const void *left, const void *right) {
    static int once;
    if (!once++) aligned_frame(wanted_depth, wanted_bytes);
    AFTER_CALL;
    return *(const int *)left - *(const int *)right;
}

KEPT int public_function(void) {
#ifdef THROUGH_LIBC
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
#else
    int one = 1;
    compare(&one, &one);
#endif
    AFTER_CALL;
    return 0;
}

int main(int count, char **arguments) {
    wanted_depth = count > 1 ? atoi(arguments[1]) : 3;
    wanted_bytes = count > 2 ? atoi(arguments[2]) : 16;
    int result = public_function();
    AFTER_CALL;
    return result;
}
