// The time for an allocator in a preload, without the libc.
//
// Another preload may have replaced the libc's clock. libfaketime's allocates on its first call, to find the libc's
// functions. An allocator that reads the clock in its first malloc is then called again before it is ready. Besides,
// memory should go back after a real second, not after a faked one.
//
// So the time comes from the vDSO (vdso(7)). A system call needs several times as long, and jemalloc reads the clock
// once in thirty calls when a program's large blocks come and go.
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int clock_function(clockid_t clock, struct timespec *time);

// Its name on each architecture. If the kernel uses another name or has no vDSO, the system call does it.
static int is_the_clock(const char *name) {
    return strcmp(name, "__vdso_clock_gettime") == 0 || strcmp(name, "__kernel_clock_gettime") == 0;
}

static const char *content(const char *image, ElfW(Word) type) {
    const ElfW(Ehdr) *header = (const void *)image;
    const ElfW(Phdr) *segments = (const void *)(image + header->e_phoff);
    for (size_t i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == type) return image + segments[i].p_offset;
    }
    return NULL;
}

// The image is linked to address 0, and its layout in memory is that of the file (linux,
// Documentation/ABI/stable/vdso).
static const char *table(const char *image, const ElfW(Dyn) *dynamic, ElfW(Sxword) tag) {
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == tag) return image + dynamic->d_un.d_ptr;
    }
    return NULL;
}

static clock_function *find(void) {
    const char *image = (const char *)getauxval(AT_SYSINFO_EHDR);
    if (!image) return NULL;
    const ElfW(Dyn) *dynamic = (const void *)content(image, PT_DYNAMIC);
    const ElfW(Sym) *symbols = (const void *)table(image, dynamic, DT_SYMTAB);
    const char *names = table(image, dynamic, DT_STRTAB);
    const ElfW(Word) *hash = (const void *)table(image, dynamic, DT_HASH); // its second word is the number of symbols
    for (size_t i = 0; symbols && names && hash && i < hash[1]; i++) {
        if (symbols[i].st_shndx != SHN_UNDEF && is_the_clock(names + symbols[i].st_name)) {
            return (clock_function *)(image + symbols[i].st_value);
        }
    }
    return NULL;
}

static int call_system(clockid_t clock, struct timespec *time) {
    return (int)syscall(SYS_clock_gettime, clock, time);
}

int __reheap_clock_gettime(clockid_t clock, struct timespec *time) {
    static _Atomic(clock_function *) found;
    clock_function *function = atomic_load_explicit(&found, memory_order_relaxed);
    if (!function) {
        function = find();
        if (!function) function = call_system;
        atomic_store_explicit(&found, function, memory_order_relaxed); // another thread finds the same
    }
    return function(clock, time) ? -1 : 0;
}
