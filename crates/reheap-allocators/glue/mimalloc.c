// mimalloc gives NULL for what cannot be had, but leaves errno alone; C programs look at it (POSIX malloc: ENOMEM). Its
// error handler is called on these paths and on no other, so errno is set there and malloc itself needs no wrapper. Only
// a product that overflows in calloc goes by silently.
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

void *mi_zalloc(size_t);

typedef void mi_error_fun(int error, void *argument);
void mi_register_error(mi_error_fun *handler, void *argument);

static void on_error(int error, void *argument) {
    (void)argument;
    if (error == ENOMEM || error == EOVERFLOW) errno = ENOMEM;
#if MI_SECURE
    if (error == EFAULT) abort(); // corrupted memory: what mimalloc's own handler does
#endif
}

// Before the constructors of the program, which may allocate.
__attribute__((constructor(101))) void __reheap_register_error_handler(void) {
    mi_register_error(on_error, NULL);
}

void *__reheap_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return mi_zalloc(bytes);
}
