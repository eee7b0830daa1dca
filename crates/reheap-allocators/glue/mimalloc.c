// mimalloc gives NULL for what cannot be had, but leaves errno alone; C programs look at it (POSIX malloc: ENOMEM). Its
// error handler is called on every such path and on no other, so errno is set there and malloc itself needs no wrapper.
#include <errno.h>
#include <stdlib.h>

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
