// When memory runs out, mimalloc returns NULL but does not set errno. C programs read errno (POSIX malloc: ENOMEM).
// mimalloc calls its error handler on these paths and on no other, so the handler sets errno and malloc needs no
// wrapper. Only a product that overflows in calloc does not reach it.
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

#if MI_GUARDED
// mimalloc sets up the main thread before it reads its options. So that thread would get no guard pages. Preloads can
// read them now. In an executable mimalloc reads them only after the program's own constructors.
#if MI_THEAP_INITASNULL // version 3
#define HEAP(function) mi_theap_##function
#else
#define HEAP(function) mi_heap_##function
#endif
#define INTERNAL_(function) _##function
#define INTERNAL(function) INTERNAL_(function)
void *HEAP(get_default)(void);
void HEAP(guarded_set_sample_rate)(void *heap, size_t rate, size_t seed);
void HEAP(guarded_set_size_bound)(void *heap, size_t least, size_t most);

#ifdef REHEAP_PRELOAD
void INTERNAL(HEAP(guarded_init))(void *heap);

static void guard_main_thread(void) {
    INTERNAL(HEAP(guarded_init))(HEAP(get_default)());
}
#else
char *__reheap_getenv(const char *name);

static void guard_main_thread(void) {
    const char *text = __reheap_getenv("MIMALLOC_GUARDED_SAMPLE_RATE");
    size_t rate = text ? strtoul(text, NULL, 10) : 0;
    if (!rate) return;
    HEAP(guarded_set_sample_rate)(HEAP(get_default)(), rate, 0);
    HEAP(guarded_set_size_bound)(HEAP(get_default)(), 0, (size_t)1 << 30); // as by default
}
#endif
#else
static void guard_main_thread(void) {}
#endif

// This runs before the constructors of the program, which may allocate.
__attribute__((constructor(101))) void __reheap_register_error_handler(void) {
    mi_register_error(on_error, NULL);
    guard_main_thread();
}

void *__reheap_calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return mi_zalloc(bytes);
}
