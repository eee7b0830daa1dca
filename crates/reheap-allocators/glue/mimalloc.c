// When memory runs out, mimalloc returns NULL but does not set errno. C programs read errno (POSIX malloc: ENOMEM).
// mimalloc calls its error handler on these paths and on no other, so the handler sets errno and malloc needs no
// wrapper. Only a product that overflows in calloc does not reach it.
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

void *__reheap_zalloc(size_t);

typedef void mi_error_fun(int error, void *argument);
void mi_register_error(mi_error_fun *handler, void *argument);

static void on_error(int error, void *argument) {
    (void)argument;
    if (error == ENOMEM || error == EOVERFLOW) errno = ENOMEM;
#if MI_SECURE
    if (error == EFAULT) abort(); // corrupted memory: what mimalloc's own handler does
#endif
}

// This runs before the constructors of the program, which may allocate.
__attribute__((constructor(101))) void __reheap_register_error_handler(void) {
    mi_register_error(on_error, NULL);
}

void *__reheap_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return __reheap_zalloc(bytes);
}
