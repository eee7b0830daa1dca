// A hooks library for tests: it follows the contract of the real one, and counts calls in a mapped file.
//
// The file is an array of 64-bit counters, in the order of `enum counter`. Calls inside a hooked call are not counted.
#include <stddef.h>
#include <stdint.h>

enum counter {
  MALLOC, CALLOC, REALLOC, FREE, ALIGNED_ALLOC, POSIX_MEMALIGN, MEMALIGN, VALLOC, PVALLOC, REALLOCARRAY,
  JE_MALLOC, JE_CALLOC, JE_REALLOC, JE_MALLOCX, JE_RALLOCX, JE_SDALLOCX, JE_FREE,
  MI_MALLOC, MI_ZALLOC, MI_CALLOC, MI_REALLOC, MI_FREE, MI_MALLOC_ALIGNED, MI_ZALLOC_ALIGNED, MI_REALLOC_ALIGNED,
  INSIDE, COUNTERS
};

#define EXPORT __attribute__((visibility("default")))

struct thread { uintptr_t pointer; uint64_t depth; };
enum { THREADS = 4096 };
struct recording { uint64_t counters[64]; struct thread threads[THREADS]; };

static struct recording *recording;
// A word that needs a relocation, so that a wrong one shows.
static struct recording **const volatile where = &recording;

static long system_call(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#else
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
                x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#endif
}

#if defined(__x86_64__)
enum { OPENAT = 257, MMAP = 9, CLOSE = 3 };
static uintptr_t thread_pointer(void) {
  uintptr_t pointer;
  __asm__("mov %%fs:0, %0" : "=r"(pointer));
  return pointer;
}
#else
enum { OPENAT = 56, MMAP = 222, CLOSE = 57 };
static uintptr_t thread_pointer(void) { return (uintptr_t)__builtin_thread_pointer(); }
#endif

EXPORT int reheap_hooks_attach(const char *path) {
  long file = system_call(OPENAT, -100, (long)path, 02 /* O_RDWR */, 0, 0, 0);
  if (file < 0) return (int)file;
  long mapped = system_call(MMAP, 0, sizeof(struct recording), 3, 1 /* MAP_SHARED */, file, 0);
  system_call(CLOSE, file, 0, 0, 0, 0, 0);
  if (mapped < 0 && mapped > -4096) return (int)mapped;
  *where = (struct recording *)mapped;
  return 0;
}

static struct thread *own(void) {
  uintptr_t pointer = thread_pointer();
  for (size_t i = pointer >> 6;; i++) {
    struct thread *thread = &recording->threads[i % THREADS];
    uintptr_t found = __atomic_load_n(&thread->pointer, __ATOMIC_RELAXED);
    if (found == pointer) return thread;
    if (found == 0 && __atomic_compare_exchange_n(&thread->pointer, &found, pointer, 0, __ATOMIC_RELAXED,
                                                  __ATOMIC_RELAXED))
      return thread;
    if (found == pointer) return thread;
  }
}

static struct thread *enter(enum counter counter) {
  __atomic_fetch_add(&recording->counters[INSIDE], 1, __ATOMIC_SEQ_CST);
  struct thread *thread = own();
  if (thread->depth++ == 0) __atomic_fetch_add(&recording->counters[counter], 1, __ATOMIC_RELAXED);
  return thread;
}

static void leave(struct thread *thread) {
  thread->depth--;
  __atomic_fetch_sub(&recording->counters[INSIDE], 1, __ATOMIC_SEQ_CST);
}

#define HOOK(counter, result, name, parameters, arguments) \
  EXPORT result(*volatile reheap_next_##name) parameters;  \
  EXPORT result reheap_hook_##name parameters {            \
    struct thread *thread = enter(counter);                \
    result value = reheap_next_##name arguments;           \
    leave(thread);                                         \
    return value;                                          \
  }
#define HOOK_VOID(counter, name, parameters, arguments) \
  EXPORT void(*volatile reheap_next_##name) parameters; \
  EXPORT void reheap_hook_##name parameters {           \
    struct thread *thread = enter(counter);             \
    reheap_next_##name arguments;                       \
    leave(thread);                                      \
  }

HOOK(MALLOC, void *, malloc, (size_t a), (a))
HOOK(CALLOC, void *, calloc, (size_t a, size_t b), (a, b))
HOOK(REALLOC, void *, realloc, (void *a, size_t b), (a, b))
HOOK_VOID(FREE, free, (void *a), (a))
HOOK(ALIGNED_ALLOC, void *, aligned_alloc, (size_t a, size_t b), (a, b))
HOOK(POSIX_MEMALIGN, int, posix_memalign, (void **a, size_t b, size_t c), (a, b, c))
HOOK(MEMALIGN, void *, memalign, (size_t a, size_t b), (a, b))
HOOK(VALLOC, void *, valloc, (size_t a), (a))
HOOK(PVALLOC, void *, pvalloc, (size_t a), (a))
HOOK(REALLOCARRAY, void *, reallocarray, (void *a, size_t b, size_t c), (a, b, c))
EXPORT size_t (*volatile reheap_next_malloc_usable_size)(void *);
HOOK(JE_MALLOC, void *, je_malloc, (size_t a), (a))
HOOK(JE_CALLOC, void *, je_calloc, (size_t a, size_t b), (a, b))
HOOK(JE_REALLOC, void *, je_realloc, (void *a, size_t b), (a, b))
HOOK_VOID(JE_FREE, je_free, (void *a), (a))
HOOK(JE_MALLOCX, void *, je_mallocx, (size_t a, int b), (a, b))
HOOK(JE_RALLOCX, void *, je_rallocx, (void *a, size_t b, int c), (a, b, c))
HOOK_VOID(JE_SDALLOCX, je_sdallocx, (void *a, size_t b, int c), (a, b, c))
HOOK(MI_MALLOC, void *, mi_malloc, (size_t a), (a))
HOOK(MI_ZALLOC, void *, mi_zalloc, (size_t a), (a))
HOOK(MI_CALLOC, void *, mi_calloc, (size_t a, size_t b), (a, b))
HOOK(MI_REALLOC, void *, mi_realloc, (void *a, size_t b), (a, b))
HOOK_VOID(MI_FREE, mi_free, (void *a), (a))
HOOK(MI_MALLOC_ALIGNED, void *, mi_malloc_aligned, (size_t a, size_t b), (a, b))
HOOK(MI_ZALLOC_ALIGNED, void *, mi_zalloc_aligned, (size_t a, size_t b), (a, b))
HOOK(MI_REALLOC_ALIGNED, void *, mi_realloc_aligned, (void *a, size_t b, size_t c), (a, b, c))
