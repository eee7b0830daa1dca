#include <stddef.h>

void *__memrchr(const void *of, int c, size_t n) {
    return 0;
}

void *memcpy(void *to, const void *from, size_t n) {
    return __memrchr(to, 0, n);
}
