// The time for an allocator in a preload, from the kernel.
//
// Another preload may have put its own clock in place of the libc's. libfaketime's allocates when it is called first, to
// find the libc's functions: an allocator that asks for the time within its first malloc is then called again before it
// is ready. And memory should go back after a second, not after what somebody pretends to be one. Allocators ask on slow
// paths only, where a system call in place of the vDSO makes no difference.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int __reheap_clock_gettime(clockid_t clock, struct timespec *time) {
    return (int)syscall(SYS_clock_gettime, clock, time);
}
